import errno
import os
import socket
import stat
import struct
import threading
from pathlib import Path

import pytest

from unalike.errors import UserError
from unalike.federation.transport.flower import door as doors
from unalike.federation.transport.flower.door import DoorError, SiteDoor, ask


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A short name for the socket, wherever the test is: there is a limit of about a hundred letters."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("size", [0, 1, 65537, 5_000_000])
def test_bytes_come_back(size):
    data = os.urandom(size)
    with SiteDoor("door", lambda message: message[::-1]):
        assert ask("door", data) == data[::-1]
        assert ask("door", b"again") == b"niaga"


def test_nothing_can_be_said_and_answered_many_times():
    with SiteDoor("door", bytes):
        assert [ask("door", b"") for _ in range(500)] == [b""] * 500


def test_the_door_is_in_a_folder_for_its_owner_only_and_goes_away():
    path = Path("new/folder/door")
    with SiteDoor(path, bytes):
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_ISSOCK(path.stat().st_mode)
    assert not path.exists()
    with pytest.raises(DoorError, match="not there"):
        ask(str(path), b"")


def test_a_folder_that_others_may_enter_lets_others_knock():
    """A SuperNode may be another user's, who shall not see the site's own folder."""
    Path("shared").mkdir(0o755)
    with SiteDoor("shared/door", bytes):
        assert stat.S_IMODE(Path("shared").stat().st_mode) == 0o755
        assert stat.S_IMODE(Path("shared/door").stat().st_mode) == 0o666


def test_a_system_without_room_for_a_visitor_does_not_end_the_door(monkeypatch):
    class Full:
        """A listening socket that fails once, as with too many open files."""

        def __init__(self, real):
            self.real, self.failed = real, False

        def accept(self):
            if not self.failed:
                self.failed = True
                raise OSError(errno.EMFILE, "Too many open files")
            return self.real.accept()

    serve = SiteDoor._serve
    monkeypatch.setattr(doors, "_AGAIN", 0.01)
    monkeypatch.setattr(SiteDoor, "_serve", lambda door, listener: serve(door, Full(listener)))
    with SiteDoor("door", bytes):
        assert ask("door", b"a") == b"a"


def test_what_a_killed_process_left_is_replaced():
    with socket.socket(socket.AF_UNIX) as left:
        left.bind("door")
    with SiteDoor("door", bytes):
        assert ask("door", b"x") == b"x"


def test_somebody_elses_socket_and_file_stay():
    with SiteDoor("door", lambda message: b"first"):
        with pytest.raises(UserError, match=r"^Cannot listen at door: .*in use.*--door"), SiteDoor("door", bytes):
            pass
        assert ask("door", b"") == b"first"
    Path("door").write_text("notes")
    with pytest.raises(UserError, match="Cannot listen"), SiteDoor("door", bytes):
        pass
    assert Path("door").read_text() == "notes"


def test_a_name_that_is_too_long_for_a_socket_is_told():
    with pytest.raises(UserError, match=r"too long.*--door"), SiteDoor("d" * 120, bytes):
        pass


def test_a_mistake_is_told_and_data_is_not():
    def answer(message):
        if message == b"user":
            raise UserError("column 'age' is missing")
        raise ValueError("patient 17 has 3 kidneys")

    with SiteDoor("door", answer):
        with pytest.raises(DoorError, match=r"^column 'age' is missing$"):
            ask("door", b"user")
        with pytest.raises(DoorError) as caught:
            ask("door", b"other")
        assert "ValueError" in str(caught.value)
        assert "patient" not in str(caught.value)


def test_sizes_are_limited_both_ways():
    with SiteDoor("door", lambda message: bytes(200), limit=100):
        with pytest.raises(DoorError, match="longer than 100"):
            ask("door", bytes(101))
        with pytest.raises(DoorError, match="more than 100"):
            ask("door", bytes(100))
    with SiteDoor("door", lambda message: bytes(200)), pytest.raises(DoorError, match="longer than"):
        ask("door", b"", limit=100)


def test_a_visitor_that_breaks_off_or_lies_harms_nobody():
    with SiteDoor("door", lambda message: b"ok"):
        for start in (b"", b"\0\0\0", struct.pack(">Q", 10) + b"four", struct.pack(">Q", 1 << 63)):
            with socket.socket(socket.AF_UNIX) as visitor:
                visitor.connect("door")
                visitor.sendall(start)
        assert ask("door", b"") == b"ok"


def test_one_message_after_the_other():
    inside, most = [], []

    def answer(message):
        inside.append(message)
        most.append(len(inside))
        inside.remove(message)
        return message

    with SiteDoor("door", answer):
        threads = [threading.Thread(target=ask, args=("door", bytes([n]))) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1] * 8


def test_a_site_that_dies_while_it_thinks_is_no_hang():
    held = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("door")
        listener.listen()

        def die():
            visitor, _ = listener.accept()
            visitor.recv(16, socket.MSG_WAITALL)
            held.set()
            visitor.close()

        threading.Thread(target=die, daemon=True).start()
        with pytest.raises(DoorError, match=r"middle of a message|reset"):
            ask("door", b"question")
        assert held.is_set()


def test_a_visitor_that_says_nothing_is_shown_out(monkeypatch):
    monkeypatch.setattr(doors, "_PATIENCE", 0.2)
    with SiteDoor("door", lambda message: b"ok"), socket.socket(socket.AF_UNIX) as silent:
        silent.connect("door")
        assert ask("door", b"") == b"ok"
