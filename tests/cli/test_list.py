from __future__ import annotations

import subprocess
import sys

import pytest

import unalike as package

HEAVY = ("torch", "sklearn", "scipy", "matplotlib")


KINDS = ["algorithms", "datasets", "partitions", "models", "losses", "optimisers", "scores", "engines"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind(unalike, kind):
    parts = unalike("list", kind, "--json").json[kind]
    assert parts
    text = unalike("list", kind).out
    for part in parts:
        assert part["name"] in text
        assert part["summary"]
        assert part["summary"] in text  # a pipe has no width: nothing is wrapped or cut
        assert part["paper"] in text


def test_scores_say_what_they_are_of_and_which_way_is_better(unalike):
    by_name = {part["name"]: part for part in unalike("list", "scores", "--json").json["scores"]}
    assert by_name["rmse"]["task"] == "regression"
    assert by_name["rmse"]["better"] == "down"
    assert by_name["auroc"]["better"] == "up"
    assert "(regression, lower is better)" in unalike("list", "scores").out


def test_parameters_with_and_without_defaults(unalike):
    assert "fedprox(mu=0.01)\n" in unalike("list", "algorithms").out
    assert "label-dirichlet(beta, minimum=10, balanced=false)\n" in unalike("list", "partitions").out
    by_name = {part["name"]: part for part in unalike("list", "partitions", "--json").json["partitions"]}
    assert by_name["label-dirichlet"]["parameters"] == [
        {"name": "beta"},
        {"name": "minimum", "default": 10},
        {"name": "balanced", "default": False},
    ]


def test_a_parameter_that_is_a_part_has_the_text_of_one(unalike, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from unalike import Algorithm, algorithm\nfrom unalike.algorithms import FedProx, RFedAvgPlus\n"
        '@algorithm("test-listed")\nclass TestListed(Algorithm):\n    """Mine."""\n'
        "    base: Algorithm = FedProx(mu=0.5)\n    other: Algorithm = RFedAvgPlus()\n"
    )
    assert (
        "test-listed(base=fedprox(0.5), other=rfedavg+)\n"
        in unalike("list", "algorithms", "--plugin", str(plugin)).out
    )
    found = unalike("list", "algorithms", "--plugin", str(plugin), "--json").json["algorithms"]
    assert next(part for part in found if part["name"] == "test-listed")["parameters"] == [
        {"name": "base", "default": "fedprox(0.5)", "holds": "algorithm"},
        {"name": "other", "default": "rfedavg+", "holds": "algorithm"},
    ]


def test_everything(unalike):
    everything = unalike("list", "--json").json
    engines = ["auto", "prepared", "sequential", "vectorised", "compiled"]
    assert [part["name"] for part in everything["engines"]] == engines
    out = unalike("list").out
    assert all(f"{kind.upper()}\n" in out for kind in everything)


def test_engines_tell_what_this_machine_has(unalike, monkeypatch):
    def compiled():
        return {part["name"]: part["summary"] for part in unalike("list", "engines", "--json").json["engines"]}

    monkeypatch.setenv("CC", sys.executable)  # any program that is there
    assert f"The C compiler here is {sys.executable}." in compiled()["compiled"]
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "Not on this machine: there is no C compiler (no-such-compiler)" in compiled()["compiled"]
    automatic = compiled()["auto"]
    assert all(word in automatic for word in ("sequential", "vectorised", "compiled", "100,000 weights"))


def test_version(unalike):
    assert unalike("--version") == (0, f"unalike {package.__version__}\n", "")


@pytest.mark.parametrize("args", [[], ["--help"]])
def test_help(unalike, args):
    answer = unalike(*args)
    assert answer.code == 0
    assert all(f"\n  {name} " in answer.out for name in ("demo", "run", "runs", "list"))


@pytest.mark.parametrize(
    "args",
    [
        *(["--help"], ["run", "--help"], ["partition", "--help"], ["federation", "init", "--help"]),
        *(["--version"], ["list", "algorithms"], ["list", "algorithms", "--json"], ["list", "engines"]),
    ],
)
def test_starts_without_the_heavy_libraries(args):
    source = (
        "import sys; from unalike.cli.main import call; code = call(sys.argv[1:]); "
        f"sys.exit(code or ', '.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", source, *args], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "\n")  # sys.exit("") prints an empty line


def test_looking_at_runs_needs_no_heavy_library(unalike):
    assert unalike("run", "--rounds", "2", "--epochs", "1").code == 0
    (run,) = unalike("runs", "list", "--json").json["runs"]
    for args in (["list"], ["list", "--json"], ["show", run["key"]], ["show", run["key"], "--json"], ["compare"]):
        test_starts_without_the_heavy_libraries(["runs", *args])
