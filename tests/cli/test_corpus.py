"""`onnxgather corpus`, as a user gets it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import error_of, files, output_of, program

from onnxgather.checking.corpus import built_in_cases


class TestCorpus:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("form", "left"),
        [("dxdispatch", "an ONNX node that no descriptor says"), ("json", None)],
    )
    def test_export_says_how_many_cases_it_wrote_and_left_out(
        self, form: str, left: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "onnxgather.checking.corpus.built_in_cases",
            lambda: list(built_in_cases())[::7],
        )
        out = output_of(f"corpus export --format {form} out")
        first, *rest = out.splitlines()
        assert re.fullmatch(
            r"out: 2\d\d cases, and \d+ valid cases beside those that must be refused",
            first,
        )
        assert bool(rest) == (left is not None)
        if left:
            assert re.fullmatch(rf"left out: \d+, as each is {left}", rest[0])
        assert Path("out/README.md").exists()

    @pytest.mark.slow
    def test_export_of_web_platform_tests_says_why_it_left_cases_out(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "onnxgather.checking.corpus.built_in_cases",
            lambda: list(built_in_cases())[::60],
        )
        out = output_of("corpus export --format wpt out")
        first, *rest = out.splitlines()
        assert re.fullmatch(r"out: \d+ cases", first)
        assert re.fullmatch(r"left out: \d+, as each has [\w ,']+", rest[0])
        assert Path("out/cases/webnn/conformance_tests").is_dir()

    def test_a_folder_of_something_else_is_kept(self) -> None:
        program("out/x.json")
        assert error_of("corpus export --format json out").startswith("out: ")
        assert files() == ["out/x.json"]
