"""What a site is told and asked before it takes part: what an algorithm sends, public rows, code of its own."""

import csv
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.databases import make_sqlite
from tests.federation import plugged, second_edition
from tests.federation.inside import HOSPITALS, World, write_tables
from unalike.cli.federation import site as federation_site
from unalike.data import sql
from unalike.federation.plan import FILE, Plan
from unalike.federation.public import TABLE

pytestmark = pytest.mark.skipif(os.name != "posix", reason="real sites need Linux or macOS")
PARTIES = [part for name in HOSPITALS for part in ("--party", name)]
USUAL = ["--address", "127.0.0.1:9443", "--label", "outcome", "--missing", "indicate", "--rounds", "2"]
PLUGIN = [
    *("--plugin", second_edition.__file__),
    *("--plugin", plugged.__file__),
]


@pytest.fixture
def invited(unalike, monkeypatch):
    """Make a federation of an algorithm, and give what the first site's ``join`` answers."""
    monkeypatch.setattr(federation_site, "_take_part", lambda *about: None)
    write_tables(Path("tables"), 60)

    def made(algorithm, *options):
        answer = unalike(
            "federation", "init", "heart", *PARTIES, *USUAL, "--algorithm", algorithm, *options, *PLUGIN
        )
        if answer.code:
            return answer
        shutil.copytree("heart/invitations/va", "va")
        return lambda *more: unalike("federation", "join", "va", "--data", "csv:tables/va.csv", *more)

    return made


def words(text):
    return " ".join(text.split())


def test_updates_need_no_more_than_a_yes(invited):
    join = invited("site-relay")
    answer = join("--yes")
    assert answer.code == 0, answer.err
    assert "The algorithm sends what the model learnt here" in words(answer.out)
    assert "Rows never leave" in answer.out


@pytest.mark.parametrize("more", [[], ["--sends", "updates"], ["--sends", "rows"]])
def test_mean_rows_need_an_agreement_by_name(invited, more):
    join = invited("site-mean-rows")
    answer = join("--yes", *more)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert ("not " + more[1] if more else '--sends "mean rows"') in answer.err
    assert "MEAN ROWS" in answer.out
    assert "Rows never leave" not in answer.out
    assert "Once, before round 1, after one pass over the training rows:" in answer.out
    assert not Path("va/consent.json").exists()
    agreed = join("--yes", "--sends", "mean rows")
    assert agreed.code == 0, agreed.err
    assert Path("va/consent.json").exists()


def test_scores_by_label_are_told_in_words(invited):
    answer = invited("fd")("--yes")
    assert answer.code == 0, answer.err
    assert "which labels this site's rows have, and for each what the model of this site says" in words(answer.out)


def test_public_rows_travel_with_the_plan_and_are_told(invited, unalike):
    join = invited("plugged-fedmd", "--public", "tables/hungarian.csv", "--model", "mlp(4)|logistic")
    plan, table = Plan.read(Path("heart")), Path("tables/hungarian.csv").read_bytes()
    assert all((Path(folder) / TABLE).read_bytes() == table for folder in ("heart", "va"))
    assert plan.public in (Path("va") / FILE).read_text()
    answer = join("--yes")
    assert answer.code == 0, answer.err
    assert "scores the public rows that everybody has" in words(answer.out)
    assert "70 rows that everybody has (public.csv)" in answer.out
    rehearsed = unalike("federation", "rehearse", "heart", "--tables", "tables", "--quiet")
    assert rehearsed.code == 0, rehearsed.err
    Path("va/public.csv").write_bytes(table + b"\n")
    answer = join("--yes")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "is not the public table of the plan" in answer.err


@pytest.mark.parametrize(
    ("name", "change", "word"),
    [
        ("public.parquet", lambda text: text, "must be a CSV file"),
        ("public.csv", lambda text: text.replace("outcome", "result"), "has no column 'outcome'"),
        ("missing.csv", None, "Cannot read the public table"),
    ],
)
def test_a_table_that_cannot_be_public_is_one_line_and_leaves_nothing(invited, name, change, word):
    if change is not None:
        Path(name).write_text(change(Path("tables/va.csv").read_text()))
    answer = invited("plugged-fedmd", "--public", name)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert word in answer.err
    assert not Path("heart").exists()


def test_public_columns_that_do_not_fit_are_told_at_join(invited):
    text = Path("tables/va.csv").read_text()
    Path("public.csv").write_text(text.replace("chol", "cholesterol"))
    answer = invited("plugged-fedmd", "--public", "public.csv")("--yes")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "The public table: column chol" in answer.err


def test_other_code_than_the_plans_is_refused(invited, monkeypatch):
    join = invited("site-relay")
    text = Path(second_edition.__file__).read_text()
    Path("other.py").write_text(text + "# the same, but who knows\n")
    answer = join("--yes", "--plugin", "other.py")
    try:
        assert (answer.code, answer.err.count("\n")) == (2, 1)
        assert "the same --plugin file" in answer.err
    finally:  # the names stand for this file's classes again
        import importlib

        importlib.reload(second_edition)


@pytest.mark.parametrize(("channel", "quorum"), [("none", 0), ("masked", 0), ("masked", 3), ("encrypted", 0)])
def test_a_person_is_told_once_of_every_update_that_leaves(tmp_path, monkeypatch, channel, quorum):
    said = []
    monkeypatch.setattr(federation_site, "say", lambda line, **about: said.append(line))
    world = World.make(tmp_path, ("a", "b", "c", "d"), quorum=quorum, train={"channel": channel})
    sites = world.transport.sites
    sites[11] = SimpleNamespace(answer=federation_site._told(sites[11], tmp_path / "errors.log"))
    world.serve()
    told = [line.partition(" with ")[0] for line in said if "answered" in line]
    assert told == [f"Round {i}: answered 'train'" for i in (1, 2, 3)]


def test_a_site_is_told_the_plans_kinds_and_that_dates_are_dates(invited, monkeypatch):
    """Numbers that are codes are categories at every site, and a date of birth is named as one."""
    path = Path("tables/va.csv")
    head, *rows = path.read_text().splitlines()
    path.write_text("\n".join([f"born,{head}", *(f"19{50 + n % 40}-01-02,{row}" for n, row in enumerate(rows))]))
    join = invited("fedavg", "--types", "born:date", "--category", "cp", "--category", "thal")
    sites = []
    monkeypatch.setattr(federation_site, "_take_part", lambda place, plan, site, *about: sites.append(site))
    answer = join("--yes")
    assert answer.code == 0, answer.err
    kinds = {column.name: column.kind for column in sites[0].describe().columns}
    assert (kinds["cp"], kinds["thal"], kinds["born"]) == ("category", "category", "date")
    told = {line.split()[0]: " ".join(line.split()) for line in answer.out.splitlines() if line.startswith("    ")}
    assert told["cp"].startswith("cp category its 4 values: 1, 2, 3, 4")
    assert told["born"].startswith("born date")
    assert "DATES CAN BE PERSONAL" in words(answer.out)
    said = join("--yes", "--data", "csv:tables/va.csv(types=cp:number)")
    assert said.code == 2
    assert "types= is the same at all sites: the plan says it" in said.err


@pytest.fixture
def joined(invited):
    """Join with a table, perhaps with nobody there to agree."""
    assert callable(invited("fedavg"))

    def join(unalike, data, *more):
        answer = unalike("federation", "join", "va", "--data", data, *more)
        return answer._replace(out=words(answer.out), err=words(answer.err))

    return join


@pytest.mark.parametrize("kind", ["csv", "parquet", "sqlite"])
def test_an_agreement_is_for_the_rows_of_the_table(unalike, joined, kind):
    """The text of the table is the same each time, and the plan too: only a row is another."""
    rows = list(csv.reader(Path("tables/va.csv").read_text().splitlines()))
    data = write_as(kind, rows)
    assert joined(unalike, data, "--yes").code == 0
    again = joined(unalike, data)
    assert (again.code, again.out) == (0, "")
    assert "You agreed to this plan" in again.err
    before = Path("va/consent.json").read_bytes()
    rows[5][0] = "99"
    assert write_as(kind, rows) == data
    changed = joined(unalike, data)
    assert changed.code == 2
    assert "are not those of" in changed.err
    assert "you are asked again" in changed.err
    assert "Nobody is here to agree" in changed.err
    assert "WHAT LEAVES THIS SITE" in changed.out
    assert Path("va/consent.json").read_bytes() == before  # nobody agreed to the new rows
    assert joined(unalike, data, "--yes").code == 0
    assert joined(unalike, data).code == 0
    rows[5][0] = "98"
    write_as(kind, rows)
    assert joined(unalike, data).code == 2


def test_an_agreement_from_before_rows_were_noted_is_asked_for_again(unalike, joined):
    assert joined(unalike, "csv:tables/va.csv", "--yes").code == 0
    known = json.loads(Path("va/consent.json").read_text())
    assert known.pop("rows")
    Path("va/consent.json").write_text(json.dumps(known))
    answer = joined(unalike, "csv:tables/va.csv")
    assert answer.code == 2
    assert "Nobody is here to agree" in answer.err


def test_a_table_that_changes_between_the_agreement_and_the_training(unalike, joined, monkeypatch):
    def late(folder, *about, known=federation_site.Site):
        table = Path("tables/va.csv").read_text().splitlines()
        Path("tables/va.csv").write_text("\n".join([*table, table[-1]]))
        return known(folder, *about)

    monkeypatch.setattr(federation_site, "Site", late)
    answer = joined(unalike, "csv:tables/va.csv", "--yes")
    assert answer.code == 2
    assert "has changed just now" in answer.err


def write_as(kind, rows):
    """The rows in a file of that kind; the text that names the table."""
    sql._read.cache_clear()  # as in a new process
    if kind == "csv":
        with Path("own.csv").open("w", newline="") as file:
            csv.writer(file).writerows(rows)
        return "csv:own.csv"
    if kind == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(
            pyarrow.table(dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))), "own.parquet"
        )
        return "parquet:own.parquet"
    Path("own.db").unlink(missing_ok=True)
    values = ", ".join(f"({', '.join(map(repr, row))})" for row in rows[1:])
    make_sqlite("own.db", f"create table t ({', '.join(rows[0])})", f"insert into t values {values}")
    return "sql:sqlite:own.db(query='select * from t')"


@pytest.mark.parametrize("option", ["label=outcome", "missing=drop", "test=0.3"])
def test_what_the_plan_says_is_not_said_with_a_query(unalike, joined, option):
    data = write_as("sqlite", list(csv.reader(Path("tables/va.csv").read_text().splitlines())))
    answer = joined(unalike, data.replace("(", f"({option}, "), "--yes")
    assert answer.code == 2
    assert "the plan says it" in answer.err


TREES = ("--model", "trees(depth=3)", "--algorithm", "histogram")


def test_what_a_histogram_tells_is_said_before_a_site_agrees(unalike, monkeypatch):
    monkeypatch.setattr(federation_site, "_take_part", lambda *about: None)
    write_tables(Path("tables"), 60)
    told = {}
    for name, more in (("plain", ()), ("hidden", ("--channel", "masked"))):
        made = unalike("federation", "init", name, *PARTIES, *USUAL, *TREES, *more)
        assert made.code == 0, made.err
        shutil.copytree(f"{name}/invitations/va", f"va-{name}")
        answer = unalike("federation", "join", f"va-{name}", "--data", "csv:tables/va.csv", "--yes")
        assert answer.code == 0, answer.err
        told[name] = words(answer.out)
        assert "The algorithm sends sums over rows: for every node of a tree" in told[name]
        assert "A bin with a single row tells that row's label" in told[name]
        assert "A node of a tree has 20 rows of all sites or more" in told[name]
        assert "In every round, added to what the other sites have: histograms" in told[name]
        assert "the turns of a round together" in told[name]
        assert "local epoch" not in told[name]
    assert "They are of THIS SITE ALONE" in told["plain"]
    assert "They are of all 3 sites together, never of this site alone" in told["hidden"]
    assert "only the sum over all 3 sites that are asked, in one trip" in told["hidden"]


def test_trees_of_a_sites_own_rows_are_said_to_leave(unalike, monkeypatch):
    monkeypatch.setattr(federation_site, "_take_part", lambda *about: None)
    write_tables(Path("tables"), 60)
    made = unalike("federation", "init", "own", *PARTIES, *USUAL, "--model", "trees", "--algorithm", "bagging")
    assert made.code == 0, made.err
    shutil.copytree("own/invitations/va", "va")
    answer = unalike("federation", "join", "va", "--data", "csv:tables/va.csv", "--yes")
    assert answer.code == 0, answer.err
    assert "The algorithm sends whole trees that were grown on this site's rows" in words(answer.out)
    assert "In every round, as it is:" in answer.out


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--quorum", "2"), "histogram needs every site in every turn"),
        (("--sample", "0.5"), "--sample has no meaning for trees"),
        (("--epochs", "2"), "--epochs has no meaning for trees"),
        (("--channel", "encrypted"), "Use --channel masked, or leave it out"),
        (("--channel", "clip(1.0)"), "Use --channel masked, or leave it out"),
        (("--score", "rmse"), "rmse"),
    ],
)
def test_plans_of_trees_that_cannot_be_are_one_line(options, why, unalike):
    answer = unalike("federation", "init", "none", *PARTIES, *USUAL, *TREES, *options)
    assert (answer.code, answer.err.count("\n")) == (2, 1), answer.err
    assert why in answer.err
    assert not Path("none").exists()


def test_masks_need_three_sites(unalike):
    two = ("--party", "a", "--party", "b")
    answer = unalike("federation", "init", "two", *two, *USUAL, *TREES, "--channel", "masked")
    assert (answer.code, answer.err.count("\n")) == (2, 1), answer.err
    assert "masked needs three or more" in answer.err
