"""Who holds a lock, by looking alone."""

import os
import subprocess
import sys

import pytest
from filelock import FileLock

from unalike.watch.locks import held_now

linux = pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="the system has no table of locks")  # noqa: PTH110


@linux
def test_a_lock_is_held_while_its_process_holds_it(tmp_path):
    path = tmp_path / "lock"
    assert not held_now()(path)
    with FileLock(path):
        assert held_now()(path)
    assert not held_now()(path)


@linux
def test_a_lock_ends_with_its_process_however_that_ends(tmp_path):
    path = tmp_path / "lock"
    code = (
        "import sys; from filelock import FileLock; lock = FileLock(sys.argv[1]); lock.acquire(); "
        "print('held', flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "held\n"
        (tmp_path / "lock.pid").write_text(str(process.pid))
        assert held_now()(path)
        assert held_now(tmp_path / "none")(path)  # without a table, by the number
    finally:
        process.kill()
        process.communicate()
    assert not held_now()(path)
    assert not held_now(tmp_path / "none")(path)


def test_another_device_with_the_same_inode_is_another_file(tmp_path):
    path, table = tmp_path / "lock", tmp_path / "table"
    path.touch()
    inode = path.stat().st_ino
    table.write_text(f"1: FLOCK  ADVISORY  WRITE 77 ff:ff:{inode} 0 EOF\n")
    assert not held_now(table)(path)
    (tmp_path / "lock.pid").write_text("77")  # the same process: the file system shows another device
    assert held_now(table)(path)
    table.write_text(f"1: -> FLOCK  ADVISORY  WRITE 77 ff:ff:{inode} 0 EOF\nnonsense\n1: a b c d e:f:g\n")
    assert not held_now(table)(path)
