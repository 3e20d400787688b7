"""onnxruntime-web in a browser: what misbehaves costs its call alone, and nothing
outlives it."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import NoReturn

import numpy as np
import pytest
from command_line import DATA_4X3 as DATA
from command_line import DESC, INDICES, outcome, program
from folders import MODELS
from messages import message_of
from rings import one_quick_in
from stub_browser import fake_browser

import onnxgather as og
from onnxgather.checking.lanes import open_lanes
from onnxgather.core.errors import OnnxGatherError, ProviderError
from onnxgather.core.execution.elsewhere.browser import Handler, Site
from onnxgather.core.execution.elsewhere.hosts import find_runtime, web_host
from onnxgather.core.execution.elsewhere.worker import (
    _shared,  # type: ignore[reportPrivateUsage]
)
from onnxgather.core.execution.providers import WEB_PROVIDERS
from onnxgather.core.execution.session import open_session

WASM = WEB_PROVIDERS["web-wasm"]
WANTED = DATA[:, [2, 0]]

MOST = "more than the 536870912 that there can be"
SETUP_LINE = "run scripts/web/setup.sh"

MISDEEDS = [
    ("os._exit(3)", "host: the browser ended with code 3; it printed: nothing"),
    (
        "os.write(2, b'FATAL:gpu\\nmore\\n'); os.kill(os.getpid(), 11)",
        "host: the browser died of SIGSEGV; it printed: FATAL:gpu",
    ),
    ("alive.close(); time.sleep(60)", "host: the page of the browser crashed"),
    ("post('broken', b'no\\nmemory'); time.sleep(60)", "host: no memory"),
    (
        "post('answer', b'', 10**9)",
        f"host: the page announced 1000000000 bytes, {MOST}",
    ),
    (
        "post('answer', b'', 10**30)",
        f"host: the page announced 10000000000000000000 bytes, {MOST}",
    ),
    ("time.sleep(60)", "did not answer within 0.5 s and printed nothing"),
    ("answer = {}", "outputs of no node"),
    ("content = b''", "buffer is smaller than requested size"),
    ("answer['placed'] = 0", "outputs of no node"),
    ("answer['outputs'] *= 2", "2 outputs of 1 runs"),
    ("answer = []", "Expected `object`, got `array`"),
]
"""What a page does, and what is then said of the worker."""
SOME = (1, 6, 8)
"""Which of them the plain suite has, as each starts the program twice."""

posix = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in browser is a script"
)
has_all = all(map(find_runtime, WEB_PROVIDERS.values()))
live = pytest.mark.skipif(
    not has_all or shutil.which("chromium") is None,
    reason="scripts/web/setup.sh has not run",
)


Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a stand-in; return the file of its notes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    open_session.cache_clear()

    def made(change: str = "pass") -> Path:
        monkeypatch.setenv("CHROMIUM", str(fake_browser(tmp_path, WANTED, change)))
        return tmp_path / "notes"

    yield made
    _shared(*web_host(WASM)).close()
    open_session.cache_clear()
    _shared.cache_clear()


def gathered(indices: object = INDICES) -> bytes:
    """Return the bytes of what the page gathers."""
    return og.run(DESC, DATA, indices, provider="web-wasm").tobytes()


def is_gone(pid: str, profile: str) -> bool:
    """Whether a browser has ended, and its profile is removed."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return not Path(profile).parent.exists()
    return False


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@posix
class TestAPage:
    @pytest.mark.slow
    def test_one_browser_runs_all_models_and_ends_with_its_host(
        self, make: Make
    ) -> None:
        notes = make()
        for policy in ("clamp", "zero", "clamp"):
            output = og.run(DESC, DATA, INDICES, policy, "web-wasm")
            assert output.tobytes() == WANTED.tobytes()
        assert len(open_session(DESC, "clamp", "web-wasm").assignment) > 1
        (started,) = notes.read_text().splitlines()
        pid, profile = started.split()
        assert Path(profile).parent.is_dir()
        assert not is_gone(pid, profile)
        _shared(*web_host(WASM)).close()
        wait_for(lambda: is_gone(pid, profile))

    @pytest.mark.slow
    def test_the_browser_ends_when_its_host_is_killed(self, make: Make) -> None:
        notes = make()
        gathered()
        pid, profile = notes.read_text().split()
        worker = _shared(*web_host(WASM))
        os.kill(worker._program.popen.pid, signal.SIGKILL)  # type: ignore[union-attr, reportPrivateUsage]
        wait_for(lambda: is_gone(pid, profile))

    @pytest.mark.parametrize(
        ("change", "reason"),
        one_quick_in(
            12,
            [
                pytest.param(*each, marks=() if k in SOME else pytest.mark.slow)
                for k, each in enumerate(MISDEEDS)
            ],
        ),
    )
    def test_a_page_that_misbehaves_costs_that_call_alone(
        self, make: Make, change: str, reason: str
    ) -> None:
        make(f"if blobs[-8:] == bytes([1, 0, 0, 0, 0, 0, 0, 0]): {change}")
        assert gathered() == WANTED.tobytes()
        worker = _shared(*web_host(WASM))
        worker.timeout = 0.5 if change == "time.sleep(60)" else 30
        with pytest.raises(ProviderError) as caught:
            gathered(np.array([[1, 0]], np.uint32))
        how = "answered what no worker answers: "
        if reason.startswith("host"):
            how = "ended with exit code 1; it printed: "
        how = how if worker.timeout > 1 else ""
        assert (
            str(caught.value)
            == f"CPUExecutionProvider failed: the worker {how}{reason}"
        )
        worker.timeout = 30
        assert gathered() == WANTED.tobytes()


@posix
class TestWhatIsMissing:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("browser", "why"),
        [
            (
                "/nowhere/chromium",
                "CHROMIUM names /nowhere/chromium, which is no program",
            ),
            pytest.param(None, "Chromium is not installed", marks=pytest.mark.slow),
        ],
    )
    def test_without_a_browser_the_setup_is_named(
        self,
        browser: str | None,
        why: str,
        make: Make,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        make()
        monkeypatch.setenv("CHROMIUM", browser or "")
        monkeypatch.setenv("PATH", str(tmp_path))
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        monkeypatch.setenv("TMPDIR", str(temporary))
        why = f"{why}; {SETUP_LINE}"
        model = program(str(tmp_path / "programs" / "program.json"))
        code, out, _ = outcome("check", model, "--lanes", "web-wasm")
        assert code == 3
        assert f"web-wasm  did not start: {why}\n" in out
        place = f"Error: {model}: $.commands[0]: "
        code, out, errors = outcome("run", model, "--provider", "web-wasm")
        assert (code, out) == (3, "")
        # a slow start is told
        assert errors.endswith(f"{place}CPUExecutionProvider failed: {why}\n")
        assert not list(temporary.iterdir())

    def test_without_the_library_the_setup_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        model = program(str(tmp_path / "program.json"))
        why = f"onnxruntime-web is not set up; {SETUP_LINE}"
        code, out, _ = outcome("check", model, "--lanes", "web-webgpu")
        assert (code, f"web-webgpu  did not start: {why}\n" in out) == (3, True)
        place = f"Error: {model}: $.commands[0]: "
        found = outcome("run", model, "--provider", "web-wasm")
        assert found == (3, "", f"{place}CPUExecutionProvider failed: {why}\n")

    @pytest.mark.slow
    def test_a_folder_of_something_else_is_told(
        self, make: Make, tmp_path: Path
    ) -> None:
        make()
        model, other = (
            program(str(tmp_path / "programs" / "program.json")),
            tmp_path / "other",
        )
        code, _, err = outcome("check", model, "--lane", f"web-wasm={other}")
        assert (code, f"'{other}': no such file or directory\n" in err) == (2, True), (
            err
        )
        other.mkdir()
        why = (
            f"{other} must be a folder of onnxruntime-web, but has no ort.wasm.min.mjs"
        )
        code, out, _ = outcome("check", model, "--lane", f"web-wasm={other}")
        assert (code, f"web-wasm  did not start: {why}\n" in out) == (3, True), out

    def test_a_lane_in_a_browser_has_no_plugin(self) -> None:
        rule = "lane 'web-wasm' must have no plugin, as it is a browser's"
        assert (
            message_of(
                OnnxGatherError,
                open_lanes,
                ["web-wasm"],
                plugins={"web-wasm": "library.so"},
            )
            == rule
        )


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    """A server whose page is there, with one request for it."""
    fake_browser(tmp_path, WANTED)
    folder = tmp_path / "onnxgather/web/node_modules/onnxruntime-web"
    Handler.site = Site(folder, WASM, 'none, "as" root')
    Handler.site.requests.put(b"asked")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


def asked(
    server: ThreadingHTTPServer, method: str, path: str, **headers: str
) -> tuple[int, bytes]:
    with closing(
        http.client.HTTPConnection("127.0.0.1", server.server_port)
    ) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()


class TestTheServer:
    @pytest.mark.slow
    def test_it_answers_the_page_alone(self, server: ThreadingHTTPServer) -> None:
        assert server.server_address[0] == "127.0.0.1"
        own, port = f"/{Handler.site.secret}/", server.server_port
        for path in (
            "/",
            "/next",
            "//next",
            f"/{Handler.site.secret}",
            f"{own[:-2]}/next",
            f"{own[:-1]}x/next",
            "/?/",
        ):
            code, content = asked(server, "GET", path)
            assert (code, b"asked" in content) == (
                200 if path == own[:-1] else 404,
                False,
            ), path
        for headers in (
            {"Host": f"localhost:{port}"},
            {"Host": "evil.example"},
            {"Origin": "null"},
            {"Origin": "http://evil.example"},
            {"Origin": f"http://127.0.0.1:{port + 1}"},
        ):
            for method, name in (("GET", ""), ("GET", "next"), ("POST", "answer")):
                assert asked(server, method, own + name, **headers)[0] == 404
        for name in (
            "other",
            "dist/",
            "dist/../package.json",
            "dist/%2e%2e/x",
            "page.mjs/",
        ):
            assert asked(server, "GET", own + name)[0] == 404
        assert asked(server, "POST", f"{own}next")[0] == 404
        length = {"Content-Length": "-1"}
        assert asked(server, "POST", f"{own}answer", **length)[0] == 404
        assert asked(server, "PUT", f"{own}answer")[0] == 501
        origin = {"Origin": f"http://127.0.0.1:{port}"}
        assert asked(server, "GET", f"{own}next", **origin) == (200, b"asked")
        code, page = asked(server, "GET", own)
        assert (code, b'data-sandbox="none, &quot;as&quot; root"' in page) == (
            200,
            True,
        )
        assert asked(server, "GET", f"{own}dist/ort.wasm.min.mjs") == (
            200,
            b"export {};\n",
        )
        assert b"onnxruntime-web" in asked(server, "GET", f"{own}page.mjs")[1]

    def test_an_answer_that_is_not_asked_for_ends_it(
        self, server: ThreadingHTTPServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        told: SimpleQueue[str] = SimpleQueue()

        def fail(why: str) -> NoReturn:
            told.put(why)
            raise ConnectionError  # which ends the connection

        monkeypatch.setattr("onnxgather.core.execution.elsewhere.browser.fail", fail)
        place, length = f"/{Handler.site.secret}/answer", {"Content-Length": "0"}
        with pytest.raises(http.client.RemoteDisconnected):
            asked(server, "POST", place, **length)
        assert (
            told.get()
            == "the page sent an answer where it was not asked, or a part of one"
        )
        Handler.site.is_asked.set()
        assert asked(server, "POST", place, **length) == (200, b"")
        assert Handler.site.answers.get() == b""
        with pytest.raises(http.client.RemoteDisconnected):
            asked(server, "POST", place, **length)


@pytest.mark.slow
@live
class TestABrowser:
    @pytest.mark.parametrize("name", WEB_PROVIDERS)
    def test_a_part_of_the_corpus_has_nothing_new(
        self, name: str, tmp_path: Path
    ) -> None:
        options = ["--shard", "1/150", "--lanes", name, "--require", name]
        # No program says a node without a descriptor, so that WebNN itself does not run
        # all cases.
        if WEB_PROVIDERS[name].runs_programs:
            options = options[:-2]
        path = tmp_path / "report.json"
        code, out, _ = outcome("check", "--corpus", *options, f"--json={path}")
        assert code == 0, out
        cases = json.loads(path.read_text())["cases"]
        not_run = {
            case["name"].partition("/")[0]
            for case in cases
            if case["results"][0]["state"] == "NOT-RUN"
        }
        assert not_run <= {"forbidden", "onnx"}

    def test_it_prints_what_dxdispatch_prints(self, tmp_path: Path) -> None:
        path = MODELS / "gather_1_remap_1d.json"
        found = outcome(
            "run", str(path), "--provider", "web-wasm", "--output-folder", str(tmp_path)
        )
        # a slow start is told
        assert found[:2] == (0, path.with_suffix(".txt").read_text())
