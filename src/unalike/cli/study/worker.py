"""A study's worker process that loads plug-ins first: ``python -m unalike.cli.study.worker PLUGIN... RUNS``."""

from __future__ import annotations

import sys
from pathlib import Path

from unalike.cli.plugin import load_plugins
from unalike.studies.worker import main

if __name__ == "__main__":
    *plugins, runs = sys.argv[1:]
    main(runs, lambda: load_plugins(map(Path, plugins)))
