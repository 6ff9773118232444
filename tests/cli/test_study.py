"""``unalike study``: run, status, report, stop, export, list."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

STUDY = """
title = "Two nets on digits"
target = 0.2
seeds = [0, 1]
[base]
rounds = 2
steps = 2
validation = 0.0
[axes]
model = ["mlp(8)", "logistic"]
algorithm = ["fedavg", "fedprox"]
[tune.fedprox]
mu = [0.1, 1.0]
"""


@pytest.fixture
def study():
    Path("two.toml").write_text(STUDY)
    return "two.toml"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A study that was run once, in processes of its own."""
    from unalike.cli.main import call

    folder = tmp_path_factory.mktemp("study")
    (folder / "two.toml").write_text(STUDY)
    assert call(["study", "run", str(folder / "two.toml"), "--runs", str(folder / "runs"), "--quiet"]) == 0
    return str(folder / "two.toml"), str(folder / "runs")


def test_list(unalike):
    answer = unalike("study", "list")
    assert answer.code == 0
    assert "niid-table3" in answer.out
    names = {each["name"] for each in unalike("study", "list", "--json").json["studies"]}
    assert {"quick", "rfedavg-silo"} <= names


def test_list_needs_no_torch():
    code = (
        "import sys; from unalike.cli.main import call; call(['study', 'list']); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


def test_run_and_look(finished, unalike):
    name, runs = finished
    status = unalike("study", "status", name, "--runs", runs, "--json").json
    assert (status["total"], status["done"], status["waiting"], status["failed"]) == (12, 12, 0, 0)
    assert status["processes"] == 0
    assert (
        "12 done, 0 running, 0 waiting, 0 failed, of 12 runs"
        in unalike("study", "status", name, "--runs", runs).out
    )
    report = unalike("study", "report", name, "--runs", runs)
    assert report.code == 0
    assert "12 of 12 runs done" in report.out
    assert "rounds to 20%" in report.out
    assert re.search(r"digits\s+iid\s+mlp\(8\)\s+fedavg\s+\d", report.out)
    assert "Tuned on validation rows" in report.out
    lines = unalike("study", "report", name, "--runs", runs, "--json").json["lines"]
    assert {line["value"]["seeds"] for line in lines} == {2}
    again = unalike("study", "run", name, "--runs", runs)
    assert again.code == 0
    assert again.err == ""


def test_baselines_beside_the_algorithms(unalike):
    Path("own.toml").write_text(
        "title = 'x'\n[base]\nrounds = 2\nsteps = 2\nheld_out = 0.3\nnewcomers = 0.2\ntest_by = 'labels'\n"
        "partition = 'label-count(2)'\n[axes]\nalgorithm = ['fedprox(0.1)']\n"
    )
    answer = unalike("study", "run", "own.toml", "--baselines", "--quiet")
    assert answer.code == 0
    head = next(line for line in answer.out.splitlines() if line.startswith("dataset"))
    for column in ("own rows", "worst tenth", "newcomers", "own labels", "worst tenth, own labels"):
        assert column in head
    assert "study report own.toml --baselines" in answer.out
    lines = unalike("study", "report", "own.toml", "--baselines", "--json").json["lines"]
    assert [line["algorithm"] for line in lines] == ["fedavg", "fedavg-tuned", "fedprox(0.1)", "local", "pooled"]
    alone = next(line for line in lines if line["algorithm"] == "local")
    assert alone["value"] is None
    assert alone["by_party"]["own rows"]["mean"] > 0
    assert len(unalike("study", "report", "own.toml", "--json").json["lines"]) == 1
    assert unalike("study", "status", "own.toml", "--baselines", "--json").json["done"] == 5
    rows = list(
        csv.DictReader(io.StringIO(unalike("study", "export", "own.toml", "--baselines", "--csv", "-").out))
    )
    assert len(rows) == 5


def test_only_and_scale(finished, unalike):
    name, runs = finished
    part = unalike(
        "study", "report", name, "--runs", runs, "--only", "model=logistic,algorithm=fedavg", "--json"
    ).json
    assert (part["done"], part["total"]) == (2, 2)
    scaled = unalike("study", "report", name, "--runs", runs, "--scale", "0.5")
    assert "At scale 0.5: 50 % of the study's rounds" in scaled.out
    assert "0 of 12 runs done" in scaled.out


def test_a_damaged_run_is_said_and_run_again(finished, unalike):
    name, before = finished
    shutil.copytree(before, "runs")
    folder = min(Path("runs").glob("digits-fedavg-*"))
    whole = unalike("study", "report", name, "--json")
    assert whole.err == ""
    text = (folder / "result.json").read_text()
    (folder / "result.json").write_text(re.sub(r'"accuracy": [0-9.]+', '"accuracy": 0.95', text, count=1))
    for command in (("study", "report", name), ("study", "status", name), ("leaderboard",)):
        answer = unalike(*command)
        assert answer.code == 0
        assert answer.err.count("\n") == 1
        assert f"{folder.name}: result.json is not as it was written: accuracy is 0.95, but" in answer.err
    found = unalike("study", "report", name, "--json", "-o", "page.html")
    assert (found.code, found.json["done"]) == (0, whole.json["done"] - 1)
    assert folder.name in Path("page.html").read_text()
    rows = unalike("study", "export", "--csv", "-").out
    assert ",0.95," not in rows
    assert "is not as it was written" in rows
    again = unalike("study", "run", name, "--workers", "1")
    assert again.code == 0
    assert f"{folder.name}: result.json is not as it was written" in again.err
    assert unalike("study", "report", name, "--json").json == whole.json
    assert unalike("study", "report", name).err == ""


def test_export(finished, unalike, tmp_path):
    name, runs = finished
    assert unalike("study", "export", "--csv", "all.csv", "--runs", runs).code == 0
    rows = list(csv.DictReader(io.StringIO(Path("all.csv").read_text())))
    assert len(rows) == 12
    assert {"dataset", "algorithm", "seed", "accuracy", "state", "weights_sha256"} <= set(rows[0])
    some = unalike("study", "export", name, "--only", "algorithm=fedavg", "--csv", "-", "--rounds", "--runs", runs)
    assert len(list(csv.DictReader(io.StringIO(some.out)))) == 4 * 2
    assert unalike("study", "export", "--parquet", "all.parquet", "--runs", runs).code == 0
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(tmp_path / "all.parquet").num_rows == 12


def test_a_page(finished, unalike):
    name, runs = finished
    answer = unalike("study", "report", name, "--runs", runs, "-o", "two.html")
    assert (answer.code, answer.out) == (0, "")
    assert "Two nets on digits" in Path("two.html").read_text(encoding="utf-8")
    refused = unalike("study", "report", name, "--runs", runs, "-o", "two.pdf")
    assert refused.code == 2
    assert "-o must be a file whose name ends in .html, got two.pdf." in refused.err
    refused = unalike("study", "report", name, "--runs", runs, "-o", "no/two.html")
    assert (refused.code, "there is no folder no" in refused.err) == (2, True)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_report_fits_any_width(finished, unalike, monkeypatch, width):
    name, runs = finished
    lines = unalike("study", "report", name, "--runs", runs, "--json").json["lines"]
    monkeypatch.setattr("unalike.cli.show.screen_width", lambda: width)
    shown = unalike("study", "report", name, "--runs", runs).out.splitlines()
    assert max(map(len, shown)) <= width
    text = " ".join(" ".join(shown).split())
    assert all(f"{line['value']['mean']:.1f}±" in text for line in lines)
    assert (width == 120) != ("All: dataset digits, partition iid, seeds 2" in text)  # where needed, told once


def test_settings_that_differ_in_another_field_are_told_apart_beside_a_paper(finished, unalike):
    runs = finished[1]
    Path("beside.toml").write_text(f'published = "niid-bench-table3"\n{STUDY}')
    shown = unalike("study", "report", "beside.toml", "--runs", runs)
    assert re.search(r"digits\s+iid\s+mlp\(8\)\s", shown.out)
    assert re.search(r"digits\s+iid\s+logistic\s", shown.out)
    cells = unalike("study", "report", "beside.toml", "--runs", runs, "--json").json["compared"]
    assert {cell["model"] for cell in cells} == {"mlp(8)", "logistic"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "quik"], "There is no study 'quik', in the package or as a file. Did you mean 'quick'?"),
        (["run", "two.toml", "--workers", "0"], "--workers must be at least 1, got 0."),
        (["run", "two.toml", "--scale", "2"], "--scale must be above 0 and at most 1, got 2.0."),
        (["run", "two.toml", "--only", "x"], "Cannot read --only 'x'."),
        (["report", "two.toml", "--only", "model=vgg9"], "has no run with model=vgg9"),
        (["stop", "two.toml"], "two is not running in runs."),
        (["stop", "two.toml", "--runs", "other"], "study status two.toml --runs other"),
        (["export"], "Choose where to: --csv FILE or --parquet FILE."),
        (["export", "--csv", "x", "--parquet", "y"], "Choose where to"),
        (["export", "--csv", "x"], "There is no folder of runs runs."),
        (["export", "--csv", "x", "--scale", "0.5"], "--only, --scale and --baselines need a study."),
        (["report", "bad.toml"], "bad.toml: axes.spead is no field of a run's spec."),
    ],
)
def test_mistakes_are_one_line(unalike, study, arguments, said):
    Path("bad.toml").write_text("title = 'x'\n[axes]\nspead = [1]")
    answer = unalike("study", *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Error: ")
    assert said in answer.err
    assert answer.err.count("\n") == 1


LONG = STUDY.replace("rounds = 2", "rounds = 2000")


def _wait(unalike, *arguments):
    """Until the study is at work."""
    end = time.monotonic() + 90
    while time.monotonic() < end:
        status = unalike("study", "status", "long.toml", *arguments, "--json").json
        if status["running"] == 2:
            return status
        time.sleep(0.2)
    raise AssertionError("the study never began")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX signals")
def test_stop_and_ctrl_c_save_and_say_how_to_go_on(start, unalike):
    Path("long.toml").write_text(LONG)
    for ending in ("stop", "ctrl-c"):
        process = start("study", "run", "long.toml", "--workers", "2", start_new_session=True)
        status = _wait(unalike)
        assert (status["processes"], status["total"], status["done"]) == (1, 12, 0)
        end = time.monotonic() + 60
        while time.monotonic() < end and len(list(Path("runs").glob("*/rounds.jsonl"))) != 2:
            time.sleep(0.05)
        if ending == "stop":
            stopped = unalike("study", "stop", "long.toml")
            assert stopped.code == 0
            assert "Stopped. Go on with: unalike study run long.toml" in stopped.err
        else:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the workers, too
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out) == (130, "")
        last = err.splitlines()[-1]
        found = re.fullmatch(r"Stopped with 0 of 12 runs done; .* are saved\. Go on with: (.*)", last)
        assert found, err
        assert shlex.split(found[1]) == ["unalike", "study", "run", "long.toml", "--workers", "2"]
        assert "Traceback" not in err
        assert unalike("study", "status", "long.toml", "--json").json["processes"] == 0
    saved = list(Path("runs").glob("*/checkpoint-*.safetensors"))
    assert len({path.parent for path in saved}) >= 2


def test_plugins_reach_the_workers(unalike):
    Path("mine.py").write_text(
        "from unalike import Algorithm, algorithm\n"
        "@algorithm('mine', paper='none')\n"
        "class Mine(Algorithm):\n"
        "    '''FedAvg by another name.'''\n"
        "print('this must not disturb anybody')\n"
    )
    Path("plug.toml").write_text("title = 'x'\n[base]\nrounds = 1\nsteps = 1\nalgorithm = 'mine'\n")
    answer = unalike("study", "run", "plug.toml", "--plugin", "mine.py", "--quiet")
    assert answer.code == 0, answer.err
    again = shlex.split(answer.out.splitlines()[-1].removeprefix("Again: "))[1:]
    assert again == ["study", "report", "plug.toml", "--plugin", "mine.py"]
    assert "disturb" not in answer.out
    (result,) = Path("runs").glob("*/result.json")
    assert json.loads(result.read_text())["rounds"] == 1
    assert unalike("study", "report", "plug.toml", "--plugin", "mine.py", "--json").json["done"] == 1


ERRORS = """
title = "Two algorithms predict a number"
target = {target}
seeds = [0, 1]
[base]
dataset = "diabetes"
parties = 3
rounds = 2
validation = 0.1
score = {score!r}
[axes]
algorithm = ["fedavg", "fedprox"]
[tune.fedprox]
mu = [0.1, 100.0]
"""


@pytest.mark.parametrize(("score", "target", "head"), [("mae", 70, "MAE"), ("r2", -0.5, "R2")])
def test_a_study_of_another_score(unalike, score, target, head):
    Path("errors.toml").write_text(ERRORS.format(score=score, target=target))
    assert unalike("study", "run", "errors.toml", "--quiet").code == 0
    report = unalike("study", "report", "errors.toml")
    assert f"{head} after the last round: on the test set" in report.out
    assert f"rounds to {target}" in report.out
    assert "%" not in report.out
    found = unalike("study", "report", "errors.toml", "--json").json
    assert {line["score"] for line in found["lines"]} == {score}
    (tuned,) = found["tuned"].values()
    best = min if score == "mae" else max
    assert tuned["chosen"] == best(tuned["validation"], key=tuned["validation"].get)
    assert unalike("study", "export", "--csv", "all.csv", "--runs", "runs").code == 0
    rows = list(csv.DictReader(io.StringIO(Path("all.csv").read_text())))
    assert {row["score"] for row in rows} == {score}
    assert all(float(row[score]) for row in rows)
    assert unalike("study", "report", "errors.toml", "-o", "errors.html").code == 0
    assert f"Final {head}" in Path("errors.html").read_text()


def test_scores_as_an_axis_are_settings_of_their_own(unalike):
    text = ERRORS.format(score="mae", target=70).replace("score = 'mae'", "").split("[tune")[0]
    Path("both.toml").write_text(f'{text}score = ["mae", "rmse"]\n')
    assert unalike("study", "run", "both.toml", "--quiet").code == 0
    out = unalike("study", "report", "both.toml").out
    assert re.search(r"diabetes\s+iid\s+mae\s+fedavg\s+MAE \d", out)
    assert re.search(r"diabetes\s+iid\s+rmse\s+fedavg\s+RMSE \d", out)


def test_a_score_of_another_task_fails_in_one_line(unalike):
    Path("wrong.toml").write_text(ERRORS.format(score="auroc", target=0.5))
    unalike("study", "run", "wrong.toml", "--quiet")
    out = unalike("study", "report", "wrong.toml").out
    assert "auroc is a score of classification, but the task is regression" in out


MIXED = """
title = "Trees beside nets"
seeds = [0]
[base]
dataset = "heart"
partition = "natural"
rounds = 1
[[axes.case]]
algorithm = "histogram"
model = "trees"
[[axes.case]]
algorithm = "fedavg"
lr = 0.05
"""


def test_trees_beside_nets_have_no_learning_rate_and_tell_what_comes_back(unalike):
    Path("mixed.toml").write_text(MIXED)
    assert unalike("study", "run", "mixed.toml", "--quiet").code == 0
    out = unalike("study", "report", "mixed.toml").out
    assert re.search(r"trees\s+–\s+–\s+histogram\s.*mail [\d.]+ k?B; back [\d.]+ kB", out)
    assert re.search(r"mlp\(64\)\s+2\s+0.05\s+fedavg", out)
    assert "?" not in out
