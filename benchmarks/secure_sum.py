"""Time and bytes of a secure sum in one process, with parties that drop out, or in one trip with all of them.

python -m benchmarks.secure_sum                       # 100 parties x 100 labels, 15 drop out: a Markdown table
python -m benchmarks.secure_sum --protect masks --parties 20 --drop 6 --length 61706 --repeats 5
python -m benchmarks.secure_sum --one-trip --parties 10 --length 8000 --repeats 50
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import get_args

import numpy as np

from unalike.secure import Protect, SumResult, new_session, pairwise, secure_sum
from unalike.secure.crypto.primitives import new_secret, signing_public


def measure(protect: Protect, parties: int, length: int, drop: int) -> tuple[float, SumResult]:
    """Seconds of the processor, and the result, which is checked.

    Those that drop out do so after sharing their secrets, which costs most.
    """
    vectors = list(np.random.default_rng(0).integers(0, 600, (parties, length)))
    drop_after = dict.fromkeys(range(drop), "shares")
    since = time.process_time()
    result = secure_sum(vectors, protect=protect, drop_after=drop_after)
    cpu = time.process_time() - since
    assert result.survivors == tuple(range(drop, parties))
    assert (result.total == sum(vectors[drop:])).all()
    return cpu, result


def one_trip(parties: int, length: int, repeats: int) -> None:
    """Print the CPU time of one party and of the server, for keys once and for each sum."""
    rng, context = np.random.default_rng(0), b"benchmark"
    secrets, signers = ([new_secret() for _ in range(parties + 1)] for _ in range(2))
    identities = [signing_public(signer) for signer in signers]
    told = [pairwise.introduction(secrets[i], signers[i], context) for i in range(parties)]
    since = time.process_time()
    keys = [
        {
            j: pairwise.pair_key(secrets[i], pairwise.introduced(told[j], identities[j], context), context)
            for j in range(parties)
            if j != i
        }
        for i in range(parties)
    ]
    once = (time.process_time() - since) / parties
    print(f"{parties} parties, {length} entries, in one trip; exact each time")
    print(f"keys, once a run: {1000 * once:.2f} CPU-ms a party\n")
    print("| bits | CPU-ms a party | CPU-ms the server | kB up a party |")
    print("|---|---:|---:|---:|")
    for bits in (32, 64):
        vectors = list(rng.integers(-600, 600, (parties, length)))
        own, server, up = [], [], 0
        for _ in range(repeats):
            policy = pairwise.terms(new_session(), identities, length, b"question", bits)
            since = time.process_time()
            payloads = {i: pairwise.hide(policy, i, keys[i], vector) for i, vector in enumerate(vectors)}
            between = time.process_time()
            assert (pairwise.total(policy, payloads) == sum(vectors)).all()
            own.append((between - since) / parties)
            server.append(time.process_time() - between)
            up = len(payloads[0])
        print(f"| {bits} | {1000 * median(own):.2f} | {1000 * median(server):.2f} | {up / 1000:.1f} |")


def main() -> None:
    """Print a line for each mode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=100)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--drop", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--protect", nargs="+", choices=get_args(Protect), default=get_args(Protect))
    parser.add_argument("--one-trip", action="store_true", help="sums of all parties, without drop-outs")
    options = parser.parse_args()
    if options.one_trip:
        one_trip(options.parties, options.length, options.repeats)
        return
    print(f"{options.parties} parties, {options.length} entries, {options.drop} drop out; exact each time\n")
    print("| protect | CPU seconds | of these the server | kB up a party | kB down a party |")
    print("|---|---:|---:|---:|---:|")
    for protect in options.protect:
        turns = [measure(protect, options.parties, options.length, options.drop) for _ in range(options.repeats)]
        result = turns[-1][1]
        stayed = result.survivors
        up, down = (np.mean([each[i] for i in stayed]) / 1000 for each in (result.bytes_up, result.bytes_down))
        cpu, server = median(turn[0] for turn in turns), median(turn[1].server_seconds for turn in turns)
        print(f"| {protect} | {cpu:.2f} | {server:.3f} | {up:.1f} | {down:.1f} |")


if __name__ == "__main__":
    main()
