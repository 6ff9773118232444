"""Files of the user's own: what a file needs is found without running it, and nothing unnamed is run."""

import os
import sys

import pytest

from unalike import own_files
from unalike.errors import UserError
from unalike.own_files import allow_code, code_digest, code_files, load


@pytest.fixture(autouse=True)
def _for_this_test_alone(monkeypatch):
    monkeypatch.setattr(own_files, "_allowed", set())
    monkeypatch.setattr(own_files, "_loaded", {})


def write(folder, **files):
    """Files by name; two underscores stand for a folder."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "main.py"


def names(path):
    return [str(file.path.relative_to(path.parent)) for file in code_files(path)]


def test_the_files_beside_are_found_without_running_them(tmp_path):
    path = write(
        tmp_path,
        main="raise SystemExit\nimport math, torch, one\nfrom pack import two\ndef f():\n    import late",
        one="import pack.three",
        late="",
        unused="",
        pack__two="from . import four\nfrom .five import x",
        pack__three="import main",
        pack__four="",
        pack__five="",
        math="standard library",
    )
    assert names(path) == [
        "main.py", "late.py", "one.py", "pack/five.py", "pack/four.py", "pack/three.py", "pack/two.py",
    ]  # fmt: skip


def test_the_digest_follows_every_file_and_not_the_place(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        write(folder, main="import one", one="x = 1", unused="x = 1")
    before = code_digest(here / "main.py")
    assert before == code_digest(there / "main.py")
    (here / "unused.py").write_text("x = 2")
    assert code_digest(here / "main.py") == before
    (here / "one.py").write_text("x = 2")
    assert code_digest(here / "main.py") != before
    (there / "one.py").rename(there / "two.py")
    (there / "main.py").write_text("import two")
    assert code_digest(there / "main.py") != before


def test_nothing_is_run_that_nobody_named(tmp_path):
    path = write(tmp_path, main="import one\nx = one.x", one=f"open({str(tmp_path / 'ran')!r}, 'w')\nx = 3")
    with pytest.raises(
        UserError, match=r"nobody has named here: .*main.py \(SHA-256 .*one.py .*--plugin"
    ) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()
    assert "one" not in sys.modules
    allow_code(path)
    assert load(path).x == 3
    assert load(path) is load(path)
    assert str(tmp_path) not in sys.path


def test_a_changed_file_is_run_anew_and_so_is_one_beside_it(tmp_path, monkeypatch):
    """Also one of the same size, changed within the same second: Python's bytecode would be the old one's."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = write(tmp_path, main="from one import x\ny = 1", one="x = 1")
    allow_code(path)
    assert (load(path).x, load(path).y) == (1, 1)
    for change in ({"one": "x = 2"}, {"main": "from one import x\ny = 2"}):
        write(tmp_path, **change)
        for file in tmp_path.glob("*.py"):
            os.utime(file, (1e9, 1e9))
        load(path)
    write(tmp_path, one="x = 3", main="from one import x\ny = 3")
    for file in tmp_path.glob("*.py"):
        os.utime(file, (1e9, 1e9))
    assert (load(path).x, load(path).y) == (3, 3)
    assert not sys.dont_write_bytecode


def test_files_of_one_name_in_two_folders_are_two(tmp_path):
    made = []
    for number in (1, 2):
        path = write(tmp_path / str(number), main="from helper_of_mine import x", helper_of_mine=f"x = {number}")
        allow_code(path)
        made.append(load(path))
    assert [module.x for module in made] == [1, 2]


def test_a_file_of_an_installed_name_is_refused(tmp_path):
    path = write(tmp_path, main="import torch", torch="x = 1")
    allow_code(path)
    with pytest.raises(UserError, match=r"torch beside main.py has the name of an installed package. Rename it"):
        load(path)
    assert sys.modules["torch"].nn


def test_a_named_file_of_the_same_name_is_meant(tmp_path):
    """A plan, or a run's record, has the path of another machine: the user says where the file is here."""
    path = write(tmp_path, main="x = 1")
    allow_code(path)
    assert load("nowhere/main.py").x == 1
    assert code_digest("nowhere/main.py") == code_digest(path)
    with pytest.raises(UserError, match=r"There is no Python file nowhere/other.py"):
        load("nowhere/other.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", "broken.py failed in line 1: SyntaxError"),
        ("\nimport nothing_of_this_name", "failed in line 2: ModuleNotFoundError"),
        ("raise SystemExit(3)", "failed in line 1: SystemExit: 3"),
        ("import one", "failed in line 1: ValueError: from one"),
    ],
)
def test_a_mistake_in_a_file_is_one_line(tmp_path, text, message):
    path = write(tmp_path, broken=text, one="raise ValueError('from one')").with_name("broken.py")
    allow_code(path)
    with pytest.raises(UserError, match=message):
        load(path)
    assert not [name for name in sys.modules if name.startswith("plugin_broken")]


def test_an_imported_module_that_has_changed_is_not_taken_for_the_new_one(tmp_path):
    path = write(tmp_path, main="x = 1")
    own_files.remember(sys.modules[__name__], path)
    assert load(path) is sys.modules[__name__]
    path.write_text("x = 2")
    with pytest.raises(UserError, match=r"main.py has changed since this program imported it"):
        load(path)
