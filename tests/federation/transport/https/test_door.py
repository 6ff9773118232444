"""What the door does by itself; whom it meets is in ``test_outsiders``."""

import asyncio
import socket
import time

from tests.federation.transport.https.port import is_ended, logged, read_reply, served, until
from tests.federation.transport.https.test_outsiders import GET
from unalike.federation.transport.https.admitted import Admitted
from unalike.federation.transport.https.door import Door, Limits


def paced(limits, visitors):
    """Seconds that it takes to let in so many visitors who come at once."""

    async def let_in():
        door = Door(Admitted(None), limits, None)
        for _ in range(visitors):
            await door._pace(asyncio.get_running_loop().time())

    began = time.monotonic()
    asyncio.run(let_in())
    return time.monotonic() - began


def test_visitors_are_let_in_at_once_and_then_at_a_pace():
    limits = Limits(visitors_at_once=20, visitors_per_second=100.0)
    assert paced(limits, 20) < 0.15
    assert 0.25 < paced(limits, 50) < 1.5


def test_the_same_refusal_is_a_line_once_a_minute():
    door = Door(Admitted(None), Limits(), None)
    with logged("unalike.federation.door") as lines:
        for number in range(5):
            door.refused("192.0.2.1", number, "reason")
        door.refused("192.0.2.2", 7, "reason")
        door.refused("192.0.2.1", 8, "another reason")
        door._minute -= 61
        door.refused("192.0.2.1", 9, "reason")
    assert lines == [
        "192.0.2.1:0 refused: reason",
        "192.0.2.2:7 refused: reason",
        "192.0.2.1:8 refused: another reason",
        "192.0.2.1:9 refused: reason (5 times before)",
    ]


def test_a_site_may_talk_on_one_connection_for_longer_than_any_timer(port):
    limits = port.server.door.limits
    with port.secure("a") as secure:
        end = time.monotonic() + limits.idle_seconds + limits.header_seconds
        while time.monotonic() < end:
            secure.sendall(GET + b"\r\n")
            assert read_reply(secure)[0] == 204
            time.sleep(limits.header_seconds / 2)
    assert not port.lines


def test_a_header_in_several_parts_is_fine_if_it_comes_in_time(port):
    with port.secure("a") as secure:
        for part in (GET[:5], GET[5:20], GET[20:], b"\r", b"\n"):
            secure.sendall(part)
            time.sleep(0.01)
        assert read_reply(secure)[0] == 204


def test_a_visitor_who_hangs_up_leaves_nothing(place):
    with served(place, Limits()) as port:
        for _ in range(20):
            port.plain().close()
        until(lambda: port.refusals("TLS handshake failed"))
        until(lambda: not port.server.door.strangers)
        with port.secure("a"):
            until(lambda: len(port.server.door.sites["a"]) == 1)
        until(lambda: not port.server.door.sites["a"])


def test_who_shakes_hands_with_half_a_closed_line_is_let_go(port):
    with port.plain() as plain:
        plain.shutdown(socket.SHUT_WR)
        assert is_ended(plain)
