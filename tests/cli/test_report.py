import shlex
import sys
from types import SimpleNamespace

import pytest

from unalike.report.page import page_of_run
from unalike.runs.results import read_record
from unalike.runs.run import run
from unalike.runs.spec import RunSpec


@pytest.fixture
def runs(tmp_path):
    """Two algorithms on the hearts, in the default folder."""
    folder = tmp_path / "runs"
    for algorithm in ("fedavg", "scaffold"):
        run(dataset="heart", partition="natural", algorithm=algorithm, rounds=2, epochs=1, runs=folder)
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_run_by_key_or_folder(unalike, runs, tmp_path):
    folder = next(path for path in runs.iterdir() if "scaffold" in path.name)
    for what in (folder.name.rsplit("-", 1)[1][:8], str(folder)):
        answer = unalike("report", what, "-o", "a.html")
        assert answer.code == 0
        assert "a.html" in answer.out
        text = (tmp_path / "a.html").read_text()
        assert "scaffold on heart" in text
        assert "unalike run --dataset" in text
        assert '"heat":{' in text
        (tmp_path / "a.html").unlink()


def test_all_runs_of_a_folder_with_figures_and_a_table(unalike, runs, tmp_path):
    answer = unalike(
        "report", "runs", "--figures", "figures", "--latex", "t.tex", "--no-data", "--json", "-o", "page.html"
    )
    assert answer.code == 0
    written = answer.json
    assert written["page"] == "page.html"
    assert written["bytes"] == (tmp_path / "page.html").stat().st_size
    assert len(written["figures"]) == 6 == len(names(tmp_path / "figures"))
    assert r"\toprule" in (tmp_path / "t.tex").read_text()
    text = (tmp_path / "page.html").read_text()
    assert "Runs in runs" in text
    assert '"heat":null' in text


def test_the_command_on_the_page_is_the_same_run(unalike, runs):
    fields = {
        "drop_last": True,
        "sample": 0.5,
        "optimiser": "adam",
        "partition": "label-dirichlet(0.5)+label-noise(0.1)",
    }
    made = run(dataset="heart", parties=3, algorithm="fedprox(mu=0.5)", rounds=1, steps=2, runs=runs, **fields)
    (command,) = page_of_run(read_record(made.run_dir)).commands
    before = names(runs)
    assert unalike(*shlex.split(command)[1:], "--quiet").code == 0
    assert names(runs) == before  # no new run: it was found finished


def test_the_page_is_report_html_by_default(unalike, runs, tmp_path):
    assert unalike("report", "runs", "--no-data").code == 0
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["nothing"], "No run in runs has a name that begins with 'nothing'"),
        (["runs", "-o", "page.pdf"], "-o must be a file whose name ends in .html"),
        (["runs", "-o", "no/page.html"], "there is no folder no"),
        (["runs", "--latex", "table.txt"], "--latex must be a file whose name ends in .tex"),
        (["runs", "--figures", "file"], "--figures must be a folder"),
        (["runs", "--scale", "0.5"], "are for studies"),
        (["runs", "--only", "seed=0"], "are for studies"),
        (["empty"], "no finished runs in empty"),
        (["half"], "has no rounds yet"),
        (["broken"], "no spec.toml that can be read"),
        (["x" * 300], "No run in runs has a name that begins with 'xxx"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(unalike, runs, tmp_path, args, said):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for name, content in (
        ("half", 'dataset = "heart"\npartition = "iid"\nalgorithm = "fedavg"\nseed = 0\nrounds = 3\n'),
        ("broken", "= no toml"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "spec.toml").write_text(content)
    before = names(tmp_path)
    answer = unalike("report", *args)
    assert answer.code == 2
    assert said in answer.err
    assert answer.err.startswith("Error: ")
    assert answer.err.count("\n") == 1
    assert names(tmp_path) == before


def test_a_study_is_asked_with_its_scale_and_choice(unalike, runs, tmp_path, monkeypatch):
    import unalike.studies.study as study_module
    from unalike.runs.results import read_records, settings

    asked = []

    def study_results(study, folder, scale, only):
        asked.append((study, str(folder), scale, only))
        about = SimpleNamespace(name=study, title="My study", about="", target=None, published=None)
        found = settings(read_records(folder)) if scale == 0.5 else []
        return SimpleNamespace(
            study=about,
            settings=found,
            compared=[],
            tuned={},
            done=2,
            total=2,
            failed=[],
            damaged=[],
            scale=scale,
            warning="half",
        )

    fake = SimpleNamespace(
        built_in_studies=lambda: {"mine": "My study"},
        load_study=lambda name, baselines: name,
        parse_only=lambda texts: tuple(texts),
        study_results=study_results,
    )
    for name, value in vars(fake).items():
        monkeypatch.setattr(study_module, name, value)
    answer = unalike("report", "mine", "--scale", "0.5", "--only", "seed=0", "--no-data", "-o", "s.html")
    assert answer.code == 0
    assert asked == [("mine", "runs", 0.5, ("seed=0",))]
    text = (tmp_path / "s.html").read_text()
    assert "My study" in text
    assert "unalike study run mine --scale 0.5 --only seed=0" in text
    assert "Did you mean the study 'mine'?" in unalike("report", "mines").err
    answer = unalike("report", "mine", "-o", "t.html")
    assert (answer.code, "No run of mine is finished" in answer.err) == (2, True)
    assert not (tmp_path / "t.html").exists()


def test_help_does_not_load_torch(own_process):
    answer = own_process("report", "--help")
    assert answer.code == 0
    assert "RUN|STUDY|FOLDER" in answer.out
    import subprocess

    code = "import unalike.cli.report, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_a_study_whose_runs_all_failed_has_a_page_that_says_why(unalike, tmp_path):
    from tests.studies.fake_runs import failed

    fields = {"dataset": "digits", "model": "mlp(8)", "rounds": 2}
    (tmp_path / "bad.toml").write_text(
        'title = "x"\n[base]\ndataset = "digits"\nmodel = "mlp(8)"\nrounds = 2\n[axes]\nlr = [0.5]\n'
    )
    failed(tmp_path / "runs", RunSpec.from_mapping({**fields, "lr": 0.5}), "out of luck")
    assert unalike("report", "bad.toml", "--latex", "bad.tex").code == 0
    assert "out of luck" in (tmp_path / "report.html").read_text()
