"""The model card: what is known of a run, for people and for programs."""

import json

import pytest

import unalike
from unalike.runs.card import ModelCard
from unalike.runs.run import run

SPEC = {"dataset": "heart", "partition": "natural", "model": "mlp(4)", "rounds": 2, "seed": 2}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return run(runs=tmp_path_factory.mktemp("runs"), algorithm="ditto", **SPEC)


def test_it_says_what_is_known(made):
    text = made.card().to_markdown()
    assert str(made.card()) == text
    assert made.figures["data_sha256"] in text
    assert "Li et al. 2021" in text  # Ditto's paper
    for section in ("Model", "Data", "Training", "Scores", "Parties", "Privacy", "Use", "Origin"):
        assert f"\n## {section}\n" in text
    assert f"{100 * made.figures['personal']['worst']:.1f}%" in text
    assert "no noise was added" in text
    assert made.figures["version"] in text


def test_parties_are_listed_from_the_worst_to_the_best(made):
    rows = made.card().facts["Parties"]["each"][1:]
    values = [float(value.rstrip("%")) for _, value in rows]
    assert values == sorted(values)
    assert {name for name, _ in rows} == set(unalike.load_dataset("heart").group_names)


def test_the_command_makes_it_again(made):
    import shlex

    from unalike.cli.main import call

    words = shlex.split(made.card().facts["Origin"]["made again by"].strip("`"))
    assert call([*words[1:], "--runs", str(made.run_dir.parent), "--quiet"]) == 0
    assert [path.name for path in made.run_dir.parent.iterdir()] == [made.run_dir.name]


def test_json_has_all_figures_as_numbers(made, tmp_path):
    markdown, other = made.export(tmp_path, "card")
    assert markdown.read_text() == made.card().to_markdown()
    found = json.loads(other.read_text())
    assert found["figures"]["personal"] == made.figures["personal"]
    assert found["Model"]["net"] == "mlp(4)"


def test_what_is_spent_of_privacy_stands_there():
    result = run(channel="clip(1.0)+gauss(0.8)", **SPEC)
    privacy = result.card().facts["Privacy"]
    assert privacy["epsilon"] == result.figures["privacy"]["epsilon"]
    assert "gauss" in privacy["channel"]


def test_names_that_are_markdown_do_no_harm():
    card = ModelCard("t", {"S": {"a": "x|y\n# no <b>", "t": [["h"], ["a|b"]]}}, {})
    assert "\n# no" not in card.to_markdown()
    assert "<b>" not in card.to_markdown()
    assert "| a\\|b |" in card.to_markdown()
