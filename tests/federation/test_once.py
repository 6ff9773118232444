"""What a site was asked, kept for good."""

import errno

import pytest

from unalike.errors import UserError
from unalike.federation.envelope import Refused
from unalike.federation.once import Once, read_json


def test_the_same_again_and_nothing_else_also_after_a_restart(tmp_path):
    Once(tmp_path / "f").ask("round 1", "a", "no")
    for _ in range(2):
        once = Once(tmp_path / "f")
        once.ask("round 1", "a", "no")
        with pytest.raises(Refused, match=r"^no$"):
            once.ask("round 1", "b", "no")
    once.ask("round 2", "b", "no")


def test_so_many_questions_also_after_restarts(tmp_path):
    for question in "aabbcac":
        Once(tmp_path / "f").ask("look", question, "enough", 3)
    with pytest.raises(Refused, match="enough"):
        Once(tmp_path / "f").ask("look", "d", "enough", 3)
    Once(tmp_path / "f").ask("other", "d", "enough", 3)


def test_several_are_kept_together_or_not_at_all(tmp_path):
    once = Once(tmp_path / "f")
    once.ask_all(("a", "1", "no", 1), ("b", "1", "no", 2))
    with pytest.raises(Refused, match="enough"):
        once.ask_all(("c", "1", "no", 1), ("a", "2", "enough", 1))
    for known in (once, Once(tmp_path / "f")):
        known.ask_all(("a", "1", "no", 1), ("b", "2", "no", 2))
    once.ask("c", "2", "what was refused in part is not remembered")


@pytest.mark.parametrize("content", [b"", b"[]", b"5", b"{", b"\xff", b"[" * 10**5])
def test_a_damaged_file_is_an_error_and_not_a_new_start(content, tmp_path):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(UserError, match="Restore it, or join anew"):
        read_json(tmp_path / "f")
    assert read_json(tmp_path / "none") == {}


def test_on_a_full_disk_nothing_is_told(tmp_path, monkeypatch):
    once = Once(tmp_path / "f")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    for _ in range(2):  # also the second time: what is known in memory alone is not known
        with pytest.raises(UserError, match="No space left"):
            once.ask("round 1", "a", "no")
    monkeypatch.undo()
    once.ask("round 1", "b", "no")
