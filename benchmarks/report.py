"""What a table was made on and from, and its place in docs/performance.md."""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch

from unalike.native.compiler import NoCompiler, find_compiler

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "performance.md"


def options(about: str | None, repeats: int) -> argparse.ArgumentParser:
    """The options that all tables share."""
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=repeats, help="turns that count; one more comes first")
    parser.add_argument("--quick", action="store_true", help="shrink the work, to try the benchmark; never writes")
    parser.add_argument("--write", action="store_true", help=f"put the result into docs/{PAGE.name}")
    return parser


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def publish(name: str, text: str, given: argparse.Namespace) -> None:
    """Print the text; where it is asked for, put it into the page."""
    print("\n" + text)
    if given.write and not given.quick:
        put(PAGE, name, text)


def put(page: Path, name: str, text: str) -> None:
    """Replace what is between the page's two comments of that name."""
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    before, found, rest = page.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise SystemExit(f"docs/{page.name} has no place for this table: {begin} ... {end}.")
    page.write_text(f"{before}{begin}\n{text.strip()}\n{end}{after}", encoding="utf-8")


def made() -> str:
    """The commit and the machine, in one sentence."""
    cores = os.cpu_count()
    return (
        f"Commit {_commit()}; {_processor()}, {cores} cores, {platform.system()} ({platform.machine()}), "
        f"Python {platform.python_version()}, torch {torch.__version__}, {_compiler()}."
    )


def _commit() -> str:
    commit = _asked(["git", "rev-parse", "--short", "HEAD"])
    # The page itself is written to by this command; that is no change of what was measured.
    dirty = _asked(["git", "status", "--porcelain", "--", ".", f":!docs/{PAGE.name}"])
    return (commit or "unknown") + (" with changes" if dirty else "")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _compiler() -> str:
    try:
        compiler = find_compiler()
    except NoCompiler:
        return "no C compiler"
    return (_asked([compiler, "--version"]).splitlines() or [Path(compiler).name])[0]


def _asked(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
