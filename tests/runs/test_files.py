from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

import pytest

from unalike.errors import UserError
from unalike.runs import files
from unalike.runs.files import (
    atomic_write,
    clean_leftovers,
    make_folder,
    open_file,
    private_folder,
    storage_error,
    sync_folder,
)

POSIX = pytest.mark.skipif(os.name == "nt", reason="POSIX only")


def fail_fsync(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fsync(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fsync)


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"first", b"", bytearray(b"x" * 3_000_000)):
        atomic_write(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]


@POSIX
def test_a_device_or_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        found: list[bytes] = []
        reader = threading.Thread(target=lambda into=found: into.append(pipe.read_bytes()), daemon=True)
        reader.start()
        atomic_write(path, b"x" * 100_000)
        reader.join(timeout=10)
        assert found == [b"x" * 100_000]
        assert pipe.is_fifo()
        assert link.is_symlink()


@pytest.fixture
def umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@POSIX
@pytest.mark.parametrize(("folder", "mask", "expected"), [
    (0o755, 0o022, 0o644), (0o755, 0o027, 0o640), (0o770, 0o002, 0o664), (0o711, 0o022, 0o644),
    (0o700, 0o000, 0o600), (0o700, 0o022, 0o600), (0o500 | 0o200, 0o077, 0o600),
])  # fmt: skip
def test_a_file_is_as_the_umask_says_and_private_in_a_private_folder(
    folder: int, mask: int, expected: int, tmp_path: Path, umask: Callable[[int], int]
) -> None:
    tmp_path.chmod(folder)
    umask(mask)
    atomic_write(tmp_path / "whole", b"x")
    with open_file(tmp_path / "appended", "ab") as file:
        file.write(b"x")
    assert [mode_of(tmp_path / name) for name in ("whole", "appended")] == [expected] * 2
    atomic_write(tmp_path / "secret", b"x", private=True)
    assert mode_of(tmp_path / "secret") == 0o600


@POSIX
def test_a_private_file_is_private_before_anything_is_in_it(
    tmp_path: Path, umask: Callable[[int], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    real = files.write_all

    def look(file: FileIO, data: bytes) -> None:
        seen.extend(mode_of(path) for path in tmp_path.iterdir())
        real(file, data)

    monkeypatch.setattr(files, "write_all", look)
    umask(0)
    atomic_write(tmp_path / "file", b"x")
    assert seen == [0o600]


@POSIX
def test_a_folder_is_made_private_with_what_is_in_it(tmp_path: Path, umask: Callable[[int], int]) -> None:
    umask(0)
    folder, elsewhere = tmp_path / "new" / "own", tmp_path / "elsewhere"
    private_folder(folder)
    assert (mode_of(folder), mode_of(folder.parent)) == (0o700, 0o777)
    folder.chmod(0o777)
    (folder / "below").mkdir()
    for name in ("file", "below/file", "run"):
        (folder / name).write_text("x")
    (folder / "run").chmod(0o755)
    elsewhere.write_text("x")
    (folder / "link").symlink_to(elsewhere)
    (folder / "nowhere").symlink_to(tmp_path / "nowhere")
    private_folder(folder)
    private_folder(folder)
    found = {path.name: mode_of(path) for path in (folder, folder / "below", folder / "run")}
    assert found == {"own": 0o700, "below": 0o700, "run": 0o700}
    assert mode_of(folder / "file") == mode_of(folder / "below" / "file") == 0o600
    assert mode_of(elsewhere) == 0o666


@POSIX
def test_a_folder_that_cannot_be_made_private_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    tmp_path.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    with pytest.raises(UserError, match=r"No permission to keep others out of .*choose another folder"):
        private_folder(tmp_path)


@POSIX
def test_content_is_on_the_disk_before_the_name_and_the_name_before_the_return(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_fsync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        events.append("sync folder" if stat.S_ISDIR(status.st_mode) else f"sync {status.st_size} bytes")
        fsync(descriptor)

    def note_replace(source: Path, target: Path) -> Path:
        events.append("replace")
        return replace(source, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "replace", note_replace)
    atomic_write(tmp_path / "file", b"12345")
    assert events == ["sync 5 bytes", "replace", "sync folder"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "No space left for {}: free some and run the same command again"),
        (errno.EDQUOT, "No space left for {}: free some and run the same command again"),
        (errno.EFBIG, "No space left for {}: free some and run the same command again"),
        (errno.EACCES, "No permission to write {}: allow it"),
        (errno.EROFS, "No permission to write {}: allow it"),
        (errno.EIO, "Cannot write {} (Input/output error)"),
    ],
)
def test_a_refusing_disk_is_one_line_and_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")
    with monkeypatch.context() as patch:
        fail_fsync(patch, number)
        with pytest.raises(UserError) as caught:
            atomic_write(path, b"new")
    assert words.format(path) in str(caught.value)
    assert str(caught.value).endswith("nothing that was saved is lost.")
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@POSIX
def test_a_file_that_outgrows_the_space_midway(tmp_path: Path) -> None:
    import resource

    path = tmp_path / "file"
    atomic_write(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(UserError, match="No space left for"):
            atomic_write(path, b"x" * 200_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_ctrl_c_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"old")

    def interrupt(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_folder_is_a_user_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"Cannot write .*gone"):
        atomic_write(tmp_path / "gone" / "file", b"x")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(UserError, match="No permission to write"):
            atomic_write(tmp_path / "file", b"x")
    finally:
        tmp_path.chmod(0o700)


@POSIX
def test_folder_sync_that_is_not_supported_is_ignored_but_an_error_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_fsync(monkeypatch, errno.EINVAL)
    sync_folder(tmp_path)
    fail_fsync(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        sync_folder(tmp_path)
    sync_folder(tmp_path / "absent")


def test_windows_gets_patience_when_the_target_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import unalike.runs.files as files

    refusals = [True, True]
    replace = Path.replace

    def busy(source: Path, target: Path) -> Path:
        if refusals:
            refusals.pop()
            raise PermissionError(errno.EACCES, "busy")
        return replace(source, target)

    path = tmp_path / "file"
    monkeypatch.setattr(Path, "replace", busy)
    with monkeypatch.context() as patch:
        # The module's own name for os, since pathlib itself looks at os.name.
        patch.setattr(files, "os", type("Windows", (), {**vars(os), "name": "nt"}))
        atomic_write(path, b"x")
    assert path.read_bytes() == b"x"
    if os.name != "nt":
        refusals.append(True)
        with pytest.raises(UserError, match="No permission"):  # elsewhere waiting would not help
            atomic_write(path, b"y")


def test_leftovers_go_and_the_rest_stays(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from unalike.runs.files import atomic_write\n"
        "os.fsync = lambda descriptor: os._exit(9)\n"
        "atomic_write(pathlib.Path(sys.argv[1]), b'half')\n"
    )
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path / "file.bin")], check=False)
    assert killed.returncode == 9
    (leftover,) = tmp_path.iterdir()  # a real one, as a kill leaves it
    others = [".file.bin.swp", "file.unalike-tmp", ".file.12.unalike-tmp", ".hidden.tmp", "file.bin"]
    for name in others:
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / ".folder.0123456789abcdef.unalike-tmp").mkdir()
    assert clean_leftovers(tmp_path) == 1
    assert not leftover.exists()
    assert {path.name for path in tmp_path.iterdir()} == {*others, ".folder.0123456789abcdef.unalike-tmp"}
    assert clean_leftovers(tmp_path / "absent") == 0


def test_make_folder(tmp_path: Path) -> None:
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UserError, match="Cannot write"):
        make_folder(tmp_path / "file")


def test_readers_never_see_half(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write(path, b"0" * 500_000)
    seen: set[tuple[int, int]] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            data = path.read_bytes()
            seen.add((len(data), len(set(data))))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(30):
        atomic_write(path, str(number % 10).encode() * 500_000)
    done.set()
    reader.join()
    assert seen == {(500_000, 1)}


def test_storage_error_names_the_action() -> None:
    error = storage_error(Path("x"), OSError(errno.EACCES, "denied"), "read")
    assert str(error).startswith("No permission to read x:")


def test_what_has_no_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "endless").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe")
    for name in ("endless", "pipe"):
        with pytest.raises(UserError, match="a device or a pipe, not a file"):
            files.read_bytes(tmp_path / name)
    assert files.read_bytes(tmp_path / "none") is None
