"""An executed notebook as a page in Markdown: text, code, and what the code showed."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any


def as_markdown(path: Path) -> str:
    """The page of one executed notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _cell(cell)) + "\n"


def _cell(cell: dict[str, Any]) -> list[str]:
    source = _text(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        return [source]
    if cell["cell_type"] != "code" or not source:
        return []
    return [f"```python\n{source}\n```", *(shown for output in cell["outputs"] if (shown := _output(output)))]


def _output(output: dict[str, Any]) -> str:
    """One output: a picture before a table before a text, as a notebook chooses."""
    if output["output_type"] == "stream":
        return _plain(_text(output["text"]))
    data = output.get("data", {})
    if "image/png" in data:
        return (
            f'<img alt="what the code above draws" src="data:image/png;base64,{_text(data["image/png"]).strip()}">'
        )
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            lines = (line.strip() for line in _text(data[kind]).splitlines() if not line.startswith(("<?", "<!")))
            return "<div>" + " ".join(line for line in lines if line) + "</div>"  # a blank line would end the HTML
    if "text/markdown" in data:
        return _below(_text(data["text/markdown"]))
    return _plain(_text(data.get("text/plain", "")))


def _below(markdown: str) -> str:
    """Markdown that the code made, its headings below those of the page."""
    return "\n".join(f"##{line}" if line.startswith("#") else line for line in markdown.splitlines())


def _plain(text: str) -> str:
    return f'<pre style="overflow-x: auto">{html.escape(text.rstrip())}</pre>' if text.strip() else ""


def _text(value: str | list[str]) -> str:
    return value if isinstance(value, str) else "".join(value)
