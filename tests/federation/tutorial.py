"""Every command of a tutorial page, in order, as its reader would give them; ``background`` ones in processes."""

import os
import re
import shlex
import subprocess
import sys

from tests.federation.real import ROOT, UNALIKE, free_port, processes_about, until

BLOCK = re.compile(r"```sh tested( background)?\n(.*?)```", re.DOTALL)
SCRIPT = re.compile(r"Save this as `([\w.]+)`:\n\n```python tested\n(.*?)```", re.DOTALL)


def commands(block):
    return [shlex.split(line) for line in block.replace("\\\n", " ").splitlines() if line]


class Reader:
    """Somebody who follows a page in a folder; ``before`` may do something before each command."""

    def __init__(self, page, folder, before=lambda reader, words: None):
        self.text, self.folder, self.before = page.read_text(encoding="utf-8"), folder, before
        self.address = f"127.0.0.1:{free_port()}"
        self.running, self.said = {}, {}
        self.environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "UNALIKE_RUNS": "runs",
        }

    def real(self, words):
        words = [self.address if word == "127.0.0.1:9443" else word for word in words]
        program = {"unalike": UNALIKE, "python": [sys.executable]}.get(words[0], words[:1])
        return [*program, *words[1:]]

    def start(self, words):
        """A command that stays, such as join, in a process of its own."""
        with (self.folder / f"{len(self.running)}.log").open("ab") as log:
            return subprocess.Popen(
                self.real(words), cwd=self.folder, env=self.environment, stdout=log, stderr=log
            )

    def follow(self):
        """Do all that the page says; what commands print first is in ``said``, by their first three words."""
        try:
            for name, script in SCRIPT.findall(self.text):
                (self.folder / name).write_text(script)
            for background, block in BLOCK.findall(self.text):
                for words in commands(block):
                    self._do(words, background)
            assert all(
                process.poll() is None for process in self.running.values()
            )  # they wait for what comes next
        finally:
            for process in self.running.values():
                process.terminate()
            for process in self.running.values():
                process.wait(60)
        until(lambda: not processes_about(self.folder), lambda: str(processes_about(self.folder)), 30)
        return self

    def _do(self, words, background):
        if words[:3] == ["unalike", "federation", "admit"]:
            until(lambda: all((self.folder / card).exists() for card in words[4:]), "no card")
        self.before(self, words)
        if background:
            self.running[words[3]] = self.start(words)
            return
        done = subprocess.run(
            self.real(words), cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        self.said.setdefault(" ".join(words[:3]), done.stdout)  # the first: another plan may follow
