"""Runs exported Web Platform Tests of WebNN in Chromium, and prints their states.

    npm pack wpt-runner@7.0.0 && tar xzf wpt-runner-7.0.0.tgz
    onnxgather corpus export --format wpt tests
    python scripts/wpt.py tests package/testharness/testharness.js

The second argument is testharness.js of the Web Platform Tests, which npm's package
wpt-runner has. `--utils FILE` takes webnn/resources/utils.js of a checkout of these in
place of scripts/web/wpt_utils.js. `--json` prints each result.

The browser is the one that scripts/web/setup.sh gets from npm, or the one that CHROMIUM
names. It must have WebNN.

If a test ends the browser, its state is CRASH, and another browser runs the rest.

The exit code is 0 if each test passed or was skipped, 1 if one did not, and 2 if the
usage is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from onnxgather.checking.corpus.wpt import WPT_FOLDER
from onnxgather.core.execution.elsewhere.browser import ARGUMENTS, WITH_WEBNN
from onnxgather.core.execution.elsewhere.hosts import webnn_folder

WEB = Path(__file__).parent / "web"

BROWSER = webnn_folder() / "chromium"
"""The browser that scripts/web/setup.sh gets."""

SECONDS = 120
"""How long a browser may go without a result."""

SKIPPED = "PRECONDITION_FAILED"
"""The state of a test whose data types or ranks the browser does not list."""

GOOD_STATES = ("PASS", SKIPPED)


@dataclass(frozen=True, slots=True)
class TestResult:
    """What became of a test."""

    __test__: ClassVar[bool] = False

    file: str
    name: str
    state: str
    message: str | None


class Server(ThreadingHTTPServer):
    """Serves a page, and takes its results.

    Args:
        files: The files by their paths; `/test.html` is the page.
    """

    daemon_threads = True

    def __init__(self, files: Mapping[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.done: list[str] = []
        self.results: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, unless a browser ended before its answer came."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers the page."""

    server: Any

    def do_GET(self) -> None:
        """Send a file, or the names of the tests that an earlier browser ran."""
        path = self.path.partition("?")[0]
        if path == "/done.js":
            content = f"globalThis.testsDone = {json.dumps(self.server.done)};".encode()
        elif path in self.server.files:
            content = self.server.files[path].read_bytes()
        else:
            self.send_error(404)
            return
        kind = "text/html" if path.endswith(".html") else "text/javascript"
        self._answer(kind, content)

    def do_POST(self) -> None:
        """Take a result."""
        length = int(self.headers["Content-Length"])
        self.server.results.put(json.loads(self.rfile.read(length)))
        self._answer("text/plain", b"")

    def _answer(self, kind: str, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def files_of(file: Path, testharness: Path, utils: Path) -> dict[str, Path]:
    """Return what the page of a file of tests loads.

    Args:
        file: The file of tests.
        testharness: The file testharness.js.
        utils: The file that is served as webnn/resources/utils.js. The files beside it
            are served too.
    """
    files = {
        "/test.html": WEB / "wpt_page.html",
        "/test.js": file,
        "/resources/testharness.js": testharness,
    }
    for path in utils.parent.iterdir():
        files[f"/webnn/resources/{path.name}"] = path
    files["/webnn/resources/utils.js"] = utils
    return files


def names_of(file: Path) -> list[str]:
    """Return the names of the tests of a file."""
    text = file.read_text(encoding="utf-8")
    return re.findall(r"^    name: '(.+)',$", text, re.MULTILINE)


def run_file(
    file: Path, testharness: Path, utils: Path, browser: str
) -> Iterator[TestResult]:
    """Yield the result of each test of a file, in their order.

    A browser that ends, or returns nothing for SECONDS, makes the first test without a
    result a CRASH.
    """
    server = Server(files_of(file, testharness, utils))
    names = names_of(file)
    try:
        while len(server.done) < len(names):
            for result in results_of_browser(server, browser):
                name = result["name"]
                server.done.append(name)
                yield TestResult(file.name, name, result["state"], result["message"])
            rest = [name for name in names if name not in server.done]
            if rest:
                server.done.append(rest[0])
                yield TestResult(file.name, rest[0], "CRASH", "the browser ended")
    finally:
        server.shutdown()
        server.server_close()


def results_of_browser(server: Server, browser: str) -> Iterator[dict[str, Any]]:
    """Yield the results of one browser, until it is done, ends or returns no more."""
    address = f"http://127.0.0.1:{server.server_port}/test.html?cpu"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [browser, *ARGUMENTS, *WITH_WEBNN, f"--user-data-dir={profile}"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")
        variables = {**os.environ}
        # npm's browser comes with libraries that a distribution may lack.
        libraries = Path(browser).parent / "lib"
        if libraries.is_dir():
            variables["LD_LIBRARY_PATH"] = str(libraries)
        nothing = subprocess.DEVNULL
        process = subprocess.Popen(
            [*command, address], env=variables, stdout=nothing, stderr=nothing
        )
        try:
            waited = 0
            while waited < SECONDS:
                try:
                    result = server.results.get(timeout=1)
                except queue.Empty:
                    waited += 1
                    if process.poll() is not None:
                        return
                    continue
                waited = 0
                if "completed" in result:
                    return
                yield result
        finally:
            process.kill()
            process.wait()


def main(arguments: Sequence[str]) -> int:
    """Run the tests of an export, and return the exit code."""
    parser = argparse.ArgumentParser(description="Run exported Web Platform Tests.")
    add = parser.add_argument
    add("export", type=Path)
    add("testharness", type=Path)
    add("--utils", type=Path, default=WEB / "wpt_utils.js")
    add("--json", action="store_true")
    options = parser.parse_args(arguments)
    files = sorted((options.export / WPT_FOLDER).glob("*.js"))
    if not files:
        parser.error(f"{options.export} must be an export of the format wpt")
    if not options.testharness.is_file():
        parser.error(f"{options.testharness} must be the file testharness.js")
    browser = os.environ.get("CHROMIUM", str(BROWSER))
    if shutil.which(browser) is None:
        parser.error(f"{browser} must be a browser; scripts/web/setup.sh gets one")
    code = 0
    for file in files:
        states: Counter[str] = Counter()
        for result in run_file(file, options.testharness, options.utils, browser):
            states[result.state] += 1
            if options.json:
                print(json.dumps(asdict(result)), flush=True)
            elif result.state not in GOOD_STATES:
                print(f"{result.state} {result.name}: {result.message}", flush=True)
        if set(states) - set(GOOD_STATES):
            code = 1
        if not options.json:
            counts = ", ".join(f"{count} {state}" for state, count in states.items())
            print(f"{file.name}: {counts}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
