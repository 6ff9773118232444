"""``unalike measure``: table, JSON, figure, and mistakes in one line."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import unalike as package
from unalike.measure import measure, party_labels
from unalike.secure.crypto import errors


def test_json_is_the_measurement(unalike):
    answer = unalike("measure", "--partition", "label-dirichlet(0.1)", "--parties", "4", "--seed", "3", "--json")
    assert (answer.code, answer.err) == (0, "")
    found = answer.json
    digits = package.load_dataset("digits")
    made = package.make_partition("label-dirichlet(0.1)", digits, 4, 3)
    expected = measure(party_labels(digits, made), protect="none")
    assert (found["dataset"], found["partition"], found["seed"]) == ("digits", made.recipe, 3)
    assert (found["of"], found["protect"], found["weighting"]) == ("labels", "fhe+masks", "rows")
    assert [one["party"] for one in found["parties"]] == list(made.names)
    for one, reference in zip(found["parties"], expected.published, strict=True):
        assert one["mean"] == vars(reference.mean)
        assert one["bytes_up"] > 88_000
        assert one["bytes_down"] > 88_000
    assert found["federation"]["mean"] == vars(expected.federation.mean)
    assert found["global"]["labels"] == list(digits.classes)
    np.testing.assert_array_equal(found["global"]["cdf"], expected.everyone.values)
    assert {"support", "policy", "count", "keys", "vector", "unmask", "compare"} <= found["seconds"].keys()
    assert 0 < found["plain"]["jensen_shannon"] < 1
    assert found["files"] == []
    assert "counts" not in answer.out


def test_table(unalike):
    out = unalike("measure", "--dataset", "heart", "--partition", "natural", "--protect", "none").out
    lines = out.splitlines()
    assert lines[0].startswith("heart, labels of 4 parties: natural")
    assert lines[2].split() == ["party", "share", "TV", "random", "split", "quantity"]
    assert any(line.split()[:3] == ["switzerland", "13%", "0.39"] for line in lines)
    assert "The parties are mildly unlike: on average 19 % of a party's rows would have to change" in out
    assert "Jensen-Shannon" in out
    assert "Protection none: each party sent" in out
    assert "\x1b" not in out


def test_the_headline_does_not_depend_on_the_numbers_of_classes(unalike, tmp_path):
    counts = {"a": (60, 5, 5, 30), "b": (5, 60, 30, 5), "c": (20, 20, 25, 35)}
    said = []
    for order in ("0123", "0213", "3102"):
        lines = [
            f"{row % 7},{order[label]},{party}"
            for party, own in counts.items()
            for label, rows in enumerate(own)
            for row in range(rows)
        ]
        (tmp_path / f"table-{order}.csv").write_text("\n".join(["x,kind,party", *lines]))
        dataset = f"csv:table-{order}.csv(label=kind, party=party)"
        out = unalike("measure", "--dataset", dataset, "--partition", "natural", "--protect", "none").out
        said.append([line for line in out.splitlines() if line.startswith(("Mean over rows", "The parties are"))])
    assert len(said[0]) == 2
    assert said[0] == said[1] == said[2]


def test_the_papers_degree_under_its_name(unalike):
    out = unalike("measure", "--partition", "label-dirichlet(0.1)", "--protect", "none", "--degree", "cdf").out
    assert out.splitlines()[2].split()[:6] == ["party", "share", "K-S", "area", "CvM", "TV"]
    assert "Mean over rows: K-S " in out
    assert "up to some label" in out


def test_features(unalike):
    arguments = (
        "measure",
        "--dataset",
        "heart",
        "--partition",
        "natural",
        "--of",
        "features",
        "--protect",
        "none",
    )
    out = unalike(*arguments, "--weighting", "parties").out
    assert "worst K-S in" in out
    assert "ca_missing" in out
    assert "up to some value" in out
    found = unalike(*arguments, "--bins", "8", "--json").json
    assert found["global"]["dimensions"][0] == "age"
    assert np.shape(found["global"]["cdf"]) == (32, 8)
    assert found["plain"] is None


def test_a_random_split_is_called_one(unalike):
    out = unalike("measure", "--protect", "none").out
    assert "That is what chance makes of a random split" in out


def test_many_parties_are_cut(unalike):
    lines = unalike("measure", "--parties", "60", "--protect", "none").out.splitlines()
    assert sum(line.startswith("party ") for line in lines) == 1 + 20 + 10
    assert any(line.startswith("...") for line in lines)


def test_noise(unalike):
    out = unalike("measure", "--protect", "none", "--noise", "3").out
    assert "Noise of sigma 3 on each count: the sum is (" in out
    assert unalike("measure", "--protect", "none", "--noise", "3", "--json").json["noise"]["delta"] == 1e-6


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<?xml"), ("b.PNG", b"\x89PNG"), ("c.pdf", b"%PDF")])
def test_figure(unalike, tmp_path, name, start):
    answer = unalike("measure", "--dataset", "fcube", "--partition", "natural", "--protect", "none", "--of",
                     "features", "--figure", name, "--json")  # fmt: skip
    (file,) = answer.json["files"]
    assert (tmp_path / file).read_bytes().startswith(start)
    before = (tmp_path / file).read_bytes()
    unalike("measure", "--dataset", "fcube", "--partition", "natural", "--protect", "none", "--of", "features",
            "--figure", name)  # fmt: skip
    assert (tmp_path / file).read_bytes() == before


def test_figure_without_suffix(unalike, tmp_path):
    assert (
        "Saved d.svg and d.png." in unalike("measure", "--protect", "none", "--parties", "3", "--figure", "d").out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--of", "lables"], "Unknown variable 'lables'. Did you mean 'labels'?"),
        (["--protect", "fhe+mask"], "Did you mean 'fhe+masks'?"),
        (["--weighting", "row"], "Did you mean 'rows'?"),
        (["--of", "features", "--bins", "0"], "bins must be from 2 to 4096, got 0"),
        (["--noise", "-2"], "noise must be >= 0, got -2.0"),
        (["--noise", "1", "--weighting", "parties"], "Noise needs the weighting 'rows'"),
        (["--parties", "2"], "--allow-two"),
        (["--parties", "1"], "One party has nobody to be compared with"),
        (["--dataset", "heart", "--partition", "vertical(2)", "--of", "features"], "--of has no meaning"),
        (["--model-of", "some-run"], "Add --of features"),
        (["--degree", "ks"], "Unknown degree 'ks'. Known: cdf, tv."),
        (["--of", "features", "--degree", "tv"], "how wide their bins are. Use cdf"),
        (["--publish", "means"], "Did you mean 'mean'?"),
        (["--parties", "3", "--noise", "1e-200"], "hides nothing"),
        (["--partition", "vertical(3)", "--noise", "1"], "no common variable and --noise has no meaning"),
        (["--partition", "vertical(3)", "--publish", "mean"], "--publish has no meaning. Leave it out."),
        (["--figure", "absent/x.png"], "there is no folder absent"),
        (["--figure", "x.gif"], "must end in .svg, .png or .pdf"),
        (["--figure", "."], "is a folder"),
        (["--partition", "label-dirichle(1)"], "Did you mean"),
    ],
)
def test_mistakes_take_one_line(unalike, arguments, message):
    answer = unalike("measure", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert len(answer.err.splitlines()) == 1
    assert message in answer.err


def test_two_parties_on_request(unalike):
    assert unalike("measure", "--parties", "2", "--allow-two", "--protect", "none").code == 0


@pytest.mark.parametrize("module", ["tenseal", "cryptography"])
def test_a_missing_library_is_named_with_its_remedy(unalike, monkeypatch, module):
    errors.library.cache_clear()
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # as if it was not installed
    answer = unalike("measure", "--parties", "3")
    errors.library.cache_clear()
    assert answer.code == 2
    remedy = f"Run: pip install {module}"
    assert answer.err == f"Error: {module} is not installed, but unalike needs it here. {remedy}\n"
    assert unalike("measure", "--parties", "3", "--protect", "none").code == 0


def test_only_the_mean(unalike):
    arguments = ("measure", "--partition", "label-dirichlet(0.1)", "--protect", "none")
    out = unalike(*arguments, "--publish", "mean").out
    assert "Only the mean was published" in out
    assert "orst party" not in out
    assert "party 0" not in out
    found = unalike(*arguments, "--publish", "mean", "--json").json
    assert (found["parties"], found["federation"]["worst"], found["publish"]) == ([], None, "mean")
    whole = unalike(*arguments, "--json").json["federation"]
    assert found["federation"]["mean"]["area"] == pytest.approx(whole["mean"]["area"], abs=0.005)


def test_help(unalike):
    out = unalike("measure", "--help").out
    for flag in ("--dataset", "--of", "--protect", "--weighting", "--bins", "--noise", "--figure", "--json"):
        assert flag in out
    assert "\n  measure " in unalike("--help").out


def test_features_of_a_runs_own_model(unalike):
    assert unalike("run", "--model", "mlp(16,6)", "--rounds", "1", "--epochs", "1", "--quiet").code == 0
    options = ["measure", "--of", "features", "--protect", "none", "--json", "--model-of"]
    found = unalike(*options, "digits-fedavg").json
    assert len(found["global"]["dimensions"]) == 6
    wrong = unalike(*options, "nonsense")
    assert wrong.code == 2
    assert len(wrong.err.strip().splitlines()) == 1


def test_columns_are_measured(unalike, tmp_path):
    arguments = ("measure", "--dataset", "heart", "--partition", "vertical(3, 0.3, rows=0.8, disagree=0.2)")
    answer = unalike(*arguments, "--figure", "who.svg")
    assert (answer.code, answer.err) == (0, "")
    assert (tmp_path / "who.svg").read_text().count("party 0") >= 1
    lines = answer.out.splitlines()
    assert lines[0].startswith("heart, columns of 3 parties: vertical(n=3")
    assert lines[2].split()[:4] == ["party", "people", "attributes", "columns"]
    found = unalike(*arguments, "--json").json
    skew = found["column_skew"]
    assert found["label_holder"] == "party 0"
    assert f"All parties know {skew['common']} of the 735 people together" in answer.out
    assert f"{skew['shared']} attribute(s) are shared, 31% of all" in answer.out
    assert f"(Icor): {skew['icor']:.3f}" in answer.out
    assert [len(party["columns"]) for party in found["parties"]] == skew["columns"]
    assert sum(skew["importance"]) == pytest.approx(1)
    assert 0.05 < skew["disagree"] < 0.2  # a random other person's value may be the same


def test_beta_of_a_split_by_correlation(unalike):
    arguments = ("measure", "--partition", "vertical-correlation(2, 1)")
    assert unalike(*arguments, "--json").json["column_skew"]["beta"] == pytest.approx(1)
    assert "beta 1.00 between the least (0) and the most (1) found" in unalike(*arguments).out
