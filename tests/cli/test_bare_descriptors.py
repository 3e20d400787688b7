"""Files that are a descriptor alone, or a list of them, in every command."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import (
    DATA_4X3,
    DESC,
    changed,
    error_of,
    files,
    json_of,
    outcome,
    output_of,
    program,
    read_bytes,
    read_json,
    succeed,
    write_json,
    write_text,
)
from fake_directml import done, fake_folder
from short_descriptors import descriptor, tensor_desc

import onnxgather as og
from onnxgather.checking.lanes.python import ModelLane
from onnxgather.checking.results import read_report
from onnxgather.core.programs.loading import load

stand_in = pytest.mark.skipif(os.name == "nt", reason="the stand-in host is a script")

BARE = og.to_dict(DESC)
RELU: dict[str, Any] = {"type": "DML_OPERATOR_ACTIVATION_RELU", "desc": {}}
DRAWN = ("both ends of each axis", "random bits", "wild indices")
TOLD = f"without data, so three cases are drawn: {', '.join(DRAWN)}"
ELEMENTS = descriptor("GATHER_ELEMENTS: INT32 2x3, INT64 2x2, INT32 2x2, 1")
LEFT_OUT = "left out, as only gathers are translated"
INPUTS = "--inputs must come with a model or with one descriptor alone"


def write(content: Any, path: str = "bare.json") -> str:
    write_json(path, content)
    return path


def inputs(indices: Any = ((2, 7),)) -> str:
    """Write the inputs of DESC; return the option that gives them."""
    places = np.array(indices, np.uint32)
    np.savez("in.npz", InputTensor=DATA_4X3, IndicesTensor=places)
    return "--inputs in.npz"


def changed_desc(**fields: Any) -> dict[str, Any]:
    """Return the descriptor with other fields; a field that is None goes."""
    desc: dict[str, Any] = {**BARE["desc"], **fields}
    desc = {name: value for name, value in desc.items() if value is not None}
    return {**BARE, "desc": desc}


class TestOne:
    def test_convert_writes_one_model(self) -> None:
        assert output_of(f"convert {write(BARE)}") == "bare.json -> bare.onnx\n"
        made = read_bytes("bare.onnx")
        assert made == og.to_onnx(DESC).SerializeToString()

    def test_certify_proves_its_model(self) -> None:
        assert output_of(f"certify {write(BARE)}") == (
            "policy clamp: an index out of range is clamped\n"
            "bare.json: clamp, portable: proved\n"
            "1 proved, 0 refuted, 0 undecided\n"
        )

    def test_show_shows_it(self) -> None:
        text = output_of(f"show {write(BARE)}")
        assert text.splitlines()[:3] == ["bare.json", "", "DML_GATHER_OPERATOR_DESC"]
        (gather,) = json_of("show bare.json --json")["dispatchables"].values()
        assert gather["descriptor"] == BARE
        assert gather["out_of_range"] == "clamp"

    def test_check_draws_three_cases(self) -> None:
        code, text, error = outcome(f"check {write(BARE)}")
        assert (code, error) == (0, f"bare.json: {TOLD}\n")
        # Indices that are drawn are no fault of the file, so that no note is there.
        assert text.partition("\n\n")[2].splitlines() == [
            "                                   cpu",
            "bare.json: both ends of each axis  PASS",
            "bare.json: random bits             PASS",
            "bare.json: wild indices            PASS",
            "",
            "cpu: 3 cases, 3 PASS",
        ]

    def test_check_takes_a_target_an_opset_and_a_policy(self) -> None:
        write(BARE)
        for option in ("target portable", "opset 18", "wrap", "lanes cpu@portable"):
            _, text, error = outcome(f"check bare.json --{option}")
            assert error == f"bare.json: {TOLD}\n"
            assert "3 cases, 3 PASS" in text
        _, text, error = outcome("check bare.json --out-of-range error")
        assert "3 cases, 3 PASS" in text
        assert error == (
            "bare.json: without data, so three cases are drawn: both ends of each axis,"
            " random bits, extreme data\n"
        )

    def test_check_takes_inputs(self) -> None:
        write(BARE)
        text = output_of(f"check bare.json {inputs()}")
        assert text.partition("\n\n")[2].splitlines() == [
            "                             cpu",
            "bare.json: the given inputs  PASS",
            "",
            (
                "NOTE      bare.json: the given inputs: indices out of range: 1 of 2,"
                " first IndicesTensor[0,1] = 7; 3 of 8 output elements differ, first"
                " OutputTensor[0,1]: 2 under clamp, 7 under directml; for the other"
                " output: --out-of-range directml"
            ),
            "",
            "cpu: 1 case, 1 PASS",
        ]

    def test_explain_is_by_names(self) -> None:
        write(BARE)
        assert (
            output_of("explain bare.json --at 3,1")
            == "output[3,1] = input[3, IndicesTensor[0,1]]\n"
        )
        code, text, error = outcome("explain bare.json --json")
        assert (code, error, len(json.loads(text))) == (0, "", 8)
        assert (
            output_of(f"explain bare.json --at 1,0 {inputs([[2, 0]])}")
            == "output[1,0] = input[1, indices[0]] = input[1, 2] = 5\n"
        )

    def test_run_asks_for_inputs(self) -> None:
        assert (
            error_of(f"run {write(BARE)}")
            == "--inputs FILE.npz must come with bare.json, which has no data"
        )

    @pytest.mark.parametrize(
        ("options", "printed", "elements"),
        [
            (
                "",
                "2, 7, 5, 10, 8, 11, 11, 11",
                "7 under directml, 2 under clamp; for the other"
                " output: --out-of-range clamp",
            ),
            (
                "--out-of-range clamp",
                "2, 2, 5, 5, 8, 8, 11, 11",
                (
                    "2 under clamp, 7 under directml; for the other"
                    " output: --out-of-range"
                    " directml"
                ),
            ),
            (
                "--out-of-range clamp --target portable",
                "2, 2, 5, 5, 8, 8, 11, 11",
                (
                    "2 under clamp, 7 under directml; for the other"
                    " output: --out-of-range"
                    " directml"
                ),
            ),
        ],
    )
    def test_run_prints_directml_s_elements(
        self, options: str, printed: str, elements: str
    ) -> None:
        write(BARE)
        assert outcome(f"run bare.json {inputs()} {options}") == (
            0,
            f"Resource 'OutputTensor': {printed}\n",
            (
                "bare.json: indices out of range: 1 of 2, first IndicesTensor[0,1] = 7;"
                f" 3 of 8 output elements differ, first OutputTensor[0,1]: {elements}\n"
            ),
        )

    def test_run_fails_at_an_index_under_error(self) -> None:
        write(BARE)
        given = f"run bare.json {inputs()} --out-of-range error"
        assert (
            error_of(given, code=1)
            == "bare.json: IndicesTensor[0,1] must be in [0, 3), got 7"
        )

    def test_inputs_that_do_not_fit_are_refused(self) -> None:
        write(BARE)
        np.savez("in.npz", InputTensor=DATA_4X3, IndicesTensor=np.zeros((1, 3), "u4"))
        for command in ("run", "check", "explain"):
            assert error_of(f"{command} bare.json --inputs in.npz") == (
                "bare.json: input 'IndicesTensor' must be UINT32 [1, 2], got"
                " uint32 [1, 3]"
            )

    def test_repro_finds_a_difference(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write(BARE)
        assert outcome("repro bare.json -o out") == (
            0,
            "3 cases pass on lane cpu: nothing to reproduce\n",
            f"bare.json: {TOLD}\n",
        )
        answer = ModelLane.answer

        def negative(lane: ModelLane, case: Any) -> Any:
            found = answer(lane, case)
            # Only random bits are wrong, so that another case stays right.
            if case.name.endswith("both ends of each axis"):
                return found
            assert found.output is not None
            output = np.flip(found.output, 0).copy()
            return type(found)(found.kind, found.reason, found.nodes, output)

        monkeypatch.setattr(ModelLane, "answer", negative)
        code, text, error = outcome("repro bare.json -o out --no-reduce")
        # The script runs the model, which is right.
        assert (code, error) == (2, f"bare.json: {TOLD}\n")
        assert text.startswith(
            "out: CPUExecutionProvider returns wrong elements for Gather of FLOAT32"
            " data by UINT32 indices; but repro.py does not show it: "
        )
        data = np.load("out/inputs.npz")["InputTensor"]
        assert np.isnan(data).any()

    def test_a_file_is_read_from_the_standard_input(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(BARE)
        with open("bare.json", "rb") as stream:
            kept = os.dup(0)
            os.dup2(stream.fileno(), 0)
            try:
                code, text, error = outcome("show -")
            finally:
                os.dup2(kept, 0)
                os.close(kept)
        assert (code, error) == (0, "")
        assert text.splitlines()[:3] == ["-", "", "DML_GATHER_OPERATOR_DESC"]


class TestForms:
    """Descriptors as DxDispatch and others write them."""

    def test_comments_and_trailing_commas_are_read(self) -> None:
        text = json.dumps(BARE)
        write_text("bare.json", f"// by hand\n{text[:-1]},}}")
        (dispatch,) = load("bare.json").dispatches
        assert dispatch.descriptor == DESC

    def test_inputs_may_be_owned_by_dml(self) -> None:
        owned = og.GatherDesc(
            tensor_desc("FLOAT32 4x3 flags DML_TENSOR_FLAG_OWNED_BY_DML"),
            tensor_desc("UINT32 1x2 flags DML_TENSOR_FLAG_OWNED_BY_DML"),
            DESC.output_tensor,
            axis=1,
            index_dimensions=1,
        )
        (dispatch,) = load(write(og.to_dict(owned))).dispatches
        assert dispatch.descriptor == owned
        text = succeed("check bare.json")
        assert "3 cases, 3 PASS" in text
        assert (
            output_of(f"run bare.json {inputs([[2, 0]])}")
            == "Resource 'OutputTensor': 2, 0, 5, 3, 8, 6, 11, 9\n"
        )

    def test_tensors_with_strides_are_buffers(self) -> None:
        strided = descriptor(
            "GATHER: FLOAT32 4x3 strides 1x4, UINT32 1x2, FLOAT32 4x2 strides 3x1, 1, 1"
        )
        write(og.to_dict(strided))
        text = succeed("check bare.json")
        assert "3 cases, 3 PASS" in text
        assert "clamp, portable: proved" in output_of("certify bare.json")
        np.savez(
            "in.npz",
            InputTensor=np.arange(12, dtype=np.float32),
            IndicesTensor=np.array([[2, 0]], np.uint32),
        )
        # The gaps of the output are zero.
        assert (
            output_of("run bare.json --inputs in.npz")
            == "Resource 'OutputTensor': 8, 0, 0, 9, 1, 0, 10, 2, 0, 11, 3\n"
        )

    @pytest.mark.parametrize(
        ("content", "sentence"),
        [
            ([], "$ must have a descriptor, got an empty array"),
            ([3], "$[0] must be an object, got 3"),
            ({"type": 3}, "$.type must be a string, got 3"),
            ({"type": "DML_OPERATOR_GATHER"}, "$.InputTensor is required"),
            (
                {"type": "DML_OPERATOR_GATHR", "desc": {}},
                (
                    "$.type must be one of GATHER, GATHER_ELEMENTS, GATHER_ND,"
                    " GATHER_ND1, got 'DML_OPERATOR_GATHR'; did you mean"
                    ' "DML_OPERATOR_GATHER"?'
                ),
            ),
            (
                RELU,
                (
                    "$.type must be one of GATHER, GATHER_ELEMENTS, GATHER_ND,"
                    " GATHER_ND1, got 'DML_OPERATOR_ACTIVATION_RELU'"
                ),
            ),
            (
                [RELU],
                (
                    "$[0].type must be one of GATHER, GATHER_ELEMENTS, GATHER_ND,"
                    " GATHER_ND1, got 'DML_OPERATOR_ACTIVATION_RELU'"
                ),
            ),
            (changed_desc(InputTensor=None), "$.desc.InputTensor is required"),
            (
                [BARE, changed_desc(InputTensor=None)],
                "$[1].desc.InputTensor is required",
            ),
        ],
    )
    def test_what_is_no_descriptor_is_a_sentence(
        self, content: Any, sentence: str
    ) -> None:
        write(content)
        for command in ("check", "certify", "show", "convert", "run"):
            assert error_of(f"{command} bare.json") == f"bare.json: {sentence}", command

    def test_a_rule_that_is_broken_names_the_place_in_the_file(self) -> None:
        wrong = changed_desc(Axis=7)
        write(wrong)
        write([BARE, wrong], "list.json")
        for path, place in (("bare.json", "$.desc"), ("list.json", "$[1].desc")):
            assert error_of(f"show {path}", code=1).startswith(
                f"{path}: {place}: Axis must be "
            )
            code, text, error = outcome(f"check {path}")
            assert (code, error) == (1, "")
            assert f"INVALID   {path}: {place}: Axis must be " in text
            (invalid,) = read_report(
                outcome(f"check {path} --json")[1].encode()
            ).invalid
            assert invalid.file == path
            assert invalid.reason.startswith(f"{place}: Axis must be ")

    def test_a_field_that_is_nearly_right_is_told(self) -> None:
        tensor = {**BARE["desc"]["InputTensor"], "Stride": [3, 1]}
        write([BARE, changed_desc(InputTensor=tensor)])
        assert outcome("show bare.json")[::2] == (
            0,
            (
                "bare.json: $[1].desc.InputTensor has no field 'Stride', so it is"
                ' ignored; did you mean "Strides"?\n'
            ),
        )


class TestLists:
    def test_convert_numbers_the_models(self) -> None:
        write([BARE, og.to_dict(ELEMENTS)], "list.json")
        assert (
            output_of("convert list.json")
            == "list.json -> list.1.onnx\nlist.json -> list.2.onnx\n"
        )
        for path, desc in (("list.1.onnx", DESC), ("list.2.onnx", ELEMENTS)):
            assert read_bytes(path) == og.to_onnx(desc).SerializeToString()

    def test_a_list_of_one_is_one_descriptor(self) -> None:
        write([BARE], "list.json")
        assert output_of("convert list.json") == "list.json -> list.1.onnx\n"
        assert (
            output_of(f"run list.json {inputs([[2, 0]])}")
            == "Resource 'OutputTensor': 2, 0, 5, 3, 8, 6, 11, 9\n"
        )

    def test_other_operators_are_left_out(self) -> None:
        write([BARE, RELU, og.to_dict(ELEMENTS)], "list.json")
        told = f"list.json: {LEFT_OUT}: $[1]\n"
        assert outcome("convert list.json") == (
            0,
            "list.json -> list.1.onnx\nlist.json -> list.3.onnx\n",
            told,
        )
        assert files() == ["list.1.onnx", "list.3.onnx", "list.json"]
        code, text, error = outcome("check list.json")
        assert (code, error) == (0, f"{told}list.json: $[0], $[2]: {TOLD}\n")
        assert text.partition("\n\n")[2].splitlines()[:7] == [
            "                                       cpu",
            "list.json: both ends of each axis (1)  PASS",
            "list.json: random bits (1)             PASS",
            "list.json: wild indices (1)            PASS",
            "list.json: both ends of each axis (3)  PASS",
            "list.json: random bits (3)             PASS",
            "list.json: wild indices (3)            PASS",
        ]
        code, text, error = outcome("certify list.json")
        assert (code, error) == (0, told)
        assert text.splitlines()[1:] == [
            "list.json: $[0]: clamp, portable: proved",
            "list.json: $[2]: clamp, portable: proved",
            "2 proved, 0 refuted, 0 undecided",
        ]
        code, text, error = outcome("show list.json")
        assert (code, error) == (0, told)
        assert [part.splitlines()[0] for part in text.split("\n\n\n")] == [
            "list.json: $[0]",
            "list.json: $[2]",
        ]

    def test_explain_takes_one_by_its_number(self) -> None:
        write([BARE, og.to_dict(ELEMENTS)], "list.json")
        assert (
            output_of("explain list.json --dispatch 2 --at 1,0")
            == "output[1,0] = input[1, IndicesTensor[1,0]]\n"
        )
        assert error_of("explain list.json --dispatch 3") == (
            "list.json: the file must have 3 gathers for --dispatch 3, got 2"
        )

    def test_inputs_are_for_one_descriptor(self) -> None:
        write([BARE, BARE], "list.json")
        for command in ("check", "explain", "repro -o out"):
            error = error_of(f"{command} list.json {inputs()}")
            assert error == f"{INPUTS}, got list.json, which has 2", command
        for given in ("", inputs()):
            assert error_of(f"run list.json {given}") == (
                "list.json: run takes a program, or one descriptor with"
                " --inputs FILE.npz, got 2 descriptors"
            )

    def test_repro_tries_all_of_them(self) -> None:
        write([BARE, og.to_dict(ELEMENTS)], "list.json")
        assert outcome("repro list.json -o out") == (
            0,
            "6 cases pass on lane cpu: nothing to reproduce\n",
            f"list.json: $[0], $[1]: {TOLD}\n",
        )
        given = "repro list.json -o out --case 2"
        assert outcome(given) == (
            2,
            f"list.json: $[0], $[1]: {TOLD}\n"[:0],
            (
                f"list.json: $[0], $[1]: {TOLD}\n"
                "Error: list.json: case '2' must name one, got 'list.json: both ends of"
                " each axis (2)', 'list.json: random bits (2)', 'list.json: wild"
                " indices (2)'\n"
            ),
        )

    def test_what_is_too_large_to_draw_is_left_out(self) -> None:
        large = descriptor(f"GATHER: FLOAT32 {2**23}x1, UINT32 1x2, FLOAT32 2x1, 0, 1")
        write([BARE, og.to_dict(large)], "list.json")
        code, text, error = outcome("check list.json")
        assert (code, error) == (
            0,
            (
                f"list.json: $[0]: {TOLD}\n"
                "list.json: $[1]: left out, as it has no data, and more than 33,554,432"
                " bytes are not drawn\n"
            ),
        )
        assert "cpu: 3 cases, 3 PASS" in text
        write(og.to_dict(large))
        assert error_of("check bare.json") == (
            "bare.json: the tensors must have at most 33,554,432 bytes to be"
            " drawn; --inputs FILE.npz gives data"
        )


class TestProgramsWithoutData:
    """Dispatchables that no command dispatches are drawn, too."""

    def unused(self) -> str:
        path = program("p.json")
        content = read_json(path)
        gather = content["dispatchables"]["gather"]
        return changed(path, dispatchables={"gather": gather, "unused": gather})

    def test_check_has_both_sorts_of_cases(self) -> None:
        code, text, error = outcome(f"check {self.unused()}")
        assert (code, error) == (0, f"p.json: $.dispatchables.unused: {TOLD}\n")
        assert text.partition("\n\n")[2].splitlines()[1:5] == [
            "p.json: $.commands[0] (gather)           PASS",
            "p.json: both ends of each axis (unused)  PASS",
            "p.json: random bits (unused)             PASS",
            "p.json: wild indices (unused)            PASS",
        ]

    def test_explain_has_the_data_of_the_dispatch(self) -> None:
        path = self.unused()
        assert (
            output_of(f"explain {path} --at 1,0")
            == "output[1,0] = input[1, indices[0]] = input[1, 2] = 5\n"
        )
        assert (
            output_of(f"explain {path} --at 1,0 --dispatch 2")
            == "output[1,0] = input[1, IndicesTensor[0,0]]\n"
        )

    def test_the_page_draws_the_data_of_the_dispatch(self) -> None:
        succeed(f"show {self.unused()} --html=page.html")
        assert Path("page.html").stat().st_size > 1000

    def test_convert_tells_nothing_of_drawn_indices(self) -> None:
        path = self.unused()
        wild = {"initialValuesDataType": "UINT32", "initialValues": [2, 7]}
        content = read_json(path)
        changed(path, resources={**content["resources"], "indices": wild})
        code, _, error = outcome(f"convert {path} -o d")
        assert code == 0
        assert error == (
            "p.json: $.commands[0] (gather): indices out of range: 1 of 2, first"
            " IndicesTensor[0,1] = 7; 3 of 8 output elements differ, first"
            " OutputTensor[0,1]: 2 under clamp, 7 under directml; for the other output:"
            " --out-of-range directml\nnew folder: d\n"
        )

    @pytest.mark.parametrize(
        "command", ["check", "certify", "show", "convert", "repro -o out"]
    )
    def test_a_program_without_a_gather_is_a_sentence(self, command: str) -> None:
        path = changed(program("p.json"), dispatchables={}, commands=[])
        sentence = "p.json: $.dispatchables must hold a gather"
        assert error_of(f"{command} {path}") == sentence


@stand_in
def test_directml_itself_runs_it(tmp_path: Path) -> None:
    write(BARE)
    folder = tmp_path / "dll"
    folder.mkdir()
    by_formula = "struct.pack('<8f', 2, 7, 5, 10, 8, 11, 11, 11)"
    lane = f"directml-dll={fake_folder(folder, done(by_formula))}"
    text = output_of(f"check bare.json {inputs()} --lanes cpu --lane", lane)
    # Both run a descriptor, so that nothing is said of a file.
    assert text.partition("\n\n")[2].splitlines()[:2] == [
        "                             cpu   directml-dll",
        "bare.json: the given inputs  PASS  PASS, with DirectML's formula",
    ]
    assert text.splitlines()[-2:] == [
        "cpu: 1 case, 1 PASS",
        "directml-dll: 1 case, 1 PASS, 1 with DirectML's formula",
    ]
    assert error_of(f"run bare.json {inputs()} --provider directml-dll") == (
        "--provider directml-dll must come with a program that has data;"
        " onnxgather check bare.json --lanes directml-dll runs a descriptor alone"
    )
