"""Versions of a site's state: whole or an error, and only where they belong."""

import errno

import pytest
import torch

from unalike.errors import UserError
from unalike.federation.envelope import Refused
from unalike.federation.vault import START, Vault, version_name

STATE = {"state/c": torch.arange(5.0), "memory/residual.0": torch.zeros(0)}
ONE, TWO = version_name(1, 0, 1), version_name(2, 0, 1)


def same(found):
    return found.keys() == STATE.keys() and all(torch.equal(found[key], STATE[key]) for key in STATE)


def test_what_is_saved_is_loaded_also_by_another_process(tmp_path):
    Vault(tmp_path).save(ONE, STATE)
    assert same(Vault(tmp_path).load(ONE))
    assert Vault(tmp_path).load(START) == {}


def test_a_version_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(Refused, match="version 000001-0-1 is not here"):
        Vault(tmp_path).load(ONE)


def test_every_cut_and_every_changed_byte_is_an_error(tmp_path):
    vault = Vault(tmp_path)
    vault.save(ONE, STATE)
    path = tmp_path / f"{ONE}.state"
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place])
        with pytest.raises(Refused, match="is damaged"):
            vault.load(ONE)
        wrong = bytearray(whole)
        wrong[place] ^= 1
        path.write_bytes(wrong)
        with pytest.raises(Refused, match="is damaged"):
            vault.load(ONE)
    path.write_bytes(whole)
    assert same(vault.load(ONE))


def test_what_a_killed_writer_left_is_removed(tmp_path):
    Vault(tmp_path).save(ONE, STATE)
    (tmp_path / f".{TWO}.state.0123456789abcdef.unalike-tmp").write_bytes(b"half")
    vault = Vault(tmp_path)
    assert vault.versions == [ONE]
    assert [path.name for path in tmp_path.iterdir()] == [f"{ONE}.state"]


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "000001-0-1/..", "000001-0-1\n", "١٢٣٤٥٦-١-١", "1-1-1", "\0"]
)
def test_a_version_is_no_path(name, tmp_path):
    vault = Vault(tmp_path / "state")
    for act in (lambda: vault.load(name), lambda: vault.save(name, STATE)):
        with pytest.raises(Refused, match="is no version"):
            act()
    assert not list((tmp_path / "state").iterdir())


def test_others_than_those_that_are_kept_are_removed(tmp_path):
    vault = Vault(tmp_path)
    vault.save(ONE, STATE)
    vault.save(TWO, STATE)
    (tmp_path / "notes.txt").write_text("the site's own")
    vault.keep({TWO, START, "../anything"})
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{TWO}.state", "notes.txt"]


def test_a_full_disk_is_one_line_and_what_was_saved_stays(tmp_path, monkeypatch):
    vault = Vault(tmp_path)
    vault.save(ONE, STATE)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UserError, match="No space left"):
        vault.save(TWO, STATE)
    monkeypatch.undo()
    assert vault.versions == [ONE]
    assert same(vault.load(ONE))


def test_nobody_else_can_look_inside(tmp_path):
    Vault(tmp_path / "state")
    assert (tmp_path / "state").stat().st_mode & 0o077 == 0
