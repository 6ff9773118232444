"""Work on threads that share everything: no copy of the data, and the same bits on any number of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

T = TypeVar("T")
R = TypeVar("R")


def on_threads(threads: int, work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """``work`` of each item, in the items' order; each runs on one thread from beginning to end.

    An error, or a stop by the user, cancels what has not begun.
    """
    threads = min(threads, len(items))
    if threads < 2:
        return [work(item) for item in items]
    with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(work, items))
