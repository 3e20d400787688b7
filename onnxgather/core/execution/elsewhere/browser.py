"""A browser without a window, behind the protocol of `runtime`.

A program of its own: it starts the browser, serves it one page, and passes requests and
answers on between its own pipes and the page (native/hosts/web_page.mjs). The page runs
models by onnxruntime-web, or programs of WebNN (native/hosts/webnn_programs.mjs).
Whatever goes wrong with the browser ends the program, and the next request starts
another. Whatever ends the program ends the browser, and removes its profile.

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
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar, NoReturn

from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.hosts import HOSTS, webnn_folder
from onnxgather.core.execution.providers import WEB_PROVIDERS, WEB_SETUP, Provider

LARGEST_ANSWER = 2**29
"""The most bytes of an answer of the page."""

LARGEST_BREAKDOWN = 2**16
"""The most bytes that the page sends of why it ends."""

LONGEST_REASON = 1_000
"""The most bytes that a message shows of why the page ends, or of what the browser
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

WITH_WEBNN = (
    "--enable-features=WebMachineLearningNeuralNetwork",
    # A crash of WebNN's backend ends the browser, and with it this program. Otherwise
    # the browser goes on, and after three crashes without WebNN.
    "--in-process-gpu",
)
"""The arguments of a browser that must have WebNN."""

_BACKENDS = {"LiteRT": "LiteRT", "TensorFlow Lite": "LiteRT", "XNNPACK": "XNNPACK"}
"""The names of backends of WebNN by the words in what Chromium prints about them."""

_TYPES = {".mjs": "text/javascript", ".wasm": "application/wasm"}

_PAGE = (
    "<!doctype html><html data-library={library} data-sandbox={sandbox}><meta"
    ' charset="utf-8"><title>onnxgather</title><script type="module"'
    ' src="page.mjs"></script>'
)

_POLICY = (
    "default-src 'none'; script-src {scripts}; connect-src 'self'; base-uri 'none';"
    " form-action 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

_AFTER_JANITOR = ("sh", "-c", 'read -r _ && exec "$@" </dev/null', "sh")
"""Begins the command of the browser, which waits for a line: until its janitor is
there."""

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


def _script_sources(provider: Provider) -> str:
    """Return what the page's content security policy allows to run."""
    # A program of WebNN is text that the page imports; nothing is evaluated.
    if provider.runs_programs:
        return "'self' blob:"
    # The WebNN provider of onnxruntime-web 1.30.0 evaluates texts.
    if provider.needs_webnn:
        return "'self' 'wasm-unsafe-eval' 'unsafe-eval'"
    return "'self' 'wasm-unsafe-eval'"


class Site:
    """What the page gets, and what it sends back.

    Args:
        folder: The folder of onnxruntime-web, or its folder `dist`.
        provider: The provider that the page runs.
        sandbox: What the page reports of the browser's sandbox; empty where the sandbox
            is as it should be.
    """

    def __init__(self, folder: Path, provider: Provider, sandbox: str = "") -> None:
        self.secret = secrets.token_urlsafe(32)
        self.requests: SimpleQueue[bytes] = SimpleQueue()
        self.answers: SimpleQueue[bytes] = SimpleQueue()
        self.is_asked = threading.Event()
        self.is_ready = threading.Event()
        self.printed: Path | None = None
        """The file of what the browser prints; None before the browser starts."""
        self.files = dict[str, Path]()
        library = provider.library
        if library:
            dist = folder / "dist"
            if not dist.is_dir():
                dist = folder
            for path in dist.iterdir():
                if path.suffix in _TYPES:
                    self.files[f"dist/{path.name}"] = path
            if f"dist/{library}" not in self.files:
                rule = f"{folder} must be a folder of onnxruntime-web"
                fail(f"{rule}, but has no {library}")
        self.files["page.mjs"] = HOSTS / "web_page.mjs"
        self.files["webnn_programs.mjs"] = HOSTS / "webnn_programs.mjs"
        page = _PAGE.format(library=f'"{library}"', sandbox=f'"{html.escape(sandbox)}"')
        self.page = page.encode()
        policy = _POLICY.format(scripts=_script_sources(provider))
        self.headers = {**_HEADERS, "Content-Security-Policy": policy}

    def backends(self) -> str:
        """Return the backends of WebNN that the browser has named in its prints."""
        if self.printed is None:
            return ""
        text = self.printed.read_text("utf-8", "replace")
        names = [name for word, name in _BACKENDS.items() if word in text]
        return " with ".join(dict.fromkeys(names))


class Handler(BaseHTTPRequestHandler):
    """Answers the page, and nothing but the page."""

    protocol_version = "HTTP/1.1"
    site: ClassVar[Site]

    def do_GET(self) -> None:
        """Send the page, a file or the next request, or hold a connection.

        The connection lasts as long as the page.
        """
        name = self._name()
        site = self.site
        if name == "next":
            site.is_ready.set()
            self._send(site.requests.get())
        elif name == "alive":
            self._send(b"", {"Connection": "close", "Content-Length": "1"})
            while self.connection.recv(2**10):
                pass
            time.sleep(0.5)  # where the browser ended, `start_browser` says how
            fail("the page of the browser crashed")
        elif name == "backends":
            self._send(site.backends().encode())
        elif name == "":
            self._send(site.page, {"Content-Type": "text/html"})
        elif name in site.files:
            path = site.files[name]
            self._send(path.read_bytes(), {"Content-Type": _TYPES[path.suffix]})
        else:
            self._refuse()

    def do_POST(self) -> None:
        """Receive an answer of the page, or why it has none."""
        name = self._name()
        length = self.headers["Content-Length"] or ""
        if name not in ("answer", "broken") or not length.isdecimal():
            self._refuse()
            return
        size = int(length[:20])
        largest = LARGEST_ANSWER if name == "answer" else LARGEST_BREAKDOWN
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
        """Return what follows the secret in the address; None without the secret."""
        port = self.connection.getsockname()[1]
        address = f"127.0.0.1:{port}"
        is_own_host = self.headers["Host"] == address
        is_own_origin = self.headers["Origin"] in (None, f"http://{address}")
        # The path is `/SECRET/NAME`; without a name it ends after the secret.
        path = self.path.encode(errors="replace")
        _, secret, *names = [*path.split(b"/", 2), b""]
        # The comparison takes as long for any secret.
        has_secret = secrets.compare_digest(secret, self.site.secret.encode())
        if not (is_own_host and is_own_origin and has_secret):
            return None
        return names[0].decode(errors="replace")

    def _send(self, content: bytes, headers: Mapping[str, str] = {}) -> None:
        self.send_response(200)
        all_headers = {
            **self.site.headers,
            "Content-Length": str(len(content)),
            **headers,
        }
        for name, value in all_headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def _refuse(self) -> None:
        self.close_connection = True
        self.send_error(404)


def find_browser(own: Path | None) -> str:
    """Return the path of the browser; end the program where there is none.

    Args:
        own: The folder of a browser with WebNN, if the page needs WebNN; a browser of
            the system has no backend for it.
    """
    if sys.platform == "win32":
        fail("a browser's providers do not run on Windows so far")
    named = os.environ.get("CHROMIUM")
    names: Sequence[str] = BROWSERS
    if named:
        names = [named]
    elif own is not None:
        names = [str(own / "chromium")]
    for name in names:
        path = shutil.which(os.path.expanduser(name))
        if path:
            return path
    why = "Chromium is not installed"
    if own is not None:
        why = f"there is no Chromium with WebNN in {own}"
    if named:
        why = f"CHROMIUM names {named}, which is no program"
    fail(f"{why}; run {WEB_SETUP}")


def start_browser(path: str, address: str, arguments: list[str]) -> Path:
    """Start a browser at an address; the program ends when the browser does.

    Args:
        path: The path of the browser.
        address: The address of the page. It is in a file of the profile, as any user
            can read a command line.
        arguments: Its further arguments.

    Returns:
        The file of what the browser prints.
    """
    profile = Path(tempfile.mkdtemp(prefix="onnxgather-web-"))
    start = profile / "start.html"
    page = f'<meta http-equiv="refresh" content="0; url={address}">'
    start.write_text(page, encoding="utf-8")
    printed = profile / "printed.txt"
    with printed.open("wb") as errors:
        browser = subprocess.Popen(
            [
                *_AFTER_JANITOR,
                path,
                *ARGUMENTS,
                f"--user-data-dir={profile / 'profile'}",
                *arguments,
                start.as_uri(),
            ],
            stdin=subprocess.PIPE,
            stdout=errors,
            stderr=errors,
            env=_environment(path, str(profile)),
            start_new_session=True,
        )
    janitor = subprocess.Popen(
        ["sh", "-c", _JANITOR, "sh", str(browser.pid), str(profile)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    stdin = browser.stdin
    assert stdin is not None
    stdin.write(b"\n")
    stdin.close()

    def wait() -> NoReturn:
        code = browser.wait()
        assert janitor.stdin is not None  # it stays open for as long as the program
        how = f"ended with code {code}"
        if code < 0:
            how = f"died of {signal.Signals(-code).name}"
        reason = _reason_of_end(printed.read_text("utf-8", "replace"))
        fail(f"the browser {how}; it printed: {reason}")

    threading.Thread(target=wait, daemon=True).start()
    return printed


def _environment(path: str, profile: str) -> dict[str, str]:
    """Return the environment variables of a browser."""
    variables = {**os.environ}
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        variables[name] = profile
    # npm's browser comes with libraries that a distribution may lack.
    libraries = Path(path).parent / "lib"
    if libraries.is_dir():
        variables["LD_LIBRARY_PATH"] = str(libraries)
    return variables


def _reason_of_end(printed: str) -> str:
    """Return the line that a browser printed about its end, or its last line."""
    lines = printed.strip().splitlines()
    if not lines:
        return "nothing"
    fatal_lines = (line for line in lines if "FATAL" in line)
    return next(fatal_lines, lines[-1])[:LONGEST_REASON]


def serve_page(library: str, folder: str) -> None:
    """Answer requests as `runtime.serve` does, until the input ends."""
    is_root = sys.platform != "win32" and os.getuid() == 0
    sandbox = "none, as root" if is_root else ""
    (provider,) = (
        provider for provider in WEB_PROVIDERS.values() if provider.library == library
    )
    site = Site(Path(folder), provider, sandbox)
    Handler.site = site
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    arguments: list[str] = []
    if is_root:  # where the browser refuses to run with its sandbox
        arguments.append("--no-sandbox")
    if not Path("/dev/dri").exists():  # there is no GPU
        arguments.append(SOFTWARE)
    browsers = None
    if provider.needs_webnn:
        browsers = Path(folder) if provider.runs_programs else webnn_folder(folder)
        arguments += WITH_WEBNN
    path = find_browser(browsers)
    address = f"http://127.0.0.1:{server.server_port}/{site.secret}/"
    site.printed = start_browser(path, address, arguments)
    requests, answers = runtime.open_frames()
    site.is_ready.wait()
    runtime.send(answers, runtime.MAGIC)
    while True:
        request = requests.get()
        site.is_asked.set()
        site.requests.put(request)
        answer = site.answers.get()
        runtime.send(answers, runtime.frame(answer))


if __name__ == "__main__":
    serve_page(*sys.argv[1:])
