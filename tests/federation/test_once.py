"""What a site was asked, kept for good."""

import errno
import json
from itertools import pairwise

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


def test_what_an_older_version_kept_still_counts(tmp_path):
    (tmp_path / "once.json").write_text(json.dumps({"round 1": ["a"]}))
    for _ in range(2):
        once = Once(tmp_path / "once.json")
        once.ask("round 1", "a", "no")
        with pytest.raises(Refused):
            once.ask("round 1", "b", "no")
        once.ask("round 2", "b", "no")


def test_what_is_forgotten_is_so_after_a_restart_too(tmp_path):
    once = Once(tmp_path / "f")
    once.ask("a", "1", "no")
    once.forget("a", "1")
    once.forget("a", "never asked")
    for _ in range(2):
        once = Once(tmp_path / "f")
        once.ask("a", "2", "no")
        with pytest.raises(Refused):
            once.ask("a", "1", "no")


def test_the_number_of_a_message_is_kept_with_its_questions(tmp_path):
    Once(tmp_path / "f").ask_all(("a", "1", "no", 1), number=[2, 7])
    once = Once(tmp_path / "f")
    assert once.number == (2, 7)
    once.ask_all(("a", "1", "no", 1), number=[2, 8])
    with pytest.raises(Refused):
        once.ask_all(("a", "2", "no", 1), number=[2, 9])
    assert (once.number, Once(tmp_path / "f").number) == ((2, 8), (2, 8))


def test_two_new_questions_on_one_occasion_are_two(tmp_path):
    with pytest.raises(Refused):
        Once(tmp_path / "f").ask_all(("a", "1", "no", 1), ("a", "2", "no", 1))


def test_a_question_costs_the_same_however_many_were_asked_before(tmp_path):
    """A protocol asks hundreds: the file grows by a line, and is not written anew."""
    once, path = Once(tmp_path / "f"), tmp_path / "f.jsonl"
    sizes = []
    for number in range(200):
        once.ask(f"turn 1-{number}", "q", "no")
        sizes.append(path.stat().st_size)
    steps = {after - before for before, after in pairwise(sizes)}
    assert max(steps) - min(steps) <= 2  # digits of the number
    assert len(Once(tmp_path / "f").known) == 200


@pytest.mark.parametrize("moment", range(0, 400, 7))
def test_killed_within_a_line_what_was_whole_is_known_and_the_rest_is_not(moment, tmp_path):
    once, path = Once(tmp_path / "f"), tmp_path / "f.jsonl"
    ends = [0]
    for question in "abc":
        once.ask(question, "1", "no")
        ends.append(path.stat().st_size)
    whole = sum(end <= moment for end in ends[1:])
    for torn in (path.read_bytes()[:moment], path.read_bytes()[:moment] + bytes(50)):
        path.write_bytes(torn)
        known = Once(tmp_path / "f")
        assert sorted(known.known) == list("abc"[:whole])
        known.ask("d", "1", "no")  # and goes on after it
        assert sorted(Once(tmp_path / "f").known) == [*"abc"[:whole], "d"]


def test_a_line_that_was_changed_or_is_missing_is_an_error(tmp_path):
    once, path = Once(tmp_path / "f"), tmp_path / "f.jsonl"
    for question in "abc":
        once.ask(question, "1", "no")
    lines = path.read_bytes().splitlines(keepends=True)
    changed = lines[1].replace(b'"1"', b'"2"')
    for bad in ([lines[0], lines[2]], [lines[0], changed, lines[2]], [lines[1]], [lines[0], b"\n", lines[1]]):
        path.write_bytes(b"".join(bad))
        with pytest.raises(UserError, match="Restore it"):
            Once(tmp_path / "f")


def test_half_a_line_on_a_full_disk_does_not_spoil_the_next(tmp_path, monkeypatch):
    once = Once(tmp_path / "f")
    once.ask("a", "1", "no")

    def half(file, data):
        file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("unalike.federation.journal.write_all", half)
    with pytest.raises(UserError, match="No space left"):
        once.ask("b", "1", "no")
    monkeypatch.undo()
    once.ask("c", "1", "no")
    assert sorted(Once(tmp_path / "f").known) == ["a", "c"]
