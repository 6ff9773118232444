"""A site's log: what was changed afterwards shows, a torn line is mended, a full disk is one line."""

import errno
import hashlib
import json
import os
import signal
import time

import pytest

from unalike.errors import UserError
from unalike.federation import audit as module
from unalike.federation.audit import FILE, HEAD, Audit, Head, read_audit
from unalike.federation.folders import SEEN, make_key, read_key
from unalike.runs import files


def opened(folder, **settings):
    """The log as a site opens it when it starts."""
    make_key(folder / "keys" / "site.key")
    return Audit(folder, read_key(folder / "keys" / "site.key"), **settings)


@pytest.fixture
def log(tmp_path):
    audit = opened(tmp_path)
    for number in range(5):
        audit.note("in" if number % 2 else "out", bytes([number]) * number, f"kind {number}", number=[1, number])
    return tmp_path


def lines(folder, name=FILE):
    return (folder / name).read_bytes().splitlines(keepends=True)


def head_of(kept):
    """Where a log of these lines ends."""
    head = Head()
    for line in kept:
        row = json.loads(line)
        head = head.after(row, row["seal"])
    return head


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
    opened(log).note("in", b"", "after")
    with pytest.raises(UserError, match="line 5 is not as it was written"):
        read_audit(log)


def test_a_line_torn_by_a_crash_is_mended_and_the_chain_goes_on(log):
    whole = (log / FILE).read_bytes()
    start = len(b"".join(lines(log)[:-1]))
    Head.write(head_of(lines(log)[:-1]), log, read_key(log / "keys" / "site.key"))  # it follows a whole line
    head = (log / HEAD).read_bytes()
    for end in range(start, len(whole)):
        (log / FILE).write_bytes(whole[:end])
        (log / HEAD).write_bytes(head)
        assert len(read_audit(log)) == 4
        opened(log).note("in", b"", "after")
        assert [row["kind"] for row in read_audit(log)][3:] == ["kind 3", "after"]


def test_a_full_disk_is_one_line_and_leaves_no_half_line(log, monkeypatch):
    audit = opened(log)
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
    for act in (read_audit, opened):
        with pytest.raises(UserError, match=r"audit\.jsonl"):
            act(tmp_path)


def test_what_somebody_wrote_is_escaped(tmp_path):
    opened(tmp_path).note("in", b"", "evil\n\x1b\ud800", "refused: \n")
    assert len(lines(tmp_path)) == 1
    assert json.loads(lines(tmp_path)[0])["kind"] == "evil\n\x1b\ud800"
    assert len(read_audit(tmp_path)) == 1


def cut(folder, count):
    (folder / FILE).write_bytes(b"".join(lines(folder)[:-count]))


@pytest.mark.parametrize("count", range(1, 6))
def test_lines_that_are_missing_at_the_end_show_and_go_on_showing(log, count):
    cut(log, count)
    with pytest.raises(UserError, match=f"{count} lines at its end are missing"):
        read_audit(log)
    audit = opened(log)
    assert "not whole" in audit.notice
    audit.note("in", b"", "after")
    with pytest.raises(UserError, match=r"was changed: line .* is not as it was written"):
        read_audit(log)
    opened(log)
    with pytest.raises(UserError, match="was changed"):
        read_audit(log)


def test_a_log_that_is_gone_shows(log):
    (log / FILE).unlink()
    with pytest.raises(UserError, match="5 lines at its end are missing"):
        read_audit(log)
    (log / HEAD).unlink()
    assert read_audit(log) == []  # as at a site that never got a message
    (log / SEEN).write_text("{}")  # but it did
    with pytest.raises(UserError, match=r"head\.json is missing"):
        read_audit(log)
    assert "could not be checked" in opened(log).notice
    (row,) = read_audit(log)
    assert (row["way"], row["outcome"][:31]) == ("log", "audit.head.json is missing: lin")


def test_a_kill_between_line_and_head_is_not_taken_for_a_change(log):
    """The head is one line behind then; every line that follows well counts, and a person is told."""
    signer = read_key(log / "keys" / "site.key")
    for behind in range(1, 6):
        head_of(lines(log)[:-behind]).write(log, signer)
        assert len(read_audit(log)) == 5
        assert f"{behind} good lines after its head" in opened(log).notice
        assert Head.read(log) == head_of(lines(log))
    assert opened(log).notice == ""


def test_the_head_never_is_ahead_of_the_lines(log, monkeypatch):
    """Whatever the moment of a kill: the line is on the disk before the head is written."""
    audit, found = opened(log), []
    write = files.atomic_write

    def seen(path, data, **settings):
        if path.name == HEAD:
            found.append((json.loads(data)["head"]["lines"], len(lines(log))))
        write(path, data, **settings)

    monkeypatch.setattr(module, "atomic_write", seen)
    for _ in range(3):
        audit.note("in", b"", "more")
    assert found == [(6, 6), (7, 7), (8, 8)]


def test_a_head_that_cannot_be_written_is_told_and_the_chain_goes_on(log, monkeypatch):
    audit = opened(log)

    def full(path, data, **settings):
        raise files.storage_error(path, OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(module, "atomic_write", full)
    with pytest.raises(UserError, match="No space left"):
        audit.note("in", b"", "unsealed")
    monkeypatch.undo()
    assert [row["kind"] for row in read_audit(log)][5:] == ["unsealed"]
    audit.note("in", b"", "after")
    assert [row["kind"] for row in read_audit(log)][5:] == ["unsealed", "after"]
    assert Head.read(log).lines == 7


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace('"lines": 5', '"lines": 4'),
        lambda text: text.replace('"refused": 0', '"refused": 1'),
        lambda text: text.replace('"signature": "', '"signature": "00'),
        lambda text: text.replace('"head"', '"heads"'),
        lambda text: text.replace('"lines": 5, ', ""),
        lambda text: "",
        lambda text: "[]",
        lambda text: "[" * 10**5,
        lambda text: '{"head": 5, "signature": "zz"}',
    ],
)
def test_a_changed_head_shows_and_the_log_says_so_for_good(log, change):
    (log / HEAD).write_text(change((log / HEAD).read_text()))
    with pytest.raises(UserError, match="not what this site's key signed"):
        read_audit(log)
    assert "could not be checked" in opened(log).notice
    assert read_audit(log)[-1]["way"] == "log"
    assert len(read_audit(log)) == 6


def test_nobody_elses_key_makes_a_head(log, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    make_key(other / "keys" / "site.key")
    cut(log, 2)
    head_of(lines(log)).write(log, read_key(other / "keys" / "site.key"))
    with pytest.raises(UserError, match="not what this site's key signed"):
        read_audit(log)


def test_a_log_without_a_head_is_of_an_older_version_or_was_cut(log):
    (log / HEAD).unlink()
    with pytest.raises(UserError, match=r"head\.json is missing"):
        read_audit(log)
    opened(log)
    rows = read_audit(log)
    assert [row["kind"] for row in rows][4:] == ["kind 4", "head"]
    assert "may be missing" in rows[-1]["outcome"]
    assert Head.read(log) == head_of(lines(log))


@pytest.fixture
def long(tmp_path):
    """A log of several files, each with a few lines."""
    audit = opened(tmp_path, most_bytes=700)
    for number in range(12):
        audit.note("in", b"", f"kind {number}")
    return tmp_path


OLDER = ["audit.1.jsonl", "audit.2.jsonl", "audit.3.jsonl"]


def test_a_long_log_goes_on_in_a_new_file_and_the_chain_over_the_cut(long):
    assert sorted(path.name for path in long.glob("audit.[0-9]*")) == OLDER
    assert all(0 < len(lines(long, name)) < 12 for name in (*OLDER, FILE))
    assert [row["kind"] for row in read_audit(long)] == [f"kind {number}" for number in range(12)]
    assert [row["kind"] for row in read_audit(long, most=2)] == ["kind 10", "kind 11"]
    assert Head.read(long).messages_in == 12
    for _ in range(2):  # every line in a process of its own
        opened(long, most_bytes=700).note("in", b"", "again")
    assert len(read_audit(long)) == 14


@pytest.mark.parametrize("name", [*OLDER, FILE])
@pytest.mark.parametrize("change", ["gone", "empty", "short", "torn", "byte", "other"])
def test_a_change_in_any_file_shows_and_goes_on_showing(long, name, change):
    path, data = long / name, (long / name).read_bytes()
    if change == "gone":
        path.unlink()
    else:
        kept = {
            "empty": b"",
            "short": b"".join(lines(long, name)[:-1]),
            "torn": data[:-5],
            "byte": data.replace(b'"bytes": 0', b'"bytes": 1', 1),
            "other": (long / OLDER[0]).read_bytes() if name != OLDER[0] else (long / OLDER[1]).read_bytes(),
        }
        path.write_bytes(kept[change])
    for _ in range(2):
        with pytest.raises(UserError, match=r"was changed|is missing"):
            read_audit(long)
        opened(long).note("in", b"", "after")


@pytest.mark.parametrize("name", OLDER)
def test_half_a_line_at_the_end_of_a_full_file_shows(long, name):
    """Only the last file can have been torn by a crash."""
    with (long / name).open("ab") as file:
        file.write(b'{"time": ')
    with pytest.raises(UserError, match=rf"{name} was changed: its end is torn"):
        read_audit(long)


def test_a_kill_while_a_new_file_is_begun_loses_nothing(long):
    (long / FILE).rename(long / "audit.4.jsonl")
    assert len(read_audit(long)) == 12
    audit = opened(long, most_bytes=700)
    assert audit.notice == ""
    audit.note("in", b"", "after")
    assert len(read_audit(long)) == 13


def test_heads_that_had_no_room_while_new_files_were_begun_are_not_taken_for_a_change(long, monkeypatch):
    """A line may fit where a whole new head does not."""
    audit, write = opened(long, most_bytes=700), module.atomic_write

    def full(path, data, **settings):
        raise files.storage_error(path, OSError(errno.ENOSPC, "No space left on device"))

    monkeypatch.setattr(module, "atomic_write", full)
    for number in range(12, 20):
        with pytest.raises(UserError, match="No space left"):
            audit.note("in", b"", f"kind {number}")
    monkeypatch.setattr(module, "atomic_write", write)
    assert len(list(long.glob("audit.[0-9]*"))) > len(OLDER) + 1
    audit = opened(long, most_bytes=700)
    assert "8 good lines" in audit.notice
    audit.note("in", b"", "kind 20")
    assert [row["kind"] for row in read_audit(long)] == [f"kind {number}" for number in range(21)]
    assert Head.read(long).messages_in == 21


def test_a_reader_is_not_led_astray_by_a_new_file(long, monkeypatch):
    """A site may begin a new file between two reads of somebody who looks."""
    audit, read, begun = opened(long, most_bytes=1), files.read_bytes, []

    def late(path):
        if path.name == OLDER[2] and not begun:
            begun.append(audit.note("in", b"", "meanwhile"))
        return read(path)

    monkeypatch.setattr(module, "read_bytes", late)
    assert [row["kind"] for row in read_audit(long)][11:] == ["kind 11", "meanwhile"]
    assert begun


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are cheap")
def test_kills_at_any_moment_never_look_like_a_change(tmp_path):
    opened(tmp_path)
    told = 0
    for moment in range(20):
        read, write = os.pipe()
        writer = os.fork()
        if not writer:
            audit = opened(tmp_path, most_bytes=3000)
            while True:
                audit.note("in", b"", "message")
                os.write(write, b"+")
        os.close(write)
        told += len(os.read(read, 1))
        time.sleep(moment / 1000)  # another moment each time; whichever it is, nothing may be lost
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        while more := os.read(read, 10**6):
            told += len(more)
        os.close(read)
        assert len(read_audit(tmp_path)) >= told
    audit = opened(tmp_path)
    assert "whole" not in audit.notice
    audit.note("in", b"", "after")
    assert len(read_audit(tmp_path)) > told
    assert len(list(tmp_path.glob("audit.[0-9]*"))) > 1
