"""Run every notebook in this folder from beginning to end, and keep it with its outputs in build/notebooks.

    python notebooks/run.py [NAME ...]

Notebooks are Python files in the percent format, so that changes are readable; Jupyter opens them by jupytext.
A cell that fails ends it all: then the notebook is wrong.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
BUILT = HERE.parent / "build" / "notebooks"
SECONDS = 300
"""The most that one cell may take."""


def execute(path: Path, folder: Path) -> Path:
    """Run one notebook in a new working directory; the path of its executed copy."""
    notebook = jupytext.read(path)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    os.environ["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ["PATH"]]
    )  # !unalike is ours
    with tempfile.TemporaryDirectory() as work:
        NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": work}}).execute()
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{path.stem}.ipynb"
    nbformat.write(notebook, made)
    return made


def main(names: list[str]) -> None:
    """Run the notebooks of these names, or all."""
    known = {path.stem: path for path in sorted(HERE.glob("*.py")) if path != Path(__file__)}
    for name in names or known:
        if name not in known:
            sys.exit(f"There is no notebook {name}. There are: {', '.join(known)}.")
        print(execute(known[name], BUILT).relative_to(HERE.parent), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
