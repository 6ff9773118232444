"""Lines for people, or for programs."""

import json
from datetime import datetime

from unalike.cli.lines import say, say_as_json, say_as_text


def test_lines_are_text_until_somebody_wants_objects(capsys):
    say("one", round=3)
    say_as_json(lambda: {"federation": "heart", "round": 4})
    try:
        say("tw\no \ud800 \x1b", "warning", round=5, party="va")
        say("three")
    finally:
        say_as_text()
    say("four")
    first, second, third, last = capsys.readouterr().err.splitlines()
    assert (first, last) == ("one", "four")
    found = json.loads(second)
    assert datetime.fromisoformat(found.pop("time")).utcoffset() is not None
    about = {"federation": "heart", "round": 5, "party": "va"}
    assert found == {"level": "warning", "message": "tw\no \ud800 \x1b", **about}
    assert (json.loads(third)["level"], json.loads(third)["round"]) == ("info", 4)
