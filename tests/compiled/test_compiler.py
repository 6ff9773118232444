"""Compiling once, whoever asks and whatever has happened to the folder."""

import os
import subprocess
import sys

import pytest

from tests.compiled.helpers import NEEDS_COMPILER
from unalike.compiled import compiler
from unalike.compiled.compiler import NoCompiler, find_compiler, load, vector_width

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
    program = f"from unalike.compiled.compiler import load; print(load({SOURCE!r}, lambda line: None).answer())"
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
    broken.write_bytes(b'#!/bin/sh\ncase "$*" in *net.c*) printf "error: \\351\\n" >&2; exit 1;; esac\n')
    broken.chmod(0o700)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(NoCompiler, match="error"):
        load(SOURCE, lambda line: None)


def test_a_file_where_the_folder_should_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("UNALIKE_CACHE", str(tmp_path / "file"))
    assert load(SOURCE, lambda line: None).answer() == 42
    assert (tmp_path / "file").read_text() == "not a folder"
