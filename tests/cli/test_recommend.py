import json

import pytest

FEW = ["--dataset", "digits", "--parties", "10"]


def test_recommends_with_reasons_and_the_next_command(unalike, tmp_path):
    result = unalike("recommend", *FEW, "--partition", "label-count(1)", "--runs", str(tmp_path))
    assert result.code == 0
    assert result.out.startswith("fedavg, medium confidence (one label each)")
    assert "Table 3" in result.out
    assert '--algorithm "fedavg"' in result.out
    (head,) = [line.split() for line in result.out.splitlines() if "median gain" in line and "published" in line]
    assert head[-2:] == ["published", "ours"]
    (fedprox,) = [line for line in result.out.splitlines() if line.startswith("2  fedprox(mu=0.01)")]
    assert fedprox.split()[-8:] == ["5,", "1,", "7:", "+8.5", "1,", "2,", "3:", "-3.2"]  # whose figures they are


def test_where_no_difference_is_shown_fedavg_is_as_good(unalike, tmp_path):
    result = unalike("recommend", "--dataset", "heart", "--partition", "natural", "--runs", str(tmp_path))
    assert result.out.startswith("fedavg, medium confidence (label skew)")
    assert "FedAvg is as good as any" in result.out
    assert "5 and worse in 6 of 15" in result.out
    assert '--algorithm "fedavg"' in result.out


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
    names = ("concept", "concept_expected", "together", "together_expected")  # of real sites they are not measured
    unseen = {**fresh["situation"], **dict.fromkeys(names)}
    assert stored == {**fresh, "situation": unseen}
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
    """Five comparisons of two algorithms, at different rates: then the paper is outweighed."""
    common = ["--partition", "iid", "--model", "mlp(8)", "--rounds", "1", "--epochs", "1", "--quiet"]
    for rate in ("0.1", "0.15", "0.2", "0.25", "0.3"):
        for algorithm in ("fedavg", "fedavgm(0.5)"):
            assert (
                unalike("run", *FEW, *common, "--lr", rate, "--algorithm", algorithm, "--runs", str(tmp_path)).code
                == 0
            )
    advice = json.loads(unalike("recommend", *FEW, "--partition", "iid", "--json", "--runs", str(tmp_path)).out)
    assert advice["source"] == "5 comparisons of your own runs"
    assert {one["algorithm"] for one in advice["ranking"]} == {"fedavg", "fedavgm(0.5)"}


def test_one_and_two_parties(unalike):
    one = unalike("recommend", "--parties", "1")
    assert one.code == 0
    assert "alike" in one.out
    assert unalike("recommend", "--parties", "2").code == 0
    refused = unalike("recommend", "--parties", "2", "--protect", "fhe")
    assert refused.code == 2
    assert "--protect none" in refused.err


def test_deep_json_is_one_line(unalike, tmp_path):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    result = unalike("recommend", "--measurement", "deep.json")
    assert result.code == 2
    assert len(result.err.strip().splitlines()) == 1


@pytest.fixture
def fedprox_first(monkeypatch):
    from unalike.ranking import advice
    from unalike.ranking.standing import Standing

    better = Standing("fedprox", 7, 6, 1, 8.5, -6.1, 0.72, 0.04)
    monkeypatch.setattr(advice, "evidence", lambda kind: [better])


@pytest.mark.usefixtures("fedprox_first")
def test_after_a_stop_the_chosen_algorithm_goes_on(unalike, monkeypatch):
    from unalike.cli.signals import StopRequested
    from unalike.runs import run as engine

    def stop(*args, **settings):
        raise StopRequested

    monkeypatch.setattr(engine, "run", stop)
    for args in (["--algorithm", "auto"], ["--algorithm=auto"]):
        result = unalike("run", "--partition", "label-count(1)", *args, "--quiet")
        assert result.code == 130
        assert "--algorithm 'fedprox(mu=0.01)'" in result.err
        assert "auto" not in result.err


@pytest.mark.usefixtures("fedprox_first")
def test_auto_is_what_is_recommended(unalike, tmp_path):
    common = [*FEW, "--partition", "label-count(1)", "--model", "mlp(8)", "--rounds", "1", "--epochs", "1"]
    result = unalike("run", *common, "--algorithm", "auto", "--json", "--runs", str(tmp_path))
    assert result.code == 0
    assert json.loads(result.out)["spec"]["algorithm"] == "fedprox(mu=0.01)"
    assert "medium confidence" in result.err


def test_auto_is_fedavg_where_no_difference_is_shown(unalike, tmp_path):
    common = ["--dataset", "heart", "--partition", "natural", "--rounds", "1", "--epochs", "1"]
    result = unalike("run", *common, "--algorithm", "auto", "--json", "--runs", str(tmp_path))
    assert json.loads(result.out)["spec"]["algorithm"] == "fedavg"


def test_auto_in_a_file(unalike, tmp_path):
    file = tmp_path / "spec.toml"
    file.write_text('algorithm = "auto"\npartition = "iid"\nmodel = "mlp(8)"\nrounds = 1\nepochs = 1\n')
    result = unalike("run", "--spec", str(file), "--json", "--quiet", "--runs", str(tmp_path))
    assert json.loads(result.out)["spec"]["algorithm"] == "fedavg"


def test_of_regression_it_says_what_is_known(unalike, tmp_path):
    split = ["--dataset", "diabetes", "--partition", "label-dirichlet(0.3)", "--parties", "5"]
    result = unalike("recommend", *split, "--runs", str(tmp_path))
    assert result.code == 0
    assert result.out.startswith("fedavg, low confidence (label skew)")
    assert "published comparisons are of classification" in result.out
    assert "better" not in result.out.split("What would change this")[0].split("not known")[1]  # no empty table
    assert unalike("recommend", *split, "--runs", str(tmp_path), "--json").json["source"] == "no comparisons"


def test_own_runs_of_regression_become_evidence_and_others_do_not(unalike, tmp_path):
    common = ["--partition", "iid", "--rounds", "1", "--epochs", "1", "--parties", "3", "--quiet"]
    for rate in ("0.01", "0.02", "0.03", "0.04", "0.05"):
        for algorithm in ("fedavg", "fedavgm(0.5)"):
            run = ("run", *common, "--lr", rate, "--algorithm", algorithm, "--runs", str(tmp_path))
            assert unalike(*run, "--dataset", "diabetes").code == 0
    iid = ["--partition", "iid", "--parties", "3", "--json", "--runs", str(tmp_path)]
    advice = unalike("recommend", "--dataset", "diabetes", *iid).json
    assert advice["source"] == "5 comparisons of your own runs"
    assert "Table 3" in unalike("recommend", "--dataset", "heart", *iid).json["source"]


def test_auto_works_for_regression(unalike, tmp_path):
    common = ["--dataset", "diabetes", "--parties", "3", "--rounds", "1", "--algorithm", "auto", "--json"]
    result = unalike("run", *common, "--runs", str(tmp_path))
    assert result.json["spec"]["algorithm"] == "fedavg"


def test_parties_that_want_other_labels_are_advised_models_of_their_own(unalike, tmp_path):
    result = unalike("recommend", *FEW, "--partition", "label-preference(1.0)", "--runs", str(tmp_path))
    assert result.code == 0
    assert "(parties give the same rows other labels)" in result.out.splitlines()[0]
    assert "no single model can be right for all" in result.out
    assert "made with this package" in result.out
    assert "--own-rows" not in result.out


def test_own_rows_are_another_question(unalike, tmp_path):
    heart = ["recommend", "--dataset", "heart", "--partition", "natural", "--runs", str(tmp_path)]
    assert "ask with --own-rows" in unalike(*heart).out
    own = unalike(*heart, "--own-rows")
    assert "(label skew, each party on its own rows)" in own.out.splitlines()[0]
    assert "cannot be told from that" in own.out
    assert unalike(*heart, "--own-rows", "--json").json["own_models"] is True


def test_auto_trains_models_of_the_parties_own_where_they_want_other_labels(unalike, tmp_path):
    common = [*FEW, "--partition", "label-preference(1.0)", "--model", "mlp(8)", "--rounds", "1", "--epochs", "1"]
    result = unalike("run", *common, "--algorithm", "auto", "--json", "--runs", str(tmp_path))
    assert result.code == 0
    assert result.json["spec"]["algorithm"] != "fedavg" or result.json["spec"]["fine_tune"]
    assert "other labels" in result.err


def test_a_table_is_told_of_trees_with_a_command_and_images_are_not(unalike, tmp_path):
    result = unalike("recommend", "--dataset", "heart", "--partition", "natural", "--runs", str(tmp_path))
    assert "histogram was better than FedAvg with mlp(32,16) in" in " ".join(result.out.split())
    assert '--model "trees(eta=0.1)" --algorithm histogram' in result.out
    assert "trees" not in unalike("recommend", *FEW, "--partition", "iid", "--runs", str(tmp_path)).out


def test_a_table_that_keeps_its_gaps_is_measured_and_told_of_trees(unalike, tmp_path):
    result = unalike(
        "recommend", "--dataset", "heart(missing=keep)", "--partition", "natural", "--runs", str(tmp_path)
    )
    assert result.code == 0
    assert "only trees can read these rows" in " ".join(result.out.split())


def test_auto_grows_trees_where_trees_are_the_model(unalike, tmp_path):
    options = ["--dataset", "heart", "--partition", "natural", "--model", "trees(depth=2)", "--rounds", "1"]
    result = unalike("run", *options, "--algorithm", "auto", "--runs", str(tmp_path))
    assert result.code == 0
    assert "Algorithm: histogram." in result.out + result.err
    assert "histogram on heart" in result.out
