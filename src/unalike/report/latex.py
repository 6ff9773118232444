"""The final table for a paper, with booktabs: the best in bold, all within one standard deviation underlined."""

from __future__ import annotations

from unalike.report.page.content import Page
from unalike.runs.results import Setting
from unalike.runs.scales import Scale, Spread

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
    several = len(page.scales) > 1  # then each line says by which score
    names = ["Data set", "Partition", *(["Score"] if several else [])]
    head = " & ".join([*names, *map(escaped, families)])
    source = f" In brackets: {escaped(page.source)}." if page.source else ""
    lines = [
        r"% Needs \usepackage{booktabs}; quotation marks in names need \usepackage[T1]{fontenc}.",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escaped(page.title)}. Final test {_what(page)}, mean $\pm$ standard deviation over "
        rf"seeds. Bold: best mean; underlined: within one standard deviation of it."
        rf"{source}}}",
        rf"\begin{{tabular}}{{{'l' * len(names)}{'r' * len(families)}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
    ]
    before = None
    for (dataset, rest), setting in zip(page.names, page.settings, strict=True):
        first = "" if dataset == before else escaped(dataset)
        before = dataset
        score = [escaped(setting.scale.column)] if several else []
        lines.append(" & ".join([first, escaped(rest), *score, *_cells(page, setting, families)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _what(page: Page) -> str:
    """What the cells are: ``accuracy in percent (highest is best)``; of several scores, ``score``."""
    if len(page.scales) != 1:
        return "score"
    scale = page.scales[0]
    return escaped(f"{scale.words}{' in percent' * scale.is_percent} ({scale.best} is best)")


def _cells(page: Page, setting: Setting, families: list[str]) -> list[str]:
    scale = setting.scale
    known = {page.families[line.algorithm]: line for line in setting.lines}
    spreads = {name: value for name, line in known.items() if (value := line.value) is not None}
    best = max(spreads.values(), key=lambda one: scale.goodness(one.mean), default=None)
    cells = []
    for name in families:
        if name not in spreads or best is None:
            cells.append("--")
            continue
        paper = page.comparison(setting, known[name]).paper
        beside = rf" {{\scriptsize ({paper.mean}$\pm${paper.std})}}" if paper else ""
        cells.append(_marked(scale, spreads[name], best) + beside)
    return cells


def _marked(scale: Scale, one: Spread, best: Spread) -> str:
    written = scale.text(one, unit="").replace("±", r"$\pm$")
    if scale.same(best.mean, one.mean):
        return rf"\textbf{{{written}}}"
    near = one.seeds > 1 and abs(best.mean - one.mean) < max(one.std, best.std)
    return rf"\underline{{{written}}}" if near else written
