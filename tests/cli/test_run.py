from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import UNALIKE
from unalike.cli import progress
from unalike.cli.show import duration, figures_table, number, percent, size, sparkline
from unalike.runs.spec import RunSpec

QUICK = ("run", "--parties", "3", "--rounds", "3", "--steps", "2")
PROMISED = {
    "accuracy", "loss", "rounds", "bytes_up", "bytes_down", "seconds", "key", "run_dir", "weights_sha256",
    "selected", "parties", "engine", "spec",
}  # fmt: skip


def test_json_is_all_there_is_on_stdout(own_process):
    answer = own_process(*QUICK, "--json")
    assert answer.code == 0
    assert answer.json.keys() >= PROMISED  # json.loads refuses anything before or after the object
    assert answer.json["rounds"] == 3
    assert Path(answer.json["run_dir"]).name.endswith(answer.json["key"])
    assert [line.split("  ")[0] for line in answer.err.splitlines()] == ["round 1/3", "round 2/3", "round 3/3"]


def test_a_first_run_without_any_flag_is_a_good_one(unalike):
    result = unalike("run", "--json", "--quiet").json
    assert (result["spec"]["dataset"], result["spec"]["partition"]) == ("digits", "iid")
    assert result["accuracy"] >= 0.93


def test_two_runs_have_the_same_weights(unalike):
    first, second, other = (
        unalike(*QUICK, "--json", "--quiet", "--runs", folder, "--seed", seed).json
        for folder, seed in (("a", "1"), ("b", "1"), ("a", "2"))
    )
    assert first["weights_sha256"] == second["weights_sha256"] != other["weights_sha256"]


def test_finished_run_is_not_played_again(unalike):
    first = unalike(*QUICK, "--json")
    again = unalike(*QUICK, "--json")
    assert again.out == first.out
    assert again.err == "This run was finished before: here is its stored result.\n"


def test_summary_keeps_final_and_selected_apart(unalike):
    answer = unalike(*QUICK)
    result = unalike(*QUICK, "--json").json
    for text in (
        "final round 3",
        f"round {result['selected']['round']}, selected on validation rows",
        percent(result["accuracy"]),
        percent(result["parties"]["worst_10_percent"]),
        size(result["bytes_up"]),
        "sequential engine",
        result["run_dir"],
        f"unalike runs show {result['key']}",
    ):
        assert text in answer.out
    assert "best" not in answer.out
    assert "None" not in answer.out


def test_the_chosen_score_is_what_is_shown(unalike):
    made = unalike("run", "--dataset", "heart", "--partition", "natural", "--rounds", "2", "--score", "auroc")
    assert "round 2/2  auroc 0." in made.err
    lines = {line[:33].strip(): line.split()[-2:] for line in made.out.splitlines()}
    assert lines["auroc, global test"]
    assert lines["accuracy, global test"][0].endswith("%")
    assert "auroc, validation" in made.out
    assert unalike("run", "--score", "aurocs").err.startswith("Error: Unknown score 'aurocs'. Did you mean")


def test_numbers_are_predicted(unalike):
    made = unalike("run", "--dataset", "diabetes", "--parties", "4", "--rounds", "2", "--json").json
    assert made["score"] == "rmse"
    assert 40 < made["rmse"] < 100
    assert made["target"]["scale"] > 0
    shown = unalike("run", "--dataset", "diabetes", "--parties", "4", "--rounds", "2").out
    assert "r2, global test" in shown
    assert "accuracy" not in shown


def test_without_validation_rows_no_round_is_selected(unalike):
    answer = unalike(*QUICK, "--validation", "0", "--held-out", "0", "--quiet")
    assert answer.code == 0
    assert "selected" not in answer.out
    assert "None" not in answer.out
    assert answer.err == ""


def test_every_field_of_a_spec_is_a_flag(unalike):
    text = unalike("run", "--help").out
    for field in RunSpec.options():
        assert f"--{field.name.replace('_', '-')} " in text
    assert "--no-drop-last" in text
    assert "--code" not in text
    assert " ".join(text.split()).count("number of parties [10, or as many as the data have by nature]") == 1


def test_flags_override_the_file(unalike):
    Path("s.toml").write_text(
        'rounds = 2\nparties = 3\nepochs = 1\nseed = 5\ndrop_last = true\nalgorithm = {name = "fedprox", mu = 1}'
    )
    from_file = unalike("run", "--spec", "s.toml", "--json", "--quiet").json["spec"]
    assert (from_file["seed"], from_file["drop_last"], from_file["epochs"]) == (5, True, 1)
    assert from_file["algorithm"] == "fedprox(mu=1.0)"
    flags = ("--seed", "6", "--no-drop-last", "--steps", "2")
    changed = unalike("run", "--spec", "s.toml", *flags, "--json", "--quiet").json["spec"]
    assert (changed["seed"], changed["drop_last"], changed["steps"], changed["rounds"]) == (6, False, 2, 2)
    assert "epochs" not in changed


def test_runs_folder_from_the_environment(unalike, monkeypatch):
    monkeypatch.setenv("UNALIKE_RUNS", "elsewhere")
    assert unalike(*QUICK, "--json").json["run_dir"].startswith("elsewhere/")
    assert unalike("runs", "list", "--json").json["runs"][0]["state"] == "finished"


def test_plugin_brings_an_algorithm(unalike):
    Path("mine.py").write_text(
        "from unalike import Algorithm, algorithm\n"
        "@algorithm('mine')\n"
        "class Mine(Algorithm):\n"
        "    '''My own.'''\n"
        "    share: float = 0.5\n"
    )
    answer = unalike(*QUICK, "--plugin", "mine.py", "--algorithm", "mine", "--json")
    assert answer.json["spec"]["algorithm"] == "mine(share=0.5)"
    assert answer.json["spec"]["code"]  # a changed plugin is another run
    assert "mine(share=0.5)" in unalike("list", "algorithms", "--plugin", "mine.py").out
    assert unalike("runs", "show", answer.json["key"]).code == 0


def test_many_rounds_make_few_lines(unalike):
    lines = unalike("run", "--parties", "2", "--rounds", "50", "--steps", "1").err.splitlines()
    assert 15 <= len(lines) <= 22
    assert lines[-1].startswith("round 50/50")
    assert "ETA" in lines[0]
    assert "ETA" not in lines[-1]


def test_rounds_without_evaluation_have_a_line_too(unalike):
    lines = unalike(*QUICK, "--evaluate-every", "2").err.splitlines()
    assert ["train loss" in line for line in lines] == [True, False, False]


def test_bar_of_a_resumed_run_begins_at_its_round():
    bar = progress.Bar()
    simulation = SimpleNamespace(state=SimpleNamespace(round=7), spec=SimpleNamespace(rounds=30))
    with bar:
        bar.started(simulation)  # type: ignore[arg-type]
        task = bar._progress.tasks[0]
        assert (task.completed, task.total, task.description) == (7, 30, "Round 7/30")
        bar.round_done({"round": 8, "accuracy": 0.5, "loss": 1.0, "parties": {"worst": 0.25}})
        assert (task.completed, task.fields["figures"]) == (8, "accuracy 50.0%  worst party 25.0%")
        bar._began -= 10  # one round took ten seconds, so 22 take 220
        assert bar.remaining(8, 30).startswith("3 min 4")


def test_not_a_number_becomes_null(capfd):
    from unalike.cli.show import print_json

    print_json({"loss": float("nan"), "each": [float("inf"), 1.5]})
    assert json.loads(capfd.readouterr().out) == {"loss": None, "each": [None, 1.5]}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0 s"),
        (0.04, "40 ms"),
        (9.96, "10 s"),
        (59.6, "1 min 0 s"),
        (125, "2 min 5 s"),
        (7260, "2 h 1 min"),
        (90000, "1 d 1 h"),
    ],
)
def test_durations(value, text):
    assert duration(value) == text


def test_numbers():
    assert [size(n) for n in (0, 999, 1000, 907_123, 2.5e9, 3e15)] == [
        "0 B", "999 B", "1 kB", "907 kB", "2.5 GB", "3e+03 TB",
    ]  # fmt: skip
    assert (percent(None), percent(0.8583), number(2.3), number(1e6)) == ("–", "85.8%", "2.300", "1e+06")
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([1, 1]) == "▁▁"
    assert sparkline([]) == ""
    assert len(sparkline(list(range(1000)))) == 40
    assert sparkline(list(range(1000)))[-1] == "█"


def test_what_a_plugin_prints_is_not_in_the_json(unalike, tmp_path):
    (tmp_path / "noisy.py").write_text(
        "from unalike import Algorithm, algorithm\nprint('hello')\n\n"
        "@algorithm('noisy')\nclass Noisy(Algorithm):\n    '''Prints.'''\n"
        "    def fold(self, task, server, replies):\n        print('folding')\n"
        "        return {'w': server['w'] + replies.mean['delta']}\n"
    )
    flags = ("--algorithm", "noisy", "--rounds", "1", "--steps", "1", "--json")
    answer = unalike("run", "--plugin", str(tmp_path / "noisy.py"), *flags)
    assert answer.json["rounds"] == 1


def test_a_plugins_helper_is_in_the_key(unalike, tmp_path, monkeypatch):
    (tmp_path / "own_helper.py").write_text("SCALE = 1.0\n")
    (tmp_path / "own.py").write_text(
        "import sys; sys.path.insert(0, __file__.rsplit('/', 1)[0])\n"
        "from unalike import Algorithm, algorithm\nimport own_helper\n\n"
        "@algorithm('own')\nclass Own(Algorithm):\n    '''Helped.'''\n"
        "    def fold(self, task, server, replies):\n"
        "        return {'w': server['w'] + own_helper.SCALE * replies.mean['delta']}\n"
    )
    flags = [
        *UNALIKE,
        "run",
        "--plugin",
        str(tmp_path / "own.py"),
        "--algorithm",
        "own",
        "--rounds",
        "1",
        "--json",
    ]
    keys = []
    for scale in ("1.0", "5.0"):
        (tmp_path / "own_helper.py").write_text(f"SCALE = {scale}\n")
        done = subprocess.run([*flags, "--steps", "1"], capture_output=True, text=True, cwd=tmp_path, check=True)
        keys.append(json.loads(done.stdout)["key"])
    assert keys[0] != keys[1]


def test_without_a_global_model_one_line_of_dashes_is_enough():
    figures = {
        "rounds": 3,
        "score": "accuracy",
        "accuracy": None,
        "auroc": None,
        "loss": None,
        "validation_accuracy": 0.5,
    }
    lines = [line.split("  ")[0] for line in figures_table(figures).lines(None)]
    assert [line for line in lines if "global test" in line] == ["accuracy, global test"]
    with_one = figures_table(figures | {"accuracy": 0.5, "auroc": 0.25, "loss": 0.75}).lines(None)
    assert [line.split("  ")[0] for line in with_one][1:4] == [
        f"{name}, global test" for name in ("accuracy", "auroc", "loss")
    ]


def test_baselines_beside_a_run(unalike):
    arguments = ("run", "--partition", "label-count(2)", "--rounds", "1", "--baselines", "--quiet")
    answer = unalike(*arguments)
    assert answer.code == 0
    for name in ("fedavg-tuned", "local", "pooled", "own rows", "worst tenth"):
        assert name in answer.out
    assert "Beside it" not in answer.err
    named = [line for line in unalike(*arguments[:-1]).err.splitlines() if line.startswith("Beside it")]
    assert named == ["Beside it: local", "Beside it: fedavg-tuned", "Beside it: pooled"]
    told = unalike(*arguments, "--json").json
    assert told["spec"]["algorithm"] == "fedavg"
    assert [each["spec"]["algorithm"].partition("(")[0] for each in told["baselines"]] == [
        "local",
        "fedavg-tuned",
        "pooled",
    ]
