"""Tables at several widths: nothing is cut or wrapped into slivers, and what is left out is told."""

from __future__ import annotations

import pytest

from unalike.cli.show import Paragraph
from unalike.cli.table import cells, fold, table

WIDTHS = [40, 80, 120]
FIGURES = ["accuracy, final", "worst party", "sent up", "sent down", "time", "rounds to 80%"]
DATA = ["digits", "label-dirichlet(0.1)"]
WIDE = table(
    ["run", "dataset", "partition", "seed", "algorithm", *FIGURES],
    [
        ["ad7dfb25", *DATA, "0", "fedavg", "16.7%", "0.0%", "1 MB", "1 MB", "1.2 s", "5"],
        ["a9c1e28a", *DATA, "1", "fedprox(0.1)", "15.0%", "1.0%", "1 MB", "1 MB", "1 s", "–"],
    ],
    right=FIGURES,
    spare=["sent up", "sent down", "time", "rounds to 80%", "worst party", "seed"],
)


def words(lines):
    return [word for line in lines for word in line.split()]


@pytest.mark.parametrize("width", WIDTHS)
def test_lines_fit_and_no_cell_is_broken(width):
    lines = WIDE.lines(width)
    assert max(map(cells, lines)) <= width
    for cell in ("ad7dfb25", "16.7%", "a9c1e28a", "15.0%", "fedprox(0.1)"):
        assert cell in words(lines)


@pytest.mark.parametrize("width", [40, 80])
def test_what_is_the_same_in_all_rows_is_told_once(width):
    text = " ".join(WIDE.lines(width))
    assert text.startswith("All: dataset digits, partition label-dirichlet(0.1), sent up 1 MB")
    assert text.count("label-dirichlet(0.1)") == 1


def test_what_is_left_out_is_told_with_the_way_to_see_it():
    assert " ".join(WIDE.lines(40)).endswith(
        "Left out at this width: time; rounds to 80%; worst party (--json, or | less -S, shows all)."
    )
    assert "Left out" not in " ".join(WIDE.lines(120))


def test_a_pipe_has_every_column_on_one_line_a_row():
    heading, first, second = WIDE.lines(None)
    assert all(name in heading for name in WIDE.columns)
    assert words([first]) == [word for cell in WIDE.rows[0] for word in cell.split()]
    assert [heading.index("dataset")] * 2 == [first.index("digits"), second.index("digits")]


def test_numbers_stand_at_the_right():
    assert table(["party", "rows"], [["a", "9"], ["bc", "1,000"]], right=["rows"]).lines(None) == [
        "party   rows",
        "a          9",
        "bc     1,000",
    ]


def test_headings_take_several_lines_before_anything_else_is_given_up():
    lines = table(["a", "rounds to 80% of all"], [["x", "3"], ["y", "4"]], right=["rounds to 80% of all"]).lines(
        10
    )
    assert lines == ["    rounds", "    to 80%", "a   of all", "─" * 10, "x        3", "y        4"]


def test_text_is_wrapped_between_words_and_names_are_not():
    made = table(["study", "what"], [["niid-table3", "four algorithms on nine data sets"]], text=["what"])
    *_, first, second = made.lines(34)
    assert first == "niid-table3  four algorithms on"
    assert second == "             nine data sets"


def test_a_composition_is_broken_after_its_plus():
    assert fold("label-dirichlet(0.1)+feature-noise(0.1)", 24) == ["label-dirichlet(0.1)+", "feature-noise(0.1)"]


def test_another_table_where_all_columns_do_not_fit():
    short = table(["party", "largest"], [["party 0", "7 109"]])
    made = table(["party", *"0123456789"], [["party 0", *["1,000"] * 10]], narrow=short)
    assert made.lines(80)[0].split()[-1] == "9"
    assert made.lines(40) == short.lines(40)


def test_blocks_where_no_column_can_be_left_out():
    rows = [["ad7dfb25", "fedavgm(momentum=0.5, server_lr=1.0)", "16.7%"], ["a9c1e28a", "fedavg", "15.0%"]]
    made = table(["run", "algorithm", "accuracy"], rows)
    assert made.lines(30) == [
        "run ad7dfb25",
        "  algorithm",
        "    fedavgm(momentum=0.5,",
        "    server_lr=1.0)",
        "  accuracy   16.7%",
        "run a9c1e28a",
        "  algorithm  fedavg",
        "  accuracy   15.0%",
    ]


def test_tables_without_rows_or_with_odd_cells():
    assert table(["a", "b"], []).lines(None) == ["a  b"]
    assert table(["a", "b"], []).lines(80) == ["a  b", "────"]
    assert table(["a", "b"], []).lines(1) == []
    assert table(["a"], [["two\nlines"]]).lines(80) == ["a", "─────────", "two lines"]
    assert table(["a"], [[""]]).lines(1) == ["a", "─", ""]


def test_wide_characters_take_two_places():
    assert cells("東京") == 4
    assert table(["city", "n"], [["東京", "1"], ["Rome", "2"]]).lines(None)[1:] == ["東京  1", "Rome  2"]


def test_paragraphs():
    text = "Each of the rows has exactly one party."
    assert Paragraph(text, 2).lines(None) == [f"  {text}"]
    assert Paragraph(text, 2).lines(24) == ["  Each of the rows has", "  exactly one party."]
