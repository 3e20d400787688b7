from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import onnx
import pytest

from onnxgather import GatherDesc, GatherElementsDesc, TensorDesc, to_dict, to_onnx
from onnxgather.certificates import files
from onnxgather.certificates.certify import LOW_HALVES, Certified, certify
from onnxgather.certificates.claims import AnyModel
from onnxgather.certificates.files import check_certificate, read_certificate
from onnxgather.errors import FileFormatError, OnnxGatherError

TENSORS = (
    TensorDesc("FLOAT32", [5, 3]),
    TensorDesc("INT64", [1, 4]),
    TensorDesc("FLOAT32", [4, 3]),
)
DESC = GatherDesc(*TENSORS, axis=0, index_dimensions=1)
OTHER = GatherElementsDesc(
    TensorDesc("FLOAT32", [5, 3]),
    TensorDesc("INT64", [2, 3]),
    TensorDesc("FLOAT32", [2, 3]),
    axis=0,
)
FALSE = "(assert false)\n(check-sat)\n"
"""A script that is unsatisfiable, and says nothing of a model."""

changed = msgspec.structs.replace


def findings(
    certificate: Certified, model: AnyModel | None = None, seconds: float = 20
) -> list[str]:
    """What a check finds."""
    return [*check_certificate(certificate, model, seconds)]


@pytest.fixture(scope="module")
def certificate() -> Certified:
    return certify(DESC)


@pytest.fixture
def path(tmp_path: Path, certificate: Certified) -> str:
    (tmp_path / "certificate.json").write_bytes(msgspec.json.encode(certificate))
    return str(tmp_path / "certificate.json")


def test_a_certificate_of_a_model_is_good(path: str, certificate: Certified) -> None:
    read = read_certificate(path)
    assert read == certificate
    assert read.obligations
    assert read.lemmas
    assert findings(read, to_onnx(DESC)) == []


def test_the_digest_is_the_same_for_a_file(
    tmp_path: Path, certificate: Certified
) -> None:
    (tmp_path / "model.onnx").write_bytes(to_onnx(DESC).SerializeToString())
    assert findings(certificate, tmp_path / "model.onnx") == []


def test_without_a_model_its_own_obligations_are_solved(certificate: Certified) -> None:
    assert findings(certificate) == []


def test_another_model_is_a_finding(certificate: Certified) -> None:
    model = to_onnx(DESC, "zero")
    (finding,) = findings(certificate, model)
    rule = f"$.digest must be that of the model, {certify(DESC, 'zero').digest}"
    assert finding == f"{rule}, got '{certificate.digest}'"


def test_texts_that_are_not_those_of_the_model_are_not_believed(
    certificate: Certified,
) -> None:
    model = to_onnx(DESC)
    forged = changed(certificate, obligations=(FALSE,))
    assert findings(forged) == []
    told = ["$.obligations must be what follows from the model and the descriptor"]
    assert findings(forged, model) == told
    more = changed(certificate, obligations=(*certificate.obligations, FALSE))
    assert findings(more, model) == told
    fewer = changed(certificate, obligations=certificate.obligations[1:])
    assert findings(fewer, model) == told


def test_a_model_that_is_wrong_has_no_certificate_that_is_good() -> None:
    model = to_onnx(DESC)
    one = next(each for each in model.graph.initializer if each.name == "last_index")
    assert one.raw_data
    wrong = onnx.numpy_helper.to_array(one) - 1
    one.CopyFrom(onnx.numpy_helper.from_array(wrong, one.name))
    refuted = certify(DESC, model=model)
    assert refuted.state == "refuted"
    (finding,) = findings(refuted)
    assert finding == "the certificate says refuted, so that it proves nothing"
    forged = changed(refuted, state="proved", obligations=(FALSE,), lemmas=())
    assert findings(forged, model)
    own = changed(refuted, state="proved", lemmas=certify(DESC).lemmas)
    found = findings(own, model)
    assert found
    (finding,) = findings(changed(own, obligations=refuted.obligations))
    assert finding == "$.obligations[0] is not proved: it does not hold"


def test_lemmas_and_the_statement_are_those_of_the_model(
    certificate: Certified,
) -> None:
    model = to_onnx(DESC)
    for field, value in (
        ("lemmas", ()),
        ("statement", "pi is 3"),
        ("preconditions", ("a",)),
    ):
        told = [f"$.{field} must be what follows from the model and the descriptor"]
        assert findings(changed(certificate, **{field: value}), model) == told
    with pytest.raises(OnnxGatherError) as raised:
        findings(changed(certificate, descriptor=to_dict(OTHER)), model)
    assert (
        str(raised.value)
        == "'IndicesTensor' of the model must be INT64 [2, 3], got INT64 [1, 4]"
    )


def test_low_halves_are_a_precondition_that_the_check_keeps() -> None:
    model = to_onnx(DESC)
    certificate = certify(DESC, model=model, low_halves=True)
    assert certificate.preconditions == (LOW_HALVES,)
    assert findings(certificate, model) == []


def test_z3_solves_what_cvc5_does_not(
    certificate: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cvc5", None)
    assert findings(certificate) == []


def test_a_script_that_no_solver_decides_is_a_finding(certificate: Certified) -> None:
    cubes = (
        "(set-logic QF_NIA)(declare-const a Int)(declare-const b Int)(declare-const c"
        " Int)(assert (and (> a 1) (> b 1) (> c 1) (= (+ (* a a a) (* b b b)) (* c c"
        " c))))(check-sat)"
    )
    asked = changed(certificate, obligations=(FALSE, cubes), lemmas=())
    (finding,) = findings(asked, seconds=0.3)
    assert finding == "$.obligations[1] is not proved: z3: timeout"


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "schema": ({"schema": 2}, "$.schema"),
    "unknown": ({"more": 1}, "$ must not have more"),
    "state": ({"state": "good"}, "$.state"),
    "command": (
        {"obligations": [FALSE, "(exit)\n(check-sat)"]},
        (
            "$.obligations[1]: must have a command to declare, define or assert in each"
            " line, got '(exit)'"
        ),
    ),
    "lemma": (
        {"lemmas": ["order float8"]},
        "$.lemmas[0] must be a lemma of this version of onnxgather, got 'order float8'",
    ),
    "descriptor": ({"descriptor": {}}, "$.descriptor: $.type is required"),
    "type": ({"digest": 3}, "$.digest must be `str`, got `int`"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named(path: str, name: str) -> None:
    change, message = BAD[name]
    content = json.loads(Path(path).read_text()) | change
    Path(path).write_text(json.dumps(content))
    with pytest.raises(FileFormatError) as raised:
        read_certificate(path)
    assert str(raised.value).startswith(f"{path}: {message}")


def test_a_file_must_have_all_fields(path: str) -> None:
    content = json.loads(Path(path).read_text())
    del content["target"]
    Path(path).write_text(json.dumps(content))
    with pytest.raises(FileFormatError) as raised:
        read_certificate(path)
    assert str(raised.value) == f"{path}: $ must have target"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b"[" * 10**5, b"null"])
def test_what_is_no_certificate_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(FileFormatError):
        read_certificate(str(tmp_path / "c.json"))


def test_a_file_that_is_missing_or_too_large_is_named(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = str(tmp_path / "none.json")
    with pytest.raises(FileFormatError) as raised:
        read_certificate(missing)
    assert str(raised.value) == f"{missing}: no such file or directory"
    monkeypatch.setattr(files, "LARGEST_CERTIFICATE", 100)
    with pytest.raises(FileFormatError) as raised:
        read_certificate(path)
    assert str(raised.value) == f"{path}: must have at most 100 bytes, got more"


def test_preconditions_are_those_of_the_target() -> None:
    model = to_onnx(DESC, target="webgpu")
    needing = certify(DESC, "clamp", "webgpu")
    assert needing.preconditions
    assert findings(needing, model) == []
    told = ["$.preconditions must be what follows from the model and the descriptor"]
    assert findings(changed(needing, preconditions=()), model) == told
