import gc
import os

import pytest
from hypothesis import HealthCheck, settings

# Tests run side by side: threads inside one operation, of programs that tests start too, would only fight.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # it reads how many threads it may have

from tests.lessons import shortened
from unalike import own_files
from unalike.algorithms.generated import learning

torch.set_num_threads(1)
# How long an example takes says how busy the machine is, and nothing about the code.
settings.register_profile("whatever else runs", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("whatever else runs")


def pytest_collection_finish():
    """What is loaded by now stays to the end: nobody need look again and again whether it is garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _compiled_nets(tmp_path_factory):
    """Compiled nets go to a folder of this session, which its workers share, not to the user's own."""
    base = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "UNALIKE_CACHE", str((base.parent if base.name.startswith("popen-") else base) / "compiled-nets")
        )
        yield


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks():
    """What is written need not survive that the machine loses its power: thousands of waits for a disk are saved.

    A descriptor that is none is an error as before. Programs that tests start do wait.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: os.fstat(descriptor) and None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _short_lessons():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "lessons", shortened())
        yield


@pytest.fixture(autouse=True)
def _own_code_of_one_test():
    """A file that a test names is not named in the next one, where another may have its name."""
    named = set(own_files._allowed)
    yield
    own_files._allowed.intersection_update(named)
