"""onnxruntime-web in a browser without a window, behind the protocol of `runtime`.

A program of its own: it starts the browser, serves it one page, and passes requests and
answers on between its own pipes and the page, which runs the models
(native/hosts/web_page.mjs). Whatever goes wrong with the browser ends the program, and
the next request starts another. Whatever ends the program ends the browser, and removes
its profile.

The server listens on 127.0.0.1 alone. Each address has a secret in it, which no command
line holds; and the browser is kept from every other server.
"""

from __future__ import annotations

import html
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar, NoReturn

from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.hosts import HOSTS
from onnxgather.core.execution.providers import WEB_SETUP

LARGEST_ANSWER = 2**29
"""The most bytes of an answer of the page."""

LONGEST_REASON = 1_000
"""The most bytes that are told of why the page ends, and of what the browser
printed."""

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
"""The commands of browsers, where the variable CHROMIUM names none."""

ARGUMENTS = (
    "--headless",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-pings",
    "--no-proxy-server",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # nothing from outside
    "--password-store=basic",
    "--enable-unsafe-webgpu",
)
"""The arguments of the browser."""

SOFTWARE = "--use-webgpu-adapter=swiftshader"
"""The argument for a machine without a GPU."""

_TYPES = {".mjs": "text/javascript", ".wasm": "application/wasm"}

_PAGE = (
    "<!doctype html><html data-library={library} data-sandbox={sandbox}><meta"
    ' charset="utf-8"><title>onnxgather</title><script type="module"'
    ' src="page.mjs"></script>'
)

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_JANITOR = """
read -r _
kill -s KILL -- "-$1"
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do rm -rf "$2" && exit; sleep 1; done
"""
"""Ends the process group of the browser and removes its profile once its own input
ends: that is when this program ends, by whatever signal. A process outside the group
may still write a while."""


def fail(why: str) -> NoReturn:
    """End the program, and say why; may be called in any thread."""
    os.write(2, f"host: {why}\n".encode(errors="replace"))
    os._exit(1)


class Site:
    """What the page gets, and what it sends back.

    Args:
        folder: The folder of onnxruntime-web, or its folder `dist`.
        library: The name of its module that the page imports.
        sandbox: What is to be said of the browser's sandbox; empty where it is as it should be.
    """

    def __init__(self, folder: Path, library: str, sandbox: str = "") -> None:
        self.secret = secrets.token_urlsafe(32)
        self.requests: SimpleQueue[bytes] = SimpleQueue()
        self.answers: SimpleQueue[bytes] = SimpleQueue()
        self.is_asked, self.is_ready = threading.Event(), threading.Event()
        dist = folder / "dist" if (folder / "dist").is_dir() else folder
        self.files = {
            f"dist/{path.name}": path
            for path in dist.iterdir()
            if path.suffix in _TYPES
        }
        if f"dist/{library}" not in self.files:
            fail(f"{folder} must be a folder of onnxruntime-web, but has no {library}")
        self.files["page.mjs"] = HOSTS / "web_page.mjs"
        quoted = {"library": f'"{library}"', "sandbox": f'"{html.escape(sandbox)}"'}
        self.page = _PAGE.format(**quoted).encode()


class Handler(BaseHTTPRequestHandler):
    """Answers the page, and nothing but the page."""

    protocol_version = "HTTP/1.1"
    site: ClassVar[Site]

    def do_GET(self) -> None:
        """The page, a file, the next request, or a connection that lasts as long as the page."""
        name, site = self._name(), self.site
        if name == "next":
            site.is_ready.set()
            self._send(site.requests.get())
        elif name == "alive":
            self._send(b"", {"Connection": "close", "Content-Length": "1"})
            while self.connection.recv(2**10):
                pass
            time.sleep(0.5)  # where the browser ended, `start_browser` says how
            fail("the page of the browser crashed")
        elif name == "":
            self._send(site.page, {"Content-Type": "text/html"})
        elif name in site.files:
            path = site.files[name]
            self._send(path.read_bytes(), {"Content-Type": _TYPES[path.suffix]})
        else:
            self._refuse()

    def do_POST(self) -> None:
        """An answer of the page, or why it has none."""
        name, told = self._name(), self.headers["Content-Length"] or ""
        if name not in ("answer", "broken") or not told.isdecimal():
            self._refuse()
            return
        size, largest = int(told[:20]), LARGEST_ANSWER if name == "answer" else 2**16
        if size > largest:
            fail(
                f"the page announced {size} bytes, more than the {largest} that there"
                " can be"
            )
        content = self.rfile.read(size)
        if name == "broken":
            fail(content[:LONGEST_REASON].decode(errors="replace"))
        if len(content) < size or not self.site.is_asked.is_set():
            fail("the page sent an answer where it was not asked, or a part of one")
        self.site.is_asked.clear()
        self.site.answers.put(content)
        self._send(b"")

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def _name(self) -> str | None:
        """What stands behind the secret in the address; None for whoever does not have it."""
        address = "127.0.0.1:{}".format(*self.connection.getsockname()[1:2])
        own = self.headers["Host"] == address
        own &= self.headers["Origin"] in (None, f"http://{address}")
        _, secret, *name = [*self.path.encode(errors="replace").split(b"/", 2), b""]
        own &= secrets.compare_digest(secret, self.site.secret.encode())
        return name[0].decode(errors="replace") if own else None

    def _send(self, content: bytes, headers: Mapping[str, str] = {}) -> None:
        self.send_response(200)
        size = {"Content-Length": str(len(content))}
        for header in {**_HEADERS, **size, **headers}.items():
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _refuse(self) -> None:
        self.close_connection = True
        self.send_error(404)


def find_browser() -> str:
    """The path of the browser; ends the program where there is none."""
    if sys.platform == "win32":
        fail("a browser's providers do not run on Windows so far")
    named = os.environ.get("CHROMIUM")
    for name in [named] if named else BROWSERS:
        if path := shutil.which(os.path.expanduser(name)):
            return path
    where = (
        f"CHROMIUM names {named}, which is no program"
        if named
        else "Chromium is not installed"
    )
    fail(f"{where}; run {WEB_SETUP}")


def start_browser(address: str, arguments: list[str]) -> None:
    """Start the browser at an address; the program ends when the browser does.

    Args:
        address: The address of the page. A file in the profile has it, as any user can read a
            command line.
        arguments: Its further arguments.
    """
    path = find_browser()
    profile = Path(tempfile.mkdtemp(prefix="onnxgather-web-"))
    start, printed = profile / "start.html", profile / "printed.txt"
    start.write_text(
        f'<meta http-equiv="refresh" content="0; url={address}">', encoding="utf-8"
    )
    # The browser begins only when its janitor is there.
    command = ["sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh", path, *ARGUMENTS]
    command += [f"--user-data-dir={profile / 'profile'}", *arguments, start.as_uri()]
    pipe, own = subprocess.PIPE, {"HOME": str(profile), "XDG_CONFIG_HOME": str(profile)}
    with printed.open("wb") as errors:
        start_apart = partial(
            subprocess.Popen[bytes], stdin=pipe, start_new_session=True
        )
        env = {**os.environ, **own, "XDG_CACHE_HOME": str(profile)}
        browser = start_apart(command, stdout=errors, stderr=errors, env=env)
    nowhere = subprocess.DEVNULL
    command = ["sh", "-c", _JANITOR, "sh", str(browser.pid), str(profile)]
    janitor = start_apart(command, stdout=nowhere, stderr=nowhere)
    stdin = browser.stdin
    assert stdin is not None
    stdin.write(b"\n")
    stdin.close()

    def wait() -> NoReturn:
        code = browser.wait()
        assert janitor.stdin is not None
        lines = printed.read_text("utf-8", "replace").strip().splitlines()
        said = next(
            (line for line in lines if "FATAL" in line), (lines or ["nothing"])[-1]
        )
        how = (
            f"died of {signal.Signals(-code).name}"
            if code < 0
            else f"ended with code {code}"
        )
        fail(f"the browser {how}; it printed: {said[:LONGEST_REASON]}")

    threading.Thread(target=wait, daemon=True).start()


def serve_page(library: str, folder: str) -> None:
    """Answer requests as `runtime.serve` does, until the input ends."""
    is_root = sys.platform != "win32" and os.getuid() == 0
    site = Handler.site = Site(
        Path(folder), library, "none, as root" if is_root else ""
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    arguments = ["--no-sandbox"] if is_root else []
    arguments += [] if Path("/dev/dri").exists() else [SOFTWARE]
    start_browser(f"http://127.0.0.1:{server.server_port}/{site.secret}/", arguments)
    requests, answers = runtime.open_frames()
    site.is_ready.wait()
    runtime.send(answers, runtime.MAGIC)
    while True:
        request = requests.get()
        site.is_asked.set()
        site.requests.put(request)
        runtime.send(answers, runtime.frame(site.answers.get()))


if __name__ == "__main__":
    serve_page(*sys.argv[1:])
