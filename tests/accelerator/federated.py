"""A federation of real sites in this process, one of which has its net on a device."""

import json
import tempfile
from contextlib import redirect_stderr
from dataclasses import replace
from io import StringIO
from pathlib import Path

from tests.federation.inside import World

FIRST = 11
"""The node of the first site."""


def federated(device, **train):
    """What server and sites end with, the first site training on that device; its own errors are raised."""
    with tempfile.TemporaryDirectory() as folder:
        world = World.make(Path(folder), train={"rounds": 2, "steps": 2, "epochs": None, **train})
        sites = world.transport.sites
        sites[FIRST] = replace(sites[FIRST], device=device)
        with redirect_stderr(StringIO()) as errors:
            ended = world.serve()
        if "Traceback" in errors.getvalue():
            raise RuntimeError(errors.getvalue())
        figures = [
            (path.parent.name, path.read_text()) for path in sorted(world.path.glob("sites/*/figures.json"))
        ]
        return json.dumps([ended["server_sha256"], ended["accuracy"], ended["parties"], figures])
