"""What the shell is offered, how it is installed, and that neither this nor help loads a heavy library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from tests.cli.conftest import UNALIKE
from unalike.cli.complete import SIGNS, registered
from unalike.cli.main import _COMMANDS, _load
from unalike.engines.table import engine_names
from unalike.registry import CompositionRegistry
from unalike.runs.parts import PARTS, registry
from unalike.runs.spec import RunSpec

HEAVY = ("torch", "sklearn", "scipy", "matplotlib", "tenseal", "flwr", "numpy", "pyarrow", "cryptography")
COMMANDS = [[], *([name] for name in _COMMANDS)]
COMMANDS += [[name, each] for name in _COMMANDS for each in getattr(_load(name), "commands", ())]


@pytest.fixture
def imports(tmp_path):
    """Run the command in a process of its own; what it prints, and which heavy libraries it has loaded."""

    def run(*args, **environment):
        source = (
            "import sys\nfrom unalike.cli.main import call\n"
            "try:\n    code = call(sys.argv[1:])\nexcept SystemExit as end:\n    code = end.code\n"
            f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\nsys.exit(code)"
        )
        done = subprocess.run(
            [sys.executable, "-c", source, *args],
            cwd=tmp_path,
            env=os.environ | {"HOME": str(tmp_path), "COLUMNS": "80"} | environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr

    return run


@pytest.fixture
def complete(imports):
    """What bash is offered for a line, the last word of which is being written."""

    def offers(line, shell="bash"):
        words = line.split(" ")
        ask = {"_UNALIKE_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
        ask |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
        out, err = imports(**ask)
        assert err == "[]\n"
        return [each for each in out.splitlines() if each]

    return offers


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_loads_nothing_heavy_and_fits_the_screen(imports, command):
    out, loaded = imports(*command, "--help")
    assert loaded == "[]\n"
    assert "\\[" not in out
    assert not re.search(r"[a-z,;]\.\.\.$", out, re.MULTILINE)  # no sentence is cut
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("field", PARTS)
def test_names_are_those_of_the_registry(field):
    own = [entry for entry in registry(field) if entry.cls.__module__.startswith("unalike.")]
    assert registered(field) == [(entry.name, entry.summary) for entry in own]


@pytest.mark.parametrize("field", PARTS)
def test_parts_are_completed(complete, field):
    names = [name for name, _ in registered(field)]
    assert complete(f"unalike run --{field} ") == names
    assert complete(f"unalike run --{field} {names[0][:3]}") == [n for n in names if n.startswith(names[0][:3])]


def test_engines_are_completed(complete):
    assert complete("unalike run --engine ") == list(engine_names())
    assert "compiled" in engine_names()


@pytest.mark.parametrize("field", ["batch_norm", "augment", "dtype", "test_by"])
def test_words_are_completed(complete, field):
    words = get_args(get_type_hints(RunSpec)[field])
    assert complete(f"unalike run --{field.replace('_', '-')} ") == list(words)


def test_signs_are_those_of_the_registries():
    joined = {field for field in PARTS if isinstance(registry(field), CompositionRegistry)}
    assert {field: registry(field).sign for field in joined} == SIGNS


def test_parts_of_a_composition_and_of_a_plugin(complete, tmp_path):
    assert complete("unalike run --channel clip(1.0)+mas") == ["clip(1.0)+masked"]
    assert complete("unalike partition --partition iid+label-no") == ["iid+label-noise"]
    (tmp_path / "mine.py").write_text(
        'from unalike import algorithm\n@algorithm("my-own")\nclass A:\n    """Mine."""\n'
    )
    assert complete("unalike run --plugin mine.py --algorithm my") == ["my-own"]
    assert complete("unalike run --plugin nope.py --algorithm fedp") == ["fedper", "fedprox"]
    assert complete("unalike run --model mlp(32)|logi") == ["mlp(32)|logistic"]


def test_an_algorithm_in_an_algorithm_is_completed(complete, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from unalike import Algorithm, algorithm\nfrom unalike.algorithms import FedAvg\n"
        '@algorithm("twice")\nclass Twice(Algorithm):\n    """Mine."""\n\n'
        "    base: Algorithm = FedAvg()\n    lam: float = 0.1\n"
    )
    begun = "unalike run --plugin mine.py --algorithm "
    assert complete(f"{begun}twice(base=fedpr") == ["twice(base=fedprox"]
    assert complete(f"{begun}twice(lam=0.2,base=twice(base=scaf") == ["twice(lam=0.2,base=twice(base=scaffold"]
    assert complete(f"{begun}twice(base=rfedavg+") == ["twice(base=rfedavg+"]
    assert complete(f"{begun}twice(lam=fedp") == []
    assert complete(f"{begun}twice(base=nope") == []


def test_runs_and_studies_are_completed(complete, tmp_path):
    names = ["digits-fedavg-0123456789abcdef", "digits-fedprox-fedcba9876543210"]
    for name in names:
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "spec.toml").write_text("")
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / "mine.toml").write_text("")
    assert complete("unalike runs show ") == names
    assert complete("unalike runs compare digits-fedp") == names[1:]
    assert complete("unalike runs show 0123") == ["0123456789abcdef"]
    assert complete("unalike runs show --runs nowhere ") == []
    assert complete("unalike study run qu") == ["quick"]
    assert complete("unalike study report mi") == ["mine.toml"]
    assert complete("unalike report ")[:2] == names
    assert "quick" in complete("unalike report ")
    assert complete("unalike measure --model-of digits-fedp") == names[1:]


def test_commands_options_and_nonsense_are_completed(complete):
    assert complete("unalike re") == ["report", "recommend"]
    assert complete("unalike run --algo") == ["--algorithm"]
    assert complete("unalike runs ") == ["list", "show", "tree", "importance", "compare"]
    assert complete("unalike nope x") == []
    assert complete("unalike run --data-dir nowhere --dataset dig") == ["digits"]
    assert complete("unalike data hea") == ["heart"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_also_get_a_description(complete, shell):
    told = " ".join(complete("unalike run --model ml", shell))
    assert "mlp" in told
    assert "Fully connected layers" in told


@pytest.fixture
def in_shell(tmp_path):
    """Run the command from a shell of that name; a copy of bash can play any of them."""
    bash = shutil.which("bash")
    if bash is None or not Path("/proc/self/stat").exists():
        pytest.skip("needs bash and /proc, by which a shell is recognised")

    def run(shell, *args):
        copy = tmp_path / "bin" / shell
        copy.parent.mkdir(exist_ok=True)
        shutil.copy(bash, copy)
        program = tmp_path / "bin" / "unalike"
        program.write_text(f"#!{sys.executable}\nfrom unalike.cli.start import main\nmain()\n")
        program.chmod(0o755)
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        settings = os.environ | {"HOME": str(home), "PATH": f"{copy.parent}:{os.environ['PATH']}"}
        command = [copy, "--norc", "-c", " ".join(args) + "; exit $?"]
        return subprocess.run(command, env=settings, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize(
    ("shell", "file"),
    [
        ("bash", ".bash_completions/unalike.sh"),
        ("zsh", ".zfunc/_unalike"),
        ("fish", ".config/fish/completions/unalike.fish"),
    ],
)
def test_completion_is_installed(in_shell, tmp_path, shell, file):
    done = in_shell(shell, "unalike", "--install-completion")
    assert done.returncode == 0, done.stderr
    assert f"{shell} completion installed" in done.stdout
    assert "_UNALIKE_COMPLETE" in (tmp_path / "home" / file).read_text()
    shown = in_shell(shell, "unalike", "--show-completion")
    assert "_UNALIKE_COMPLETE" in shown.stdout


def test_bash_itself_completes(in_shell):
    assert in_shell("bash", "unalike", "--install-completion").returncode == 0
    script = "source ~/.bashrc; COMP_WORDS=(unalike run --model res) COMP_CWORD=3; _unalike_completion unalike"
    done = in_shell("bash", script, "; echo ${COMPREPLY[@]}")
    assert done.stdout.split() == ["resnet18", "resnet50"]


def test_an_unknown_shell_is_told_in_one_line(in_shell):
    done = in_shell("tcsh", "unalike", "--install-completion")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: The shell here is tcsh; completion is for bash, zsh, fish")
    assert done.stderr.count("\n") == 1


def test_the_entry_point_completes(tmp_path):
    asked = {"_UNALIKE_COMPLETE": "complete_bash", "COMP_WORDS": "unalike lis", "COMP_CWORD": "1"}
    done = subprocess.run(UNALIKE, env=os.environ | asked, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("list\n", "")
