import json

import pytest

FEW = ["--dataset", "digits", "--parties", "10"]


def test_recommends_with_reasons_and_the_next_command(unalike, tmp_path):
    result = unalike("recommend", *FEW, "--partition", "label-count(1)", "--runs", str(tmp_path))
    assert result.code == 0
    assert result.out.startswith("fedprox(mu=0.01), medium confidence (one label each)")
    assert "Table 3" in result.out
    assert '--algorithm "fedprox(mu=0.01)"' in result.out


def test_takes_stored_measurements(unalike, tmp_path):
    files = []
    for of in ("labels", "features"):
        made = unalike("measure", *FEW, "--partition", "label-count(1)", "--of", of, "--protect", "none", "--json")
        files.append(tmp_path / f"{of}.json")
        files[-1].write_text(made.out)
    options = [part for file in files for part in ("--measurement", str(file))]
    stored = json.loads(unalike("recommend", *options, "--json", "--runs", str(tmp_path)).out)
    fresh = json.loads(
        unalike("recommend", *FEW, "--partition", "label-count(1)", "--json", "--runs", str(tmp_path)).out
    )
    assert stored == fresh
    assert stored["situation"]["one_label"] == 1


@pytest.mark.parametrize(
    ("content", "message"), [("{", "Cannot read"), ("[]", "not a measurement"), (None, "Cannot read")]
)
def test_bad_files_are_one_line(unalike, tmp_path, content, message):
    file = tmp_path / "m.json"
    if content is not None:
        file.write_text(content)
    result = unalike("recommend", "--measurement", str(file))
    assert result.code == 2
    assert message in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_features_alone_are_not_enough(unalike, tmp_path):
    made = unalike("measure", *FEW, "--of", "features", "--protect", "none", "--json")
    (tmp_path / "f.json").write_text(made.out)
    result = unalike("recommend", "--measurement", str(tmp_path / "f.json"))
    assert result.code == 2
    assert "measurement of labels" in result.err


def test_own_runs_become_evidence(unalike, tmp_path):
    """Three comparisons of two algorithms, at different rates: then the paper is outweighed."""
    common = ["--partition", "iid", "--model", "mlp(8)", "--rounds", "1", "--epochs", "1", "--quiet"]
    for rate in ("0.1", "0.2", "0.3"):
        for algorithm in ("fedavg", "fedavgm(0.5)"):
            assert (
                unalike("run", *FEW, *common, "--lr", rate, "--algorithm", algorithm, "--runs", str(tmp_path)).code
                == 0
            )
    advice = json.loads(unalike("recommend", *FEW, "--partition", "iid", "--json", "--runs", str(tmp_path)).out)
    assert advice["source"] == "3 comparisons of your own runs"
    assert {one["algorithm"] for one in advice["ranking"]} == {"fedavg", "fedavgm(0.5)"}


def test_auto_is_what_is_recommended(unalike, tmp_path):
    common = [*FEW, "--partition", "label-count(1)", "--model", "mlp(8)", "--rounds", "1", "--epochs", "1"]
    result = unalike("run", *common, "--algorithm", "auto", "--json", "--runs", str(tmp_path))
    assert result.code == 0
    assert json.loads(result.out)["spec"]["algorithm"] == "fedprox(mu=0.01)"
    assert "medium confidence" in result.err


def test_auto_in_a_file(unalike, tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text('algorithm = "auto"\npartition = "iid"\nmodel = "mlp(8)"\nrounds = 1\nepochs = 1\n')
    result = unalike("run", "--spec", str(file), "--json", "--quiet", "--runs", str(tmp_path))
    assert json.loads(result.out)["spec"]["algorithm"] == "fedavg"
