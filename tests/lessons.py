"""Servers that learn by themselves learn less in tests, which try all algorithms often."""

import functools

from unalike.algorithms.generated import learning

SHORT = {1000: 3, 30: 3, 20: 1}


def shortened():
    """``learning.lessons`` with fewer steps in place of the usual numbers of them."""
    whole = learning.lessons
    return functools.wraps(whole)(lambda task, count: whole(task, SHORT.get(count, count)))
