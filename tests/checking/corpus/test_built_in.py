"""The corpus covers what it promises, and is the same on every machine."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, get_args

import numpy as np
import onnx
import pytest
from corpus_digests import all_digests, digest
from folders import DATA, HELPERS
from onnx.reference import ReferenceEvaluator

import onnxgather as og
from onnxgather.checking.cases import Case, DescriptorCase, NodeCase
from onnxgather.checking.corpus import built_in, built_in_cases, random_cases
from onnxgather.checking.corpus.groups import GROUPS
from onnxgather.checking.node_models import bare_model
from onnxgather.core.descriptors.arrays import axis_sizes, elements
from onnxgather.core.descriptors.datatypes import INDEX_TYPES
from onnxgather.core.descriptors.spelling import tensors
from onnxgather.core.descriptors.strides import overlaps
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.model.write import check_model
from onnxgather.core.options import OutOfRange

OPERATORS = sorted(og.OPERATORS)
ROLES = ("InputTensor", "IndicesTensor", "OutputTensor")
POLICIES: tuple[OutOfRange, ...] = get_args(OutOfRange)


@cache
def cases() -> tuple[Case, ...]:
    return tuple(built_in_cases())


def described() -> list[tuple[DescriptorCase, og.Descriptor]]:
    """The cases that have a descriptor, with it."""
    return [
        (case, case.descriptor) for case in cases() if isinstance(case, DescriptorCase)
    ]


def test_cases_have_the_recorded_digests() -> None:
    committed = (DATA / "corpus.sha256").read_text("utf-8").splitlines()
    assert all_digests() == committed


@pytest.mark.slow
@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_a_fresh_interpreter_makes_the_same_cases(hash_seed: str) -> None:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    made = subprocess.run(
        [sys.executable, str(HELPERS / "corpus_digests.py")],
        capture_output=True,
        check=True,
        text=True,
        env=environment,
    )
    assert made.stdout == (DATA / "corpus.sha256").read_text("utf-8")


@pytest.mark.slow
def test_a_row_changes_no_other_case(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {case.name: digest(case) for case in cases()}
    monkeypatch.setattr(built_in, "GROUPS", GROUPS[::-2])
    after = {case.name: digest(case) for case in built_in_cases()}
    assert 400 < len(after) < len(before)
    assert after.items() <= before.items()


def test_names_are_unique_and_become_file_names() -> None:
    names = [case.name for case in cases()]
    assert 1600 <= len(names) <= 1800
    assert len({name.replace("/", "-") for name in names}) == len(names)
    assert all(re.fullmatch(r"[a-z0-9-]+(/[a-z0-9-]+)+", name) for name in names)
    assert max(map(len, names)) <= 60
    reserved = {"con", "prn", "aux", "nul"}
    assert not reserved & {part for name in names for part in name.split("/")}


def test_cases_have_every_operator_data_type_and_index_type() -> None:
    wanted = set(product(OPERATORS, og.TensorDataType, INDEX_TYPES))
    assert len(wanted) == 176
    assert {(c.operator, c.data_type, c.index_type) for c, _ in described()} == wanted
    # In range, as the bare operator, and for signed types with negative indices too.
    names = {case.name for case in cases() if case.out_of_range == "error"}
    for operator, data_type, index_type in wanted:
        start = f"{operator}/{data_type}/{index_type}".lower().replace("_", "-")
        kinds = ["forward", "negative"] if index_type.is_signed else ["forward"]
        assert {f"{start}/{kind}" for kind in kinds} <= names


def test_only_cases_named_out_of_range_have_indices_out_of_range() -> None:
    for case, desc in described():
        assert case.in_range != case.name.startswith("out-of-range/"), case.name
        values = elements(desc.indices_tensor, case.indices)
        negative, lowest = (values < 0).any(), (values < 0).all()
        if case.name.endswith("/forward"):
            assert not negative
        if case.name.endswith("/negative"):
            assert lowest


def test_cases_have_every_rank_axis_tuple_and_batch() -> None:
    axes: dict[str, set[tuple[int, int]]] = {"GATHER": set(), "GATHER_ELEMENTS": set()}
    tuples: set[tuple[int, int]] = set()
    batched: set[tuple[int, int, int]] = set()
    ranks: set[tuple[str, int]] = set()
    for case, desc in described():
        count = desc.input_tensor.dimension_count
        ranks.add((desc.operator, count))
        if isinstance(desc, og.GatherDesc | og.GatherElementsDesc):
            axes[desc.operator].add((count, desc.axis))
        elif isinstance(desc, og.GatherNDDesc):
            tuples.add((desc.input_dimension_count, desc.tuple_size))
        else:
            batched.add((desc.input_dimension_count, desc.batches, desc.tuple_size))
        assert case.dimension_count == count
    assert ranks == set(product(OPERATORS, range(1, 9)))
    every = {(count, k) for count in range(1, 9) for k in range(count)}
    assert axes == {"GATHER": every, "GATHER_ELEMENTS": every}
    assert tuples == {(rank, k + 1) for rank, k in every}
    assert batched == {
        (rank, b, t) for rank, b in every for t in range(1, rank - b + 1)
    }


def test_cases_have_every_rank_of_the_indices() -> None:
    scalar: set[tuple[int, int, int]] = set()
    tuples: set[tuple[int, int]] = set()
    batched: set[tuple[int, int]] = set()
    for _, desc in described():
        if isinstance(desc, og.GatherDesc):
            scalar.add(
                (desc.input_tensor.dimension_count, desc.index_dimensions, desc.axis)
            )
        elif isinstance(desc, og.GatherNDDesc):
            tuples.add((desc.input_dimension_count, desc.indices_dimension_count))
        elif isinstance(desc, og.GatherND1Desc):
            batched.add((desc.batches, desc.indices_dimension_count))
    # With the first axis that the indices leave, and with the last.
    ends = {
        (c, k, a)
        for c in range(1, 9)
        for k in range(c + 1)
        for a in (max(0, k - 1), c - 1)
    }
    assert ends <= scalar
    assert tuples == set(product(range(1, 9), repeat=2))
    assert batched == {(b, k) for b in range(8) for k in range(b + 1, 9)}


def test_cases_have_every_number_of_leading_ones_in_every_tensor() -> None:
    found: set[tuple[str, str, int]] = set()
    for _, desc in described():
        for name, tensor in tensors(desc).items():
            ones = next(
                (k for k, n in enumerate(tensor.sizes) if n > 1), len(tensor.sizes)
            )
            found.add((desc.operator, name, ones))
    assert set(product(OPERATORS, ROLES, range(8))) <= found


def test_every_tensor_of_every_operator_has_every_layout() -> None:
    kinds: dict[str, set[tuple[str, str]]] = {operator: set() for operator in OPERATORS}
    for _, desc in described():
        for name, tensor in tensors(desc).items():
            kinds[desc.operator] |= {(name, kind) for kind in lies(tensor)}
    either = {
        "packed",
        "written out",
        "permuted",
        "with gaps",
        "longer",
        "longer and strided",
    }
    inputs = either | {"aligned", "broadcast", "overlapping", "owned"}
    wanted = set(product(ROLES[:2], inputs))
    wanted |= set(product(ROLES[2:], either | {"aligned"}))
    assert kinds == dict.fromkeys(OPERATORS, wanted)


def lies(tensor: og.TensorDesc) -> Iterator[str]:
    """Yield the words that hold for the layout of a tensor."""
    smallest = tensor.default_total_tensor_size_in_bytes
    longer = tensor.total_tensor_size_in_bytes > smallest
    if tensor.guaranteed_base_offset_alignment:
        yield "aligned"
    if tensor.flags:
        yield "owned"
    if longer:
        yield "longer" if tensor.strides is None else "longer and strided"
    if tensor.strides is None:
        yield "packed"
        return
    long = [(s, n) for s, n in zip(tensor.strides, tensor.sizes, strict=True) if n > 1]
    steps = [s for s, _ in long]
    if 0 in steps:
        yield "broadcast"
    elif overlaps(tensor.sizes, tensor.strides):
        yield "overlapping"
    elif tensor.is_packed:
        yield "written out"
    elif steps != sorted(steps, reverse=True):
        yield "permuted"
    else:
        yield "with gaps"


def test_gaps_between_strided_indices_are_out_of_range() -> None:
    found = 0
    for case, desc in described():
        tensor = desc.indices_tensor
        if tensor.strides is not None:
            used = {int(np.dot(p, tensor.strides)) for p in np.ndindex(*tensor.sizes)}
            gaps = np.delete(case.indices, sorted(used))
            assert (gaps == np.iinfo(gaps.dtype).max).all()
            found += bool(gaps.size)
    assert found > 40


def test_indices_of_edges_are_the_ends_of_their_axis() -> None:
    found = 0
    for case, desc in described():
        if case.name.endswith("/edges"):
            sizes, found = axis_sizes(desc), found + 1
            values = elements(desc.indices_tensor, case.indices)
            columns = [values] if len(sizes) == 1 else np.moveaxis(values, -1, 0)
            signed = desc.indices_tensor.data_type.is_signed
            for n, column in zip(sizes, columns, strict=True):
                ends = {0, n - 1, -1, -n} if signed else {0, n - 1}
                assert set(column.ravel().tolist()) <= ends, case.name
            assert len(np.unique(values)) > 1, case.name
    assert found == 4 * (3 * 4 + 3 + 1)


def test_every_operator_has_axes_of_size_one_and_axes_that_no_byte_counts() -> None:
    for operator in OPERATORS:
        indexed: set[int] = set()
        for _, desc in described():
            if desc.operator == operator:
                indexed |= {*axis_sizes(desc)}
        assert {1, 65, 257, 1025, 65537} <= indexed


def test_elements_differ_as_long_as_the_type_has_values() -> None:
    odd = ("/nan/", "/subnormal/", "/extremes/")
    for case, desc in described():
        if not any(word in case.name for word in odd):
            bits = case.data.reshape(-1).view(f"u{case.data.itemsize}")
            most = 2 ** (8 * desc.input_tensor.data_type.size)
            assert len(np.unique(bits)) == min(bits.size, most), case.name
            if case.data.dtype.kind == "f" and "/documented/" not in case.name:
                smallest = np.finfo(case.data.dtype).smallest_normal
                assert (np.isfinite(case.data) & (np.abs(case.data) >= smallest)).all()


def test_nan_subnormal_and_extreme_data_have_the_values_of_their_names() -> None:
    for case in cases():
        data = case.data.reshape(-1)
        if "/nan/" in case.name:
            bits = data.view(f"u{data.itemsize}")
            quiet = bits & bits.dtype.type(2 ** (np.finfo(data.dtype).nmant - 1)) != 0
            assert np.isnan(data).all()
            assert set(quiet.tolist()) == {False, True}
            assert set(np.signbit(data).tolist()) == {False, True}
            assert len(np.unique(bits)) == bits.size
        elif "/subnormal/" in case.name:
            assert (
                (np.abs(data) < np.finfo(data.dtype).smallest_normal) & (data != 0)
            ).all()
            assert set(np.signbit(data).tolist()) == {False, True}
        elif "/extremes/" in case.name and data.dtype.kind == "f":
            zeros = data[data == 0]
            assert set(np.signbit(zeros).tolist()) == {False, True}
            assert {math.inf, -math.inf, np.finfo(data.dtype).max} <= {*data.tolist()}
        elif "/extremes/" in case.name:
            limits = np.iinfo(data.dtype)
            assert {limits.min, limits.max, 0} <= {*data.tolist()}


def test_every_kind_of_out_of_range_index_is_under_every_policy() -> None:
    limits = {str(t): np.iinfo(t.numpy) for t in INDEX_TYPES}
    # The values outside an axis of size 5, of those that the type holds.
    wanted: dict[str, set[int]] = {
        name: {
            v
            for v in (5, 53, -6, 2**31, 2**32, 2**63, int(limit.min), int(limit.max))
            if limit.min <= v <= limit.max and not 0 <= v < 5
        }
        for name, limit in limits.items()
    }
    found: dict[tuple[str, str, str], set[int]] = {}
    asked: dict[str, set[tuple[str, bytes, bytes]]] = {}
    for case, desc in described():
        if not case.name.startswith("out-of-range/"):
            continue
        name, policy = case.name.rsplit("/", 1)
        assert policy == case.out_of_range
        asked.setdefault(name, set()).add(
            (policy, case.data.tobytes(), case.indices.tobytes())
        )
        if desc.operator in ("GATHER", "GATHER_ELEMENTS") and "/layout/" not in name:
            key = (desc.operator, case.index_type, policy)
            values = [v for v in case.indices.ravel().tolist() if not -5 <= v < 5]
            found.setdefault(key, set()).update(values)
            assert 0 < len(values) < case.indices.size
    for operator, index_type, policy in product(
        ["GATHER", "GATHER_ELEMENTS"], limits, POLICIES
    ):
        assert found[operator, index_type, policy] == wanted[index_type]
    assert len(asked) == 4 * (8 + 6 + 6 + 4 - 2) + 8
    for questions in asked.values():
        assert {policy for policy, _, _ in questions} == {*POLICIES}
        assert (
            len({inputs for _, *inputs in questions for inputs in [tuple(inputs)]}) == 1
        )


@pytest.mark.slow
def test_directml_itself_is_asked_each_question_once() -> None:
    """It has one rule for indices out of range, whatever the policy of a case."""
    by_policy: dict[OutOfRange, int] = dict.fromkeys(POLICIES, 0)
    asked: set[tuple[og.Descriptor, bytes, bytes]] = set()
    left: set[tuple[og.Descriptor, bytes, bytes]] = set()
    answered = 0
    for case, desc in described():
        question = (desc, case.data.tobytes(), case.indices.tobytes())
        if case.asked_as_directml:
            assert not case.in_range
            by_policy[case.out_of_range] += 1
            left.add(question)
            continue
        answered += 1
        if not case.in_range:
            assert question not in asked
            asked.add(question)
    assert by_policy == {"clamp": 96, "error": 96, "zero": 96, "directml": 0}
    assert left == asked
    # The others are the nodes, which no descriptor says.
    assert (answered, len(cases()) - answered) == (1203, 514)
    # Under one policy, nothing else asks.
    for policy in POLICIES:
        for case in built_in_cases(policy):
            assert isinstance(case, NodeCase) or not case.asked_as_directml


def test_a_case_must_be_refused_only_if_forbidden_or_out_of_range_under_error() -> None:
    for case in cases():
        refused = isinstance(case.expected(), str)
        is_outside = (case.out_of_range, case.in_range) == ("error", False)
        is_forbidden = isinstance(case, NodeCase) and case.node.rule is not None
        assert refused == (is_forbidden or is_outside)


def test_plain_cases_are_the_bare_onnx_operator() -> None:
    asked = 0
    for case, desc in described():
        if re.fullmatch(r"[a-z0-9-]+/rank-\d/.*", case.name):
            found = [
                node.op_type for node in og.to_onnx(desc, case.out_of_range).graph.node
            ]
            operator = desc.operator.removesuffix("1").title().replace("_", "")
            assert [op.upper() for op in found if op != "Reshape"] == [operator.upper()]
            asked += 1
    assert asked == 3 * 36 + 120


def test_every_documented_example_is_a_case() -> None:
    pages = json.loads((DATA / "documented_examples.json").read_text("utf-8"))
    wanted = [
        example
        for example in pages["examples"]
        if example["kind"] in ("numeric", "sizes")
    ]
    documented = [(c, d) for c, d in described() if "/documented/" in c.name]
    assert len(documented) == len(wanted)
    for example in wanted:
        fields = example.get("corrected_fields", example["fields"])
        matching = [
            (case, desc)
            for case, desc in documented
            if f"DML_OPERATOR_{desc.operator}" == example["operator"]
            and [*desc.input_tensor.sizes] == example["input"]["sizes"]
            and [*desc.indices_tensor.sizes] == example["indices"]["sizes"]
            and [*desc.output_tensor.sizes] == example["output"]["sizes"]
            and fields.items() <= og.to_dict(desc)["desc"].items()
        ]
        if example["kind"] == "sizes":
            assert len(matching) == 1
            continue
        assert any(
            case.data.tolist() == example["input"]["values"]
            and case.indices.tolist() == example["indices"]["values"]
            and case.data_type == example["input"]["data_type"]
            and case.index_type == example["indices"]["data_type"]
            and np.asarray(case.expected()).tolist() == example["output"]["values"]
            for case, _ in matching
        ), example["id"]


def test_forbidden_nodes_are_refused_by_the_tools_of_onnx() -> None:
    accepted: list[str] = []
    rules: set[str] = set()
    for case in cases():
        if isinstance(case, DescriptorCase) or case.node.rule is None:
            continue
        # ONNX's evaluator takes any data type.
        if case.name.startswith("onnx/"):
            assert case.node.rule.startswith("data must be FLOAT64, ")
            continue
        assert case.name.startswith("forbidden/")
        rules.add(re.sub(r"[\W\d_]+", " ", case.node.rule.partition(", got")[0]))
        assert case.expected() == case.node.rule
        bare = case.node
        model = bare_model(
            bare.operator, bare.attributes, case.data, case.indices, bare.output_shape
        )
        if not refused(model, case):
            accepted.append(case.name)
    assert len(rules) == 10
    # Their only witness is the text: the evaluator compares the number of batches and
    # no more.
    assert accepted == [
        "forbidden/gather-nd/batch-sizes/exchanged",
        "forbidden/gather-nd/batch-count/rank-of-indices",
    ]


def test_nodes_beyond_descriptors() -> None:
    """They are those that ONNX allows and DirectML does not say."""
    nodes = [case for case in cases() if case.name.startswith("onnx/")]
    assert len(nodes) == 194
    kinds: dict[str, int] = dict.fromkeys(
        ["type", "empty", "smaller", "rank", "scalar", "outside", "rule"], 0
    )
    for case in nodes:
        assert isinstance(case, NodeCase)
        node = case.node
        arrays = (case.data, case.indices)
        output = case.expected()
        if node.rule is None and case.in_range:
            assert not isinstance(output, str)
            assert (output.dtype, output.shape) == (case.data.dtype, node.output_shape)
        ranks = [array.ndim for array in arrays] + [len(node.output_shape)]
        sizes = zip(case.data.shape, case.indices.shape, strict=False)
        axis = node.attributes.get("axis", 0)
        kinds["type"] += case.data_type not in og.TensorDataType.__members__
        kinds["empty"] += any(0 in array.shape for array in arrays)
        kinds["rank"] += max(ranks) > 8
        kinds["scalar"] += 0 in ranks
        kinds["outside"] += not case.in_range
        kinds["rule"] += node.rule is not None
        kinds["smaller"] += node.operator == "GatherElements" and any(
            size < most for place, (most, size) in enumerate(sizes) if place != axis
        )
        _, *_, last = parts = case.name.split("/")
        if last in ("forward", "negative"):
            assert case.data_type.lower() == parts[2]
            assert ((case.indices < 0) == (last == "negative")).all()
    assert kinds == {
        "type": 122,
        "empty": 44,
        "smaller": 35,
        "rank": 37,
        "scalar": 19,
        "outside": 26,
        "rule": 18,
    }
    # Elements differ, so that a wrong one shows.
    for case in nodes:
        assert len(set(case.data.ravel().tolist())) >= min(case.data.size, 2)


def refused(model: onnx.ModelProto, case: Case) -> bool:
    try:
        check_model(model)
        evaluator: Any = ReferenceEvaluator(model)
        evaluator.run(None, {"InputTensor": case.data, "IndicesTensor": case.indices})
    except (OnnxGatherError, ValueError, IndexError):
        return True
    return False


def test_random_cases_do_not_depend_on_their_number_or_policy() -> None:
    few = [digest(case) for case in random_cases(20, 7)]
    assert few == [digest(case) for case in random_cases(60, 7)][:20]
    assert not {*few} & {digest(case) for case in random_cases(20, 8)}
    drawn = list(random_cases(60, 7))
    assert [case.name for case in drawn] == [f"random/7/{k}" for k in range(60)]
    assert {case.out_of_range for case in drawn} == {*POLICIES}
    for case, zero in zip(drawn, random_cases(60, 7, "zero"), strict=True):
        assert zero.out_of_range == "zero"
        assert (zero.name, zero.descriptor) == (case.name, case.descriptor)
        assert zero.data.tobytes() == case.data.tobytes()
        assert zero.indices.tobytes() == case.indices.tobytes()


@pytest.mark.slow
def test_random_cases_cover_the_descriptors() -> None:
    seen: dict[str, set[Any]] = {
        name: set() for name in ("types", "ranks", "in range", "lies")
    }
    total = 0
    for case in random_cases(3000, 1):
        desc = case.descriptor
        seen["types"].add((case.operator, case.data_type, case.index_type))
        seen["ranks"].add((case.operator, case.dimension_count))
        seen["in range"].add((case.operator, case.index_type, case.in_range))
        for name, tensor in tensors(desc).items():
            seen["lies"] |= {(name, kind) for kind in lies(tensor)}
        assert math.prod(desc.output_tensor.sizes) <= 400
        total += 1
    assert total == 3000
    assert len(seen["types"]) == 176
    assert seen["ranks"] == set(product(OPERATORS, range(1, 9)))
    assert len(seen["in range"]) == 32
    assert len(seen["lies"]) == 9 + 9 + 6
