"""What the user must type to call this program again."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def program() -> str:
    """``unalike`` where the shell finds it, else the path that it was called by (.venv/bin/unalike)."""
    called = Path(sys.argv[0])
    if shutil.which("unalike") or called.stem != "unalike":
        return "unalike"
    if called.is_absolute() and called.is_relative_to(Path.cwd()):
        called = called.relative_to(Path.cwd())
    return shlex.quote(str(called))
