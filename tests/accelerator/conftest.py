import pytest

from tests.accelerator.elsewhere import Elsewhere


@pytest.fixture(scope="session")
def pretend():
    """Calls functions of ``cases`` where the pretend device is."""
    process = Elsewhere()
    yield process
    process.close()
