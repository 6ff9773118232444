"""Time and bytes of a secure sum in one process, with parties that drop out.

python -m benchmarks.secure_sum                       # 100 parties x 100 labels, 15 drop out: a Markdown table
python -m benchmarks.secure_sum --parties 20 --drop 3 --length 5000 --repeats 5
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

from unalike.secure import Protect, SumResult, secure_sum


def measure(protect: Protect, parties: int, length: int, drop: int) -> tuple[float, float, SumResult]:
    """Seconds on the clock and of the processor, and the result, which is checked.

    Half of those that drop out do so after the key exchange, half after sharing their secrets, which costs most.
    """
    vectors = list(np.random.default_rng(0).integers(0, 600, (parties, length)))
    drop_after = {party: "hello" if party % 2 else "shares" for party in range(drop)}
    clock, cpu = time.perf_counter(), time.process_time()
    result = secure_sum(vectors, protect=protect, drop_after=drop_after)
    clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
    assert result.survivors == tuple(range(drop, parties))
    assert (result.total == sum(vectors[drop:])).all()
    return clock, cpu, result


def main() -> None:
    """Print a line for each mode, and the steps of the last."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=100)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--drop", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.parties} parties, {options.length} entries, {options.drop} drop out; exact each time\n")
    print("| protect | seconds | CPU seconds | kB up a party | kB down a party |\n|---|---:|---:|---:|---:|")
    modes: tuple[Protect, ...] = ("none", "fhe", "fhe+masks")
    for protect in modes:
        turns = [measure(protect, options.parties, options.length, options.drop) for _ in range(options.repeats)]
        result = turns[-1][2]
        stayed = result.survivors
        up, down = (np.mean([each[i] for i in stayed]) / 1000 for each in (result.bytes_up, result.bytes_down))
        clock, cpu = median(turn[0] for turn in turns), median(turn[1] for turn in turns)
        print(f"| {protect} | {clock:.2f} | {cpu:.2f} | {up:.1f} | {down:.1f} |")
    print("\n" + ", ".join(f"{step} {seconds:.2f} s" for step, seconds in result.seconds.items()))


if __name__ == "__main__":
    main()
