"""Every kernel, compiled so that it stops where it touches what is not its own or computes what is undefined."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engines.compiled.helpers import NEEDS_COMPILER
from unalike.native.compiler import find_compiler

pytestmark = NEEDS_COMPILER


def watcher():
    """The library that watches memory, which must be there before any other; None where the compiler has none."""
    name = shutil.which("gcc") or find_compiler()
    found = subprocess.run([name, "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    return found if Path(found).is_absolute() else None


def every_kernel(folder, *flags, **more):
    folder.mkdir(mode=0o700)
    environment = {**os.environ, "UNALIKE_CACHE": str(folder), "OMP_NUM_THREADS": "1", "CC": "gcc", **more}
    command = [sys.executable, "-m", "tests.engines.compiled.every_kernel", "-O1", *flags]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="gcc on Linux")
def test_nothing_undefined_is_computed_and_no_memory_of_others_touched(tmp_path):
    library = watcher()
    if library is None:
        pytest.skip("the compiler cannot watch memory")
    flags = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    more = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
    done = every_kernel(tmp_path / "own", *flags, **more)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "every kernel has run"
