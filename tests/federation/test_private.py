"""What a site and the server keep is for their owners' eyes alone."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from tests.federation.inside import HOSPITALS, World
from unalike.errors import UserError
from unalike.federation.making import SiteFolder, is_server
from unalike.runs.files import private_folder

pytestmark = pytest.mark.skipif(os.name != "posix", reason="POSIX modes")


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder):
    """What others may read, write or enter, with its mode."""
    every = [folder, *folder.rglob("*")]
    return {str(path): oct(stat.S_IMODE(path.stat().st_mode)) for path in every if path.stat().st_mode & 0o077}


@pytest.mark.parametrize("train", [{}, {"algorithm": "scaffold", "channel": "masked"}, {"channel": "encrypted"}])
def test_nobody_else_can_read_what_is_kept(train, tmp_path):
    world = World.make(tmp_path, train={"rounds": 2, **train})
    world.serve()
    for name in HOSPITALS:
        folder = tmp_path / "sites" / name
        assert {"figures.json", "agreed.json", "audit.jsonl", "model.safetensors", "keys", "state"} <= {
            path.name for path in folder.iterdir()
        }
        assert not open_to_others(folder)
    assert (world.folder.run / "rounds.jsonl").exists()
    assert not open_to_others(world.folder.path)


def test_a_folder_of_an_earlier_version_is_narrowed_on_start(tmp_path):
    world = World.make(tmp_path, train={"rounds": 1})
    world.serve()
    for folder in (world.folder.path, tmp_path / "sites" / "va"):
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert open_to_others(world.folder.path)
    world.start(13, "va")
    world.serve()
    assert not open_to_others(tmp_path / "sites" / "va")
    assert not open_to_others(world.folder.path)


def test_a_folder_whose_name_is_a_link_is_narrowed_where_it_is(tmp_path):
    """A larger disk: all that is written there goes by the mode of the folder that the link leads to."""
    there = tmp_path / "disk" / "site"
    there.mkdir(parents=True)
    (there / "figures.json").write_text("{}", encoding="utf-8")
    (tmp_path / "site").symlink_to(there)
    private_folder(tmp_path / "site")
    assert not open_to_others(there)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_somebody_else_gets_one_line():
    with tempfile.TemporaryDirectory() as place:  # not pytest's own, which nobody else may enter
        Path(place).chmod(0o755)
        folder = Path(place) / "server"
        private_folder(folder / "invitations")
        private_folder(folder)
        os.seteuid(65534)
        try:
            for look in (lambda: is_server(folder), SiteFolder(folder).plan):
                with pytest.raises(UserError, match=f"No permission to read {folder}"):
                    look()
        finally:
            os.seteuid(0)
