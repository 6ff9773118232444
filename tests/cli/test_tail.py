"""Lines that others append to a file, also to one that is put aside meanwhile."""

from unalike.cli.tail import Tail
from unalike.federation import folders
from unalike.federation.folders import ServerFolder


def test_tail_gives_whole_lines_once(tmp_path):
    path = tmp_path / "log"
    path.write_text("old\n")
    tail = Tail(path)
    assert tail.lines() == []
    with path.open("a") as file:
        file.write("one\ntw")
        file.flush()
        assert tail.lines() == ["one"]
        file.write("o\n")
    assert tail.lines() == ["two"]
    path.write_text("new\n")
    assert tail.lines() == ["new"]


def test_tail_survives_a_log_that_is_put_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "MOST_LOG", 100)
    place, tail, found = ServerFolder(tmp_path), Tail(tmp_path / "log.txt"), []
    said = [f"line {number}" for number in range(60)]
    for number, line in enumerate(said):
        place.say(line)
        if number % 3 == 0:
            found += [line.partition(" ")[2] for line in tail.lines()]
    found += [line.partition(" ")[2] for line in tail.lines()]
    assert found == said
    assert {path.name for path in tmp_path.iterdir()} == {"log.txt", "log.1.txt"}
    assert all(path.stat().st_size < 200 for path in tmp_path.iterdir())
    (tmp_path / "log.txt").unlink()
    assert tail.lines() == []
    place.say("again")
    assert [line.partition(" ")[2] for line in tail.lines()] == ["again"]
