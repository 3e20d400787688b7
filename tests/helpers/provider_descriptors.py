"""The descriptors that ONNX Runtime's DirectML provider makes, by its own word.

The host of the provider is asked for the graphs that the provider gives DirectML
(`serialized_graph`); of these the gathers are compared with descriptors of onnxgather.
The files have neither Flags nor GuaranteedBaseOffsetAlignment, so that these are not
compared.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec
import onnx
from agreement import OPSETS
from onnx import TensorProto, helper
from onnx_graphs import graph, info, node
from serialized_graph import (
    SerializedGraphError,
    SerializedOperator,
    SerializedTensor,
    read_operators,
)

import onnxgather as og
from onnxgather.checking.corpus import random_cases
from onnxgather.core.descriptors.operators import (
    FACTS,
    OPERATORS,
    TENSORS,
    header_names,
)
from onnxgather.core.descriptors.spelling import OPERATOR_PREFIX, tensors
from onnxgather.core.execution.elsewhere.child import Breakdown, Child, NoAnswerError
from onnxgather.core.execution.elsewhere.worker import HOST_RUNS, REQUEST_TIMEOUT
from onnxgather.core.execution.providers import PROVIDERS, SETUP
from onnxgather.core.execution.runtime import NotRunError, RefusedError
from onnxgather.core.gather import ATTRIBUTES

TOGETHER = 20
"""How many gathers stand in one model: a session of one takes nearly as long as of
all."""

Fields = dict[str, Any]
"""The fields of a descriptor by their names, such as Axis and InputTensor.Sizes."""


class GraphHost(Child):
    """The host of the DirectML provider, asked for graphs.

    Args:
        command: The command that starts it, as `find_runtime` gives it.
        timeout: Seconds that an answer may take.
    """

    name = "host"

    def __init__(
        self, command: Sequence[str], timeout: float = REQUEST_TIMEOUT
    ) -> None:
        super().__init__(command, timeout)
        self._models = 0

    def providers(self) -> list[str]:
        """The full names of the providers that the host has.

        Raises:
            NoAnswerError: The host gives no answer.
        """
        return self.exchange(lambda header, _: json.loads(header)["providers"], {})

    def graphs(self, model: bytes) -> list[bytes]:
        """The serialized graphs that the provider makes of a model.

        Raises:
            NotRunError, RefusedError: The provider takes no such model.
            NoAnswerError: The host gives no answer.
        """
        session = {"provider": PROVIDERS["directml"].name, "threads": 0}
        request: dict[str, Any] = {"model": len(model), "session": session, "feeds": []}
        self._models += 1
        if self._models % HOST_RUNS == 0:
            self.restart()
        request |= {"keep": 0, "graphs": 1}
        answer, content = self.exchange(
            lambda told, more: (json.loads(told), more), request, model
        )
        if "not_run" in answer:
            raise NotRunError(*answer["not_run"])
        if "refused" in answer:
            raise RefusedError(answer["refused"])
        if "graphs" not in answer:
            why = (
                f"the host is of older sources, which tell no graphs; {SETUP} makes it"
                " anew"
            )
            raise NoAnswerError(Breakdown.NONSENSE, why)
        return [content[start : start + size] for start, size in answer["graphs"]]


def provider_fields(operator: SerializedOperator) -> Fields:
    """The fields of an operator that is a gather."""
    names = [header_names(og.GatherDesc)[name] for name in TENSORS]
    fields: Fields = {"type": operator.type, **operator.fields}
    for name, tensor in zip(names, [*operator.inputs, *operator.outputs], strict=True):
        fields |= {
            f"{name}.{field}": value for field, value in _tensor_fields(tensor).items()
        }
    return fields


def descriptor_fields(desc: og.Descriptor) -> Fields:
    """The fields of a descriptor that a serialized graph has, too."""
    names = header_names(type(desc))
    numbers = {
        names[name]: getattr(desc, name) for name in names if name not in TENSORS
    }
    fields: Fields = {"type": OPERATOR_PREFIX + desc.operator, **numbers}
    for name, tensor in tensors(desc).items():
        fields |= {
            f"{name}.{field}": value for field, value in _tensor_fields(tensor).items()
        }
    return fields


def _tensor_fields(tensor: SerializedTensor | og.TensorDesc) -> Fields:
    return {
        "DataType": str(tensor.data_type),
        "DimensionCount": len(tensor.sizes),
        "Sizes": tensor.sizes,
        "Strides": tensor.strides,
        "TotalTensorSizeInBytes": tensor.total_tensor_size_in_bytes,
    }


def differences(ours: Fields, theirs: Fields) -> list[str]:
    """A sentence for each field in which two descriptors differ."""
    return [
        f"{name} is {ours.get(name)} here and {theirs.get(name)} there"
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]


Asked = list[SerializedOperator] | Exception
"""The operators that the provider makes of a model, or why there are none."""

REFUSALS = (NotRunError, RefusedError)
"""The provider's word that it takes no such model. Other errors are no word of the
provider."""


def ask(host: GraphHost, models: Sequence[onnx.ModelProto]) -> list[Asked]:
    """The provider's operators of each of several models of one opset.

    They are asked about as one model; where the provider refuses that, each alone.

    Args:
        host: The host.
        models: The models; the names of model K all start with `named(K)`.
    """
    whole = onnx.ModelProto()
    whole.CopyFrom(models[0])
    for other in models[1:]:
        for field in ("node", "input", "output", "initializer"):
            getattr(whole.graph, field).extend(getattr(other.graph, field))
    try:
        graphs = host.graphs(whole.SerializeToString())
        operators = [operator for one in graphs for operator in read_operators(one)]
    except (*REFUSALS, NoAnswerError, SerializedGraphError) as error:
        return (
            [error] if len(models) == 1 else [ask(host, [model])[0] for model in models]
        )
    if len(models) == 1:  # whatever its number was
        return [operators]
    return [
        [one for one in operators if one.name.startswith(named(k))]
        for k in range(len(models))
    ]


def named(number: int) -> str:
    """What the names of a model start with."""
    return f"{number}/"


SAME = "the same in every field"
LEADING_ONES = "the same up to leading ones and the counts that follow from them"


@dataclass(frozen=True)
class Verdict:
    """How a gather and the provider's descriptor agree."""

    group: str
    """How; verdicts are counted by it."""
    finding: str = ""
    """What is wrong, if anything is."""
    lost: tuple[str, ...] = ()
    """What of a descriptor an ONNX node has not."""


@dataclass(frozen=True)
class Question:
    """One model for the provider, and what is made of the answer."""

    model: Callable[[str], onnx.ModelProto]
    """Makes the model, all of whose names start with a prefix."""
    judge: Callable[[onnx.ModelProto, Asked], Verdict]
    together: int = 0
    """Questions with the same number may be asked together; 0 for one to be asked
    alone."""


def verdicts(host: GraphHost, questions: Iterable[Question]) -> Iterator[Verdict]:
    """Ask the provider; yield the verdicts, not in the order of the questions."""
    waiting: dict[int, list[Question]] = {}
    for question in questions:
        asked = waiting.setdefault(question.together, [])
        asked.append(question)
        if not question.together or len(asked) == TOGETHER:
            yield from _answered(host, waiting.pop(question.together))
    for asked in waiting.values():
        yield from _answered(host, asked)


def _answered(host: GraphHost, questions: Sequence[Question]) -> Iterator[Verdict]:
    models = [question.model(named(k)) for k, question in enumerate(questions)]
    for question, model, asked in zip(
        questions, models, ask(host, models), strict=True
    ):
        yield question.judge(model, asked)


# The way from an ONNX node to a descriptor.


@dataclass(frozen=True)
class OnnxGather:
    """A gather node of ONNX with the types and the shapes of its inputs."""

    operator: str
    data: tuple[int, ...]
    indices: tuple[int, ...]
    number: int
    """The axis or batch_dims; a node has none where that is 0."""
    data_type: str = "FLOAT32"
    """DirectML's name, or ONNX's of a type that DirectML has not."""
    index_type: str = "INT64"
    opset: int = 17

    def descriptor(self) -> og.Descriptor | str:
        """What onnxgather says that the provider makes of it, or why that is
        nothing."""
        data, indices = (self.data_type, self.data), (self.index_type, self.indices)
        try:
            return og.from_onnx(self.operator, data, indices, self.number, self.number)
        except og.DescriptorError as error:
            return str(error)

    def model(self, prefix: str) -> onnx.ModelProto:
        """A model of this node, all of whose names start with `prefix`."""
        given = (
            ("data", self.data_type, self.data),
            ("indices", self.index_type, self.indices),
        )
        inputs = [
            info(
                prefix + name, getattr(TensorProto, _ONNX_TYPES.get(kind, kind)), sizes
            )
            for name, kind, sizes in given
        ]
        attribute = {ATTRIBUTES[self.operator]: self.number} if self.number else {}
        names = [value.name for value in inputs]
        made = node(
            self.operator, names, f"{prefix}output", f"{prefix}gather", **attribute
        )
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(
            graph([made], inputs, [f"{prefix}output"]),
            opset_imports=opsets,
            ir_version=8,
        )


_ONNX_TYPES = {"FLOAT32": "FLOAT", "FLOAT64": "DOUBLE"}

_OTHER_TYPES = ("BFLOAT16", "STRING", "COMPLEX64", "FLOAT8E4M3FN")


def random_node(
    rng: random.Random,
) -> tuple[str, tuple[int, ...], tuple[int, ...], int]:
    """A node that ONNX allows, of ranks up to 9, without empty tensors.

    Returns:
        The operator, the sizes of its data and indices, and its attribute.
    """
    operator = rng.choice(["Gather", "GatherElements", "GatherND"])
    rank = rng.choice([1, 1, 2, 2, 3, 4, 5, 7, 8, 9])
    data = tuple(rng.choice([1, 1, 2, 3]) for _ in range(rank))
    more = [
        rng.choice([1, 2, 3]) for _ in range(rng.choice([0, 0, 1, 1, 2, 3, 4, 6, 8, 9]))
    ]
    if operator == "Gather":
        return operator, data, tuple(more), rng.randrange(-rank, rank)
    if operator == "GatherElements":
        axis = rng.randrange(-rank, rank)
        same = rng.random() < 0.6
        kept = [n if same else rng.randint(1, n) for n in data]
        kept[axis] = rng.randint(1, 5)
        return operator, data, tuple(kept), axis
    batches = rng.choice([0, 0, rng.randrange(rank)])
    length = rng.randint(1, rank - batches)
    return operator, data, (*data[:batches], *more[:6], length), batches


def random_gathers(count: int, seed: int) -> Iterator[OnnxGather]:
    """Yield random nodes; some have an empty tensor, or break a rule of ONNX or
    DirectML."""
    rng = random.Random(seed)
    for _ in range(count):
        made = OnnxGather(*random_node(rng), opset=rng.choice([12, *OPSETS]))
        data_type = rng.choice([*map(str, og.TensorDataType), "BOOL"])
        index_type = (
            "INT64" if made.operator == "GatherND" else rng.choice(["INT32", "INT64"])
        )
        made = replace(made, data_type=data_type, index_type=index_type)
        if made.operator == "Gather" and rng.random() < 0.3:  # larger ones
            made = replace(made, data=_changed(rng, made.data, 37))
        yield rng.choice(_SPOILED)(rng, made) if rng.random() < 0.15 else made


def _changed(
    rng: random.Random, sizes: tuple[int, ...], factor: int
) -> tuple[int, ...]:
    """The sizes with one of them multiplied."""
    chosen = rng.randrange(max(1, len(sizes)))
    return tuple(n * factor if k == chosen else n for k, n in enumerate(sizes))


_SPOILED: Sequence[Callable[[random.Random, OnnxGather], OnnxGather]] = (
    lambda rng, made: replace(made, data=_changed(rng, made.data, 0)),
    lambda rng, made: replace(made, indices=_changed(rng, made.indices, 0)),
    lambda rng, made: replace(made, data=()),
    lambda rng, made: replace(made, data_type=rng.choice(_OTHER_TYPES)),
    lambda rng, made: replace(
        made, index_type=rng.choice(["UINT32", "UINT64", "INT16"])
    ),
    lambda rng, made: replace(made, number=len(made.data) + rng.randrange(3)),
    lambda rng, made: replace(made, number=-len(made.data) - 1 - rng.randrange(3)),
)


def node_questions(count: int, seed: int) -> Iterator[Question]:
    """Yield questions about random nodes; a node that onnxgather refuses is asked about
    alone."""
    for made in random_gathers(count, seed):
        alone = isinstance(made.descriptor(), str)
        judge = partial(judge_node, made)
        yield Question(made.model, judge, 0 if alone else made.opset)


def judge_node(made: OnnxGather, _: onnx.ModelProto, asked: Asked) -> Verdict:
    """Compare the descriptor of a node with the provider's, field by field."""
    ours = made.descriptor()
    theirs = _gathers(asked)
    if isinstance(ours, str):
        if theirs:
            return Verdict(
                "refused here alone", f"{made}: {ours}, but it became {theirs}"
            )
        if _is_crash(asked) and made.operator == "GatherND" and made.number < 0:
            return Verdict(
                "refused here, where ONNX Runtime crashes: batch_dims is below 0"
            )
        if isinstance(asked, Exception) and not isinstance(asked, REFUSALS):
            return Verdict("no answer", f"{asked}, for {made}")
        if not isinstance(asked, Exception):
            return Verdict(
                "refused here, where the provider takes it and gives DirectML no gather"
            )
        return Verdict("refused by both")
    if len(theirs) != 1:
        return Verdict("refused by the provider alone", f"{made}: got {_told(asked)}")
    found = "; ".join(differences(descriptor_fields(ours), provider_fields(theirs[0])))
    return Verdict("different", f"{made}: {found}") if found else Verdict(SAME)


def _gathers(asked: Asked) -> list[SerializedOperator]:
    if isinstance(asked, Exception):
        return []
    return [one for one in asked if one.type.removeprefix(OPERATOR_PREFIX) in OPERATORS]


def _is_crash(asked: Asked) -> bool:
    """Whether the host ended by itself."""
    ended = (Breakdown.EXITED, Breakdown.DIED)
    return isinstance(asked, NoAnswerError) and asked.how in ended


def _told(asked: Asked) -> str:
    return (
        str(asked) if isinstance(asked, Exception) else str([one.type for one in asked])
    )


# The way from a descriptor to an ONNX model, and back.


def descriptor_questions(count: int, seed: int) -> Iterator[Question]:
    """Yield questions about the random descriptors of `onnxgather check --random`."""
    for case in random_cases(count, seed, "error"):
        desc = case.descriptor
        model = partial(_portable, desc)
        yield Question(model, partial(judge_descriptor, desc), together=1)


def _portable(desc: og.Descriptor, prefix: str) -> onnx.ModelProto:
    return og.to_onnx(desc, "error", prefix=prefix)


def judge_descriptor(
    desc: og.Descriptor, model: onnx.ModelProto, asked: Asked
) -> Verdict:
    """Compare a descriptor with the one that the provider makes of its portable model.

    Args:
        desc: The descriptor.
        model: Its model, in which an index out of range is an error.
        asked: What the provider makes of the model.
    """
    operator = OPERATOR_PREFIX + desc.operator
    made = [[*one.output] for one in model.graph.node if one.doc_string == operator]
    if not made:
        finding = f"no node for {desc}" if desc.input_tensor.is_plain else ""
        # Other gathers may have made the offsets.
        last = [provider_fields(one) for one in _gathers(asked)[-1:]]
        of = [(one["type"], math.prod(one["InputTensor.Sizes"])) for one in last]
        if of != [("DML_OPERATOR_GATHER", *desc.input_tensor.array_shape)]:
            finding = f"got {_told(asked)} for {desc}"
        return Verdict("a GATHER by offsets, as InputTensor has strides", finding)
    found = [one for one in _gathers(asked) if [*one.output_names] in made]
    if len(found) != 1:
        return Verdict("no gather", f"got {_told(asked)} for {desc}")
    expected = as_onnx_has_it(desc)
    lost = tuple(text for text, holds in _losses(desc).items() if holds)
    ours, theirs = descriptor_fields(expected), provider_fields(found[0])
    if not differences(ours, theirs):
        return Verdict(SAME, lost=lost)
    if without_leading_ones(ours) == without_leading_ones(theirs):
        return Verdict(LEADING_ONES, lost=lost)
    return Verdict("different", f"{expected}: {'; '.join(differences(ours, theirs))}")


def as_onnx_has_it(desc: og.Descriptor) -> og.Descriptor:
    """A descriptor without what an ONNX node has not.

    That is strides, flags, alignments, bytes beyond the elements, a type of indices
    that the node does not take, and GATHER_ND, which becomes a GATHER_ND1 without
    batches.
    """
    three = {name: getattr(desc, name) for name in TENSORS}
    types = {name: tensor.data_type for name, tensor in three.items()}
    if types["indices_tensor"] not in FACTS[desc.operator].onnx_index_types:
        types["indices_tensor"] = og.TensorDataType.INT64
    fields = msgspec.structs.asdict(desc)
    fields |= {name: og.TensorDesc(types[name], three[name].sizes) for name in TENSORS}
    if isinstance(desc, og.GatherNDDesc):
        return og.GatherND1Desc(**fields, batch_dimension_count=0)
    return type(desc)(**fields)


def _losses(desc: og.Descriptor) -> dict[str, bool]:
    """What `as_onnx_has_it` changes, and whether it does so in a descriptor."""
    three = [getattr(desc, name) for name in TENSORS]
    packed = [og.TensorDesc(tensor.data_type, tensor.sizes) for tensor in three]
    takes = FACTS[desc.operator].onnx_index_types
    return {
        "strides, flags or bytes beyond the elements": three != packed,
        "a type of indices that becomes INT64": (
            desc.indices_tensor.data_type not in takes
        ),
        "GATHER_ND that becomes GATHER_ND1": isinstance(desc, og.GatherNDDesc),
    }


def without_leading_ones(fields: Fields) -> list[Any]:
    """What leading ones, and the counts that follow from them, do not change in a
    descriptor."""
    names = ("InputTensor", "IndicesTensor", "OutputTensor")
    kept = [
        fields["type"],
        *(fields[f"{name}.{field}"] for name in names for field in _PLAIN),
    ]
    data, indices, output = (fields[f"{name}.Sizes"] for name in names)
    rest = 0
    if fields["type"] == "DML_OPERATOR_GATHER_ND1":
        data = data[len(data) - fields["InputDimensionCount"] :]
        first, indices, rest = fields["BatchDimensionCount"], indices[:-1], indices[-1]
    else:
        first = fields["Axis"]
    if fields["type"] == "DML_OPERATOR_GATHER_ELEMENTS":
        rest, indices = indices[first:], indices[:first]
    parts = (data[:first], indices, output)
    return [*kept, data[first:], rest, *(_behind_ones(part) for part in parts)]


_PLAIN = ("DataType", "Strides", "TotalTensorSizeInBytes")


def _behind_ones(sizes: Sequence[int]) -> tuple[int, ...]:
    """Sizes without leading ones."""
    first = next((k for k, size in enumerate(sizes) if size != 1), len(sizes))
    return tuple(sizes[first:])
