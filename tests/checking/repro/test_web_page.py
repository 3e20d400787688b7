"""repro.html: the page of a repro that runs it by onnxruntime-web."""

from __future__ import annotations

import base64
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from repro_cases import CASE, INFO, OUTSIDE
from rings import one_quick_in

from onnxgather.checking.cases import Case
from onnxgather.checking.lanes.lane import LaneInfo
from onnxgather.checking.repro.folder import (
    Difference,
    Trial,
    _typed_array,  # type: ignore[reportPrivateUsage]
    trial_of_program,
    trials_of,
    write_folder,
)
from onnxgather.checking.results import Result, ResultKind
from onnxgather.core.execution import runtime
from onnxgather.core.execution.elsewhere.browser import WITH_WEBNN
from onnxgather.core.execution.elsewhere.hosts import find_runtime, webnn_folder
from onnxgather.core.execution.providers import WEB_PROVIDERS, Provider

CHROMIUM = shutil.which("chromium")
WEBNN = WEB_PROVIDERS["webnn"]
WASM = LaneInfo("web-wasm", "CPUExecutionProvider", {"onnxruntime": "1.30.0"})


def written(folder: Path, case: Case = CASE, info: LaneInfo = WASM) -> Trial:
    """Write a repro; return what it runs."""
    *_, trial = trials_of(case, "cpu")
    result = Result(
        info.name, "DIFF", ResultKind.SHAPE, "expected shape [3, 4], got [3]"
    )
    write_folder(str(folder), Difference(case, info, result), trial)
    return trial


def test_the_page_has_the_model_and_the_arrays(tmp_path: Path) -> None:
    versions = {"onnxruntime": '1"><script>alert(1)</script>'}
    trial = written(
        tmp_path / "out", info=LaneInfo("web-wasm@other", WASM.provider, versions)
    )
    page = (tmp_path / "out" / "repro.html").read_text()
    assert page.count("<script") == page.count("</script>") == 2
    ((digest, script),) = re.findall(
        r"script-src '(sha256-[^']+)'.*<script type=\"module\">(.*?)</script>",
        page,
        re.DOTALL,
    )
    assert (
        digest
        == "sha256-" + base64.b64encode(sha256(script.encode()).digest()).decode()
    )
    (told,) = re.findall(r'id="data">(.*?)</script>', page)
    data = json.loads(told)
    assert base64.b64decode(data["model"]) == trial.question.model
    assert (data["library"], data["provider"], data["rule"]) == (
        "ort.wasm.min.mjs",
        "wasm",
        None,
    )
    arrays = {**trial.question.inputs, "": trial.expected}
    for name, typed, kind, content, shape in (*data["inputs"], data["expected"]):
        array = arrays.pop(name)
        assert array is not None
        assert (kind, shape) == (array.dtype.name, list(array.shape))
        big = "Big" if kind == "int64" else ""
        assert f"{typed}".lower() == f"{big}{kind}Array".lower()
        assert base64.b64decode(content) == array.tobytes()
    assert not arrays
    first = data["first"]
    assert base64.b64decode(first["model"]) != trial.question.model
    names = [name for name, *_ in first["inputs"]]
    assert names == ["InputTensor", "IndicesTensor", "One"]


def test_the_issue_of_a_browser_names_the_page_alone(tmp_path: Path) -> None:
    written(tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {
        *("ISSUE.md", "expected.npy", "inputs.npz", "model.onnx", "program.json"),
        *("SHA256SUMS", "repro.html"),
    }
    issue = (tmp_path / "out" / "ISSUE.md").read_text()
    assert "repro.py" not in issue
    _, _, how = issue.partition("## How to run it\n\n")
    assert how.replace("\n", " ").startswith(
        "`repro.html` runs `model.onnx` on the inputs in a browser, by the"
        " onnxruntime-web that you name there. Its last line says whether it differs,"
        " or that it did not run. A browser opens it over HTTP: `python3 -m"
        " http.server --bind 127.0.0.1` serves the folder to this machine alone."
    )
    written(tmp_path / "out")  # an earlier repro is replaced


@pytest.mark.parametrize(
    ("data_type", "wanted"),
    [
        ("float16", "Float16Array"),
        ("uint64", "BigUint64Array"),
        ("float64", "Float64Array"),
        ("int8", "Int8Array"),
        ("bool", "Uint8Array"),
    ],
)
def test_each_data_type_has_its_array(data_type: str, wanted: str) -> None:
    assert _typed_array(np.dtype(data_type)) == wanted


def test_another_lane_has_no_page(tmp_path: Path) -> None:
    written(tmp_path / "out", info=INFO)
    assert not (tmp_path / "out" / "repro.html").exists()


@pytest.mark.slow
@pytest.mark.skipif(
    CHROMIUM is None or not find_runtime(WEB_PROVIDERS["web-wasm"]),
    reason="scripts/web/setup.sh has not run",
)
@pytest.mark.parametrize(
    ("state", "folder", "verdict"),
    one_quick_in(
        3,
        [
            ("right", "dist/", "It does not differ."),
            ("right", "dist", "It does not differ."),
            ("wrong", "dist/", "It differs."),
            ("refused", "dist/", "It does not differ."),
            ("refused", "no/", "It did not run: Failed to fetch dynamically imported"),
            ("no WebGPU", "dist/", "It did not run: no available backend found"),
        ],
    ),
)
def test_a_page_of_a_model_has_three_verdicts(
    state: str, folder: str, verdict: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    info = WASM
    if state == "no WebGPU":
        info = LaneInfo("web-webgpu", runtime.WEBGPU, WASM.versions, target="webgpu")
    written(out, OUTSIDE if state in ("refused", "no WebGPU") else CASE, info)
    page = out / "repro.html"
    if state == "wrong":
        text = page.read_text()
        (told,) = re.findall(r'id="data">(.*?)</script>', text)
        data = json.loads(told)
        content = base64.b64decode(data["expected"][3])
        data["expected"][3] = base64.b64encode(content[:-1] + b"\x01").decode()
        page.write_text(text.replace(told, json.dumps(data)))
    with served(out, WEB_PROVIDERS["web-wasm"]) as own:
        options = ["--headless", "--no-sandbox", "--virtual-time-budget=20000"]
        options += [f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
        command = [str(CHROMIUM), *options, f"{own}/repro.html#{own}/{folder}"]
        ran = subprocess.run(
            command, capture_output=True, text=True, timeout=100, check=True
        )
    (said,) = re.findall(r'<pre id="said">(.*?)</pre>', ran.stdout, re.DOTALL)
    lines = unescape(said).strip().splitlines()
    assert lines[-1].startswith(verdict)
    if folder != "no/":
        assert any("onnxruntime-web 1." in line for line in lines)
    if not verdict.startswith("It did not run"):
        assert any(line.startswith("expected: ") for line in lines)


@pytest.mark.skipif(
    not find_runtime(WEBNN), reason="scripts/web/setup.sh --lanes webnn has not run"
)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("state", "verdict"),
    [
        ("right", "It does not differ."),
        ("wrong", "It differs."),
        ("refused", "It does not differ."),
        ("not refused", "It differs."),
        ("no WebNN", "It did not run: the browser has no WebNN here"),
    ],
)
def test_a_page_of_a_program_has_three_verdicts(
    state: str, verdict: str, tmp_path: Path
) -> None:
    case = OUTSIDE if state.endswith("refused") else CASE
    info = LaneInfo("webnn", WEBNN.name, {"chromium": "153.0.8010.0"})
    result = Result(info.name, "DIFF", ResultKind.SHAPE, "expected shape [3, 4]")
    out = tmp_path / "out"
    write_folder(str(out), Difference(case, info, result), trial_of_program(case))
    page = out / "repro.html"
    text = page.read_text()
    (embedded,) = re.findall(r'id="data">(.*?)</script>', text)
    data = json.loads(embedded)
    if state == "wrong":
        content = base64.b64decode(data["expected"][3])
        data["expected"][3] = base64.b64encode(content[:-1] + b"\x01").decode()
    if state == "not refused":
        rule = "if (new Int32Array(count)[0] > 0)"
        assert rule in data["module"]
        data["module"] = data["module"].replace(rule, "if (false)")
    page.write_text(text.replace(embedded, json.dumps(data).replace("<", "\\u003c")))
    options = WITH_WEBNN
    if state == "no WebNN":
        options = ()
    assert spoken(page.as_uri(), out, options)[-1] == verdict


@pytest.mark.skipif(
    not find_runtime(WEBNN) or not find_runtime(WEB_PROVIDERS["web-webnn"]),
    reason="scripts/web/setup.sh has not run",
)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        (WITH_WEBNN, "It does not differ."),
        ((), "It did not run: no available backend found. ERR: [webnn] "),
    ],
)
def test_a_page_of_a_model_runs_on_webnn(
    options: Sequence[str], verdict: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    provider = WEB_PROVIDERS["web-webnn"]
    info = LaneInfo("web-webnn", provider.name, WASM.versions, target="portable")
    *_, trial = trials_of(CASE, "portable", for_webnn=True)
    result = Result(info.name, "DIFF", ResultKind.SHAPE, "expected shape [3, 4]")
    write_folder(str(out), Difference(CASE, info, result), trial)
    with served(out, provider) as own:
        lines = spoken(f"{own}/repro.html#{own}/dist", tmp_path, options)
    assert lines[-1].startswith(verdict)


@contextmanager
def served(folder: Path, provider: Provider) -> Generator[str]:
    """Yield the address of a folder, with onnxruntime-web in it as dist."""
    (folder / "dist").symlink_to(Path(find_runtime(provider)[-1]) / "dist")
    handler = functools.partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def spoken(address: str, folder: Path, options: Sequence[str]) -> list[str]:
    """Return what a page says in the browser with WebNN, up to its verdict."""
    browser = webnn_folder() / "chromium"
    command = [str(browser), "--headless", "--no-sandbox", *options]
    command += [f"--user-data-dir={folder / 'profile'}", address]
    env = {**os.environ, "LD_LIBRARY_PATH": str(browser.parent / "lib")}
    lines: list[str] = []
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, env=env, start_new_session=True
    ) as running:
        timer = threading.Timer(60, os.killpg, [running.pid, signal.SIGKILL])
        timer.start()
        assert running.stderr is not None
        for line in running.stderr:
            lines += re.findall(r'CONSOLE:\d+\] "(.*)", source: ', line)
            if lines and lines[-1].startswith("It d"):
                break
        timer.cancel()
        os.killpg(running.pid, signal.SIGKILL)
    return lines


class QuietHandler(SimpleHTTPRequestHandler):
    extensions_map = {
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
    }

    def log_message(self, format: str, *args: object) -> None: ...
