"""Compiling once, whoever asks and whatever has happened to the folder."""

import os
import stat
import subprocess
import sys

import pytest

from tests.engines.compiled.helpers import NEEDS_COMPILER
from unalike.native import compiler
from unalike.native.compiler import NoCompiler, find_compiler, load, vector_width

pytestmark = NEEDS_COMPILER
SOURCE = "int answer(void) { return 42; }"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("UNALIKE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def libraries(folder):
    return sorted(folder.glob("*"))


def test_once(folder):
    said = []
    assert load(SOURCE, said.append).answer() == 42
    assert load(SOURCE, said.append).answer() == 42
    assert said == ["Compiling the net for this machine, once."]
    assert len(libraries(folder)) == 1
    load(SOURCE + "\n", said.append)
    assert len(libraries(folder)) == 2


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b[:-1] + b"x"])
def test_damaged(folder, damage):
    said = []
    load(SOURCE, said.append)
    (path,) = libraries(folder)
    # A new file, as a crash leaves it: the one that is open stays as it is.
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(damage(content))
    assert load(SOURCE, said.append).answer() == 42
    assert len(said) == 2
    assert libraries(folder) == [path]
    assert path.read_bytes() == content


def test_two_processes_at_once(folder):
    program = f"from unalike.native.compiler import load; print(load({SOURCE!r}, lambda line: None).answer())"
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    assert [process.communicate()[0].strip() for process in running] == ["42"] * 3
    assert len(libraries(folder)) == 1


def test_a_folder_that_cannot_be_written_to(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("UNALIKE_CACHE", str(tmp_path / "file" / "cache"))
    said = []
    assert load(SOURCE, said.append).answer() == 42
    assert "cannot be written to" in said[0]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(folder):
    folder.mkdir()
    folder.chmod(0o500)
    said = []
    assert load(SOURCE, said.append).answer() == 42
    assert "cannot be written to" in said[0]
    assert not libraries(folder)


PLANTED = "int answer(void) { return 666; }"
POSIX = pytest.mark.skipif(os.name != "posix", reason="POSIX owners and modes")
ROOT = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")
SOMEBODY = 4321


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """Put somebody else's library for our source into a folder, under the name that its content asks for."""
    monkeypatch.setenv("UNALIKE_CACHE", str(tmp_path / "look"))
    load(SOURCE, lambda line: None)
    (name,) = libraries(tmp_path / "look")
    made = tmp_path / "made.so"
    (tmp_path / "evil.c").write_text(PLANTED)
    subprocess.run([find_compiler(), "-shared", "-fPIC", str(tmp_path / "evil.c"), "-o", str(made)], check=True)

    def plant(folder, *, mode=0o644, owner=None):
        monkeypatch.setenv("UNALIKE_CACHE", str(folder))
        path = folder / f"{name.stem.split('-')[0]}-{compiler._digest(made)}.so"
        path.write_bytes(made.read_bytes())
        path.chmod(mode)
        if owner is not None:
            os.chown(path, owner, owner)
        return path

    return plant


def shared(path, mode, owner=None):
    path.mkdir()
    path.chmod(mode)
    if owner is not None:
        os.chown(path, owner, owner)
    return path


def assert_compiled_alone(folder, names):
    before, said = libraries(folder), []
    assert load(SOURCE, said.append).answer() == 42
    (line,) = said
    assert line.startswith(f"Compiling the net for this machine: its cache folder {folder} is not used, as ")
    assert names in line
    assert "UNALIKE_CACHE" in line
    assert "\n" not in line
    assert libraries(folder) == before


@POSIX
@pytest.mark.parametrize("mode", [0o1777, 0o777, 0o775, 0o1770])
def test_a_folder_that_others_can_write_to_is_not_used(tmp_path, planted, mode):
    folder = shared(tmp_path / "shared", mode)
    planted(folder)
    assert_compiled_alone(folder, f"others can write to {folder}. Keep others out (chmod go-w)")


@POSIX
def test_a_folder_that_others_can_swap_is_not_used(tmp_path, planted):
    folder = shared(shared(tmp_path / "above", 0o777) / "own", 0o700)
    planted(folder)
    assert_compiled_alone(folder, f"others can write to {folder.parent}")
    folder.parent.chmod(0o1777)  # as /tmp: what is ours stays where it is
    assert load(SOURCE, lambda line: None).answer() == 666  # as we planted it ourselves


@ROOT
@pytest.mark.parametrize("above", [False, True])
def test_a_folder_of_somebody_else_is_not_used(tmp_path, planted, above):
    other = shared(tmp_path / "other", 0o755, SOMEBODY)
    folder = shared(other / "own", 0o700) if above else other
    planted(folder)
    assert_compiled_alone(folder, f"{other} belongs to another user (uid {SOMEBODY})")


@ROOT
def test_a_sticky_folder_of_somebody_else_does_not_help(tmp_path, planted):
    folder = shared(shared(tmp_path / "other", 0o1777, SOMEBODY) / "own", 0o700)
    planted(folder)
    assert_compiled_alone(folder, "belongs to another user")


@ROOT
def test_a_library_that_another_user_planted_is_not_used(tmp_path, planted):
    """As it was found: a 1777 folder, and in it a library that is not ours."""
    folder = shared(tmp_path / "shared", 0o1777)
    planted(folder, owner=SOMEBODY)
    assert_compiled_alone(folder, "others can write to")


@ROOT
def test_a_file_of_somebody_else_in_our_folder_is_not_used(tmp_path, planted):
    path = planted(shared(tmp_path / "own", 0o700), owner=SOMEBODY)
    check_made_again(path, f"{path} belongs to another user (uid {SOMEBODY})")


@POSIX
def test_a_file_that_others_can_write_to_is_not_used(tmp_path, planted):
    path = planted(shared(tmp_path / "own", 0o700), mode=0o664)
    check_made_again(path, f"others can write to {path}")


@POSIX
def test_a_link_is_not_used(tmp_path, planted):
    elsewhere = planted(shared(tmp_path / "elsewhere", 0o777))
    path = planted(shared(tmp_path / "own", 0o700))
    path.unlink()
    path.symlink_to(elsewhere)
    check_made_again(path, f"{path} is no file")


def check_made_again(path, names):
    said = []
    assert load(SOURCE, said.append).answer() == 42
    first, second = said
    assert first.startswith("A compiled file of the net is not used, but made again: ")
    assert names in first
    assert second == "Compiling the net for this machine, once."


@POSIX
def test_a_link_to_a_folder_counts_as_the_folder(tmp_path, planted, monkeypatch):
    folder = shared(tmp_path / "shared", 0o1777)
    planted(folder)
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.setenv("UNALIKE_CACHE", str(tmp_path / "link"))
    assert_compiled_alone(folder, "others can write to")


@POSIX
def test_our_folder_is_ours_alone_whatever_the_umask(folder, monkeypatch):
    folder = folder / "deeper"
    monkeypatch.setenv("UNALIKE_CACHE", str(folder))
    before = os.umask(0)
    try:
        load(SOURCE, lambda line: None)
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, *libraries(folder))] == [
        0o700,
        0o700,
        0o644,
    ]
    said = []
    assert load(SOURCE, said.append).answer() == 42
    assert not said


@POSIX
def test_nowhere_to_compile(tmp_path, planted, monkeypatch):
    planted(shared(tmp_path / "shared", 0o777))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "shared"))
    with pytest.raises(NoCompiler, match=r"no folder to compile in, as others can write to .*TMPDIR"):
        load(SOURCE, lambda line: None)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(NoCompiler, match="no folder to compile in"):
        load(SOURCE, lambda line: None)


def test_no_compiler(folder, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(NoCompiler, match=r"no C compiler \(clang, cc, gcc\)"):
        find_compiler()
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(NoCompiler, match="no-such-compiler"):
        load(SOURCE, print)


def test_a_compiler_that_fails(folder, tmp_path, monkeypatch):
    with pytest.raises(NoCompiler, match=r"failed .*error"):
        load("int answer(void) { return ", lambda line: None)
    assert not libraries(folder)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o700)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(NoCompiler, match="does not answer"):
        load(SOURCE, print)


def test_the_vector_width():
    assert vector_width() in (4, 8, 16)


def test_the_folder(monkeypatch):
    monkeypatch.delenv("UNALIKE_CACHE")
    assert compiler.cache_folder().name == "compiled"


def test_what_cannot_be_loaded_is_no_compiler(folder, monkeypatch):
    """A folder from which no program may run (noexec): the run goes on on another engine."""

    def refuses(path):
        raise OSError(f"{path}: failed to map segment from shared object")

    monkeypatch.setattr("ctypes.CDLL", refuses)
    with pytest.raises(NoCompiler, match="failed to map segment"):
        load(SOURCE, lambda line: None)
    monkeypatch.setenv("UNALIKE_CACHE", str(folder / "file" / "cache"))
    folder.mkdir(exist_ok=True)
    (folder / "file").write_text("not a folder")
    with pytest.raises(NoCompiler, match="failed to map segment"):
        load(SOURCE, lambda line: None)


@pytest.mark.parametrize("method", ["write_text", "replace"])
def test_a_full_disk_is_no_compiler(folder, monkeypatch, method):
    def full(self, *args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"pathlib.Path.{method}", full)
    with pytest.raises(NoCompiler, match="No space left"):
        load(SOURCE, lambda line: None)
    monkeypatch.undo()


def test_a_compiler_that_complains_in_another_encoding(folder, tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.write_bytes(b'#!/bin/sh\ncase "$*" in *source.c*) printf "error: \\351\\n" >&2; exit 1;; esac\n')
    broken.chmod(0o700)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(NoCompiler, match="error"):
        load(SOURCE, lambda line: None)


def test_a_file_where_the_folder_should_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("UNALIKE_CACHE", str(tmp_path / "file"))
    assert load(SOURCE, lambda line: None).answer() == 42
    assert (tmp_path / "file").read_text() == "not a folder"
