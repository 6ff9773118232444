"""Headless Chromium over its debugging pipe, for tests of the report and pictures of it.

python -m benchmarks.browser report.html picture.png --width 1100 --height 1400 --dark
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --hide-scrollbars --remote-debugging-pipe"
)


def chromium() -> str | None:
    """The browser's program, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One page. ``events`` has all that the browser told; ``complaints`` what it complained about."""

    def __init__(
        self, width: int = 1100, height: int = 900, dark: bool = False, phone: bool = False, scale: float = 2.0
    ) -> None:
        program = chromium()
        if program is None:
            raise FileNotFoundError("There is no chromium here.")
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        child_in, self._out = os.pipe()
        self._in, child_out = os.pipe()
        line = f"exec {program} {FLAGS} --user-data-dir={self._home.name} about:blank 3<&{child_in} 4>&{child_out}"
        none = subprocess.DEVNULL
        self._process = subprocess.Popen(
            ["bash", "-c", line], pass_fds=(child_in, child_out), stdin=none, stdout=none, stderr=none
        )
        os.close(child_in)
        os.close(child_out)
        self._rest, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = next(one for one in self.call("Target.getTargets")["targetInfos"] if one["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=phone,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        with suppress(OSError, TimeoutError):
            self._session = ""
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._home.cleanup()

    def call(self, method: str, **params: Any) -> Any:
        """Ask the browser, and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read(60)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, place: Path | str, fragment: str = "") -> None:
        """Open a file or an address anew, and wait until it is loaded."""
        wanted = place if isinstance(place, str) else place.resolve().as_uri()
        for address in ("about:blank", wanted + fragment):  # a new fragment alone loads nothing
            before = len(self.events)
            self.call("Page.navigate", url=address)
            while not any(event.get("method") == "Page.loadEventFired" for event in self.events[before:]):
                self.events.append(self._read(60))

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression on the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def picture(self, path: Path, whole: bool = False) -> None:
        """A PNG of what is seen, or of the whole page."""
        options: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options = {"captureBeyondViewport": True, "clip": {**size, "x": 0, "y": 0, "scale": 0.5}}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", **options)["data"]))

    def printed(self) -> bytes:
        """The page as a PDF."""
        made = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(made["data"])

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the page, and everything that it wrote to the console."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [json.dumps(event) for event in self.events if event.get("method") in kinds]

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        sent = (event for event in self.events if event.get("method") == "Network.requestWillBeSent")
        found = (str(event["params"]["request"]["url"]) for event in sent)
        return [address for address in found if address != "about:blank"]

    def _read(self, seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("The browser does not answer.")
            got = os.read(self._in, 1 << 16)
            if not got:
                raise ConnectionError("The browser has gone.")
            self._rest += got
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer


def main() -> None:
    parser = argparse.ArgumentParser(description="A picture (.png) or a print (.pdf) of a page.")
    parser.add_argument("page", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--width", type=int, default=1100)
    parser.add_argument("--height", type=int, default=1400)
    parser.add_argument("--scale", type=float, default=2.0, help="pixels of the picture for one of the page")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--at", default="", help="where to scroll to, as a CSS selector")
    given = parser.parse_args()
    with Browser(given.width, given.height, given.dark, given.width < 500, given.scale) as browser:
        browser.open(given.page, given.at.split()[0] if given.at.startswith("#s") else "")  # a setting opens so
        if given.at:
            browser.run(f"document.querySelector({json.dumps(given.at)}).scrollIntoView()")
        if given.picture.suffix == ".pdf":
            given.picture.write_bytes(browser.printed())
        else:
            browser.picture(given.picture, given.whole)
        for complaint in browser.complaints:
            print(complaint)


if __name__ == "__main__":
    main()
