"""Which functions of the package a check calls, and what it costs.

A check that never calls the function that a mutation changes cannot notice it, and a cheap check is tried before a
dear one.
"""

import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import unalike

ROOT = str(Path(unalike.__file__).parent)


class Watched(NamedTuple):
    """A check, the functions that it called (files and qualified names), and the processor's seconds."""

    check: tuple
    called: frozenset
    seconds: float


@contextmanager
def calls():
    """The codes of all functions that are called meanwhile, in threads that start meanwhile too."""
    codes, before = set(), sys.gettrace()

    def called(frame, event, argument):
        codes.add(frame.f_code)

    threading.settrace(called)
    sys.settrace(called)
    try:
        yield codes
    finally:
        sys.settrace(before)
        threading.settrace(before)


def watched(check, *arguments):
    """Do a check that passes, and see what it calls."""
    start = time.process_time()
    with calls() as codes:
        check(*arguments)
    names = frozenset((code.co_filename, code.co_qualname) for code in codes if code.co_filename.startswith(ROOT))
    return Watched((check, *arguments), names, time.process_time() - start)


def in_order(checks, path, name):
    """The checks that call a function, cheap ones first; then the others, which may call it where nobody looks."""
    return [one.check for one in sorted(checks, key=lambda one: ((path, name) not in one.called, one.seconds))]
