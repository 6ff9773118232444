"""How much of the house one has to walk through: files whose functions a command runs, and lines of source.

    python -m benchmarks.house 5cb4d0a .        # a commit, and the files as they are now

Counted are files of the package of which at least one function is called, the second time: what an import runs is
not. Of an exchange between sites: from the server's question to its sum, once all have agreed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

RUN = ["run", "--dataset", "digits", "--algorithm", "fedprox", "--rounds", "2", "--runs"]
TRAIN = {"algorithm": "fedavg", "model": "mlp(8)", "rounds": 2}


def walked(work: Callable[[], object], home: Path) -> list[str]:
    """The files under ``home`` of which a function was called meanwhile, on any thread."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_code.co_filename)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    inside = (Path(name) for name in seen)
    return sorted(str(path.relative_to(home)) for path in inside if path.is_relative_to(home))


def figures(root: Path) -> dict[str, Any]:
    """What is counted of the package that is imported."""
    call = import_module("unalike.cli.main").call
    home = root / "src" / "unalike"
    with tempfile.TemporaryDirectory() as folder:
        call([*RUN, f"{folder}/first"])
        run = walked(lambda: call([*RUN, f"{folder}/second"]), home)
        exchange = _exchange(Path(folder), home)
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in home.rglob("*.py")}
    return {
        "files of one unalike run": run,
        "files of an exchange between sites": exchange,
        "lines of source": sum(sizes.values()),
        "lines of federation/": sum(n for path, n in sizes.items() if path.is_relative_to(home / "federation")),
        "files of source": len(sizes),
    }


def _exchange(folder: Path, home: Path) -> list[str]:
    """The files of the last exchange of a training between sites."""
    world_of: Any = import_module("tests.federation.inside").World  # of that commit, whose sites it knows
    remote: Any = import_module("unalike.federation.remote").Remote
    name = "gather" if hasattr(remote, "gather") else "exchange"
    real, found = getattr(remote, name), []

    def watched(self: object, asked: object) -> object:
        answers: list[object] = []
        found.append(walked(lambda: answers.append(real(self, asked)), home))
        return answers[0]

    setattr(remote, name, watched)
    world_of.make(folder / "world", train=TRAIN).serve()
    return found[-1]


def main() -> None:
    """Count both, and print them beside each other."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("old", help="a git revision or a folder")
    parser.add_argument("new", help="a git revision or a folder")
    parser.add_argument("--files", action="store_true", help="list the files too")
    parser.add_argument("--count", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.count:
        Path(arguments.count).write_text(json.dumps(figures(Path(arguments.new))), encoding="utf-8")
        return
    found = [_counted(which) for which in (arguments.old, arguments.new)]
    for key in found[0]:
        old, new = (one[key] if isinstance(one[key], int) else len(one[key]) for one in found)
        print(f"{key:40} {old:>8,} {new:>8,}")
        if arguments.files and isinstance(found[1][key], list):
            print("   " + "\n   ".join(found[1][key]))


def _counted(which: str) -> dict[str, Any]:
    from benchmarks.bits import checkout

    with checkout(which) as root, tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "found.json"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
        script = Path(__file__).resolve()
        command = [sys.executable, str(script), ".", str(root), "--count", str(target)]
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, cwd=root)
        found: dict[str, Any] = json.loads(target.read_text(encoding="utf-8"))
        return found


if __name__ == "__main__":
    main()
