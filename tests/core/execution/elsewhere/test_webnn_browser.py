"""WebNN in a browser: programs of descriptors, with a stand-in and with the browser."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement import same
from command_line import DATA_4X3 as DATA
from command_line import DESC, INDICES, outcome, program
from folders import MODELS
from messages import message_of
from short_descriptors import descriptor
from stub_browser import fake_browser
from webnn_mistakes import changed_programs, differing_arrays

import onnxgather as og
from onnxgather.checking.cases import NodeCase, smallest_case
from onnxgather.checking.corpus.built_in import built_in_cases
from onnxgather.checking.lanes import open_lanes
from onnxgather.checking.run import ask
from onnxgather.core.errors import IndexOutOfRangeError, ProviderError
from onnxgather.core.execution.elsewhere.browser import Site, find_browser
from onnxgather.core.execution.elsewhere.hosts import find_runtime, web_host
from onnxgather.core.execution.elsewhere.worker import (
    OpenedProgram,
    _shared,  # type: ignore[reportPrivateUsage]
    output_of_bytes,
)
from onnxgather.core.execution.providers import WEB_PROVIDERS
from onnxgather.core.execution.runtime import FailedError
from onnxgather.core.execution.session import open_session
from onnxgather.core.lowering.webnn.program import WebnnProgram

WEBNN = WEB_PROVIDERS["webnn"]
WANTED = DATA[:, [2, 0]]
OUT_OF_RANGE = np.array([[7, 0]], np.uint32)

posix = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in browser is a script"
)
live = pytest.mark.skipif(
    not find_runtime(WEBNN), reason="scripts/web/setup.sh --lanes webnn has not run"
)


Make = Callable[..., None]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a stand-in whose page returns the bytes of an output."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    open_session.cache_clear()

    def made(output: np.ndarray = WANTED, change: str = "pass") -> None:  # type: ignore[type-arg]
        output_bytes = np.frombuffer(output.tobytes(), np.uint8)
        browser = fake_browser(tmp_path, output_bytes, change)
        monkeypatch.setenv("CHROMIUM", str(browser))

    yield made
    _shared(*web_host(WEBNN)).close()
    open_session.cache_clear()
    _shared.cache_clear()


@posix
class TestASession:
    def test_it_returns_the_output_of_the_bytes(self, make: Make) -> None:
        make()
        output = og.run(DESC, DATA, INDICES, provider="webnn")
        assert same(output, WANTED)
        session = open_session(DESC, "clamp", "webnn")
        assert session.assignment == (("gather", "gather"),)
        assert repr(session) == (
            "<Session on webnn: InputTensor FLOAT [4, 3], IndicesTensor UINT32 [1, 2]"
            " -> OutputTensor FLOAT [4, 2]>"
        )

    @pytest.mark.slow
    def test_an_index_out_of_range_is_an_error_before_the_browser_runs(
        self, make: Make
    ) -> None:
        make()
        given = (DESC, DATA, OUT_OF_RANGE, "error", "webnn")
        rule = "IndicesTensor[0,0] must be in [0, 3), got 7"
        assert message_of(IndexOutOfRangeError, og.run, *given) == rule

    @pytest.mark.slow
    def test_a_crash_of_the_browser_costs_that_call_alone(self, make: Make) -> None:
        has_indices = "if blobs[-8:] == bytes([1, 0, 0, 0, 0, 0, 0, 0])"
        crash = "os.write(2, b'FATAL:litert'); os.kill(os.getpid(), 6)"
        make(change=f"{has_indices}: {crash}")
        given = (DESC, DATA, np.array([[1, 0]], np.uint32), "clamp", "webnn")
        assert message_of(ProviderError, og.run, *given) == (
            "webnn failed: the worker ended with exit code 1; it printed: host: the"
            " browser died of SIGABRT; it printed: FATAL:litert"
        )
        output = og.run(DESC, DATA, INDICES, provider="webnn")
        assert output.tobytes() == WANTED.tobytes()

    def test_models_and_their_options_are_refused(self) -> None:
        cure = "provider web-webnn runs models"
        model = og.to_onnx(DESC)
        assert message_of(ProviderError, og.Session, model, "webnn") == (
            f"webnn must run a descriptor, got an ONNX model; {cure}"
        )
        options: Any = {"deviceType": "npu"}
        for call, got in (
            (
                lambda: og.run(DESC, DATA, INDICES, "clamp", "webnn", target="cpu"),
                "a target",
            ),
            (
                lambda: og.Session(DESC, "webnn", provider_options=options),
                "options of a provider",
            ),
        ):
            assert message_of(ProviderError, call) == (
                f"webnn must have none of the options of ONNX models, got {got}; {cure}"
            )

    def test_bytes_of_another_number_stay_as_they_are(self) -> None:
        output_tensor = DESC.output_tensor
        whole = np.frombuffer(WANTED.tobytes(), np.uint8)
        assert output_of_bytes(whole, output_tensor).tobytes() == WANTED.tobytes()
        assert output_of_bytes(whole, output_tensor).shape == (4, 2)
        assert output_of_bytes(whole[1:], output_tensor).dtype == np.uint8


@posix
class TestWhatIsMissing:
    def test_without_the_browser_the_setup_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        model = program(str(tmp_path / "program.json"))
        why = "a browser with WebNN is not set up; run scripts/web/setup.sh"
        code, out, _ = outcome("check", model, "--lanes", "webnn")
        assert (code, f"webnn  did not start: {why}\n" in out) == (3, True), out
        place = f"Error: {model}: $.commands[0]: "
        found = outcome("run", model, "--provider", "webnn")
        assert found == (3, "", f"{place}webnn failed: {why}\n")

    @pytest.mark.slow
    def test_a_folder_without_the_browser_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("CHROMIUM", raising=False)
        model = program(str(tmp_path / "programs" / "program.json"))
        other = tmp_path / "other"
        other.mkdir()
        code, out, _ = outcome("check", model, "--lane", f"webnn={other}")
        why = f"there is no Chromium with WebNN in {other}; run scripts/web/setup.sh"
        assert (code, f"webnn  did not start: {why}\n" in out) == (3, True), out

    def test_the_browser_of_the_folder_is_taken(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("CHROMIUM", raising=False)
        browser = tmp_path / "chromium"
        browser.touch(0o755)
        assert find_browser(tmp_path) == str(browser)


@posix
class TestTheLane:
    @pytest.mark.slow
    def test_it_runs_descriptors_alone(self, make: Make) -> None:
        case = smallest_case("Gather", "FLOAT32")
        make(np.array([2, 0, 1], np.float32))
        (lane,) = open_lanes(["webnn"])
        try:
            info = lane.start()
            assert (info.provider, info.target, info.python) == ("webnn", None, None)
            answer = lane.answer(case)
            assert answer.output is not None
            assert answer.output.tobytes() == case.expected().tobytes()  # type: ignore[union-attr]
            rule = "a WebNN program is that of a descriptor, and no descriptor says"
            wrapped = lane.answer(case.wrapped_in())
            assert (wrapped.kind, wrapped.reason) == (
                "not-run",
                f"{rule} a gather between operators",
            )
            nodes = [case for case in built_in_cases() if isinstance(case, NodeCase)]
            answer = lane.answer(nodes[0])
            assert (answer.kind, answer.reason) == ("not-run", f"{rule} this node")
        finally:
            lane.close()

    @pytest.mark.slow
    def test_a_refusal_is_not_enough_without_an_output(self, make: Make) -> None:
        # The page refuses the indices of zero, too.
        make(change="answer['outputs'] = ['no'] * len(outputs)")
        case = replace(
            smallest_case("Gather", "FLOAT32"), indices=np.array([2, 9, 1], np.int64)
        )
        (lane,) = open_lanes(["webnn"])
        try:
            result, _ = ask(case, lane, lane.start(), ())
            assert result.beside is not None
            assert (result.state, result.beside.kind) == ("ERROR", "failed")
        finally:
            lane.close()

    @pytest.mark.slow
    def test_a_repro_is_a_page(self, make: Make, tmp_path: Path) -> None:
        make(WANTED + 1)
        model = program(str(tmp_path / "programs" / "program.json"))
        out = tmp_path / "out"
        arguments = ["repro", model, "--lane", "webnn", "--no-reduce", "-o", str(out)]
        code, text, _ = outcome(*arguments)
        title = (
            "webnn returns wrong elements for Gather of FLOAT32 data by UINT32 indices"
        )
        assert (code, text) == (0, f"{out}: {title}; the lane shows it\n")
        assert {path.name for path in out.iterdir()} == {
            "ISSUE.md",
            "expected.npy",
            "gather.mjs",
            "inputs.npz",
            "program.json",
            "repro.html",
            "SHA256SUMS",
        }
        module = og.to_webnn(DESC, "clamp").to_javascript()
        assert (out / "gather.mjs").read_text() == module
        issue = (out / "ISSUE.md").read_text()
        assert "`repro.html` runs `gather.mjs`, a WebNN program, on the" in issue
        assert "repro.py" not in issue
        # An earlier repro is replaced; the folder of something else is not.
        assert outcome(*arguments)[0] == 0
        (out / "gather.mjs").unlink()
        code, _, errors = outcome(*arguments)
        rule = "the folder must be new, empty or an earlier repro, got"
        assert (code, f"{rule} 'ISSUE.md'" in errors) == (2, True), errors


class TestThePage:
    @pytest.mark.parametrize(
        ("name", "sources"),
        [
            ("web-wasm", "'self' 'wasm-unsafe-eval'"),
            ("web-webgpu", "'self' 'wasm-unsafe-eval'"),
            ("web-webnn", "'self' 'wasm-unsafe-eval' 'unsafe-eval'"),
            ("webnn", "'self' blob:"),
        ],
    )
    def test_its_policy_allows_what_the_lane_needs(
        self, name: str, sources: str, tmp_path: Path
    ) -> None:
        fake_browser(tmp_path, WANTED)
        folder = tmp_path / "onnxgather/web/node_modules/onnxruntime-web"
        site = Site(folder, WEB_PROVIDERS[name])
        policy = site.headers["Content-Security-Policy"]
        assert f"; script-src {sources}; " in policy
        assert policy.startswith("default-src 'none'; ")

    def test_it_tells_the_backends_that_the_browser_prints(
        self, tmp_path: Path
    ) -> None:
        site = Site(tmp_path, WEBNN)
        assert site.backends() == ""
        site.printed = tmp_path / "printed.txt"
        site.printed.write_text("DevTools listening\n")
        assert site.backends() == ""
        text = "INFO: Creating LiteRT environment\nCreated TensorFlow Lite XNNPACK"
        site.printed.write_text(text)
        assert site.backends() == "LiteRT with XNNPACK"


@pytest.mark.slow
@live
class TestABrowser:
    def test_random_descriptors_are_right_under_each_policy(self) -> None:
        for policy in ("clamp", "zero", "directml", "error"):
            options = ["--random", "8", "--out-of-range", policy, "--require", "webnn"]
            code, out, _ = outcome("check", *options, "--lanes", "webnn")
            assert (code, "webnn: 8 cases, 8 PASS\n" in out) == (0, True), out

    def test_it_prints_what_dxdispatch_prints(self, tmp_path: Path) -> None:
        path = MODELS / "gather_1_remap_1d.json"
        folder = ["--output-folder", str(tmp_path)]
        code, out, _ = outcome("run", str(path), "--provider", "webnn", *folder)
        assert (code, out) == (0, path.with_suffix(".txt").read_text())

    def test_a_planted_mistake_shows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        own = WebnnProgram.to_javascript

        def mistaken(program: WebnnProgram) -> str:
            return own(program).replace("builder.max(", "builder.min(")

        monkeypatch.setattr(WebnnProgram, "to_javascript", mistaken)
        path = "gather/float32/int64/negative"
        code, out, _ = outcome("check", "--corpus", "--case", path, "--lanes", "webnn")
        assert (code, "DIFF" in out) == (1, True), out

    @pytest.mark.parametrize("policy", ["clamp", "zero", "directml"])
    def test_a_mistake_in_each_step_shows(self, policy: og.OutOfRange) -> None:
        desc = descriptor("GATHER_ND: FLOAT32 3x2, INT64 4x2, FLOAT32 1x4, 2, 2")
        own = og.to_webnn(desc, policy)
        seen = set[str]()
        shown = set[str]()
        for name, changed in changed_programs(own):
            arrays = differing_arrays(changed)
            if name in shown or arrays is None:
                continue
            seen.add(name)
            right = og.reference(
                desc, arrays["InputTensor"], arrays["IndicesTensor"], policy
            )
            module = own.to_javascript()
            (output,) = OpenedProgram(desc, module, WEBNN).run_all(arrays)
            assert output.tobytes() == right.tobytes()
            module = changed.to_javascript()
            try:
                (output,) = OpenedProgram(desc, module, WEBNN).run_all(arrays)
            except (ProviderError, FailedError):  # the browser refuses the program
                shown.add(name)
                continue
            if output.tobytes() != right.tobytes():
                shown.add(name)
        # Other steps have no second operand of the same type and shape, or one that
        # changes no output.
        assert shown == seen
        assert len(shown) > 0.75 * len(own.graph.steps)

    @pytest.mark.skipif(
        not find_runtime(WEB_PROVIDERS["web-webnn"]),
        reason="scripts/web/setup.sh --lanes web-webnn has not run",
    )
    def test_a_refused_graph_of_onnxruntime_web_is_an_error_of_its_case(self) -> None:
        cases = {case.name: case for case in built_in_cases()}
        (lane,) = open_lanes(["web-webnn"], target="webgpu")
        try:
            assert lane.start().not_run is None
            refused = lane.answer(cases["gather-elements/float32/int64/forward"])
            assert (refused.kind, refused.reason) == (
                "refused",
                "Failed to execute 'build' on 'MLGraphBuilder': gatherElements only"
                " supports constant indices.",
            )
            assert lane.answer(cases["gather/float32/int64/forward"]).kind == "ran"
        finally:
            lane.close()
