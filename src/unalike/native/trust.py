"""Whose programs may be loaded: this user's own and root's, from folders that nobody else can change or swap.

Windows has neither owners nor modes of this kind; there the folder's own protection must do.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_ROOT = 0
_OTHERS_WRITE = 0o022


def why_not_ours(folder: Path) -> str | None:
    """Why somebody else could have put a program into ``folder``, a resolved path; None if nobody could.

    From the top downwards: in a folder that only we or root can change, nobody swaps what is looked at next. A
    folder that others can write to may lie above where it is sticky, as /tmp is: they cannot rename what is ours.
    """
    if os.name == "nt":
        return None
    top, *below = (*reversed(folder.parents), folder)
    owners = {os.geteuid(), _ROOT}
    # In a container root may have another number: who owns the top can do everything anyway.
    above = {*owners, top.stat().st_uid}
    for level in (top, *below):
        last = level == folder
        problem = _problem(level, owners if last else above, sticky_is_fine=not last)
        if problem is not None:
            return problem
    return None


def why_not_our_file(path: Path) -> str | None:
    """Why a file in a folder that is ours is not: others made it or can change it, or it is a link."""
    if os.name == "nt":
        return None
    if not stat.S_ISREG(path.lstat().st_mode):
        return f"{path} is no file"
    return _problem(path, {os.geteuid(), _ROOT}, sticky_is_fine=False)


def _problem(path: Path, owners: set[int], *, sticky_is_fine: bool) -> str | None:
    found = path.lstat()
    if found.st_uid not in owners:
        return f"{path} belongs to another user (uid {found.st_uid})"
    if stat.S_ISLNK(found.st_mode):
        return f"{path} has just become a link"
    if found.st_mode & _OTHERS_WRITE and not (sticky_is_fine and found.st_mode & stat.S_ISVTX):
        return f"others can write to {path}"
    return None
