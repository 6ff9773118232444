"""What keeps a study from its cluster is one line, and quick."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path

import pytest

from unalike.engines.many.cluster import local_token
from unalike.errors import UserError
from unalike.studies.cluster import connection
from unalike.studies.cluster.connection import cluster, load_ray


def test_without_ray(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(connection, "import_module", missing)
    with pytest.raises(UserError, match=r"Ray is not installed. Try: pip install 'unalike\[ray\]'"):
        load_ray()
    monkeypatch.setattr(connection, "import_module", lambda name: missing("grpc"))
    with pytest.raises(UserError, match="Ray cannot be loaded"):
        load_ray()


def test_on_windows(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(UserError, match="Ray on Windows"):
        load_ray()


@pytest.fixture
def no_ray_needed(monkeypatch):
    monkeypatch.setattr(connection, "load_ray", lambda: None)


@pytest.mark.parametrize("address", ["here", "ray://a:1", "a:b", ":6379", "http://a:1"])
def test_an_address_that_is_none(no_ray_needed, address):
    with pytest.raises(UserError, match="HOST:PORT of its head, or auto"), cluster(address, cpus=1):
        pass


def test_an_address_where_nobody_answers(no_ray_needed):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with (
        pytest.raises(UserError, match=f"Nobody answers at 127.0.0.1:{port} .*ray start --head"),
        cluster(f"127.0.0.1:{port}", cpus=1),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "error", "said"),
    [
        ("a:1", RuntimeError("Authentication token is missing or incorrect"), "Set RAY_AUTH_MODE=token"),
        ("auto", ConnectionError("Could not find any running Ray instance.\nMore."), "No cluster was found"),
        (None, RuntimeError(""), "Ray cannot be used on this machine: RuntimeError"),
        ("a:1", ValueError("x"), "Ray cannot be used at a:1: x"),
    ],
)
def test_what_ray_says_is_one_line(monkeypatch, address, error, said):
    class Ray:
        def init(self, **options):
            raise error

    monkeypatch.setattr(connection, "load_ray", Ray)
    monkeypatch.setattr(connection, "_check_address", lambda address: None)
    monkeypatch.setattr(connection, "local_token", contextlib.nullcontext)
    with pytest.raises(UserError) as caught, cluster(address, cpus=1):
        pass
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "disabled" not in str(caught.value)


def test_the_token_of_a_cluster_here_is_its_owners_alone_and_a_users_own_is_left(monkeypatch):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with local_token():
        path = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
        assert os.environ["RAY_AUTH_MODE"] == "token"
        assert path.stat().st_mode & 0o077 == 0
        assert path.parent.stat().st_mode & 0o077 == 0
    assert "RAY_AUTH_MODE" not in os.environ
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "mine")
    with local_token():
        assert os.environ["RAY_AUTH_TOKEN_PATH"] == "mine"
        assert "RAY_AUTH_MODE" not in os.environ
