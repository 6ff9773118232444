"""The documentation: a page has one door, a link leads somewhere, a command is one, and an example runs."""

import re
import shlex
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from click.exceptions import Exit, MissingParameter, UsageError
from safetensors.torch import save_file

from tests.base_install import parse
from unalike import check_algorithm, check_protocol
from unalike.cli.main import call
from unalike.errors import UserError
from unalike.runs.parts import PARTS, registry
from unalike.runs.record import read_run
from unalike.studies.study_file import load_study

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *PAGES]
DOORS = ["Start", "Use", "Extend", "Trust"]
each_text = pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))

FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^    (unalike .*)", re.MULTILINE)
INLINE = re.compile(r"`(unalike [^`]+)`")


def read(path):
    return path.read_text(encoding="utf-8")


def doors():
    """By door, the pages that the index lists behind it, with what it says of each."""
    found = {}
    for door, body in re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", read(INDEX), re.DOTALL | re.MULTILINE):
        found[door] = re.findall(r"^- \[[^]]+\]\(([^)]+)\): (.+)$", body, re.MULTILINE)
    return found


def anchors(text):
    """What GitHub makes of a page's headings."""
    plain = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", FENCED.sub("", text))
    found = set()
    for heading in re.findall(r"^#+ (.+)$", plain, re.MULTILINE):
        name = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found.add(
            next(f"{name}{tail}" for tail in ["", *(f"-{k}" for k in range(1, 99))] if name + tail not in found)
        )
    return found


def broken_links(path):
    """The links of a page that lead to no file or no heading."""
    for target in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", read(path))):
        file, _, anchor = target.partition("#")
        if target.startswith(("http://", "https://")):
            continue
        there = path.parent / file if file else path
        if not there.exists() or (anchor and anchor not in anchors(read(there))):
            yield target


def pieces(line):
    """The commands of a line of shell, without its comment and without where output goes."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&<>;")
    lexer.whitespace_split = True
    command = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|&<>;"):
            yield command
            command = []
        else:
            command.append(word)


def written_out(text):
    """The ``unalike`` commands of a page that stand on lines of their own, as words."""
    text = text.replace("\\\n", " ")
    shell = "".join(body for kind, body in FENCED.findall(text) if kind == "sh")
    lines = re.findall(r"^unalike .*", shell, re.MULTILINE)
    lines += INDENTED.findall(FENCED.sub("", text))
    return [words[1:] for line in lines for words in pieces(line) if words[:1] == ["unalike"]]


def mentioned(text):
    """The ``unalike`` commands within sentences. What Tab completes is not whole, and left out."""
    text = re.sub(r"Tab after `[^`]*`", "", FENCED.sub("", text))
    return [shlex.split(line)[1:] for line in INLINE.findall(text)]


def check(words, whole=True, made=()):
    """A command's flags, parts and studies exist, or are ``made``. Arguments may be missing in a sentence only."""
    if words == ["--install-completion"]:  # would be done while it is parsed: tests/cli/test_complete.py tries it
        return
    try:
        given = parse(["." if word == "DATA" else word for word in words])  # a folder that must exist
    except Exit:  # --help
        return
    except MissingParameter:
        assert not whole, words
        return
    for field in PARTS.keys() & given.keys():
        text = given[field]
        if isinstance(text, str) and text != "auto" and not text.isupper() and not given.get("plugin"):
            registry(field).build(text)
    study = str(given.get("study") or "STUDY")
    if study in made:
        return
    if study.endswith(".toml"):
        assert (ROOT / study).exists(), study
    elif not study.isupper():
        load_study(study)


def test_the_index_has_four_doors_and_every_page_behind_one():
    assert list(doors()) == DOORS
    listed = Counter(page for pages in doors().values() for page, _ in pages)
    assert listed == Counter(str(page.relative_to(DOCS)) for page in PAGES if page != INDEX)
    assert all(len(what) <= 130 for pages in doors().values() for _, what in pages)


def test_every_page_says_which_door_it_is_behind_and_leads_back():
    for door, pages in doors().items():
        for page, _ in pages:
            assert read(DOCS / page).splitlines()[1] == f"[Documentation](README.md) · {door}", page


def test_the_readme_leads_to_the_index_and_is_short():
    text = read(ROOT / "README.md")
    assert "(docs/README.md)" in text
    assert len(text.splitlines()) <= 110


@each_text
def test_links_lead_somewhere(path):
    assert not list(broken_links(path))


def test_every_picture_is_shown():
    shown = "".join(map(read, TEXTS))
    assert not [path.name for path in DOCS.iterdir() if path.suffix in (".png", ".svg") and path.name not in shown]


def test_the_check_of_links_can_fail(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A `b` c's (d)\n## Two\n## Two\n[a](#a-b-cs-d) [b](#two-1) [c](#three) [d](none.md) [e](https://x)"
    )
    assert list(broken_links(page)) == ["#three", "none.md"]


@each_text
def test_commands_exist_with_their_flags(path):
    made = [after for words in written_out(read(path)) for before, after in pairwise(words) if before == "-o"]
    for words in written_out(read(path)):
        check(words, made=made)
    for words in mentioned(read(path)):
        check(words, whole=False)


@each_text
def test_benchmarks_and_targets_of_make_exist(path):
    text = read(path)
    for name, flags in re.findall(r"python -m benchmarks\.(\w+)([^`#\n]*)", text):
        source = read(ROOT / "benchmarks" / f"{name}.py")
        assert all(f'"{flag}"' in source for flag in re.findall(r"--[\w-]+", flags)), (name, flags)
    targets = set(re.findall(r"^([\w-]+):", read(ROOT / "Makefile"), re.MULTILINE))
    shell = "".join(body for kind, body in FENCED.findall(text) if kind == "sh")
    named = re.findall(r"^make ([\w-]+)", shell, re.MULTILINE) + re.findall(r"(?:\n    |`)make ([\w-]+)", text)
    assert set(named) <= targets


WRONG = [
    "unalike rn",
    "unalike run --modl mlp",
    "unalike run --model",
    "unalike run --rounds few",
    "unalike run --algorithm 'fedprox(mi=0.1)'",
    "unalike study run quik",
    "unalike study run docs/results/none.toml",
    "unalike federation serve",
]


@pytest.mark.parametrize("line", WRONG)
def test_the_check_of_commands_can_fail(line):
    (words,) = written_out(f"```sh\n{line}\n```")
    with pytest.raises((UsageError, UserError, AssertionError)):
        check(words)


def test_commands_are_found_wherever_they_stand():
    block = "```sh tested\nunalike d > e && unalike 'f(1)' | g\n```\n"
    text = f"    unalike a \\\n      b  # c\n\n{block}with `unalike h\n i`"
    assert written_out(text) == [["d"], ["f(1)"], ["a", "b"]]
    assert mentioned(text) == [["h", "i"]]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("UNALIKE_RUNS", "UNALIKE_DATA"):
        monkeypatch.delenv(name, raising=False)
    for field in PARTS:  # what a plug-in registers is gone after the test
        monkeypatch.setattr(registry(field), "_entries", dict(registry(field)._entries))
    return tmp_path


def test_the_first_half_hour(here):
    """All of its commands in order; a whole study is for tests/cli/test_study.py."""
    commands = [words for words in written_out(read(DOCS / "start.md")) if "quick" not in words]
    assert len(commands) > 12
    for words in commands:
        assert call(words) == 0, words
    assert (here / "split.svg").exists()
    assert {path.name.split("-")[0] for path in (here / "runs").iterdir() if path.is_dir()} == {
        "csv",
        "heart",
        "sites",
    }


CHEAP = {"list", "partition", "measure", "recommend"}
"""Commands that take less than a second on the data in the package."""


def cheap(words):
    if "--measurement" in words or "--model-of" in words:  # of files that others have
        return False
    return words[0] in CHEAP or words[:2] in (["study", "list"], ["leaderboard", "--published"])


@pytest.mark.parametrize("path", [page for page in PAGES if page.name != "start.md"], ids=lambda path: path.name)
def test_cheap_commands_work(path, here):
    for words in written_out(read(path)):
        if cheap(words) and "--plugin" not in words:
            assert call(words) == 0, words


def examples(page, *which):
    """The examples in Python of a page, or those of these numbers."""
    found = [body for kind, body in FENCED.findall(read(DOCS / page)) if kind == "python"]
    return "\n".join(found[number] for number in which) if which else "\n".join(found)


def test_own_parts_of_every_kind_train_together(here):
    (here / "mine.py").write_text(examples("extending.md"))
    commands = written_out(read(DOCS / "extending.md"))
    assert [words[0] for words in commands] == ["list", "run"]
    assert all(f"--{field}" in commands[1] for field in PARTS), "a kind of part has no example"
    for words in commands:
        assert call(words) == 0, words
    (folder,) = (path for path in (here / "runs").iterdir() if path.is_dir())
    assert read_run(folder).result["accuracy"] > 0.75  # half are of one class


@pytest.mark.parametrize("text", ["cautious(0.01)", "slower(base=fedprox(mu=0.1), part=0.3)"])
def test_own_algorithms_hold_the_contract(text, here):
    (here / "mine.py").write_text(examples("extending.md"))
    assert call(["list", "algorithms", "--plugin", "mine.py"]) == 0
    assert text in read(DOCS / "extending.md")
    check_algorithm(text)


def test_an_own_protocol_holds_its_contract_and_is_a_run(here):
    (here / "mine.py").write_text(examples("extending.md"))
    assert call(["list", "algorithms", "--plugin", "mine.py"]) == 0
    check_protocol("count-labels", say=lambda line: None)
    words = ["run", "--plugin", "mine.py", "--algorithm", "count-labels", "--model", "label-shares", "--quiet"]
    assert call([*words, "--dataset", "heart", "--channel", "masked"]) == 0
    (folder,) = (path for path in (here / "runs").iterdir() if path.is_dir())
    assert read_run(folder).result["stopped"]["round"] == 1


TRIED = [
    ["data.md"],
    ["measure.md"],
    ["partitions.md"],
    ["privacy.md"],
    ["secure-measurement.md"],
    ["loggers.md", "report.md"],
    ["tune.md"],
]
"""Pages whose examples in Python run; the report's is about the run that the page about loggers has made."""


@pytest.mark.parametrize("pages", TRIED, ids=lambda pages: pages[-1])
def test_examples_in_python_run(pages, here):
    for page in pages:
        exec(compile(examples(page), page, "exec"), {"__name__": "example"})


def test_from_arrays_to_a_model_in_six_lines(here):
    block = next(body for _, body in FENCED.findall(read(DOCS / "python.md")) if "unalike.dataset(" in body)
    assert len([line for line in block.splitlines() if line.strip()]) <= 6
    names = {"__name__": "example"}
    exec(compile(examples("python.md"), "python.md", "exec"), names)  # all of the page, the block among it
    assert (names["unalike"].load(names["saved"]).predict(names["x"]) == names["y"]).mean() > 0.9
    assert names["scores"].mean() > 0.9


def test_no_example_in_python_is_left_out():
    have = {page.name for page in PAGES if examples(page.name)}
    assert have == {
        "extending.md",
        "federation-columns.md",  # run by the test of that tutorial
        "own-nets.md",
        "python.md",
        "runs.md",
        "scores.md",
        "use.md",
        *(page for pages in TRIED for page in pages),
    }


def test_the_saved_net_of_a_regression_predicts(here):
    names = {"__name__": "example"}
    exec(compile(examples("scores.md"), "scores.md", "exec"), names)
    assert names["errors"] == pytest.approx(names["result"].figures["rmse"], rel=1e-5)


def test_an_own_loss_on_numbers(here):
    (here / "huber.py").write_text(examples("own-nets.md", 2))
    (words,) = (words for words in written_out(read(DOCS / "own-nets.md")) if "--loss" in words)
    assert call(words) == 0
    (folder,) = (path for path in (here / "runs").iterdir() if path.is_dir())
    assert read_run(folder).result["r2"] > 0.2  # 0 is as good as the mean


def test_an_own_net_in_the_shell_and_in_python(here, monkeypatch):
    (here / "nets.py").write_text(examples("own-nets.md", 0))
    train, begin = (words for words in written_out(read(DOCS / "own-nets.md")) if "--model" in words)
    assert call(train) == 0
    monkeypatch.syspath_prepend(here)
    names = {}
    exec(compile(examples("own-nets.md", 1), "own-nets.md", "exec"), names)
    assert names["result"].accuracy > 0.2  # a tenth is chance
    body = {name: value for name, value in names["Narrow"]((8, 8), 3).state_dict().items() if "fc" not in name}
    save_file(body, here / "body.safetensors")
    assert call([*begin, "--rounds", "1"]) == 0
    sys.modules.pop("nets")


def test_the_saved_model_is_used_as_it_was_judged(here):
    names = {}
    exec(compile(examples("runs.md"), "runs.md", "exec"), names)
    assert names["right"] == pytest.approx(names["result"].accuracy)


def test_the_page_about_using_the_model(here):
    """All of its commands in order, and its example in Python, which says what the accuracy is."""
    pytest.importorskip("onnxscript")
    for words in written_out(read(DOCS / "use.md")):
        assert call(words) == 0, words
    assert (here / "predictions.csv").exists()
    assert {path.name for path in (here / "model").iterdir()} == {
        *("model.onnx", "model.pt2", "weights.safetensors", "model.json", "card.md", "card.json")
    }
    assert {path.name for path in (here / "trees").iterdir()} == {"xgboost.json", "trees.json"}
    assert (here / "importance.svg").exists()
    pytest.importorskip("xgboost")
    names = {"__name__": "example"}
    exec(compile(examples("use.md"), "use.md", "exec"), names)
    assert names["same"] == pytest.approx(names["unknown"][:, 1], abs=1e-6)
    assert names["right"] == names["result"].accuracy
    assert names["chances"].shape == (len(names["names"]), 2)
    assert names["own"].classes == names["data"].classes
