import sys

from unalike.cli.program import program


def test_named_as_the_shell_finds_it(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    command = tmp_path / ".venv" / "bin" / "unalike"
    monkeypatch.setattr(sys, "argv", [str(command)])
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert program() == ".venv/bin/unalike"
    monkeypatch.setattr(sys, "argv", ["/some where/unalike"])
    assert program() == "'/some where/unalike'"
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert program() == "unalike"
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/unalike")
    monkeypatch.setattr(sys, "argv", [str(command)])
    assert program() == "unalike"
