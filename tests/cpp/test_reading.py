"""C and C++ as people write them: read, or refused with the line and the reason."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from agreement import LONG
from command_line import DESC, outcome
from folders import ROOT
from mutants import mutated_bytes

import onnxgather as og
from onnxgather.cpp import read_cpp
from onnxgather.cpp.structs import OPERATORS
from onnxgather.errors import OnnxGatherError
from onnxgather.parity.cases import DescriptorCase
from onnxgather.parity.corpus import corpus

SNIPPETS = ROOT / "tests" / "data" / "cpp"
EXPECTED: dict[str, Any] = json.loads((SNIPPETS / "expected.json").read_text(encoding="utf-8"))
"""For each file its variables, each with its descriptor or the error; or the error of the file."""


def test_every_snippet_is_expected() -> None:
    assert {path.name for path in SNIPPETS.glob("*.c*")} == set(EXPECTED)
    assert len(EXPECTED) > 30


@pytest.mark.parametrize("name", EXPECTED)
def test_a_snippet_is_read_or_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(SNIPPETS)
    found: Any = None
    try:
        found = {variable: _plain(one) for variable, one in read_cpp(name)}
    except OnnxGatherError as error:
        found = str(error)
    assert found == EXPECTED[name]


def _plain(one: og.Descriptor | OnnxGatherError) -> Any:
    if isinstance(one, OnnxGatherError):
        return str(one)
    return "gather" if one == DESC else og.to_dict(one)


def test_descriptors_of_the_corpus_come_back_from_cpp(tmp_path: Path) -> None:
    cases = [case.descriptor for case in corpus() if isinstance(case, DescriptorCase)]
    descriptors = list(dict.fromkeys(cases))[:: 1 if LONG else 20]
    assert len(descriptors) >= 40
    file = tmp_path / "gathers.cpp"
    for start in range(0, len(descriptors), 500):
        wanted = {f"gather{k}Desc": one for k, one in enumerate(descriptors[start : start + 500])}
        text = [og.to_cpp(one, name.removesuffix("Desc")) for name, one in wanted.items()]
        file.write_text("\n".join(text), encoding="utf-8")
        assert dict(read_cpp(str(file))) == wanted


def test_mutated_files_end_in_a_result_or_a_sentence(tmp_path: Path) -> None:
    contents = [path.read_bytes() for path in sorted(SNIPPETS.glob("*.c*"))]
    random, read = Random(1), 0
    for number in range(1000 if LONG else 300):
        content = random.choice(contents)
        for _ in range(random.randint(1, 4)):
            start = random.randrange(len(content))
            end = start + random.choice((1, 1, 5, 50))
            part = content[start:end]
            content = content[:start] + part * random.choice((0, 2)) + content[end:]
        file = tmp_path / "mutated.cpp"
        file.write_bytes(mutated_bytes(random, content) if number % 4 == 0 else content)
        begun, sentences = time.process_time(), list[str]()
        try:
            found = [one for _, one in read_cpp(str(file))]
            read += sum(isinstance(one, og.Descriptor) for one in found)
            sentences = [str(one) for one in found if isinstance(one, OnnxGatherError)]
        except OnnxGatherError as error:
            sentences = [str(error)]
        assert not any("\n" in sentence for sentence in sentences)
        assert time.process_time() - begun < 2
    assert read


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", f"must define a variable of one of the types {', '.join(OPERATORS)}, got none"),
        (
            b"DML_GATHER_OPERATOR_DESC x = {&" + b"(" * 5000 + b"1" + b")" * 5000 + b"};",
            "must have fewer expressions inside one another, got too many",
        ),
        (b" " * (2**21 + 1), "must have at most 2097152 bytes"),
    ],
)
def test_a_file_that_is_not_read_says_why(content: bytes, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "x.cpp"
    file.write_bytes(content)
    with pytest.raises(og.FileFormatError) as caught:
        list(read_cpp(str(file)))
    assert str(caught.value) == f"{file}: {sentence}"


def test_a_file_that_is_not_there_is_told() -> None:
    assert outcome("show", "gone.cpp") == (2, "", "Error: gone.cpp: no such file or directory\n")


def test_without_the_extra_a_sentence_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "x.h").touch()
    code = "import sys; sys.modules['tree_sitter'] = None; from onnxgather.cli import main; main()"
    command = [sys.executable, "-c", code, "show", "x.h"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr == (
        "Error: x.h: C++ needs tree-sitter and its grammar, which the extra onnxgather[cpp] "
        "installs\n"
    )
