"""scripts/wpt.py counts what the tests gave, in a stand-in for a browser and in a real
one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from corpus_cases import corpus
from folders import ROOT
from rings import one_quick_in

from onnxgather.checking.corpus import export
from onnxgather.checking.corpus.wpt import WPT_FOLDER

SCRIPT = ROOT / "scripts" / "wpt.py"

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="the lanes in a browser are for Linux"
)

STAND_IN = """#!{python}
import json, sys
from urllib.request import Request, urlopen

address = sys.argv[-1]
origin = address.rpartition("/")[0]
assert "--enable-features=WebMachineLearningNeuralNetwork" in sys.argv
page = urlopen(address).read().decode()
for name in ("/resources/testharness.js", "/done.js", "/webnn/resources/utils.js"):
    assert f'src="{{name}}"' in page
    assert urlopen(origin + name).read()
done = json.loads(urlopen(origin + "/done.js").read().partition(b"= ")[2][:-1])
tests = urlopen(origin + "/test.js").read().decode()

def post(**result):
    urlopen(Request(origin + "/result", json.dumps(result).encode()))

names = [line[11:-2] for line in tests.splitlines() if line.startswith("    name: '")]
for name in names:
    if name in done:
        continue
    if "just-past" in name:
        sys.exit(1)
    if "greatest" in name:
        post(name=name, state="FAIL", message="wrong")
    elif "uint32" in name:
        post(name=name, state="PRECONDITION_FAILED", message="no uint32")
    else:
        post(name=name, state="PASS", message=None)
post(completed=True, status=0, message=None)
"""


def exported(folder: Path, *names: str) -> Path:
    """Return an export of cases of the corpus."""
    cases = [case for case in corpus() if case.name.startswith(names)]
    export(cases, "wpt", folder)
    return folder


def run(
    *arguments: str | Path, browser: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the script, in the browser if one is given."""
    variables = {**os.environ, "XDG_CACHE_HOME": "/none"}
    variables.pop("CHROMIUM", None)
    if browser is not None:
        variables["CHROMIUM"] = str(browser)
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, env=variables, capture_output=True, text=True)


@pytest.fixture
def stand_in(tmp_path: Path) -> Path:
    """Return a program that answers as a browser, without running a test."""
    path = tmp_path / "browser"
    path.write_text(STAND_IN.format(python=sys.executable), "utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.slow
def test_a_test_that_ends_the_browser_is_a_crash_and_the_rest_runs(
    tmp_path: Path, stand_in: Path
) -> None:
    folder = exported(tmp_path / "tests", "out-of-range/gather/")
    done = run(folder, SCRIPT, browser=stand_in)
    assert done.stderr == ""
    *lines, last = done.stdout.splitlines()
    states = {line.partition(" ")[0] for line in lines}
    assert states == {"CRASH", "FAIL"}
    crashes = [line for line in lines if line.startswith("CRASH")]
    assert len(crashes) == 3
    assert all(line.endswith(": the browser ended") for line in crashes)
    counts = "gather-out-of-range-indices.https.any.js: "
    assert last.startswith(counts)
    pairs = re.findall(r"(\d+) (\w+)", last.removeprefix(counts))
    names = {state for _, state in pairs}
    assert names == {"PASS", "FAIL", "CRASH", "PRECONDITION_FAILED"}
    index = json.loads((folder / "index.json").read_text("utf-8"))
    assert sum(int(count) for count, _ in pairs) == len(index["cases"])
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("export_name", "testharness", "sentence"),
    one_quick_in(
        3,
        [
            ("none", SCRIPT, "{}/none must be an export of the format wpt"),
            ("tests", "none.js", "none.js must be the file testharness.js"),
            (
                "tests",
                SCRIPT,
                "/none/onnxgather/web/chromium/chromium must be a browser;"
                " scripts/web/setup.sh gets one",
            ),
        ],
    ),
)
def test_wrong_usage_is_a_sentence(
    tmp_path: Path, export_name: str, testharness: str | Path, sentence: str
) -> None:
    exported(tmp_path / "tests", "out-of-range/gather/int32/below")
    done = run(tmp_path / export_name, testharness)
    assert (done.returncode, done.stdout) == (2, "")
    message = sentence.format(tmp_path)
    assert done.stderr.splitlines()[-1] == f"wpt.py: error: {message}"


CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
BROWSER = CACHE / "onnxgather" / "web" / "chromium" / "chromium"
TESTHARNESS = Path(os.environ.get("WPT_TESTHARNESS", "/none"))

needs_browser = pytest.mark.skipif(
    not BROWSER.exists() or not TESTHARNESS.exists(),
    reason=(
        "needs the Chromium that scripts/web/setup.sh gets, and testharness.js in the"
        " file that WPT_TESTHARNESS names"
    ),
)


def results_of(folder: Path) -> dict[str, tuple[str, str | None]]:
    """Return the state and the message of each test in the real browser, by its
    case."""
    rows: list[dict[str, Any]] = []
    # Chromium itself ends now and then; a test that ends it does so each time.
    for _ in range(3):
        done = run(folder, TESTHARNESS, "--json", browser=BROWSER)
        assert done.stderr == ""
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        if all(row["state"] != "CRASH" for row in rows):
            break
    return {
        row["name"].rpartition(": ")[2]: (row["state"], row["message"]) for row in rows
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the export of the whole corpus."""
    folder = tmp_path_factory.mktemp("whole")
    export(corpus(), "wpt", folder)
    return folder


@pytest.mark.slow
@needs_browser
def test_chromium_does_what_the_page_says(whole: Path) -> None:
    page = (ROOT / "docs" / "decisions" / "web.md").read_text("utf-8")
    results = results_of(whole)
    index = json.loads((whole / "index.json").read_text("utf-8"))
    counts: dict[str, Counter[str]] = {}
    assert {*results} == {row["name"] for row in index["cases"]}
    for row in index["cases"]:
        state, message = results[row["name"]]
        counts.setdefault(Path(row["file"]).name, Counter())[state] += 1
        if state == "PRECONDITION_FAILED":
            assert message == "opSupportLimits() lacks an optional data type or rank"
        elif row["operator"] == "GATHER_ELEMENTS":
            assert state == "FAIL"
            assert message is not None
            assert "gatherElements only supports constant indices" in message
        else:
            assert (state, message) == ("PASS", None)
    assert len(counts) == 6
    for file, states in counts.items():
        figures = (states["PASS"], states["FAIL"], states["PRECONDITION_FAILED"])
        passed, failed, skipped = figures
        assert f"\n| `{file}` | {passed} | {failed} | {skipped} |\n" in page


@pytest.mark.slow
@needs_browser
def test_chromium_clamps_and_takes_constant_indices(
    whole: Path, tmp_path: Path
) -> None:
    """Each output element is exact, if an index out of range is clamped."""
    folder = tmp_path / "tests"
    shutil.copytree(whole, folder)
    for path in (folder / WPT_FOLDER).iterdir():
        if path.name in (
            "gather-run-time-indices.https.any.js",
            "gatherND-run-time-indices.https.any.js",
        ):
            path.unlink()
            continue
        text = path.read_text("utf-8")
        text = text.replace(
            "Tests, buildAndExecuteWithinBounds", "Tests, buildAndExecuteGraph"
        )
        text = text.replace(
            "gatherElementsIndices: {", "gatherElementsIndices: {constant: true,"
        )
        path.write_text(text, "utf-8")
    states = Counter(state for state, _ in results_of(folder).values())
    assert states == {"PASS": 101 + 3 * 17, "PRECONDITION_FAILED": 12}


@pytest.mark.slow
@needs_browser
def test_chromium_fails_a_wrong_number(tmp_path: Path) -> None:
    folder = exported(tmp_path, "gather/int32/int32/")
    (path,) = (folder / WPT_FOLDER).iterdir()
    text = path.read_text("utf-8")
    inputs, marker, outputs = text.partition("gatherOutput: {")
    wrong = re.sub(r"-?\d+,", "123456,", outputs, count=1)
    path.write_text(inputs + marker + wrong, "utf-8")
    states = [state for state, _ in results_of(folder).values()]
    assert len(states) > 1
    assert (states[0], states.count("FAIL")) == ("FAIL", 1)


@pytest.mark.slow
@needs_browser
def test_chromium_fails_an_element_that_is_not_of_the_input(tmp_path: Path) -> None:
    folder = exported(tmp_path, "out-of-range/gather/int32/")
    (path,) = (folder / WPT_FOLDER).iterdir()
    text = path.read_text("utf-8")
    # Each element of the input is foreign now.
    assert "new Set([...input, zero])" in text
    wrong = text.replace("new Set([...input, zero])", "new Set([zero])")
    path.write_text(wrong, "utf-8")
    results = results_of(folder)
    assert len(results) > 1
    for state, message in results.values():
        assert state == "FAIL"
        assert message is not None
        assert "is an element of the input or 0" in message
