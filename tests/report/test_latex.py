import re
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.report.made import mixed_page, record, small_page, two_algorithms, two_errors, two_settings
from unalike.ranking.comparison import Compared
from unalike.ranking.published import Cell
from unalike.report.latex import escaped, latex_table
from unalike.report.page import page_of_records


def rows(text):
    return [line for line in text.splitlines() if line.endswith(r"\\")][1:]


def test_the_best_is_bold_and_only_what_is_near_is_underlined():
    near = [record("fednova", seed, end) for seed, end in enumerate((0.78, 0.80, 0.805))]
    (row,) = rows(latex_table(page_of_records("t", [*two_algorithms(), *near])))
    cells = row.removesuffix(r" \\").split(" & ")
    assert cells == [
        "digits", "iid", r"70.0$\pm$1.0", r"\underline{79.5$\pm$1.3}", r"\textbf{80.0$\pm$1.0}",
    ]  # fmt: skip


def test_one_seed_is_never_near_and_a_missing_cell_is_a_dash():
    many = [*two_algorithms(partition="shards(k=2)"), record("fedavg", end=0.70), record("fednova", end=0.70)]
    one, two = rows(latex_table(page_of_records("t", many)))
    assert "underline" not in one
    assert one.endswith(r"& -- \\")
    assert two.startswith(" & shards")  # the data set is named once
    mixed = [record("fedavg", 0, 0.5), record("fedavg", 1, 0.7), record("fednova", 0, 0.59)]
    assert r"\underline" not in latex_table(page_of_records("t", mixed))


def test_equal_means_are_all_bold_whatever_their_deviations():
    even = [record("fedavg", seed, 0.81) for seed in (0, 1)]
    odd = [record("fednova", seed, end) for seed, end in enumerate((0.80, 0.82))]
    (row,) = rows(latex_table(page_of_records("t", [*even, *odd])))
    assert row.count(r"\textbf") == 2


def test_no_control_character_reaches_the_table():
    assert escaped("a\x1b[31m\nb\0") == "a [31m b "


def test_a_published_number_stands_in_brackets():
    page = small_page()
    ours = page.settings[0].lines[0].value
    compared = (Compared("digits", "iid", "fedavg", ours, Cell("digits", "iid", "fedavg", 69.5, 0.4)),)
    text = latex_table(replace(page, compared=compared, source="Li & al."))
    assert r"70.0$\pm$1.0 {\scriptsize (69.5$\pm$0.4)}" in text
    assert r"In brackets: Li \& al.." in text


def test_every_row_has_as_many_cells_as_columns():
    text = latex_table(two_settings())
    columns = len(re.search(r"\\begin\{tabular\}\{(l*r*)\}", text).group(1))
    assert len(rows(text)) == 2
    assert all(row.count(" & ") == columns - 1 for row in rows(text))


@given(st.text())
def test_no_special_character_is_left(text):
    made = escaped(text)
    bare = re.sub(r"\\text[a-z]+\{\}|\\[&%$#_{}]", "", made)
    assert not set(bare) & set("\\&%$#_{}~^")
    assert "\n" not in made


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX here")
def test_latex_takes_it(tmp_path):
    page = replace(small_page(dataset='a_b & <c> "d" {e} ~^\\ 5% #1 $x$'), title="50% & more")
    head = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs}\begin{document}"
    (tmp_path / "t.tex").write_text("\n".join([head, latex_table(page), r"\end{document}"]))
    done = subprocess.run(["pdflatex", "-interaction=batchmode", "-halt-on-error", "t.tex"], cwd=tmp_path)
    assert done.returncode == 0


def test_the_lowest_error_is_bold():
    text = latex_table(page_of_records("t", two_errors()))
    (row,) = rows(text)
    assert row == r"digits & iid & 58.700$\pm$0.500 & \textbf{53.200$\pm$0.500} \\"
    assert "Final test RMSE (lowest is best), mean" in text
    assert "Final test accuracy in percent (highest is best), mean" in latex_table(small_page())


def test_different_scores_have_a_column():
    text = latex_table(mixed_page())
    first, second = rows(text)
    assert first.startswith("diabetes & iid & RMSE & ")
    assert second.startswith(r"digits & iid & accuracy, \% & ")
    assert r"\begin{tabular}{lllrr}" in text
