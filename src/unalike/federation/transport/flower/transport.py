"""Bytes to parties and bytes back, over Flower's grid."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping

from flwr.app import Message
from flwr.serverapp import Grid

from unalike.federation.transport import Failure
from unalike.federation.transport.flower.packing import pack, refusal, unpack

_POLL = 0.1
_LONGEST_POLL = 0.3


class FlowerTransport:
    """What the server's logic needs of Flower: who is connected, and one exchange with some of them."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def nodes(self) -> list[int]:
        """The nodes that are connected now. One that was killed counts for up to a minute more."""
        return sorted(self._grid.get_node_ids())

    def send(
        self, messages: Mapping[int, bytes], seconds: float, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[int, bytes | Failure]]:
        """Push one message to each node; yield answers as they come, until all are there, time is over or ``stop``
        says so. Nothing is sent before the first answer is asked for.

        An answer belongs to the message that it answers: a late one of an earlier exchange is never asked for
        again, so it cannot turn up here.
        """
        if not (seconds > 0 and math.isfinite(seconds)):
            raise ValueError(f"an exchange needs a deadline, not {seconds} seconds")
        end = time.monotonic() + seconds
        open_questions: dict[str, int] = {}
        for node, data in sorted(messages.items()):
            # One push each: a push of all would hold every node's bytes in memory at once.
            question = Message(pack(data), node, "query", ttl=max(1.0, end - time.monotonic()))
            (name,) = self._grid.push_messages([question])
            if name:
                open_questions[name] = node
            else:
                yield node, Failure("the server's own link did not take the message")
        wait = _POLL
        while open_questions and not stop() and time.monotonic() < end:
            replies = list(self._grid.pull_messages(list(open_questions)))
            for reply in replies:
                asked = open_questions.pop(reply.metadata.reply_to_message_id, None)
                if asked is not None:
                    yield asked, _read(reply, asked)
            wait = _POLL if replies else min(_LONGEST_POLL, wait * 1.1)
            if open_questions:
                time.sleep(max(0.0, min(wait, end - time.monotonic())))


def _read(reply: Message, asked: int) -> bytes | Failure:
    if reply.has_error():
        return Failure(" ".join(str(reply.error.reason or f"error {reply.error.code}").split())[:500])
    if reply.metadata.src_node_id != asked:
        return Failure(f"node {reply.metadata.src_node_id} answered a message that went to node {asked}")
    reason = refusal(reply.content)
    if reason is not None:
        return Failure(reason)
    try:
        return unpack(reply.content)
    except ValueError as error:
        return Failure(str(error))
