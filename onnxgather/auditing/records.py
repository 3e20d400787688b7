"""The records of an audit, in the JSON of `onnxgather audit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct

from onnxgather.auditing.proof.contract import NOT_EMPTY, Assumption
from onnxgather.auditing.proof.index_range import IndexRange, RangeState
from onnxgather.core.checks import html_table, number_of, printable
from onnxgather.core.public import public

RANGE_STATES = ("proved", "proved-if", "not-proved", "out-of-range", "invalid")
"""The states of a range, from the best to the worst."""

DECIDED = ("proved", "out-of-range", "invalid")
"""The states that more sizes do not change."""

ModelVerdict = Literal["invalid", "can-leave", "perhaps", "never", "no-index"]
"""What is said of a model. invalid: each run fails that reaches some node with indices.
can-leave: an index is known that leaves its axis, or inputs are known that lead to one.
perhaps: neither such inputs nor a proof of each gather. never: each gather is proved.
no-index: no operator carries indices."""

_FROM_THE_WORST: tuple[ModelVerdict, ...] = ("invalid", "can-leave", "perhaps", "never")
"""The verdicts on a gather."""


class Tensor(Struct, frozen=True):
    """The type and the sizes of a value, as far as they are known."""

    type: str | None
    """DirectML's name, or ONNX's if DirectML has no such type; None if it is not
    known."""
    sizes: tuple[int | None, ...] | None
    """None for a size that is not known; None alone if the rank is not known."""

    @property
    def is_static(self) -> bool:
        """Whether every size is known."""
        return self.sizes is not None and None not in self.sizes


class GraphGather(Struct, frozen=True):
    """A gather of a graph that ONNX Runtime makes, not proved under the contract."""

    node: str
    """Its name in that graph; its first output if the name is empty or not unique."""
    place: str
    """The main graph, or the path into a subgraph."""
    op: str
    levels: list[str]
    """The levels of optimization that make the graph."""
    state: RangeState
    why: str
    """The sentence on it in this state: what stops the proof, or the conditions beyond
    the contract."""
    in_file: bool = False
    """Whether the file has a gather of that name and operator that is as bad."""

    @property
    def where(self) -> str:
        """The place, with the levels."""
        return f"{self.place} at level {', '.join(self.levels)}"


class RuntimeGraph(Struct, frozen=True):
    """A graph that ONNX Runtime makes of a model, audited as a model of its own."""

    version: str
    """The version of ONNX Runtime."""
    levels: list[str]
    """The levels of optimization that make this graph."""
    gathers: int = 0
    """How many gathers and other operators with indices it has."""
    not_proved: list[GraphGather] = []
    """Those that are not proved under the contract of the file."""
    refused: str | None = None
    """Why there is no audit of the graph; None if there is one."""


class Runtime(Struct, frozen=True):
    """What ONNX Runtime makes of a model."""

    version: str
    """The version of ONNX Runtime; the first one if there are several."""
    graphs: list[RuntimeGraph]
    provider: str = "cpu"


@public
class AuditedGather(Struct, frozen=True):
    """One gather of a model.

    Example:
        >>> gather = og.audit("models/networks/keywords.onnx").gathers[2]
        >>> gather.node, gather.op, gather.data.sizes, gather.indices.type
        ('word_embedding', 'Gather', (32, 8), 'INT64')
        >>> gather.range.state
        'proved-if'
    """

    node: str
    """The name of the node; its first output if the name is empty or not unique."""
    output_name: str
    place: str
    """The main graph, or the path into a subgraph or a function."""
    op: str
    shape_computation: bool
    """Whether the gather computes shapes, which the DirectML provider leaves to the
    CPU."""
    data: Tensor
    indices: Tensor
    output: Tensor
    constant_indices: bool
    descriptor: dict[str, Any] | None
    """The descriptor that the DirectML provider builds, as `to_dict` writes it."""
    refused: str | None
    """The rule by which the DirectML provider refuses the node."""
    feature_level: str | None
    range: IndexRange
    domain: str = ""
    """The domain of the operator; "" is ONNX's own."""
    rewritten_at: tuple[str, ...] = ()
    """The levels of ONNX Runtime's optimizations whose graphs have no node of that name
    and operator: it was folded or rewritten."""

    @property
    def verdict(self) -> ModelVerdict:
        """What the gather alone says of the model."""
        if self.range.state == "proved":
            return "never"
        if self.range.state == "invalid":
            return "invalid"
        is_wrong = self.range.state == "out-of-range"
        leaves = is_wrong or self.range.reached is not None
        # Inputs beyond an exact condition take an index out of range.
        conditions = (*self.range.conditions, *self.range.excluded)
        if leaves or any(condition.exact for condition in conditions):
            return "can-leave"
        return "perhaps"

    @property
    def is_refused(self) -> bool:
        """Whether DirectML refuses the gather and does not leave it to the CPU."""
        # The DirectML provider leaves what computes shapes to the CPU, so that it never
        # gets to its own rules.
        return self.refused is not None and not self.shape_computation

    @property
    def is_settled(self) -> bool:
        """Whether all sizes are known, and the state of the indices is decided."""
        # A run that shows sizes can then say nothing more of it.
        tensors = (self.data, self.indices, self.output)
        is_static = all(tensor.is_static for tensor in tensors)
        return is_static and self.range.state in DECIDED


class NotJudged(Struct, frozen=True):
    """A node with integer inputs of which it is not known whether they are indices."""

    node: str
    """Its name, or its first output."""
    place: str
    """The main graph, or the path into a subgraph or a function."""
    op: str
    domain: str


@public
class Audit(Struct, frozen=True):
    """The audit of a model.

    Example:
        >>> audit = og.audit("models/networks/keywords.onnx")
        >>> audit
        <Audit of 4 gathers: 2 proved, 2 proved-if>
        >>> [gather.node for gather in audit.proved_if]
        ['position_embedding', 'word_embedding']
        >>> audit.contract["assumes"]
        'open sizes of inputs are at least 1'
    """

    gathers: list[AuditedGather]
    notes: list[str] = []
    """Sentences: where the run of the untouched model stops, where the run ended early,
    which iterations of a loop were not seen, and which metadata were left out."""
    options: list[str] = []
    """Options of the command with which an audit says more, such as `--shape ids=2,12`.
    LO and HI mean the least and the greatest number of an input, FILE.npz a file of
    arrays."""
    contract: dict[str, Any] = {}
    """The conditions on inputs under which every gather is proved that can be, as a
    plain `Contract`; `check_inputs` accepts it."""
    runtime: Runtime | None = None
    """The graphs that ONNX Runtime makes of the model, which were audited too. Without
    one, a proof holds by ONNX's specification alone."""
    runtime_reason: str | None = None
    """Why no graph of ONNX Runtime was audited; None if one was."""
    assumes: Assumption = NOT_EMPTY
    """What every proof assumes."""
    not_judged: list[NotJudged] = []
    """The nodes of operators that are not known."""
    given: list[str] = []
    """What options and the metadata of the model say of the inputs, as sentences:
    ranges, the ids of a tokenizer, contracts, and the sizes on which a proof rests. The
    contract is for such inputs alone."""
    schema: int = 3

    def __repr__(self) -> str:
        # The records of all gathers would fill the screen of a notebook.
        counts = Counter(gather.range.state for gather in self.gathers)
        states = ", ".join(f"{count:,} {state}" for state, count in counts.items())
        text = f"Audit of {counted(self.gathers)}"
        if states:
            text = f"{text}: {states}"
        return f"<{text}>"

    def _repr_html_(self) -> str:
        """Return a table for Jupyter, which calls this method by its name."""
        rows = list[tuple[str, str]]()
        for gather in self.gathers:
            text = f"{gather.op}, {gather.place}: {gather.range.state}"
            rows.append((gather.node, text))
        return html_table(repr(self)[1:-1], rows)

    @property
    def verdict(self) -> ModelVerdict:
        """Whether a wrong input can leave an axis: the worst verdict on a gather.

        The gathers are those of the file, and those of the graphs that ONNX Runtime
        makes of it.
        """
        verdicts = {gather.verdict for gather in self.gathers}
        for graph in self.graphs:
            # A graph that could not be audited proves nothing.
            if graph.refused is not None or graph.not_proved:
                verdicts.add("perhaps")
            if any(gather.state == "out-of-range" for gather in graph.not_proved):
                verdicts.add("can-leave")
        for verdict in _FROM_THE_WORST:
            if verdict in verdicts:
                return verdict
        return "no-index"

    @property
    def graphs(self) -> list[RuntimeGraph]:
        """The graphs that ONNX Runtime makes of the model, as far as it was asked."""
        return [] if self.runtime is None else self.runtime.graphs

    @property
    def graph_gathers(self) -> list[GraphGather]:
        """The gathers that only a graph of ONNX Runtime leaves open."""
        return [
            gather
            for graph in self.graphs
            for gather in graph.not_proved
            if not gather.in_file
        ]

    @property
    def invalid(self) -> list[AuditedGather]:
        """The gathers that ONNX forbids, or that fail in each run."""
        return self._in_state("invalid")

    @property
    def out_of_range(self) -> list[AuditedGather]:
        """The gathers with an index that is out of range."""
        return self._in_state("out-of-range")

    @property
    def open(self) -> list[AuditedGather]:
        """The gathers that are not proved, or only under conditions."""
        return [gather for gather in self.gathers if gather.range.state != "proved"]

    @property
    def refused(self) -> list[AuditedGather]:
        """The gathers that DirectML refuses and does not leave to the CPU."""
        return [gather for gather in self.gathers if gather.is_refused]

    @property
    def not_proved(self) -> list[AuditedGather]:
        """The gathers whose indices may be out of range."""
        return self._in_state("not-proved")

    @property
    def proved_if(self) -> list[AuditedGather]:
        """The gathers that are proved under conditions on the inputs."""
        return self._in_state("proved-if")

    def _in_state(self, state: str) -> list[AuditedGather]:
        return [gather for gather in self.gathers if gather.range.state == state]


def not_judged_texts(nodes: Iterable[NotJudged]) -> Iterator[str]:
    """Yield a sentence for each domain of the nodes that are not judged."""
    operators_by_domain: dict[str, list[str]] = {}
    for node in nodes:
        operators_by_domain.setdefault(node.domain, []).append(node.op)
    for domain, operators in operators_by_domain.items():
        names = ", ".join(map(printable, dict.fromkeys(operators)))
        count = number_of(len(operators), "node")
        why = "whose integers may be indices"
        yield f"not judged: {count} of {printable(domain)} ({names}), {why}"


def counted(gathers: Collection[AuditedGather]) -> str:
    """Return how many gathers there are, and how many other operators with indices."""
    total = len(gathers)
    # GatherElements and GatherND count as gathers; scatters and embeddings do not.
    others = sum(not gather.op.startswith("Gather") for gather in gathers)
    gather_count = number_of(total - others, "gather")
    if others == 0:
        return gather_count
    if others == total:
        return f"{number_of(others, 'operator')} with indices"
    return f"{gather_count} and {number_of(others, 'other operator')} with indices"
