"""The final table for a paper, with booktabs: the best in bold, all within one standard deviation underlined."""

from __future__ import annotations

from unalike.report.page.content import Page
from unalike.report.page.summary import SAME
from unalike.runs.results import Setting, Spread

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_SPECIAL.get(character, character if character.isprintable() else " ") for character in text)


def latex_table(page: Page) -> str:
    """Settings by algorithms; a published number, where there is one, stands in brackets."""
    families = sorted(set(page.families.values()))
    head = " & ".join(["Data set", "Partition", *map(escaped, families)])
    source = f" In brackets: {escaped(page.source)}." if page.source else ""
    lines = [
        r"% Needs \usepackage{booktabs}; quotation marks in names need \usepackage[T1]{fontenc}.",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(page.title)}. Final test accuracy in percent, mean $\pm$ standard deviation over "
        r"seeds. Bold: highest mean; underlined: within one standard deviation of it."
        rf"{source}}}",
        rf"\begin{{tabular}}{{ll{'r' * len(families)}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
    ]
    before = None
    for (dataset, rest), setting in zip(page.names, page.settings, strict=True):
        first = "" if dataset == before else escaped(dataset)
        before = dataset
        lines.append(" & ".join([first, escaped(rest), *_cells(page, setting, families)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _cells(page: Page, setting: Setting, families: list[str]) -> list[str]:
    known = {page.families[line.algorithm]: line for line in setting.lines if line.accuracy is not None}
    spreads = {name: line.accuracy for name, line in known.items() if line.accuracy is not None}
    best = max(spreads.values(), key=lambda one: one.mean, default=None)
    cells = []
    for name in families:
        if name not in spreads or best is None:
            cells.append("--")
            continue
        paper = page.comparison(setting, known[name]).paper
        beside = rf" {{\scriptsize ({paper.mean}$\pm${paper.std})}}" if paper else ""
        cells.append(_marked(spreads[name], best) + beside)
    return cells


def _marked(one: Spread, best: Spread) -> str:
    written = f"{one.mean:.1f}" + (rf"$\pm${one.std:.1f}" if one.seeds > 1 else "")
    if best.mean - one.mean < SAME:
        return rf"\textbf{{{written}}}"
    near = one.seeds > 1 and best.mean - one.mean < max(one.std, best.std)
    return rf"\underline{{{written}}}" if near else written
