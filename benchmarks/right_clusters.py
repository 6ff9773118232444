"""How many parties of a run deploy the model of their own group: their number modulo so many groups.

python -m benchmarks.right_clusters GROUPS RUN_FOLDER...

Prints the share of parties that are right, and how many parties each model has.
"""

import sys
from collections import Counter
from pathlib import Path

from unalike.runs.clusters import clusters_in, right


def main() -> None:
    groups, folders = int(sys.argv[1]), map(Path, sys.argv[2:])
    for folder in folders:
        found = clusters_in(folder)
        share = right(found, [number % groups for number in range(len(found))])
        print(f"{folder}: {100 * share:.1f} % right, parties by model {sorted(Counter(found).items())}")


if __name__ == "__main__":
    main()
