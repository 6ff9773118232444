import json

import pytest

from tests.studies.made_up import write_run
from unalike.ranking.shipped import gaps
from unalike.ranking.splits import PAPER

ALGORITHMS = {"fedavg": 0.6, "fedprox(mu=0.1)": 0.7, "scaffold": 0.8}
PARTITIONS = ("label-dirichlet(0.5)", "label-count(2)", "label-count(3)")


@pytest.fixture
def folder(tmp_path):
    for partition in PARTITIONS:
        for algorithm, accuracy in ALGORITHMS.items():
            for seed in (0, 1):
                write_run(tmp_path / "runs", accuracies=(0.1, 0.65, accuracy), algorithm=algorithm,
                          partition=partition, seed=seed)  # fmt: skip
    return tmp_path / "runs"


def test_the_table(unalike, folder):
    answer = unalike("leaderboard")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == "From 18 runs in 3 settings (runs)."
    (first,) = [line.split() for line in lines if line.startswith("1  scaffold")][:1]
    assert first[2:5] == ["1.00", "3", "80.0%"]
    assert "label skew (3 compared)" in answer.out
    assert "Nemenyi's critical difference 1.91" in answer.out
    assert "3 settings are few" in answer.out
    assert "rounds to FedAvg's" in answer.out


def test_json(unalike, folder):
    found = unalike("leaderboard", "--json", "--target", "65").json
    first = found["tables"][0]
    assert first["category"] == "all settings"
    assert [entry["algorithm"] for entry in first["entries"]] == ["scaffold", "fedprox(0.1)", "fedavg"]
    assert first["entries"][0]["rounds_to_target"] == 2
    assert first["ranking"]["f"] is None  # infinite: all settings agree
    assert first["ranking"]["f_p"] == pytest.approx(1 / 36)  # two settings order three as the first does
    (leaf,) = [leaf for leaf in found["tree"] if leaf["kind"] == "label skew"]
    assert (leaf["evidence"], leaf["comparisons"], leaf["best"]) == ("few", 3, None)


def test_pictures(unalike, folder, tmp_path):
    answer = unalike("leaderboard", "-o", "a/ranks.svg", "--tree", "tree.png", "--json")
    assert answer.code == 0
    json.loads(answer.out)
    assert (tmp_path / "a" / "ranks.svg").read_text().startswith("<?xml")
    assert (tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")
    before = (tmp_path / "a" / "ranks.svg").read_bytes()
    unalike("leaderboard", "-o", "a/ranks.svg")
    assert (tmp_path / "a" / "ranks.svg").read_bytes() == before
    assert unalike("leaderboard", "-o", "r.pdf").code == 0
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF")


def test_several_folders_are_one(unalike, folder, tmp_path):
    write_run(tmp_path / "more", algorithm="moon", partition=PARTITIONS[0])
    chosen = ("--algorithm", "moon", "--algorithm", "fedavg")
    found = unalike("leaderboard", "--runs", "runs", "--runs", "more", *chosen, "--json").json
    assert {entry["algorithm"] for entry in found["tables"][0]["entries"]} == {"moon", "fedavg"}
    assert found["tables"][0]["ranking"]["settings"] == 1
    twice = unalike("leaderboard", "--runs", "runs", "--runs", "runs", "--json").json["tables"]
    assert twice == unalike("leaderboard", "--json").json["tables"]


def test_a_diverged_run_comes_last(unalike, folder, tmp_path):
    for partition in PARTITIONS:
        for seed in (0, 1):
            write_run(
                folder,
                result=False,
                failure="loss is not finite",
                algorithm="moon",
                partition=partition,
                seed=seed,
            )
    answer = unalike("leaderboard")
    assert "4  moon" in answer.out
    assert "failed" in answer.out


def test_the_published_table_alone(unalike):
    answer = unalike("leaderboard", "--published", "niid-bench-table3")
    assert answer.code == 0
    assert "all settings (41 compared)" in answer.out
    assert "1  fedprox         2.15    20" in answer.out
    assert "sent" not in answer.out
    told = " ".join(answer.out.split())
    count = sum(len(gaps(kind)) for kind in PAPER)
    assert f"Came out otherwise in our runs (unalike-table3): {count} gains over FedAvg" in told
    assert "scaffold on covtype, quantity-dirichlet(0.5): +0.1 in 3 seeds, -24.9 published" in told
    ours = unalike("leaderboard", "--published", "unalike-table3").out
    assert "otherwise" not in ours


def test_several_stored_tables_are_ranked_apart(unalike, tmp_path):
    names = ("niid-bench-table3", "unalike-table3")
    both = [part for name in names for part in ("--published", name)]
    answer = unalike("leaderboard", *both, "--tree", "tree.svg")
    assert answer.code == 0
    assert "niid-bench-table3: all settings (41 compared)" in answer.out
    assert "unalike-table3: all settings (14 compared)" in answer.out
    assert (tmp_path / "tree.svg").exists()
    found = unalike("leaderboard", *both, "--json").json
    alone = [unalike("leaderboard", "--published", name, "--json").json for name in names]
    assert [each["ranking"] for each in found["tables"]] == [t["ranking"] for one in alone for t in one["tables"]]
    count = {leaf["kind"]: leaf["comparisons"] for leaf in found["tree"]}
    assert count == {leaf["kind"]: leaf["comparisons"] for leaf in alone[0]["tree"]}  # ours are cells of theirs
    assert unalike("leaderboard", *both[:2], *both[:2], "--json").json == alone[0]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "No finished runs in runs"),
        (["--published", "niid-bench-table3", "--published", "unalike"], "Did you mean 'unalike-table3'"),
        (["--published", "table3"], "Unknown published table 'table3'"),
        (["--published", "niid-bench-table3", "--algorithm", "scafold"], "Did you mean 'scaffold'"),
        (["--published", "niid-bench-table3", "-o", "x.gif"], ".svg, .png or .pdf"),
        (["--published", "niid-bench-table3", "--tree", "x"], ".svg, .png or .pdf"),
        (["--published", "niid-bench-table3", "--alpha", "0"], "alpha must be"),
    ],
)
def test_mistakes_get_one_line(unalike, args, words):
    answer = unalike("leaderboard", *args)
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1
    assert words in answer.err
    assert not answer.out


def test_a_target_must_be_a_value_of_the_score(unalike, folder):
    answer = unalike("leaderboard", "--target", "101")
    assert answer.code == 2
    assert answer.err == (
        "Error: --target must be accuracy in percent, above 0 and up to 100, or fedavg, got '101'.\n"
    )


def test_one_algorithm_alone_says_that_nothing_follows(unalike, tmp_path):
    write_run(tmp_path / "runs", algorithm="fedavg")
    answer = unalike("leaderboard", "-o", "r.svg")
    assert answer.code == 0
    assert "Nothing can be concluded" in answer.out


def test_errors_are_ranked_from_the_lowest_and_told_as_they_are(unalike, tmp_path):
    for partition in PARTITIONS:
        for algorithm, error in (("fedavg", 53.2), ("moon", 49.75)):
            write_run(
                tmp_path / "runs", by="rmse", accuracies=(90.0, error), algorithm=algorithm, partition=partition
            )
    answer = unalike("leaderboard", "--target", "60", "-o", "r.svg")
    assert answer.code == 0
    first, second = [line.split() for line in answer.out.splitlines() if line.startswith(("1 ", "2 "))][:2]
    assert (first[1], first[4], second[1], second[4]) == ("moon", "49.750", "fedavg", "53.200")
    assert "RMSE" in answer.out
    assert "rounds to 60 " in answer.out
    assert "%" not in answer.out.replace("5 %", "")


def test_scores_of_several_kinds_are_ranked_and_not_averaged(unalike, tmp_path):
    for algorithm, error in (("fedavg", 53.2), ("moon", 49.75)):
        write_run(tmp_path / "runs", by="rmse", accuracies=(90.0, error), algorithm=algorithm)
        write_run(tmp_path / "runs", accuracies=(0.1, error / 100), algorithm=algorithm, partition=PARTITIONS[0])
    answer = unalike("leaderboard")
    assert "all settings (2 compared)" in answer.out
    assert "cannot be averaged" in answer.out
    assert unalike("leaderboard", "--target", "60").err.count("several scores: accuracy, rmse") == 1


def test_models_of_the_parties_own_are_ranked_apart(unalike, tmp_path):
    common = ["run", "--model", "mlp(8)", "--rounds", "1", "--epochs", "1", "--quiet", "--held-out", "0.3"]
    for partition in PARTITIONS:
        for options in (["fedavg"], ["fedprox"], ["fedavg", "--fine-tune", "1"]):
            assert unalike(*common, "--partition", partition, "--algorithm", *options).code == 0
    answer = unalike("leaderboard", "-o", "r.svg")
    assert answer.code == 0
    assert "models of the parties' own in 3" in answer.out.splitlines()[0]
    shared, own = answer.out.split("own models: all settings (3 compared)")
    assert "tuned" not in shared
    assert "worst tenth" not in shared
    assert "fedavg-tuned(1)" in own
    assert "fedprox" not in own
    assert "parties' mean accuracy" in own
    assert "worst tenth" in own
    found = unalike("leaderboard", "--json", "--algorithm", "fedavg", "--algorithm", "fedavg-tuned").json
    assert found["personal"][0]["entries"][0]["worst_tenth"] is not None
    assert all(table["personal"] is False for table in found["tables"])
    refused = unalike("leaderboard", "--algorithm", "fedavg-tunt")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert "Did you mean 'fedavg-tuned'" in refused.err
