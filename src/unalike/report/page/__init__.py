"""The report: one self-contained HTML file about a run or a study."""

from __future__ import annotations

from pathlib import Path

from unalike.report.page.content import Page, StudyResults, page_of_records, page_of_run, page_of_study
from unalike.report.page.render import render
from unalike.runs.files import atomic_write, make_folder
from unalike.runs.results import Record

__all__ = [
    "Page",
    "page_of_records",
    "page_of_run",
    "page_of_study",
    "render",
    "write_page",
    "write_run_page",
    "write_study_page",
]


def write_page(page: Page, path: Path, use_data: bool = True) -> int:
    """Write the file, as a whole or not at all, and say how many bytes it has."""
    content = render(page, use_data).encode()
    make_folder(path.parent)
    atomic_write(path, content)
    return len(content)


def write_run_page(record: Record, path: Path, use_data: bool = True) -> int:
    """The page of one run."""
    return write_page(page_of_run(record), path, use_data)


def write_study_page(results: StudyResults, runs: Path, path: Path, use_data: bool = True) -> int:
    """The page of a study whose runs are in the folder ``runs``."""
    return write_page(page_of_study(results, runs), path, use_data)
