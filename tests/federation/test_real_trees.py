"""Three hospitals grow trees together, in processes of their own, on loopback, under masks."""

import json
import os

import pytest

from tests.federation.inside import HOSPITALS
from tests.federation.real import Federation
from unalike.cli.main import call
from unalike.federation.audit import Head, read_audit

pytestmark = [
    pytest.mark.federation,
    pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="looks at processes in /proc"),  # noqa: PTH112
]


def test_trees_between_real_sites_are_those_of_a_rehearsal(tmp_path, capsys):
    options = ("--model", "trees(depth=6)", "--algorithm", "histogram", "--channel", "masked", "--rounds", "3")
    whole = Federation(tmp_path, *options, rows=300, train=())
    try:
        whole.begin()
        assert call(["federation", "run", str(whole.server)]) == 0, whole.said("serve")
        assert call(["federation", "status", str(whole.server)]) == 0
    finally:
        codes = whole.close()
    assert codes["serve"] == 0, whole.said("serve")
    assert "Round 3: all turns were answered" in whole.said("va")
    capsys.readouterr()
    tables = str(whole.gather_tables())
    assert call(["federation", "rehearse", str(whole.server), "--tables", tables, "--json", "--quiet"]) == 0
    rehearsed = json.loads(capsys.readouterr().out)
    for key in ("server_sha256", "model_sha256", "accuracy"):
        assert whole.result[key] == pytest.approx(rehearsed[key], abs=1e-12)
    for name in HOSPITALS:
        folder = whole.site(name) / "invitation"
        assert not any("outcome" in line for line in read_audit(folder))
        assert Head.read(folder).messages_in == Head.read(folder).messages_out
        table = f"csv:{whole.site(name) / 'patients.csv'}"
        assert call(["predict", str(folder), "--data", table, "-o", str(tmp_path / f"{name}.csv")]) == 0
        lines = (tmp_path / f"{name}.csv").read_text().splitlines()
        assert len(lines) == len((whole.site(name) / "patients.csv").read_text().splitlines())
