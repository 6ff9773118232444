import pytest

from tests.federation.transport.https.port import Place, served


@pytest.fixture
def place(tmp_path):
    """The folder of a federation of a, b and c."""
    return Place(tmp_path)


@pytest.fixture
def port(place):
    """Its server with quick timers."""
    with served(place) as port:
        yield port
