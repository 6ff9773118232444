"""HTML from text: whatever comes from outside is escaped here, and only here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any


class Html(str):
    """Text that is HTML already."""


def text(value: Any) -> Html:
    """Any value as HTML; what is HTML already stays."""
    return value if isinstance(value, Html) else Html(escape(str(value), quote=True))


def tag(name: str, *content: Any, **attributes: Any) -> Html:
    """An element; ``class_`` and ``for_`` end in an underscore, others have it for a hyphen; None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value), quote=True)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>{''.join(map(text, content))}</{name}>")


def join(parts: Iterable[Any], between: str = "") -> Html:
    """Parts one after the other."""
    return Html(between.join(map(text, parts)))


@dataclass(frozen=True)
class Column:
    """A column of a table: its head, and whether it holds numbers."""

    head: Any
    number: bool = True
    hint: str | None = None


def table(columns: Sequence[Column], rows: Iterable[Sequence[Any]], caption: Any = None) -> Html:
    """A table that scrolls inside its own box; the first cell of a line is its head."""
    head = [
        tag("th", column.head, scope="col", class_="n" if column.number else None, title=column.hint)
        for column in columns
    ]
    body = []
    for row in rows:
        cells = [
            tag(
                "td" if place else "th",
                cell,
                class_="n" if column.number else None,
                scope=None if place else "row",
            )
            for place, (column, cell) in enumerate(zip(columns, row, strict=True))
        ]
        body.append(tag("tr", *cells))
    made = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    box = tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=caption or "table")
    # Not a <caption>: that would be as wide as the table and scroll away with it on a phone.
    return join([tag("p", caption, class_="caption above"), box]) if caption else box


def definitions(pairs: Iterable[tuple[Any, Any]]) -> Html:
    """A list of names, each with what is to be said of it."""
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs))


def data(value: Any) -> Html:
    """JSON for a script element: no text in it can end the element."""
    made = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        made = made.replace(character, f"\\u{ord(character):04x}")
    return Html(made)
