"""What the site adds to the pages in docs/: navigation by the index's four doors, and pages that are made.

The index (docs/README.md) decides the order, so a page is listed in one place. The reference is made from what
``unalike`` exports, notebooks from their executed copies in build/notebooks, where there are some.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebook_page import as_markdown

ROOT = Path(__file__).parents[1]
INDEX = "README.md"
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
NOTEBOOKS = ROOT / "build" / "notebooks"
_ENTRY = re.compile(r"^- \[([^]]+)\]\(([^)#]+)\): ", re.MULTILINE)
_DOOR = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_OUTSIDE = re.compile(r"\[([^]]*)\]\(\.\./([^)#]+)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the index: a tab for each door, then the notebooks and the reference."""
    index = Path(config.docs_dir, INDEX).read_text(encoding="utf-8")
    doors: list[Any] = [{"Documentation": INDEX}]
    for door, body in _DOOR.findall(index):
        doors.append({door: [{title: page} for title, page in _ENTRY.findall(body)]})
    if notebooks := _notebooks():
        doors.append({"Notebooks": [f"notebooks/{path.stem}.md" for path in notebooks]})
    doors.append({"Reference": ["api.md", *ROOT_PAGES.values()]})
    config.nav = doors
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    made = {own: (ROOT / name).read_text(encoding="utf-8") for name, own in ROOT_PAGES.items()}
    made["api.md"] = reference((ROOT / "src" / "unalike" / "__init__.py").read_text(encoding="utf-8"))
    made |= {f"notebooks/{path.stem}.md": as_markdown(path) for path in _notebooks()}
    made["assets/iframe-worker.js"] = Path(__file__).with_name("iframe-worker.js").read_text(encoding="utf-8")
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Mend links that lead out of docs/: to the page that the site has, else to the file's name alone."""

    def inside(found: re.Match[str]) -> str:
        text, target, anchor = found.groups()
        own = ROOT_PAGES.get(target)
        return f"[{text}]({own}{anchor or ''})" if own else f"{text} (`{target}`)"

    if page.file.src_uri in ROOT_PAGES.values():  # these stand one folder higher
        markdown = markdown.replace("](docs/", "](")
    return _OUTSIDE.sub(inside, markdown)


def reference(source: str) -> str:
    """The page of everything that ``unalike`` exports: read from its source, so nothing is imported."""
    names: list[str] = []
    home: dict[str, str] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "_HOME":
                found = ast.literal_eval(node.value)
                home = {name: module for module, each in found.items() for name in each}
            if node.targets[0].id == "__all__":
                names = ast.literal_eval(node.value)
    each = "\n".join(f"::: {home.get(name, 'unalike')}.{name}\n" for name in sorted(names, key=str.lower))
    told = "`import unalike` gives these names; each is loaded when it is used."
    return f"# What `unalike` exports\n\n{told}\n\n{each}"


def _notebooks() -> list[Path]:
    return sorted(NOTEBOOKS.glob("*.ipynb"))
