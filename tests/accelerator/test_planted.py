"""Mistakes that nobody would notice on a processor are noticed on the pretend device."""

import pytest

from tests.accelerator.planted import PLANTED

MIXED = "Expected all tensors to be on the same device, but found at least two devices, pretend:0 and cpu!"
ARRAY = "can't convert pretend:0 device type tensor to numpy"


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_mistake_is_caught(pretend, name):
    assert "ended" in pretend("planted", name, "cpu")
    assert (ARRAY if name == "evaluation" else MIXED) in pretend("planted", name, "pretend")["error"]


def test_in_a_stack_it_would_be_hidden_were_every_error_a_reason_to_fall_back(pretend):
    """So a run would be slow for ever: this is why the engine knows what vmap says."""
    assert pretend("swallowed", "engine")
