"""A worker process without torch, for tests of the study that employs it: ``python fake_worker.py HABITS RUNS``.

HABITS is JSON: by algorithm (or ``*``), what becomes of its runs, one word a time the run is tried, the last for
all further times: done, failed, lost, busy, die, exit, broken, hang, silent.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from unalike.runs.folder import RunDirectory
from unalike.toml import write_toml


def main(habits, runs):
    def say(event, **values):
        print(json.dumps({"event": event, **values}), flush=True)

    if habits.get("start"):
        print(habits["start"], file=sys.stderr, flush=True)
        sys.exit(3)
    say("ready")
    for line in sys.stdin:
        order = json.loads(line)
        spec, key = order["spec"], order["key"]
        folder = runs / "-".join([spec["dataset"].split("(")[0], spec["algorithm"].split("(")[0], key])
        log = runs / "log" / key
        log.parent.mkdir(exist_ok=True)
        with log.open("a") as file:
            file.write("x")
        words = habits.get(spec["algorithm"].split("(")[0], habits.get("*", ["done"]))
        word = words[min(log.stat().st_size, len(words)) - 1]
        if word == "done":
            finish(folder, spec, key)
            say("round", round=spec["rounds"])
            say("done")
        elif word == "failed":
            folder.mkdir(exist_ok=True)
            (folder / "spec.toml").write_text(write_toml(spec))
            (folder / "failure.json").write_text(json.dumps({"problem": "it diverged", "final": True}))
            say("failed", problem="it diverged")
        elif word == "lost":  # it failed before there was a run to note it in
            say("failed", problem="the file is gone")
        elif word == "busy":
            say("busy")
        elif word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif word == "exit":
            sys.exit(7)
        elif word == "broken":
            say("broken", problem="No space left.")
        elif word == "silent":
            say("done")
        elif word == "hang":
            say("round", round=1)
            sys.stdin.read()  # until the study wants no more
            (runs / "saved").write_text("a checkpoint")
            return
        time.sleep(0.01)


def finish(folder, spec, key):
    with RunDirectory.open(folder) as run:
        run.write_spec(write_toml(spec))
        for number in range(spec["rounds"]):
            run.append_round({"round": number + 1, "accuracy": 0.5})
        run.write_result({"key": key, "accuracy": 0.5, "validation_accuracy": 0.5, "seconds": 0.01})


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), Path(sys.argv[2]))
