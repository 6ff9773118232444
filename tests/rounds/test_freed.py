"""Memory of messages is given back while a cohort is at work."""

import platform

import pytest
import torch

from unalike.rounds import freed
from unalike.rounds.freed import OFTEN, Freed
from unalike.runs.small import small_simulation


@pytest.fixture
def trims(monkeypatch):
    seen = []
    monkeypatch.setattr(freed, "_trim", seen.append)
    return seen


def test_seldom_and_only_after_enough(trims):
    counted, message = Freed(), {"w": torch.empty(OFTEN // 4 // 4)}  # a quarter
    for _ in range(3):
        counted.add(message)
    assert trims == []
    counted.add(message)
    assert trims == [0]
    counted.add(message, 3)
    assert trims == [0]
    counted.add(message, 3)
    assert trims == [0, 0]


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_all_messages_of_a_round_count(trims, monkeypatch, engine):
    simulation = small_simulation("fedavg", parties=6, sample=1.0, engine=engine)
    monkeypatch.setattr(freed, "OFTEN", 6 * simulation.task.size * 4)
    simulation.play_round()
    assert trims == [0]
    monkeypatch.setattr(freed, "OFTEN", 6 * simulation.task.size * 4 + 1)
    simulation.play_round()
    assert trims == [0]


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
def test_glibc_has_what_gives_it_back():
    assert freed._trim is not None
    assert freed._trim(0) in (0, 1)
