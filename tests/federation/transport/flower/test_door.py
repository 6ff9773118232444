import os
import socket
import stat
import struct
import threading
from pathlib import Path

import pytest

from unalike.errors import UserError
from unalike.federation.transport.flower.door import DoorError, SiteDoor, ask


@pytest.mark.parametrize("size", [0, 1, 65537, 5_000_000])
def test_bytes_come_back(size):
    data = os.urandom(size)
    with SiteDoor(lambda message: message[::-1]) as door:
        assert ask(door.path, data) == data[::-1]
        assert ask(door.path, b"again") == b"niaga"


def test_nothing_can_be_said_and_answered_many_times():
    with SiteDoor(bytes) as door:
        assert [ask(door.path, b"") for _ in range(500)] == [b""] * 500


def test_the_door_is_in_a_folder_for_its_owner_only_and_goes_away():
    with SiteDoor(bytes) as door:
        path = Path(door.path)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert len(door.path) < 104
    assert not path.parent.exists()
    with pytest.raises(DoorError, match="not there"):
        ask(str(path), b"")


def test_a_mistake_is_told_and_data_is_not():
    def answer(message):
        if message == b"user":
            raise UserError("column 'age' is missing")
        raise ValueError("patient 17 has 3 kidneys")

    with SiteDoor(answer) as door:
        with pytest.raises(DoorError, match=r"^column 'age' is missing$"):
            ask(door.path, b"user")
        with pytest.raises(DoorError) as caught:
            ask(door.path, b"other")
        assert "ValueError" in str(caught.value)
        assert "patient" not in str(caught.value)


def test_sizes_are_limited_both_ways():
    with SiteDoor(lambda message: bytes(200), limit=100) as door:
        with pytest.raises(DoorError, match="longer than 100"):
            ask(door.path, bytes(101))
        with pytest.raises(DoorError, match="more than 100"):
            ask(door.path, bytes(100))
    with SiteDoor(lambda message: bytes(200)) as door, pytest.raises(DoorError, match="longer than"):
        ask(door.path, b"", limit=100)


def test_a_visitor_that_breaks_off_or_lies_harms_nobody():
    with SiteDoor(lambda message: b"ok") as door:
        for start in (b"", b"\0\0\0", struct.pack(">Q", 10) + b"four", struct.pack(">Q", 1 << 63)):
            with socket.socket(socket.AF_UNIX) as visitor:
                visitor.connect(door.path)
                visitor.sendall(start)
        assert ask(door.path, b"") == b"ok"


def test_one_message_after_the_other():
    inside, most = [], []

    def answer(message):
        inside.append(message)
        most.append(len(inside))
        inside.remove(message)
        return message

    with SiteDoor(answer) as door:
        threads = [threading.Thread(target=ask, args=(door.path, bytes([n]))) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1] * 8


def test_a_site_that_dies_while_it_thinks_is_no_hang():
    held = threading.Event()
    listener = socket.socket(socket.AF_UNIX)
    with SiteDoor(bytes) as folder:
        path = folder.path + "2"
        listener.bind(path)
        listener.listen()

        def die():
            visitor, _ = listener.accept()
            visitor.recv(16, socket.MSG_WAITALL)
            held.set()
            visitor.close()

        threading.Thread(target=die, daemon=True).start()
        with pytest.raises(DoorError, match=r"middle of a message|reset"):
            ask(path, b"question")
        assert held.is_set()
        listener.close()
