"""``unalike federation match``: people are matched between processes, and what everybody learns is told first."""

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.federation import real
from tests.federation.real import Federation
from tests.federation.test_matching import COMMON, KNOWN, SITES, write_people
from unalike.cli.federation import site as federation_site
from unalike.cli.main import call
from unalike.federation.plan import Plan

PARTIES = [part for name in SITES for part in ("--party", name)]
COLUMNS = ("--algorithm", "vertical", "--model", "logistic", "--rounds", "2")
USUAL = [*PARTIES, "--address", "127.0.0.1:9443", "--label", "outcome", *COLUMNS]


@pytest.mark.federation
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="looks at processes in /proc")  # noqa: PTH112
def test_people_are_matched_between_processes_and_a_run_goes_on_with_them(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(real, "write_tables", lambda tables, rows, sites: write_people(tables))
    whole = Federation(tmp_path, *COLUMNS, "--id", "who", hospitals=SITES, train=())
    try:
        whole.begin()
        capsys.readouterr()
        assert call(["federation", "match", str(whole.server)]) == 0, whole.said("serve")
        told = capsys.readouterr().out
        assert f"{len(COMMON)} people are known to all 3 sites" in told
        assert "bank (has the label)" in told
        assert call(["federation", "measure", str(whole.server)]) == 2
        assert "no common variable to measure" in capsys.readouterr().err
        assert call(["federation", "match", str(whole.server), "--json", "--quiet"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["sizes"] == {name: len(people) for name, people in KNOWN.items()}
        assert call(["federation", "run", str(whole.server)]) == 0, whole.said("serve")
        assert call(["federation", "match", str(whole.server)]) == 2
        assert "Training has begun with the people that were matched" in capsys.readouterr().err
    finally:
        codes = whole.close()
    assert codes["serve"] == 0, whole.said("serve")
    sessions = set()
    for name in SITES:
        folder = whole.site(name) / "invitation"
        kept = json.loads((folder / "matched.json").read_text())
        sessions.add(kept["session"])
        assert len(kept["rows"]) == len(COMMON)
        assert (folder / "matched.json").stat().st_mode & 0o077 == 0 or folder.stat().st_mode & 0o077 == 0
        assert f"Matched: {len(COMMON)} of this site's" in whole.said(name)
        audit = (folder / "audit.jsonl").read_text()
        assert "match-step" in audit
        assert "RSON-" not in audit.upper()
    assert sessions == {found["session"]}
    tables = str(whole.gather_tables())
    assert call(["federation", "rehearse", str(whole.server), "--tables", tables, "--json", "--quiet"]) == 0
    rehearsed = json.loads(capsys.readouterr().out)
    assert whole.result["accuracy"] == rehearsed["accuracy"]


def test_the_plan_says_how_ids_are_compared(unalike):
    ids = [
        "--id",
        "who",
        "--id",
        "born",
        "--id-case",
        "keep",
        "--no-id-strip",
        "--least-common",
        "7",
        "--most-ids",
        "99",
    ]
    assert unalike("federation", "init", "people", *USUAL, *ids).code == 0
    plan = Plan.read(Path("people"))
    assert (plan.id, plan.id_case, plan.id_strip) == (("who", "born"), "keep", False)
    assert (plan.least_common, plan.most_ids) == (7, 99)
    assert Plan.read(Path("people/invitations/shop")).digest == plan.digest


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Say which column tells who a row is of: --id COLUMN."),
        (["--id", "who", "--algorithm", "fedavg"], "nobody is matched. Leave --id out"),
        (["--id", "who", "--id-case", "upper"], "Unknown id_case 'upper'"),
        (["--id", "who", "--most-ids", "50"], "least_common and most_ids must be 2 or more"),
        (["--id", "outcome"], "column outcome cannot be the id and the label"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused_in_one_line(unalike, options, said):
    answer = unalike("federation", "init", "people", *USUAL, *options)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert said in answer.err


def test_where_sites_have_the_same_columns_nobody_is_matched(unalike):
    rows = [*PARTIES, "--address", "127.0.0.1:9443", "--label", "outcome"]
    assert unalike("federation", "init", "rows", *rows).code == 0
    answer = unalike("federation", "match", "rows")
    assert answer.code == 2
    assert "there is nobody to match" in answer.err


@pytest.fixture
def invited(unalike, monkeypatch):
    """What a site's ``join`` answers, in a federation that matches people."""
    monkeypatch.setattr(federation_site, "_take_part", lambda *about: None)
    write_people(Path("tables"))
    assert unalike("federation", "init", "people", *USUAL, "--id", "who").code == 0
    shutil.copytree("people/invitations/shop", "shop")
    return lambda: unalike("federation", "join", "shop", "--data", "csv:tables/shop.csv", "--yes")


def test_join_says_what_everybody_learns_from_a_matching(invited):
    answer = invited()
    assert answer.code == 0, answer.err
    told = " ".join(answer.out.split())
    for part in (
        "People are matched by who. No id leaves this site",
        "All 3 sites learn whom all of them know",
        "how many ids each site brings (at most 1,000,000)",
        "The site with the label and another one that work together can learn which of its people each other",
        "With fewer than 100 common people nothing is done",
    ):
        assert part in told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: [*lines, lines[1]], "1 id occurs twice (first in lines 2 and"),
        (lambda lines: [*lines, "," + lines[1].partition(",")[2]], "column who: 1 row has no id. Fill them in"),
        (lambda lines: ["whom" + lines[0][3:], *lines[1:]], "Unknown id column 'who'. Did you mean 'whom'?"),
    ],
)
def test_a_table_with_wrong_ids_is_refused_before_anything_is_sent(invited, change, said):
    path = Path("tables/shop.csv")
    path.write_text("\n".join(change(path.read_text(encoding="utf-8").splitlines())) + "\n", encoding="utf-8")
    answer = invited()
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert said in answer.err
    assert "RSON-" not in answer.err.upper()
