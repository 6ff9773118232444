"""The tutorials: every command of them, in order, as somebody would give them who reads them."""

import csv
import json
import signal
from pathlib import Path
from threading import Thread

import pytest
from safetensors import safe_open

from tests.federation.real import ROOT, until
from tests.federation.tutorial import Reader
from unalike.runs.record import read_rounds

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at processes in /proc"),
]
DOCS = ROOT / "docs"


def test_every_command_of_three_hospitals(tmp_path):
    reader = Reader(DOCS / "federation.md", tmp_path).follow()
    assert len(reader.running) == 3
    result = json.loads((tmp_path / "heart" / "run" / "result.json").read_text())
    assert f"server_sha256 {result['server_sha256']}" in reader.said["unalike federation rehearse"]
    assert f"server_sha256 {result['server_sha256']}" in reader.said["unalike federation run"]
    assert result["accuracy"] > 0.75  # on the test rows of all three
    patients, predictions = ((tmp_path / "va" / f"{name}.csv").read_text() for name in ("patients", "predictions"))
    assert len(predictions.splitlines()) == len(patients.splitlines()) > 1


class Killer:
    """Kills a site's process in the middle of training, as a crash of its machine would, and starts it again."""

    def __init__(self, site):
        self.site, self.killed, self.thread = site, False, None

    def __call__(self, reader, words):
        if words[:3] == ["unalike", "federation", "run"]:
            self.thread = Thread(target=self._kill, args=(reader, reader.folder / words[3] / "run"))
            self.thread.start()

    def _kill(self, reader, run):
        until(lambda: len(read_rounds(run)) >= 1, "no round")
        place = next(name for name in reader.running if name.startswith(self.site))
        reader.running[place].send_signal(signal.SIGKILL)
        reader.running[place].wait(60)
        self.killed = not (run / "result.json").exists()
        table = f"csv:{self.site}/people.csv"
        reader.running[place] = reader.start(["unalike", "federation", "join", place, "--data", table, "--yes"])


def test_every_command_of_a_bank_a_shop_and_an_insurer(tmp_path):
    """With one killed in the middle: the parts of the model are those of the rehearsal, to the last bit."""
    killer = Killer("insurer")
    reader = Reader(DOCS / "federation-columns.md", tmp_path, killer).follow()
    killer.thread.join(60)
    assert killer.killed
    assert len(reader.running) == 3
    for name in ("bank", "insurer", "shop"):
        with safe_open(tmp_path / name / "invitation" / "model.safetensors", "np") as file:
            told = file.metadata()["part_sha256"]
        assert f"part_sha256 of {name} {told}" in " ".join(reader.said["unalike federation rehearse"].split())
    result = json.loads((tmp_path / "customers" / "run" / "result.json").read_text())
    assert result["gain"] == pytest.approx(result["accuracy"] - result["alone"])
    assert "248 people are known to all 3 sites" in reader.said["unalike federation match"]
    rows = list(csv.DictReader((tmp_path / "bank" / "predictions.csv").open()))
    assert [row["customer"] for row in rows] == [f"C{row:04d}" for row in range(250, 300)]
    assert not (tmp_path / "shop" / "invitation" / "predictions.csv").exists()
    truth = [row["outcome"] for row in csv.DictReader((tmp_path / "bank" / "new.csv").open())]
    right = sum(row["predicted"] == outcome for row, outcome in zip(rows, truth, strict=True))
    assert right > 0.6 * len(truth)
