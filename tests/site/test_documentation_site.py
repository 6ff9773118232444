"""The documentation as a site: every page is on it, it asks nobody for anything, its search works off line."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks.browser import Browser, chromium

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "-f", ROOT / "site" / "mkdocs.yml", "-d", folder],
        env={**os.environ, "PYTHONPATH": str(ROOT / "site"), "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert made.returncode == 0, made.stderr
    return folder


def test_every_page_behind_a_door_is_in_the_navigation(site):
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = re.findall(r"^- \[[^]]+\]\(([^)#]+)\.md\): ", index, re.MULTILINE)
    assert len(pages) > 20
    home = (site / "index.html").read_text(encoding="utf-8")
    for page in pages:
        assert (site / f"{page}.html").is_file()
        assert f'href="{page}.html"' in home


def test_the_reference_has_every_exported_name_with_its_text(site):
    import unalike

    reference = (site / "api.html").read_text(encoding="utf-8")
    for name in unalike.__all__:
        assert re.search(rf'id="unalike(\.\w+)*\.{name}"', reference), name
    assert "weighted mean of the parties" in reference


def test_no_page_loads_anything_from_elsewhere(site):
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="?https?://', text), page.name


@pytest.mark.skipif(chromium() is None, reason="there is no chromium to open the page with")
def test_search_finds_a_page_when_the_site_is_opened_from_a_folder(site):
    with Browser(1200, 900) as browser:
        browser.open(site / "start.html")
        browser.run("document.querySelector('[data-md-toggle=search]').click()")
        browser.run(
            "const box = document.querySelector('[data-md-component=search-query]');"
            "box.value = 'scaffold'; box.focus(); box.dispatchEvent(new Event('keyup', {bubbles: true}))"
        )
        found, until = [], time.monotonic() + 20
        while not found and time.monotonic() < until:
            found = json.loads(
                browser.run(
                    "JSON.stringify([...document.querySelectorAll('.md-search-result__link')].map(a => a.href))"
                )
            )
        assert any("algorithms.html" in address for address in found)
        assert {address.partition(":")[0] for address in browser.requests} <= {"file", "data", "about"}


def test_an_executed_notebook_becomes_a_page(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "site"))
    from notebook_page import as_markdown

    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["a < b\n"]},
        {"output_type": "display_data", "data": {"text/html": "<b>bold</b>\n\n<i>x</i>", "text/plain": "bold"}},
        {"output_type": "execute_result", "data": {"text/markdown": "# Card\nfine", "text/plain": "ModelCard()"}},
        {"output_type": "display_data", "data": {"image/svg+xml": ["<?xml?>\n", "<svg>\n", "\n</svg>"]}},
        {"output_type": "display_data", "data": {"image/png": "QUJD\n", "text/plain": "figure"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "text"]},
        {"cell_type": "code", "source": "print('a < b')", "outputs": outputs},
    ]
    path = tmp_path / "one.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    page = as_markdown(path)
    assert page.startswith("# Title\ntext\n\n```python\nprint('a < b')\n```\n\n<pre")
    assert ">a &lt; b</pre>" in page
    assert "<div><b>bold</b> <i>x</i></div>" in page  # no blank line: it would end the HTML
    assert "### Card\nfine" in page
    assert "ModelCard()" not in page
    assert "<div><svg> </svg></div>" in page
    assert 'src="data:image/png;base64,QUJD"' in page
