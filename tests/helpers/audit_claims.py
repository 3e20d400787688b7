"""What the audit says of the gathers of random networks, beside what ONNX Runtime
computes."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import numpy as np
import onnx
from four_levels import (
    LEVELS,
    Failure,
    differences,
    four_outcomes,
    four_sessions,
)
from level_quirks import explained
from msgspec.structs import replace
from network_draft import MOST_ELEMENTS, Feeds, session
from random_networks import OTHERS, Graph
from runtime_faults import IS_OLD

import onnxgather as og
from onnxgather.auditing.proof.contract import Condition
from onnxgather.auditing.records import Audit, AuditedGather
from onnxgather.core.descriptors.arrays import Array

GATHERS = ("Gather", "GatherElements", "GatherND")
AXES_OF_OTHERS = {
    "ArrayFeatureExtractor": -1,
    "SoftmaxCrossEntropyLoss": 1,
    "NGramRepeatBlock": 1,
    "GroupQueryAttention": 2,
}
"""The axis that an operator indexes, where it is not the first one."""

FROM_END = (
    *GATHERS,
    "GatherBlockQuantized",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "SoftmaxCrossEntropyLoss",
)
"""The operators whose indices below 0 count from the end."""

MOST_DIFFERING = 3
"""How many differences of levels are told of a graph."""

DRAWS = 5
"""How often a graph runs, each time with other sizes and inputs."""

MOST_OF_A_SIZE = 128
"""The largest open size that is drawn at the end of a condition."""

ELEMENTS = ("values", "difference")
"""The kinds of conditions that elements meet."""

TRIES_BEYOND = 12
"""How often inputs are drawn just beyond an end of an exact condition."""

LEAST_SHOWN = 8
"""In so many of the draws the indices must be seen, so that a claim is wrong."""

TYPES = {"FLOAT": "FLOAT32", "DOUBLE": "FLOAT64"}
"""The names of types where DirectML's differ from ONNX's."""


@dataclass
class Checked:
    """What a check of a graph counted, and what is wrong."""

    states: Counter[str] = field(default_factory=Counter[str])
    """How many gathers of each chain had each state, such as "flat_mask proved"."""
    operators: Counter[str] = field(default_factory=Counter[str])
    """The operators of the graph, each once."""
    runs: Counter[str] = field(default_factory=Counter[str])
    """How many runs ended, or stopped at a gather."""
    violations: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """What is claimed and what is so, with the seed and the output of the gather.

    The kind is "file" where the lowest level shows it, "levels" where only a higher one
    does.
    """
    differing: list[str] = field(default_factory=list[str])
    """What levels do otherwise than the lowest one, and no quirk explains."""
    feeds: Feeds = field(default_factory=Feeds)
    """The inputs of the first violation."""


@dataclass
class Case:
    """A graph with what is given to its audit."""

    graph: Graph
    shapes: dict[str, list[int]] | None
    ranges: dict[str, tuple[int, int]] | None
    fixed: dict[str, int]
    """The open sizes that the given shapes tell."""
    least: int
    """The least open size, 0 or 1."""
    assume: dict[str, Any] | None = None
    """The contract that is given: that of the same audit without it."""


def case_of(graph: Graph, random: Random) -> Case:
    """The graph bare, with the shapes of some inputs, or with ranges of some."""
    shapes, ranges, fixed = None, None, dict[str, int]()
    inputs = graph.draft.inputs
    mode = random.choice(["bare", "bare", "shapes", "ranges", "both"])
    used = {name for node in graph.draft.nodes for name in node.input} & inputs.keys()
    if mode in ("shapes", "both") and used:
        sizes = graph.sizes(random, 1)
        chosen = [n for n in sorted(used) if random.random() < 0.8]
        shapes = {
            n: inputs[n].shape(sizes) for n in chosen if inputs[n].declared is not None
        }
        names = {s for n in shapes for s in inputs[n].dims if isinstance(s, str)}
        fixed = {name: sizes[name] for name in names}
    if mode in ("ranges", "both"):
        ranges = dict[str, tuple[int, int]]()
        for name in sorted(used):
            if inputs[name].dtype in ("int64", "int32") and random.random() < 0.8:
                low = random.choice([0, 0, 0, -1, -3, 1])
                ranges[name] = low, low + random.choice([0, 1, 3, 7, 63])
    least = 0 if random.random() < 0.25 and not graph.divides else 1
    return Case(graph, shapes or None, ranges or None, fixed, least)


def operators_of(nodes: Any) -> set[str]:
    """The operators of nodes and their bodies."""
    found = set[str]()
    for node in nodes:
        found.add(node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= operators_of(attribute.g.node)
    return found


def as_it_runs(*args: Any, **given: Any) -> Audit:
    """An audit at all levels, that proves no gather of which a graph may be open.

    The gathers of such a graph are those of the file with their names, or any that are
    folded or rewritten there.
    """
    audited = og.audit(*args, **given, levels=LEVELS[1:])
    open_names = {(row.node, row.op) for row in audited.graph_gathers}
    open_levels = set[str]()
    for graph in audited.graphs:
        if any(not row.in_file for row in graph.not_proved):
            open_levels.update(graph.levels)
    is_refused = any(graph.refused for graph in audited.graphs)
    gathers = list[AuditedGather]()
    for gather in audited.gathers:
        is_rewritten = not open_levels.isdisjoint(gather.rewritten_at)
        is_named = (gather.node, gather.op) in open_names
        is_proved = gather.range.state in ("proved", "proved-if")
        if is_proved and (is_rewritten or is_named or is_refused):
            told = replace(gather.range, state="not-proved", conditions=())
            gather = replace(gather, range=told)
        gathers.append(gather)
    return replace(audited, gathers=gathers)


def check(
    graph: Graph, random: Random, audit: Callable[..., Audit] = as_it_runs
) -> Checked:
    """Audit a graph and compare with its runs, at the four levels of optimizations.

    Args:
        graph: The graph.
        random: The random numbers of the draws.
        audit: What audits it.
    """
    return _Check(case_of(graph, random), random).checked(audit)


@dataclass
class _Sessions:
    """A part of a graph, with its sessions at the four levels."""

    outputs: list[str]
    shapes: dict[str, list[int]] | None
    model: onnx.ModelProto
    each: list[Any]


def _is_same(one: Feeds, other: Feeds) -> bool:
    """Whether two runs have the same outputs."""
    return not [*differences([one, other])]


def proved(*args: Any, **given: Any) -> Audit:
    """An audit that takes each gather to be in range, whatever its indices are."""
    audited = og.audit(*args, **given)
    return replace(
        audited,
        gathers=[
            replace(g, range=replace(g.range, state="proved", conditions=()))
            for g in audited.gathers
        ],
    )


def sizes_fit(
    node: onnx.NodeProto,
    data: Sequence[int],
    indices: Sequence[int],
    updates: Sequence[int],
) -> bool:
    """Whether ONNX allows the sizes of a gather or a scatter beside its axis.

    Args:
        node: The node.
        data: The sizes of its data.
        indices: The sizes of its indices.
        updates: The sizes of its last input.
    """
    number = {attribute.name: attribute.i for attribute in node.attribute}
    if node.op_type in ("GatherElements", "Scatter", "ScatterElements"):
        is_gather = node.op_type == "GatherElements"
        if len(indices) != len(data):
            return False
        axis = number.get("axis", 0) % max(len(data), 1)
        beside = [
            (index_size, size)
            for k, (index_size, size) in enumerate(zip(indices, data, strict=True))
            if k != axis
        ]
        fits = all(index_size <= size for index_size, size in beside)
        return fits and (is_gather or [*updates] == [*indices])
    if node.op_type == "GatherND":
        batch = number.get("batch_dims", 0)
        return [*data[:batch]] == [*indices[:batch]]
    if node.op_type == "ScatterND":
        return [*updates] == [*indices[:-1], *data[indices[-1] :]]
    return True


class _Check:
    def __init__(self, case: Case, random: Random) -> None:
        self.case, self.random, self.graph = case, random, case.graph
        self.found = Checked()
        self.records = dict[str, dict[str, Any]]()
        """By the outputs of gathers of the main graph."""
        self.by_node = dict[str, dict[str, Any]]()
        self.contract = dict[str, Any]()
        self.fed: Feeds = {}
        self.holds = set[str]()
        """The nodes of the gathers that are proved for the inputs that are fed."""
        self.left = set[str]()
        """The nodes of the gathers of which an index has left its axis."""
        self.shown = set[str]()
        """The nodes of the gathers whose indices were seen."""
        self.audit: Callable[..., Audit] = as_it_runs
        self.running: _Sessions | None = None
        self.level = 0
        """What runs now, and at which level."""

    def checked(self, audit: Callable[..., Audit]) -> Checked:
        graph, case = self.graph, self.case
        self.audit = audit
        self.found.operators.update(operators_of(graph.draft.nodes))
        model = graph.model
        try:
            session(model, 0)
        except Exception:  # ONNX Runtime refuses the model: nothing holds or breaks
            self.found.runs["refused"] += 1
            return self.found
        given: dict[str, Any] = {"shapes": case.shapes, "ranges": case.ranges}
        given["allow_empty"] = case.least == 0
        try:
            audited = audit(model, **given)
            if self.random.random() < 0.3 and audited.contract["conditions"]:
                case.assume = audited.contract
                audited = audit(model, **given, assume=case.assume)
        except Exception as error:
            self._wrong("audit", f"the audit fails: {type(error).__name__}: {error}")
            return self.found
        self.contract = audited.contract
        for record in msgspec.to_builtins(audited)["gathers"]:
            self.by_node[record["node"]] = record
            if record["place"] == "main graph":
                self.records[record["output_name"]] = record
            chain = record["node"].partition(".")[0]
            self.found.states[f"{chain} {record['range']['state']}"] += 1
        self._run_all()
        return self.found

    def _run_all(self) -> None:
        """Run the graph with several draws of sizes and inputs."""
        graph = self.graph
        outputs = [node.output[0] for node in graph.gathers]
        inner = [
            n
            for n in graph.draft.nodes
            if n.op_type in ("If", "Loop", "Scan", "Picked")
        ]
        behind = [node.output[-1] for node in inner]
        proved = [name for name in outputs if self._state(name) == "proved"]
        under = [name for name in outputs if self._state(name) == "proved-if"]
        observed = self._sessions(self._seen())
        always = self._sessions([*proved, *behind])
        conditional = self._sessions([*proved, *under, *behind]) if under else None
        for k in range(DRAWS):
            if not self._draw(
                meets=bool(self.case.assume) or (k % 2 == 0 and bool(under))
            ):
                continue
            self._look(observed)
            self._run(conditional if {*under} and self._all_hold() else always)
        for name in under[:1]:
            self._break_each(self.records[name], observed)
            self._check_exact(self.records[name], observed)

    def _all_hold(self) -> bool:
        """Whether each gather that is proved under conditions is proved for what is
        fed."""
        each = (
            n for n, r in self.by_node.items() if r["range"]["state"] == "proved-if"
        )
        return self.holds.issuperset(each)

    def _draw(self, meets: bool) -> bool:
        """Draw sizes and inputs; whether they are as the audit was told that they are.

        Args:
            meets: Whether the inputs are to meet the contract of the audit.
        """
        graph, random, case = self.graph, self.random, self.case
        sizes = graph.sizes(random, case.least) | case.fixed
        conditions: list[dict[str, Any]] = self.contract["conditions"] if meets else []
        for condition in conditions:
            if condition["of"] == "size":
                name = self._size(condition)
                if name and name not in case.fixed:
                    sizes[name] = _inside(random, condition, sizes[name])
        feeds = graph.feeds(random, sizes, case.ranges or {})
        for condition in conditions:
            if condition["input"] in feeds and condition["of"] in ELEMENTS:
                limit(feeds, self._with_numbers(condition, feeds))
        self._feed(feeds)
        return self._meets(self._given())

    def _with_numbers(self, condition: dict[str, Any], feeds: Feeds) -> dict[str, Any]:
        """A condition with numbers as ends, for inputs that are fed."""
        sizes = dict[str, int]()
        for name, ((which, dim), *_) in self.contract["sizes"].items():
            if which in feeds and feeds[which].ndim > dim:
                sizes[name] = feeds[which].shape[dim]
        told = msgspec.convert(condition, Condition)
        with contextlib.suppress(KeyError):  # a size of an input that is not fed
            told = told.with_numbers(sizes)
        return msgspec.to_builtins(told)

    def _feed(self, feeds: Feeds) -> None:
        """Take inputs, and tell which gathers are proved for them."""
        self.fed = feeds
        self.holds = {
            node
            for node, record in self.by_node.items()
            if record["range"]["state"] == "proved"
            or (
                record["range"]["state"] == "proved-if"
                and self._meets(record["range"]["conditions"])
            )
        }

    def _size(self, condition: dict[str, Any]) -> str:
        """The name of the open size that a condition is on; "" where it is fixed
        here."""
        dims = self.graph.draft.inputs[condition["input"]].dims
        name = dims[int(condition["dim"])]
        return name if isinstance(name, str) else ""

    def _meets(self, conditions: Sequence[dict[str, Any]]) -> bool:
        """Whether the inputs that are fed meet conditions."""
        try:
            og.check_inputs({**self.contract, "conditions": conditions}, self.fed)
        except og.OnnxGatherError:
            return False
        return True

    def _given(self) -> list[dict[str, Any]]:
        """What the audit was told of the inputs, as conditions."""
        of_values = {"of": "values", "columns": None, "dim": None, "expression": None}
        ranges = (self.case.ranges or {}).items()
        given = [
            {**of_values, "input": n, "low": low, "high": high}
            for n, (low, high) in ranges
        ]
        return [*given, *(self.case.assume or {"conditions": []})["conditions"]]

    def _check_exact(self, record: dict[str, Any], observed: _Sessions | None) -> None:
        """Look for inputs just beyond each end of an exact condition of a gather with
        which an index leaves its axis."""
        conditions: list[dict[str, Any]] = record["range"]["conditions"]
        fed = [c for c in conditions if c["input"] in {None, *self.graph.draft.inputs}]
        for condition in fed:
            if not condition["exact"] or len(fed) < len(conditions):
                continue
            # A size limits its positions, which count themselves and are not seen.
            is_embedding = record["op"] == "EmbedLayerNormalization"
            if is_embedding and condition["of"] in ("size", "sizes"):
                continue
            # The shape that is given of another input has the size, so that it is
            # always drawn alike.
            if not _sizes_of(condition).isdisjoint(self.case.fixed):
                continue
            for side in ("low", "high"):
                if condition[side] is None and not condition[f"{side}_expression"]:
                    continue
                self.found.runs["ends of exact conditions"] += 1
                if self._looks_beyond(record, condition, side, observed) == "inside":
                    said = f"exact, but no index leaves beyond the {side} of"
                    self.level = 0
                    self._wrong(record["output_name"], f"{said} {condition}")

    def _looks_beyond(
        self,
        record: dict[str, Any],
        condition: dict[str, Any],
        side: str,
        observed: _Sessions | None,
    ) -> str:
        """Whether an index leaves its axis just beyond an end ("outside"), or each time
        the indices were seen inside ("inside"), or were hardly seen ("")."""
        others = [c for c in record["range"]["conditions"] if c is not condition]
        shown = 0
        for k in range(TRIES_BEYOND):
            self._draw(meets=True)
            feeds = self.fed
            sizes = self.graph.sizes(self.random, 1) | self.case.fixed
            for each in [*others, condition]:
                end = each["high"] if each["low"] is None else each["low"]
                name = self._size(each) if each["of"] == "size" else ""
                if name in self.case.fixed:
                    continue
                if each is condition and name:
                    end = condition[side] + (1 if side == "high" else -1)
                if name and (k % 2 or each is condition):
                    sizes[name] = min(end, MOST_OF_A_SIZE + 1)
            if condition["of"] == "size" or k % 2:
                feeds = self.graph.feeds(self.random, sizes, self.case.ranges or {})
            for other in others:
                if other["of"] in ELEMENTS:
                    numbers = self._with_numbers(other, feeds)
                    limit(feeds, numbers)
                    if k % 3:
                        put(feeds, numbers, numbers[("", "low", "high")[k % 3]])
            if condition["of"] in ELEMENTS:
                numbers = self._with_numbers(condition, feeds)
                way = 1 if side == "high" else -1
                put(feeds, numbers, numbers[side] + way)
            self.fed = feeds
            too_large = any(
                feeds[n].size > MOST_ELEMENTS for n in self.graph.draft.inputs
            )
            known = [*self._given(), *others]
            if too_large or not self._meets(known) or self._meets([condition]):
                continue
            self.holds.clear()
            self.left.clear()
            self.shown.clear()
            self._look(observed)
            if record["node"] in self.left:
                return "outside"
            shown += record["node"] in self.shown
        return "inside" if shown >= LEAST_SHOWN else ""

    def _break_each(self, record: dict[str, Any], observed: _Sessions | None) -> None:
        """Draw inputs that break one condition of a gather, and count whether an index
        leaves."""
        random = self.random
        conditions: list[dict[str, Any]] = record["range"]["conditions"]
        # An input of which the model has a default is not fed.
        fed = [c for c in conditions if c["input"] in {None, *self.graph.draft.inputs}]
        for condition in fed:
            tried, self.left = 0, set[str]()
            others = [each for each in conditions if each is not condition]
            for _ in range(8):
                self._draw(meets=True)
                if condition["of"] in ELEMENTS:
                    numbers = self._with_numbers(condition, self.fed)
                    _break(random, self.fed, numbers)
                else:
                    sizes = self.graph.sizes(random, self.case.least) | self.case.fixed
                    if condition["of"] == "size" and condition["high"] is not None:
                        high = min(condition["high"], MOST_OF_A_SIZE)
                        sizes[self._size(condition)] = high + random.randint(1, 3)
                    sizes |= self.case.fixed
                    self.fed = self.graph.feeds(random, sizes, self.case.ranges or {})
                    for other in others:
                        if other["of"] in ELEMENTS and other in fed:
                            limit(self.fed, self._with_numbers(other, self.fed))
                too_large = any(
                    self.fed[n].size > MOST_ELEMENTS for n in self.graph.draft.inputs
                )
                known = [*self._given(), *others]
                if too_large or not self._meets(known) or self._meets([condition]):
                    continue
                tried += 1
                self.holds.clear()
                self._look(observed)
            if tried:
                kind = condition["of"]
                self.found.runs[f"conditions on {kind} that were broken"] += 1
                self.found.runs[f"conditions on {kind} that matter"] += (
                    record["node"] in self.left
                )

    def _state(self, output: str) -> str:
        return self.records[output]["range"]["state"] if output in self.records else ""

    def _seen(self) -> list[str]:
        """The data and the indices of the gathers of the main graph that are no
        constants."""
        names = [name for node in self.graph.gathers for name in node.input]
        made = {name for node in self.graph.draft.nodes for name in node.output}
        return [name for name in dict.fromkeys(names) if name in made]

    def _sessions(self, outputs: list[str]) -> _Sessions | None:
        """Sessions whose outputs are some values; with the given sizes in some."""
        if not outputs:
            return None
        shapes = self.case.shapes if self.random.random() < 0.5 else None
        part = self.graph.part(outputs, shapes)
        made = _Sessions(outputs, shapes, part, four_sessions(part))
        if isinstance(made.each[0], Failure):
            self.found.runs["refused"] += 1
            return None
        return made

    def _run(self, whole: _Sessions | None) -> None:
        """Run the model as it is; where a gather fails, it must not be one that is
        proved."""
        if whole is None:
            return
        self.running = whole
        outcomes = four_outcomes(whole.each, self.fed)
        for level, outcome in enumerate(outcomes):
            self.level = level
            if isinstance(outcome, Failure):
                self.found.runs["stopped"] += 1
                self._stopped(outcome)
                continue
            self.found.runs["ended"] += 1
            for name, array in outcome.items():
                if name in self.records:
                    self._same(name, "output", array)
        # Up to ONNX Runtime 1.24.4 a length of 0 leaves the output as the memory was.
        if IS_OLD and "ReverseSequence" in self.found.operators:
            return
        for each in differences(outcomes):
            quirk = explained(whole.model, self.fed, each)
            level = LEVELS[each.level]
            self.found.runs[f"{each.kind} at {level}: {quirk or 'unknown'}"] += 1
            if not quirk and len(self.found.differing) < MOST_DIFFERING:
                self.found.differing.append(str(each))

    def _stopped(self, failure: Failure) -> None:
        """Tell where a run stops at a gather that is proved."""
        nodes = [node for node in self.by_node if failure.node and node in failure.node]
        is_unknown = not failure.node.count(".")
        stops = nodes or (self.by_node if is_unknown else [""])
        if failure.is_index and self.holds.issuperset(stops):
            told = self.by_node[(nodes or [*self.by_node])[0]]
            self._wrong(told["output_name"], f"proved, but {failure.text}")

    def _look(self, observed: _Sessions | None) -> None:
        """Compare the data and the indices of gathers with what is said of them."""
        if observed is None:
            return
        self.running = observed
        earlier = list[Feeds]()
        for level, made in enumerate(four_outcomes(observed.each, self.fed)):
            self.level = level
            # a gather that is not proved, or sizes that do not fit
            if isinstance(made, Failure):
                if made.is_index:
                    self.left |= {node for node in self.by_node if node == made.node}
            elif not any(_is_same(made, other) for other in earlier):
                earlier.append(made)
                self._look_at({**self.fed, **self.graph.draft.constants, **made})

    def _look_at(self, values: Feeds) -> None:
        """Compare what a run has for the data and the indices of gathers."""
        for node in self.graph.gathers:
            record = self.records.get(node.output[0])
            places = OTHERS.get(node.op_type, (0, 1))
            data, indices = (values.get(node.input[k]) for k in places)
            if (
                record
                and isinstance(data, np.ndarray)
                and isinstance(indices, np.ndarray)
            ):
                self._same(node.output[0], "data", data)
                self._same(node.output[0], "indices", indices)
                self._indices(node, record, data, indices, values)
                updates = values.get(node.input[-1])
                if isinstance(updates, np.ndarray):
                    self._other_sizes(node, record, data, indices, updates)

    def _other_sizes(
        self,
        node: onnx.NodeProto,
        record: dict[str, Any],
        data: Array,
        indices: Array,
        updates: Array,
    ) -> None:
        """Compare the sizes of an execution beside the axis.

        GatherND on the CPU returns wrong rows where those of a batch differ. A higher
        level believes sizes that are declared of the values seen here, which are no
        outputs of the model itself.
        """
        if self.level:
            return
        shapes = f"the shapes are {data.shape}, {indices.shape} and {updates.shape}"
        if sizes_fit(node, data.shape, indices.shape, updates.shape):
            if record["range"]["state"] == "invalid":
                self._wrong(node.output[0], f"invalid, but {shapes}")
            return
        self.left.add(record["node"])
        if record["node"] in self.holds:
            self._wrong(node.output[0], f"proved, but {shapes}")

    def _indices(
        self,
        node: onnx.NodeProto,
        record: dict[str, Any],
        data: Array,
        indices: Array,
        values: Feeds,
    ) -> None:
        """Compare the indices of an execution with the range that is told."""
        if not indices.size or indices.dtype.kind not in "iu" or not data.ndim:
            return
        number = {a.name: a.i for a in node.attribute}
        is_from_end = node.op_type in FROM_END
        if node.op_type in ("GatherND", "ScatterND"):
            first = number.get("batch_dims", 0)
            columns = indices.reshape(-1, indices.shape[-1])
        else:
            axis = AXES_OF_OTHERS.get(node.op_type, 0)
            first = number.get("axis", axis) % data.ndim
            columns = indices.reshape(-1, 1)
        sizes = data.shape[first : first + columns.shape[1]]
        if len(sizes) < columns.shape[1]:
            # ONNX Runtime refuses a tuple with more coordinates than there are axes
            return
        if node.op_type in ("ReverseSequence", "GRU"):  # lengths
            sizes = (sizes[0] + 1,)
        # the indices are the first of the positions
        if node.op_type == "RotaryEmbedding" and indices.ndim == 1:
            sizes = (sizes[0] + 1 - values[node.input[0]].shape[1],)
        told, name = record["range"], node.output[0]
        self.shown.add(record["node"])
        least = -np.array(sizes) * is_from_end
        is_outside = bool(((columns < least) | (columns >= np.array(sizes))).any())
        self.left |= {record["node"]} if is_outside else set()
        if record["node"] in self.holds and is_outside:
            under = "".join(f" if {each}" for each in told["conditions"])
            self._wrong(
                name, f"proved{under}, but indices {_some(columns)} on axes of {sizes}"
            )
        # The bounds are those of the file.
        is_of_the_file = self.level == 0
        # A given range may lead to an index out of range, and need not.
        is_surely = told["state"] == "out-of-range" and told["given"] is None
        # Another input of indices may be the one that leaves its axis.
        if told["reached"] is not None:
            is_surely &= told["reached"]["coordinate"] < columns.shape[1]
        if is_of_the_file and is_surely and not is_outside:
            self._wrong(
                name, f"out of range, but indices {_some(columns)} on axes of {sizes}"
            )
        for end, sign in (("low", 1), ("high", -1)) if is_of_the_file else ():
            reached = columns.min(0) if end == "low" else columns.max(0)
            for said, real in zip(_numbers(told[end]), reached.tolist(), strict=False):
                if said is not None and sign * real < sign * said:
                    self._wrong(
                        name, f"{end} {told[end]}, but indices {reached.tolist()}"
                    )
        # Of an invalid node no index is told.
        if is_of_the_file and told["low"] is None and told["state"] != "invalid":
            self._wrong(name, f"no index, but indices {_some(columns)}")
        for said, real in zip(_numbers(told["size"]), sizes, strict=False):
            if is_of_the_file and said not in (None, real):
                self._wrong(name, f"an axis of {said}, but of {real}")

    def _same(self, output: str, part: str, array: Array) -> None:
        """Compare the type and the sizes of a tensor of a gather.

        They are those of the file, which a level may change.
        """
        if self.level:
            return
        told = self.records[output][part]
        sizes = _numbers(told["sizes"])
        if told["sizes"] is not None and (
            len(sizes) != array.ndim
            or any(a not in (None, b) for a, b in zip(sizes, array.shape, strict=True))
        ):
            self._wrong(output, f"{part} of sizes {sizes}, but of {[*array.shape]}")
        name = str(array.dtype).upper()
        if told["type"] not in (None, name, "STRING") and array.dtype.kind in "iuf":
            self._wrong(output, f"{part} of type {told['type']}, but of {name}")

    def _wrong(self, output: str, said: str) -> None:
        # The graphs of higher levels are audited under the contract of the file.
        if self.level and not self._meets(self.contract["conditions"]):
            return
        if not self.found.violations:
            self.found.feeds = self.fed
        nodes = [n for n, r in self.by_node.items() if r["output_name"] == output]
        row: dict[str, Any] = {
            "output": output,
            "node": "".join(nodes[:1]),
            "claim": said,
        }
        row |= {
            "shapes": self.case.shapes,
            "ranges": self.case.ranges,
            "least": self.case.least,
        }
        row |= {"assume": self.case.assume["conditions"]} if self.case.assume else {}
        row |= {"kind": "levels" if self.level else "file", "level": LEVELS[self.level]}
        same = [each for each in self.found.violations if each["output"] == output]
        if same and (self.level or same[0]["kind"] == "file"):
            return
        # A level may do with this part what it does not with the audited model.
        if self.level and not self._is_claimed(output):
            self.found.runs["claims that an audit of the part does not repeat"] += 1
            return
        for each in same:
            self.found.violations.remove(each)
        self.found.violations.append(row)

    def _is_claimed(self, output: str) -> bool:
        """Whether the audit of what runs says of a gather what that of the whole model
        says."""
        whole = self.records.get(output)
        # What is in a body runs whole.
        if whole is None or self.running is None:
            return True
        names = [*dict.fromkeys([*self.running.outputs, output])]
        model = self.graph.part(names, self.running.shapes)
        try:
            audited = self.audit(model, **self._given_of(model))
        except og.OnnxGatherError:
            return True
        records = msgspec.to_builtins(audited)["gathers"]
        keys = ("state", "low", "high", "size")
        told = {key: whole["range"][key] for key in keys}
        return any(
            {key: each["range"][key] for key in keys} == told
            and self._meets(each["range"]["conditions"])
            for each in records
            if each["output_name"] == output
        )

    def _given_of(self, model: onnx.ModelProto) -> dict[str, Any]:
        """What is given to the audit, for a part of the model."""
        case, named = self.case, {value.name for value in model.graph.input}
        shapes = {n: s for n, s in (case.shapes or {}).items() if n in named}
        ranges = {n: r for n, r in (case.ranges or {}).items() if n in named}
        given: dict[str, Any] = {"shapes": shapes or None, "ranges": ranges or None}
        given["allow_empty"] = case.least == 0
        if case.assume:
            own = self.audit(model, **given).contract
            conditions = [
                condition
                for condition in case.assume["conditions"]
                if condition["input"] in named
                and _sizes_of(condition) <= {*own["sizes"]}
            ]
            given["assume"] = {**own, "conditions": conditions}
        return given


def _sizes_of(condition: dict[str, Any]) -> set[str]:
    """The open sizes that the ends and the expression of a condition name."""
    expressions = ("expression", "low_expression", "high_expression")
    text = " ".join(condition[each] or "" for each in expressions)
    return {*re.findall(r"[A-Za-z_][\w.]*", text)}


def _inside(random: Random, condition: dict[str, Any], number: int) -> int:
    """A number between the ends of a condition: this one, if it is, or one near an end.

    It is at most `MOST_OF_A_SIZE`, even where this does not meet the condition.
    """
    low, high = condition["low"], condition["high"]
    low, high = number if low is None else low, number if high is None else high
    if low <= number <= high:
        return number
    return min(max(random.choice([low, high, high]), 0), MOST_OF_A_SIZE)


def _part(array: Array, condition: dict[str, Any]) -> Array:
    """The elements that a condition is on."""
    columns = condition["columns"]
    return array if columns is None else array[..., [*columns]]


def limit(feeds: Feeds, condition: dict[str, Any]) -> None:
    """Bring the elements of an input between the ends of a condition."""
    array = feeds[condition["input"]].copy()
    if condition["of"] == "difference":
        column, other = condition["columns"]
        apart = array[..., column] - array[..., other]
        apart = np.clip(apart, condition["low"], condition["high"])
        array[..., column] = array[..., other] + apart
        feeds[condition["input"]] = array
        return
    part = np.nan_to_num(_part(array, condition), nan=0)
    low, high = condition["low"], condition["high"]
    part = part if low is None else np.where(part < low, low, part)
    part = part if high is None else np.where(part > high, high, part)
    if condition["columns"] is None:
        array = part.astype(array.dtype)
    else:
        array[..., [*condition["columns"]]] = part
    feeds[condition["input"]] = array


def put(feeds: Feeds, condition: dict[str, Any], number: int | None) -> None:
    """Put a number into each element that a condition is on, if the type has it."""
    array = feeds[condition["input"]].copy()
    if number is None or not array.ndim:
        return
    with contextlib.suppress(OverflowError, ValueError, IndexError):
        if condition["of"] == "difference":
            column, other = condition["columns"]
            array[..., column] = array[..., other] + number
        else:
            array[..., condition["columns"] or slice(None)] = number
    feeds[condition["input"]] = array


def _break(random: Random, feeds: Feeds, condition: dict[str, Any]) -> None:
    """Bring one element of an input, or all of them, just beyond an end of a
    condition."""
    ends = [(condition["low"], -1), (condition["high"], 1)]
    beyond = [
        end + way * random.choice([1, 1, 5]) for end, way in ends if end is not None
    ]
    array = feeds[condition["input"]].copy()
    if condition["of"] == "difference":
        put(feeds, condition, random.choice(beyond))
        return
    # there may be no element, or none beyond
    with contextlib.suppress(IndexError, OverflowError, ValueError):
        column = random.choice(
            condition["columns"] or [random.randrange(array.shape[-1])]
        )
        if random.random() < 0.5:
            array[..., column] = random.choice(beyond)
        else:
            place = [random.randrange(n) for n in array.shape[:-1]]
            array[(*place, column)] = random.choice(beyond)
    feeds[condition["input"]] = array


def _numbers(told: Any) -> list[int | None]:
    """Sizes or bounds that are told; None for one that is not, or is told in words."""
    return [number if isinstance(number, int) else None for number in told or ()]


def _some(columns: Array) -> str:
    """A few elements."""
    return str(columns[:6].tolist()) + (" …" if len(columns) > 6 else "")
