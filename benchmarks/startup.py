"""How long a user waits for help, for a press of Tab and for a look at runs: CPU seconds of whole processes.

python -m benchmarks.startup              # medians of nine; prints a Markdown table
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from statistics import median

from unalike.cli.main import _COMMANDS, _load

TIMES = 9
LOOKS = (["list", "algorithms"], ["list", "models"], ["list", "engines"], ["runs", "list"])


def seconds(args: list[str], **environment: str) -> float:
    """CPU seconds, user and system, of the command in a process of its own: the median."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(TIMES):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-c", "from unalike.cli.start import main; main()", *args]
            subprocess.run(command, cwd=folder, env=os.environ | environment, capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return median(found)


def completion(line: str) -> float:
    """The same for what bash asks when Tab is pressed at the end of a line."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return seconds([], _UNALIKE_COMPLETE="complete_bash", **asked)


def main() -> None:
    """Print the table."""
    commands: list[list[str]] = [[]]
    for name in _COMMANDS:
        commands += [[name], *([name, each] for each in getattr(_load(name), "commands", ()))]
    pages = {" ".join(["unalike", *command, "--help"]): seconds([*command, "--help"]) for command in commands}
    slowest = max(pages, key=lambda page: pages[page])
    print("| command | CPU seconds |\n|---|---|")
    print(f"| help, median of all {len(pages)} pages | {median(pages.values()):.2f} |")
    for page in dict.fromkeys(("unalike --help", "unalike run --help", slowest)):
        print(f"| `{page}`{', the slowest' if page == slowest else ''} | {pages[page]:.2f} |")
    for line in ("unalike ru", "unalike run --algorithm fed", "unalike run --model ", "unalike runs show "):
        print(f"| Tab after `{line.strip()}` | {completion(line):.2f} |")
    for look in LOOKS:
        print(f"| `{' '.join(['unalike', *look])}` | {seconds(look):.2f} |")


if __name__ == "__main__":
    main()
