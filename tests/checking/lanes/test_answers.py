"""Folders of answers to an export: what is wrong in them is told, and never passes."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import call, outcome
from corpus_cases import corpus
from folders import ROOT
from messages import message_of, rows_of

from onnxgather.checking.cases import Case, case_beside
from onnxgather.checking.corpus import export
from onnxgather.checking.corpus.exported import ExportedCases, read_export
from onnxgather.checking.folders import SUMS, FilesDigest
from onnxgather.checking.lanes.answers import AnswersLane
from onnxgather.checking.report_files import open_report
from onnxgather.checking.results import Result
from onnxgather.checking.run import check_all
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import FileFormatError
from onnxgather.core.version import __version__

VALID = "gather/float32/int64/negative"
OUTSIDE = "out-of-range/gather/int64/just-past/error"
FORBIDDEN = "forbidden/gather/axis/rank"
NAMES = (VALID, OUTSIDE, FORBIDDEN)
BESIDE_OUTSIDE = f"beside/{OUTSIDE}"
BESIDE_FORBIDDEN = "beside/gather/float32"


def chosen() -> list[Case]:
    """Return a valid case and one of each kind that must be refused."""
    by_name = {case.name: case for case in corpus()}
    return [by_name[name] for name in NAMES]


@pytest.fixture(scope="module", autouse=True)
def corpus_made_once() -> Iterator[None]:
    """Let every export that is read take the same cases, which saves a second each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnxgather.checking.corpus.exported.built_in_cases", corpus)
        yield


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an export, with the right answers in a folder beside it."""
    folder = tmp_path_factory.mktemp("judge")
    export(chosen(), "json", folder / "export")
    for case in chosen():
        answer(folder / "answers" / case.name, case)
        beside = case_beside(case)
        if beside is not None:
            answer(folder / "answers" / beside.name, beside)
    runtime = {"name": "my-runtime", "version": "1.2.0"}
    (folder / "answers" / "runtime.json").write_text(json.dumps(runtime))
    return folder


@pytest.fixture(scope="module")
def read(exported: Path) -> ExportedCases:
    return read_export(str(exported / "export"), str(exported / "answers"))


@pytest.fixture
def answers(exported: Path, tmp_path: Path) -> Path:
    """Return a folder of right answers that a test may change."""
    return Path(shutil.copytree(exported / "answers", tmp_path / "answers"))


def answer(folder: Path, case: Case) -> None:
    """Write the right answer to a case."""
    folder.mkdir(parents=True)
    expected = case.expected()
    if isinstance(expected, str):
        (folder / "error.txt").write_text("no such index\n")
    else:
        np.save(folder / "output.npy", expected)


def judged(answers: Path, read: ExportedCases) -> dict[str, Result]:
    """Return the results of all cases, by name."""
    report = check_all(read.cases, [AnswersLane(str(answers), read.answers)], known=())
    return {case.name: case.results[0] for case in report.cases}


def test_right_answers_pass(answers: Path, read: ExportedCases) -> None:
    results = judged(answers, read)
    assert [*results] == [*NAMES]
    found = [(result.state, result.kind) for result in results.values()]
    assert found == [("PASS", "same"), ("PASS", "refused"), ("PASS", "refused")]


def expected(name: str = VALID) -> Array:
    (case,) = [case for case in chosen() if case.name == name]
    output = case.expected()
    assert not isinstance(output, str)
    return output.copy()


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def wrong_byte() -> bytes:
    content = bytearray(npy(expected()))
    content[-1] ^= 1
    return bytes(content)


def wrong_header(text: str) -> bytes:
    header = text.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


HUGE = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000)}"
NEGATIVE = "{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 0)}"
PLANTED = {
    "byte": wrong_byte(),
    "shape": npy(expected().ravel()[:-1]),
    "type": npy(expected().astype("f8")),
    "same bytes of another type": npy(expected().view("i4")),
    "cut": npy(expected())[:-1],
    "longer": npy(expected()) + b"\0",
    "empty": b"",
    "text": b"1 2 3",
    "texts": npy(np.array(["a"])),
    "huge": wrong_header(HUGE),
    "negative": wrong_header(NEGATIVE),
    "longdouble": npy(expected().astype(np.longdouble)),
    "header": wrong_header("{'descr': ["),
}
WHOLE = "ERROR broken: output.npy must be a whole .npy file of numbers or texts"
TOLD = f"""
byte
DIFF elements: 1 of

shape
DIFF shape: expected shape [

type
DIFF data-type: expected data type float32, got float64

same bytes of another type
DIFF data-type: expected data type float32, got int32

cut
{WHOLE} (it has

longer
{WHOLE} (it has

empty
{WHOLE} (

text
{WHOLE} (

texts
DIFF data-type: expected data type float32, got string

huge
{WHOLE} (it has 0 bytes for

negative
{WHOLE} (its type is

longdouble
{WHOLE} (its type is

header
{WHOLE} (
"""
"""What is planted in place of the output, and how its verdict begins."""


def verdict(result: Result) -> str:
    """Return the state of a result, and what became of each run that is no PASS."""
    runs = [run for run in result.runs if run.state != "PASS"]
    texts = [f"{run.kind.value}: {run.reason}" for run in runs]
    return f"{result.state} {'; '.join(texts)}"


@pytest.mark.parametrize(("plant", "told"), rows_of(TOLD))
def test_a_wrong_output_is_told(
    plant: str, told: str, answers: Path, read: ExportedCases
) -> None:
    (answers / VALID / "output.npy").write_bytes(PLANTED[plant])
    results = judged(answers, read)
    assert verdict(results[VALID]).startswith(told)
    assert [results[name].state for name in NAMES[1:]] == ["PASS", "PASS"]


@pytest.mark.parametrize("order", [">", "fortran"])
def test_bytes_in_another_order_are_the_same_output(
    order: str, answers: Path, read: ExportedCases
) -> None:
    array = expected()
    if order == ">":
        array = array.astype(array.dtype.newbyteorder(">"))
    else:
        array = np.asfortranarray(array)
    np.save(answers / VALID / "output.npy", array)
    assert judged(answers, read)[VALID].state == "PASS"


def remove(folder: Path, name: str) -> None:
    shutil.rmtree(folder / name)


def empty(answers: Path, names: str) -> None:
    for name in names.split():
        for file in (answers / name).iterdir():
            file.unlink()


def refuse(answers: Path, name: str) -> None:
    empty(answers, name)
    (answers / name / "error.txt").write_text("not\n  supported")


def not_run(answers: Path, name: str) -> None:
    empty(answers, name)
    (answers / name / "not-run.txt").write_text("no arrays of\n  BFLOAT16")


def zeros(answers: Path, words: str) -> None:
    """Answer a case with zeros of some sizes."""
    name, *sizes = words.split()
    empty(answers, name)
    np.save(answers / name / "output.npy", np.zeros([*map(int, sizes)], "f4"))


def both(answers: Path, name: str) -> None:
    (answers / name / "error.txt").touch()


def no_answer(answers: Path, _: str) -> None:
    for path in answers.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def without(folder: Path, name: str) -> None:
    (folder / name).unlink()


def with_runtime(answers: Path, text: str) -> None:
    (answers / "runtime.json").write_text(text)


def with_folders(answers: Path, names: str) -> None:
    for name in names.split():
        (answers / name).mkdir(parents=True)


def with_index(folder: Path, text: str) -> None:
    """Change fields of an index; null leaves a field out."""
    path = folder / "index.json"
    index = {**json.loads(path.read_text()), **json.loads(text)}
    kept = {name: value for name, value in index.items() if value is not None}
    path.write_text(json.dumps(kept))
    with_digests(folder)


def with_digests(folder: Path) -> None:
    """Write the digests of an export anew, as another version may have made it."""
    digests = FilesDigest()
    for path in folder.rglob("*"):
        if path.is_file() and path.name != SUMS:
            digests.add(path.relative_to(folder).as_posix(), path.read_bytes())
    (folder / SUMS).write_bytes(digests.lines)


def longer(folder: Path, name: str) -> None:
    """Add a space to a file."""
    with open(folder / name, "a") as file:
        file.write(" ")


def with_file(folder: Path, name: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("{}")


CHANGES = (
    *(remove, empty, refuse, not_run, zeros, both, no_answer),
    *(without, with_runtime, with_folders, with_index, with_file, longer),
)


def change(folder: Path, text: str) -> None:
    """Change a folder as a table says, such as `empty CASE`."""
    how, _, words = text.partition(" ")
    (called,) = [one for one in CHANGES if one.__name__ == how]
    called(folder, words)


CRASHED = "ended its process: its folder has no output.npy"
IN_VAIN = "refused, which proves nothing: no such index"
NO_FOLDER = "ended its process, or never ran: it has no folder"
WITHOUT_RIGHT_ANSWER = f"""
empty {VALID}
{VALID}: ERROR broken: {CRASHED}

remove {VALID}
{VALID}: ERROR broken: {NO_FOLDER}

empty {OUTSIDE}
{OUTSIDE}: ERROR broken: {CRASHED}

empty {OUTSIDE} {BESIDE_OUTSIDE}
{OUTSIDE}: ERROR broken: {CRASHED}; broken: {CRASHED}

remove {FORBIDDEN}
{FORBIDDEN}: ERROR broken: {NO_FOLDER}

refuse {VALID}
{VALID}: ERROR failed: my-runtime failed: not supported

zeros {OUTSIDE} 2 3
{OUTSIDE}: DIFF not-refused: must refuse, but returned

zeros {FORBIDDEN} 2 3
{FORBIDDEN}: DIFF not-refused: must refuse, but returned an array of float32 [2, 3]:

refuse {BESIDE_OUTSIDE}
{OUTSIDE}: ERROR unproved: {IN_VAIN}; failed: my-runtime failed: not supported

empty {BESIDE_OUTSIDE}
{OUTSIDE}: ERROR unproved: {IN_VAIN}; broken: {CRASHED}

zeros {BESIDE_OUTSIDE} 1
{OUTSIDE}: DIFF unproved: {IN_VAIN}; shape: expected shape

refuse {BESIDE_FORBIDDEN}
{FORBIDDEN}: ERROR unproved: {IN_VAIN}; failed: my-runtime failed: not supported

both {VALID}
{VALID}: ERROR broken: must have one of output.npy, error.txt, not-run.txt, got
output.npy and error.txt

not_run {VALID}
{VALID}: NOT-RUN not-run: no arrays of BFLOAT16

not_run {BESIDE_OUTSIDE}
{OUTSIDE}: NOT-RUN unproved: refused, which proves nothing: no such index; not-run: no
arrays of BFLOAT16
"""
"""A crash is no refusal, whatever stands beside it, and a refusal counts only beside
the right answer to a valid case."""


@pytest.mark.parametrize(("changed", "told"), rows_of(WITHOUT_RIGHT_ANSWER))
def test_a_case_without_its_right_answer_is_told(
    changed: str, told: str, answers: Path, read: ExportedCases
) -> None:
    change(answers, changed)
    results = judged(answers, read)
    name, _, start = told.partition(": ")
    result = results.pop(name)
    assert verdict(result).startswith(start)
    breakdowns = [run.breakdown for run in result.runs]
    assert ("no-answer" in breakdowns) == ("ended its process" in start)
    assert {other.state for other in results.values()} == {"PASS"}


def test_a_folder_in_place_of_an_output_is_told(
    answers: Path, read: ExportedCases
) -> None:
    empty(answers, VALID)
    (answers / VALID / "output.npy").mkdir()
    lane = AnswersLane(str(answers), {**read.answers, "x": f"{VALID}/output.npy"})
    report = check_all(read.cases, [lane], known=())
    assert (report.cases[0].results[0].reason) == (
        "output.npy must be a file, got something else"
    )


SOMETHING_ELSE = """
no_answer
: must have an answer, CASE/output.npy or CASE/error.txt, got none, so that no case can
be judged

without runtime.json
: must have a runtime.json such as {"name": "my-runtime", "version": "1.2.0"}, got none

remove .
: must be a folder of answers, got no folder

with_runtime {"name": "my runtime", "version": "1"}
/runtime.json: $.name must be a full name such as CPUExecutionProvider, DirectML.dll or
opencv

with_runtime {"name": "x"}
/runtime.json: $ must have version

with_runtime {"name": "x", "version": "1", "versions": {}}
/runtime.json: $ must not have versions

with_folders gather/float32/int64/sideways a b c
: each folder must be that of a case of the export, got 'a', 'b', 'c' and 1 more
"""


@pytest.mark.parametrize(("changed", "told"), rows_of(SOMETHING_ELSE))
def test_a_folder_of_something_else_is_an_error(
    changed: str, told: str, answers: Path, read: ExportedCases
) -> None:
    change(answers, changed)
    said = message_of(FileFormatError, AnswersLane, str(answers), read.answers)
    assert said == f"{answers}{told}"


OTHER_EXPORTS = f"""
without index.json
: must be a folder that onnxgather corpus export wrote, got no index.json in it

with_index {{"made_by": "onnxgather extract 0.1.0"}}
: must be a folder that onnxgather corpus export wrote, got another index.json

without SHA256SUMS
: must have the digests of its files, got no SHA256SUMS; AGAIN

with_index {{"format": "xml"}}
/index.json: $.format must be a value that docs/provider-ci.md lists, got 'xml'

with_index {{"format": "wpt"}}
: must be an export that has answers, got Web Platform Tests, which compare their
outputs themselves

with_index {{"digest": "0", "made_by": "onnxgather corpus export 0.0.9"}}
: its cases must be those of onnxgather {__version__}, got others, by onnxgather corpus
export 0.0.9; AGAIN

with_index {{"cases": []}}
: its cases must be those of onnxgather {__version__}, got others, by onnxgather corpus
export {__version__}; AGAIN

with_file cases.jsonl
: its files must be as they were exported, got 'cases.jsonl', which is changed; AGAIN

longer index.json
: its files must be as they were exported, got 'index.json', which is changed; AGAIN

longer README.md
: its files must be as they were exported, got 'README.md', which is changed; AGAIN

with_file refused/new
: its files must be as they were exported, got 'refused/new', which is new; AGAIN

with_file new
: its files must be as they were exported, got 'new', which is new; AGAIN

without cases.jsonl
: its files must be as they were exported, got 'cases.jsonl', which is missing; AGAIN
"""


@pytest.mark.parametrize(("changed", "told"), rows_of(OTHER_EXPORTS))
def test_another_export_is_an_error(
    changed: str, told: str, exported: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(exported / "export", tmp_path / "export"))
    change(folder, changed)
    told = told.replace("AGAIN", "export the corpus again, and run it again")
    answers = str(exported / "answers")
    said = message_of(FileFormatError, read_export, str(folder), answers)
    assert said == f"{folder}{told}"


@pytest.fixture
def words(exported: Path, answers: Path) -> list[str]:
    """Return the command that judges the answers."""
    return ["judge", str(exported / "export"), str(answers)]


def test_judge_prints_the_table_of_check(words: list[str]) -> None:
    code, out, err = outcome(*words)
    assert (code, err) == (0, "")
    _, lane, *rows = out.splitlines()
    assert lane == "my-runtime  my-runtime 1.2.0, answers from a folder"
    assert rows[-1] == "my-runtime: 3 cases, 3 PASS"


def test_judge_writes_every_report_and_offers_no_command_that_cannot_run(
    words: list[str], answers: Path, tmp_path: Path
) -> None:
    (answers / VALID / "output.npy").write_bytes(wrong_byte())
    kinds = ("json", "junit", "html", "markdown")
    files = [f"--{kind}={tmp_path / kind}" for kind in kinds]
    code, out, err = outcome(*words, *files)
    assert (code, err.count("written: ")) == (1, 4)
    said = "1 finding\n3 cases on 1 lane: 2 agree bit for bit, 1 had wrong elements."
    assert said in out
    assert "again:" not in out
    report = open_report(str(tmp_path / "json"))
    assert report.lanes[0].has_answers
    assert report.cases[0].evidence is not None
    assert b"elements differ" in (tmp_path / "junit").read_bytes()
    assert b"elements differ" in (tmp_path / "html").read_bytes()
    assert "elements differ" in (tmp_path / "markdown").read_text()
    code, out, err = outcome("repro", str(tmp_path / "json"), "-o", str(tmp_path / "r"))
    assert (code, out) == (2, "")
    assert err == (
        f"Error: {tmp_path / 'json'}: --lane must name a lane that can run the case, as"
        " the answers of 'my-runtime' came from a folder\n"
    )


def test_a_refusal_that_proves_nothing_is_no_success(
    words: list[str], answers: Path
) -> None:
    refuse(answers, BESIDE_FORBIDDEN)
    code, out, _ = outcome(*words)
    assert code == 1
    assert (
        f"""
ERROR    my-runtime: {FORBIDDEN}
         the forbidden node: {IN_VAIN}
         an allowed node: my-runtime failed: not supported
"""
        in out
    )


def test_known_differences_are_written_and_read(
    words: list[str], answers: Path, tmp_path: Path
) -> None:
    empty(answers, VALID)
    refuse(answers, BESIDE_FORBIDDEN)
    known = str(tmp_path / "known.json")
    assert outcome(*words, "--write-known", known)[0] == 1
    entries = json.loads(Path(known).read_text())
    found = [(entry["provider"], entry["versions"]) for entry in entries]
    assert found == [("my-runtime", "==1.2.0")] * 2
    code, out, _ = outcome(*words, "--known", known)
    assert code == 0
    assert out.splitlines()[-2].startswith("No new differences. Known: ")
    # Known differences are of one version.
    with_runtime(answers, '{"name": "my-runtime", "version": "1.3.0"}')
    assert outcome(*words, "--known", known)[0] == 1


def test_shards_of_answers_become_the_whole(
    words: list[str], answers: Path, tmp_path: Path
) -> None:
    empty(answers, VALID)
    known = str(tmp_path / "known.json")
    whole = str(tmp_path / "whole.json")
    assert outcome(*words, "--write-known", known, f"--json={whole}")[0] == 1
    parts = [str(tmp_path / f"{number}.json") for number in (1, 2)]
    codes = [
        outcome(*words, "--shard", f"{number}/2", f"--json={part}")[0]
        for number, part in enumerate(parts, 1)
    ]
    assert codes == [1, 0]
    merged = str(tmp_path / "merged.json")
    assert outcome("report merge", *parts, "-o", merged)[0] == 1
    assert open_report(merged).cases == open_report(whole).cases
    code, out, _ = outcome("report merge", *parts, "--known", known)
    assert code == 0
    assert "\nNo new differences. Known: 1 ended the process\n" in out


def test_some_cases_alone_are_judged(words: list[str]) -> None:
    assert "1 case, 1 PASS" in outcome(*words, "--case", FORBIDDEN)[1]
    assert "1 case, 1 PASS" in outcome(*words, "-k", "just-past")[1]
    # The cases beside those that must be refused are no cases of their own.
    code, _, err = outcome(*words, "-k", "beside/")
    assert (code, err.splitlines()[-1]) == (
        2,
        "Error: no case name contains 'beside/'",
    )


@pytest.mark.parametrize("name", ["export/index.json", "answers/runtime.json"])
def test_no_input_is_written_over(
    name: str, words: list[str], exported: Path, answers: Path
) -> None:
    file = (exported if name.startswith("export") else answers.parent) / name
    before = file.read_bytes()
    assert call(*words, f"--json={file}").exit_code == 2
    assert file.read_bytes() == before


def test_answers_to_an_export_inside_it_are_judged(
    exported: Path, answers: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(exported / "export", tmp_path / "export"))
    os.rename(answers, folder / "answers")
    assert outcome("judge", str(folder), str(folder / "answers"))[0] == 0


PAGE = ROOT / "docs" / "provider-ci.md"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_the_example_in_javascript_is_judged_as_the_page_says(tmp_path: Path) -> None:
    just_past = "out-of-range/gather-elements/int64/just-past/"
    some = ("gather-elements/rank-", "gather-elements/float32", just_past, VALID)
    cases = [case for case in corpus() if case.name.startswith(some)]
    folder = tmp_path / "cases"
    answers = tmp_path / "answers"
    export(cases, "json", folder)
    # The program of the page ends in the first case, and is started again.
    (answers / cases[0].name).mkdir(parents=True)
    command = ["node", ROOT / "docs" / "examples" / "gather.mjs", folder, answers]
    subprocess.run(command, check=True)
    words = ["judge", str(folder), str(answers)]
    code, out, _ = outcome(*words, "-k", just_past)
    page = PAGE.read_text("utf-8")
    example = page.rpartition("--json=report.json\n```\n\n```\n...\n")[2]
    for line in example.partition("...\n```")[0].splitlines():
        assert f"{line}\n" in out
    assert code == 1
    code, out, _ = outcome(*words, "-k", "gather-elements/", "--json=-")
    results = {
        case["name"]: case["results"][0]["state"] for case in json.loads(out)["cases"]
    }
    assert results.pop(cases[0].name) == "ERROR"
    states = [state for name, state in results.items() if just_past not in name]
    assert len(states) > 40
    assert {*states} == {"PASS"}
    _, out, _ = outcome(*words, "--case", VALID)
    assert "gather-js failed: no such operator" in out


@pytest.mark.parametrize("data_type", ["string", "bfloat16"])
def test_texts_and_types_that_numpy_lacks_are_judged(
    tmp_path: Path, data_type: str
) -> None:
    name = f"onnx/gather/{data_type}/negative"
    (case,) = [case for case in corpus() if case.name == name]
    export([case], "json", tmp_path / "export")
    answers = tmp_path / "answers"
    read = read_export(str(tmp_path / "export"), str(answers))
    (answers / name).mkdir(parents=True)
    (answers / "runtime.json").write_text('{"name": "mine", "version": "1"}')
    output = case.expected()
    assert not isinstance(output, str)
    if data_type == "string":
        output = output.astype(str)
    np.save(answers / name / "output.npy", output)
    assert judged(answers, read)[name].state == "PASS"
    np.save(answers / name / "output.npy", output[::-1])
    assert judged(answers, read)[name].kind == "elements"
