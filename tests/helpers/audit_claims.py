"""What the audit says of the gathers of random networks, beside what ONNX Runtime computes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import numpy as np
import onnx
from network_draft import Feeds, results, session
from random_networks import Graph

import onnxgather as og
from onnxgather.descriptors.arrays import Array
from onnxgather.networks.gathers import Audit

GATHERS = ("Gather", "GatherElements", "GatherND")
OUT_OF_BOUNDS = re.compile("out of data bounds|out of bounds|invalid ind|out of range|Invalid ind")
"""What the CPU provider says of an index out of range."""

DRAWS = 5
"""How often a graph runs, each time with other sizes and inputs."""

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
    """What is claimed and what is so, with the seed and the output of the gather."""
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


def case_of(graph: Graph, random: Random) -> Case:
    """The graph bare, with the shapes of some inputs, or with ranges of some."""
    shapes, ranges, fixed = None, None, dict[str, int]()
    inputs = graph.draft.inputs
    mode = random.choice(["bare", "bare", "shapes", "ranges", "both"])
    used = {name for node in graph.draft.nodes for name in node.input} & inputs.keys()
    if mode in ("shapes", "both") and used:
        sizes = graph.sizes(random, 1)
        chosen = [n for n in sorted(used) if random.random() < 0.8]
        shapes = {n: inputs[n].shape(sizes) for n in chosen if inputs[n].declared is not None}
        names = {s for n in shapes for s in inputs[n].dims if isinstance(s, str)}
        fixed = {name: sizes[name] for name in names}
    if mode in ("ranges", "both"):
        ranges = dict[str, tuple[int, int]]()
        for name in sorted(used):
            if inputs[name].dtype in ("int64", "int32") and random.random() < 0.8:
                low = random.choice([0, 0, 0, -1, -3, 1])
                ranges[name] = low, low + random.choice([0, 1, 3, 7, 63])
    return Case(graph, shapes or None, ranges or None, fixed)


def operators_of(nodes: Any) -> set[str]:
    """The operators of nodes and their bodies."""
    found = set[str]()
    for node in nodes:
        found.add(node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found |= operators_of(attribute.g.node)
    return found


def check(graph: Graph, random: Random, audit: Callable[..., Audit] = og.audit) -> Checked:
    """Audit a graph and compare with its runs, at random levels of graph optimizations.

    Args:
        graph: The graph.
        random: The random numbers of the draws.
        audit: What audits it.
    """
    return _Check(case_of(graph, random), random).checked(audit)


class _Check:
    def __init__(self, case: Case, random: Random) -> None:
        self.case, self.random, self.graph = case, random, case.graph
        self.found = Checked()
        self.records = dict[str, dict[str, Any]]()
        self.by_node = dict[str, dict[str, Any]]()
        self.fed: Feeds = {}

    def checked(self, audit: Callable[..., Audit]) -> Checked:
        graph, case = self.graph, self.case
        self.found.operators.update(operators_of(graph.draft.nodes))
        model = graph.model
        levels = [self.random.randrange(4) for _ in range(2)]
        try:
            session(model, 0)
        except Exception:  # ONNX Runtime refuses the model: nothing holds or breaks
            self.found.runs["refused"] += 1
            return self.found
        try:
            audited = audit(model, shapes=case.shapes, ranges=case.ranges)
        except Exception as error:
            self._wrong("audit", f"the audit fails: {type(error).__name__}: {error}")
            return self.found
        for record in msgspec.to_builtins(audited)["gathers"]:
            self.by_node[record["node"]] = record
            if record["place"] == "main graph":
                self.records[record["output_name"]] = record
            chain = record["node"].partition(".")[0]
            self.found.states[f"{chain} {record['range']['state']}"] += 1
        observed = self._session(self._seen(), levels[0])
        proved = [n.output[0] for n in graph.gathers if self._state(n.output[0]) == "proved"]
        inner = [n for n in graph.draft.nodes if n.op_type in ("If", "Loop", "Scan", "Picked")]
        ends = [*proved, *(n.output[-1] for n in inner)]
        whole = self._session(ends, levels[1])
        least = 1 if graph.divides else 0
        for _ in range(DRAWS):
            sizes = graph.sizes(self.random, least) | case.fixed
            self.fed = graph.feeds(self.random, sizes, case.ranges or {})
            self._look(observed)
            self._run(whole)
        return self.found

    def _state(self, output: str) -> str:
        return self.records[output]["range"]["state"] if output in self.records else ""

    def _seen(self) -> list[str]:
        """The data and the indices of the gathers of the main graph that are no constants."""
        names = [name for node in self.graph.gathers for name in node.input]
        made = {name for node in self.graph.draft.nodes for name in node.output}
        return [name for name in dict.fromkeys(names) if name in made]

    def _session(self, outputs: list[str], level: int) -> Any:
        """A session whose outputs are some values; with the given sizes in some."""
        if not outputs:
            return None
        shapes = self.case.shapes if self.random.random() < 0.5 else None
        try:
            return session(self.graph.part(outputs, shapes), level)
        except Exception:
            self.found.runs["refused"] += 1
            return None

    def _run(self, whole: Any) -> None:
        """Run the model as it is; where a gather fails, it must not be one that is proved."""
        if whole is None:
            return
        try:
            outputs = results(whole, self.fed)
        except Exception as error:
            self.found.runs["stopped"] += 1
            failing = re.search(r"Name:'([^']*)'", str(error))
            name = failing.group(1) if failing else ""
            record = next((r for n, r in self.by_node.items() if n and n in name), None)
            if OUT_OF_BOUNDS.search(str(error)):
                states = {r["range"]["state"] for r in self.by_node.values()}
                state = record["range"]["state"] if record else "".join(states)
                if state == "proved":
                    told = record or next(iter(self.by_node.values()))
                    self._wrong(told["output_name"], f"proved, but {error}")
            return
        self.found.runs["ended"] += 1
        for name, array in outputs.items():
            if name in self.records:
                self._same(name, "output", array)

    def _look(self, observed: Any) -> None:
        """Compare the data and the indices of gathers with what is said of them."""
        if observed is None:
            return
        try:
            values: Feeds = {
                **self.fed,
                **self.graph.draft.constants,
                **results(observed, self.fed),
            }
        except Exception:  # a gather that is not proved, or sizes that do not fit
            return
        for node in self.graph.gathers:
            record = self.records.get(node.output[0])
            data, indices = (values.get(name) for name in node.input[:2])
            if record and isinstance(data, np.ndarray) and isinstance(indices, np.ndarray):
                self._same(node.output[0], "data", data)
                self._same(node.output[0], "indices", indices)
                self._indices(node, record, data, indices)

    def _indices(
        self, node: onnx.NodeProto, record: dict[str, Any], data: Array, indices: Array
    ) -> None:
        """Compare the indices of an execution with the range that is told."""
        if not indices.size or indices.dtype.kind not in "iu" or not data.ndim:
            return
        number = {a.name: a.i for a in node.attribute}
        if node.op_type == "GatherND":
            first = number.get("batch_dims", 0)
            columns = indices.reshape(-1, indices.shape[-1])
        else:
            first = number.get("axis", 0) % data.ndim
            columns = indices.reshape(-1, 1)
        sizes = data.shape[first : first + columns.shape[1]]
        told, name = record["range"], node.output[0]
        is_outside = bool(((columns < -np.array(sizes)) | (columns >= np.array(sizes))).any())
        if told["state"] == "proved" and is_outside:
            self._wrong(name, f"proved, but indices {_some(columns)} on axes of {sizes}")
        if told["state"] == "out-of-range" and not is_outside:
            self._wrong(name, f"out of range, but indices {_some(columns)} on axes of {sizes}")
        for end, sign in (("low", 1), ("high", -1)):
            reached = columns.min(0) if end == "low" else columns.max(0)
            for said, real in zip(_numbers(told[end]), reached.tolist(), strict=False):
                if said is not None and sign * real < sign * said:
                    self._wrong(name, f"{end} {told[end]}, but indices {reached.tolist()}")
        if told["low"] is None:
            self._wrong(name, f"no index, but indices {_some(columns)}")
        for said, real in zip(_numbers(told["size"]), sizes, strict=False):
            if said not in (None, real):
                self._wrong(name, f"an axis of {said}, but of {real}")

    def _same(self, output: str, part: str, array: Array) -> None:
        """Compare the type and the sizes of a tensor of a gather."""
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
        if not self.found.violations:
            self.found.feeds = self.fed
        nodes = [n for n, r in self.by_node.items() if r["output_name"] == output]
        row: dict[str, Any] = {"output": output, "node": "".join(nodes[:1]), "claim": said}
        row |= {"shapes": self.case.shapes, "ranges": self.case.ranges}
        if said not in [each["claim"] for each in self.found.violations]:
            self.found.violations.append(row)


def _numbers(told: Any) -> list[int | None]:
    """Sizes or bounds that are told; None for one that is not, or is told in words."""
    return [number if isinstance(number, int) else None for number in told or ()]


def _some(columns: Array) -> str:
    """A few elements."""
    return str(columns[:6].tolist()) + (" …" if len(columns) > 6 else "")
