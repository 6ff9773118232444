"""Time and bytes of a secure sum in one process, with parties that drop out.

python -m benchmarks.secure_sum                       # 100 parties x 100 labels, 15 drop out: a Markdown table
python -m benchmarks.secure_sum --protect masks --parties 20 --drop 6 --length 61706 --repeats 5
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from typing import get_args

import numpy as np

from unalike.secure import Protect, SumResult, secure_sum


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


def main() -> None:
    """Print a line for each mode."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parties", type=int, default=100)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--drop", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--protect", nargs="+", choices=get_args(Protect), default=get_args(Protect))
    options = parser.parse_args()
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
