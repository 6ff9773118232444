"""A site's log: what was changed afterwards shows, a torn line is mended, a full disk is one line."""

import errno
import hashlib
import json
import os

import pytest

from unalike.errors import UserError
from unalike.federation import audit as module
from unalike.federation.audit import FILE, Audit, read_audit
from unalike.runs import files


@pytest.fixture
def log(tmp_path):
    audit = Audit(tmp_path)
    for number in range(5):
        audit.note("in" if number % 2 else "out", bytes([number]) * number, f"kind {number}", number=[1, number])
    return tmp_path


def lines(folder):
    return (folder / FILE).read_bytes().splitlines(keepends=True)


def test_every_message_has_its_line(log):
    rows = read_audit(log)
    assert [row["bytes"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[3]["sha256"] == hashlib.sha256(b"\3\3\3").hexdigest()
    assert rows[3]["kind"] == "kind 3"
    assert rows[4]["way"] == "out"
    assert read_audit(log / "elsewhere") == []


@pytest.mark.parametrize("gone", range(4))
def test_a_removed_line_shows(log, gone):
    kept = lines(log)
    del kept[gone]
    (log / FILE).write_bytes(b"".join(kept))
    with pytest.raises(UserError, match=f"line {gone + 1} is not as it was written"):
        read_audit(log)


@pytest.mark.parametrize("changed", range(5))
def test_a_changed_line_shows(log, changed):
    kept = lines(log)
    kept[changed] = kept[changed].replace(b'"bytes": ', b'"bytes": 1')
    (log / FILE).write_bytes(b"".join(kept))
    with pytest.raises(UserError, match=f"line {changed + 1} is not as it was written"):
        read_audit(log)


def test_lines_in_another_order_show(log):
    kept = lines(log)
    kept[1], kept[2] = kept[2], kept[1]
    (log / FILE).write_bytes(b"".join(kept))
    with pytest.raises(UserError, match="line 2 is not as it was written"):
        read_audit(log)


@pytest.mark.parametrize("content", [b"5\n", b"[]\n", b"\xff\n", b"[" * 10**5 + b"\n", b"\n", b"{}\n"])
def test_nonsense_shows(log, content):
    with (log / FILE).open("ab") as file:
        file.write(content)
    with pytest.raises(UserError, match="line 6 has no seal"):
        read_audit(log)


def test_a_change_shows_for_good(log):
    """Today's last line is the one that all later lines follow."""
    kept = lines(log)
    kept[4] = kept[4].replace(b'"bytes": ', b'"bytes": 1')
    (log / FILE).write_bytes(b"".join(kept))
    Audit(log).note("in", b"", "after")
    with pytest.raises(UserError, match="line 5 is not as it was written"):
        read_audit(log)


def test_a_line_torn_by_a_crash_is_mended_and_the_chain_goes_on(log):
    whole = (log / FILE).read_bytes()
    start = len(b"".join(lines(log)[:-1]))
    for end in range(start, len(whole)):
        (log / FILE).write_bytes(whole[:end])
        assert len(read_audit(log)) == 4
        Audit(log).note("in", b"", "after")
        assert [row["kind"] for row in read_audit(log)][3:] == ["kind 3", "after"]


def test_a_full_disk_is_one_line_and_leaves_no_half_line(log, monkeypatch):
    audit = Audit(log)
    before = (log / FILE).read_bytes()

    def half(file, data):
        os.write(file.fileno(), bytes(data)[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module, "write_all", half)
    with pytest.raises(UserError, match="No space left"):
        audit.note("in", b"", "lost")
    assert (log / FILE).read_bytes() == before
    monkeypatch.setattr(module, "write_all", files.write_all)
    audit.note("in", b"", "after")
    assert [row["kind"] for row in read_audit(log)][4:] == ["kind 4", "after"]


def test_a_log_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / FILE).mkdir()
    for act in (read_audit, Audit):
        with pytest.raises(UserError, match=r"audit\.jsonl"):
            act(tmp_path)


def test_what_somebody_wrote_is_escaped(tmp_path):
    Audit(tmp_path).note("in", b"", "evil\n\x1b\ud800", "refused: \n")
    assert len(lines(tmp_path)) == 1
    assert json.loads(lines(tmp_path)[0])["kind"] == "evil\n\x1b\ud800"
    assert len(read_audit(tmp_path)) == 1
