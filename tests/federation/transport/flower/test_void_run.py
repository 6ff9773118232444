"""A run that ends while a site fetches its message: the node's process ends instead of waiting for hours."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(("error", "code"), [("BaseException", 1), ("RuntimeError", 7)])
def test_the_process_ends_when_a_run_is_void(error, code):
    """Flower's own errors are passed on to Flower; what it does not tidy up after ends the process."""
    script = f"""
import sys
from flwr.supernode import start_client_internal
from unalike.federation.transport.flower.inside import end_with_a_void_run

def void(*arguments, **options):
    raise {error}("void")

start_client_internal.pull_objects = void
end_with_a_void_run()
try:
    start_client_internal.pull_objects([], pull_object_fn=None)
except RuntimeError:
    sys.exit(7)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
