"""The README's examples run as they stand, and its claims about size hold."""

import re
from pathlib import Path

import pytest

from unalike import check_algorithm, run
from unalike.algorithms import ALGORITHMS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_first_example(capsys):
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 10
    exec(compile(BLOCKS[0], "README.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["fedavg", "fedprox(mu=0.1)", "fedavgm(0.5)"]
    assert all(float(re.search(r"test ([\d.]+)", line)[1]) > 0.5 for line in lines)


@pytest.fixture(scope="module")
def own():
    exec(compile(BLOCKS[1], "README.md", "exec"), {"__name__": "readme"})
    return ALGORITHMS.entry("my-momentum").cls


def test_the_own_algorithm_is_short_and_holds_the_contract(own):
    assert len([line for line in BLOCKS[1].splitlines() if line.strip()]) < 15
    check_algorithm("my-momentum(beta=0.5)")


def test_the_own_algorithm_without_momentum_is_fedavg(own):
    fields = {"dataset": "heart", "partition": "natural", "rounds": 3, "steps": 3}
    mine, plain = (run(algorithm=text, **fields) for text in ("my-momentum(beta=0)", "fedavg"))
    assert mine.accuracy == plain.accuracy
    assert mine.figures["loss"] == pytest.approx(plain.figures["loss"], rel=1e-5)


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        assert target.startswith("http") or (page.parent / target).exists(), target
