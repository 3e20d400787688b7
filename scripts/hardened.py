"""Hardens models and tries to make them fail.

    python scripts/hardened.py [FOLDER] [--runs COUNT]

The folder, or without it `tests/data/networks.zip`, holds models, NAME.onnx or
NAME.KIND.onnx, each with arrays for its inputs, NAME.npz. Each model is audited with
open sizes, and hardened with each policy. Of what comes out it must hold that

- an audit proves every operator that carries indices, but those that harden named;
- hardening it again gives the same bytes;
- no input makes it fail: it runs with wild numbers, with numbers at the ends of the
  axes, and with those between the ones of the arrays, in several sizes; a node that
  harden named may fail;
- where the model does not fail, its outputs are those of the model, to the byte. Some
  operators do not fail on an index out of range, such as GatherBlockQuantized: a model
  with them is compared for the inputs alone that meet its contract. One that harden did
  not change is not compared.

It prints a table with a row per model and policy, with the speed of the hardened model
beside that of the model, and what does not hold. The models run in another program;
where it ends, the input at hand made it fail.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import numpy as np
import onnx
from strength import ZIP, exported

import onnxgather as og
from onnxgather.auditing.audit import Premises
from onnxgather.auditing.hardening.harden import hardened
from onnxgather.core.checks import number_of
from onnxgather.core.model.network import read_network

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "helpers"))
from four_levels import OUT_OF_BOUNDS
from network_draft import numbers, results, session

POLICIES = ("clamp", "zero", "index=0")

DOCUMENTED = 20_000
"""The number of runs with wild inputs of the full figure, over all models and
policies."""

DRAWS = 6
"""How many draws of sizes a model runs in."""

TRIES = 60
"""How many draws are tried; the model itself may fail in some, as its inputs must fit
together."""

SIZES = (1, 1, 2, 3, 5, 8, 17)
"""What is drawn for a size."""

LARGEST = 4
"""How many times the elements of the arrays a draw may have."""

ROUNDS = 15
"""How often the speeds are compared."""

UNCHECKED = {"GatherBlockQuantized", "WordConvEmbedding"}
"""Operators that do not fail on an index out of range."""

HOLDS, DOES_NOT = 0, 1


@dataclass
class Row:
    """What a model became under a policy."""

    name: str
    policy: str
    before: Counter[str]
    """How many gathers of the model are in each state."""
    named: Sequence[str]
    """What harden named as left as it is."""
    nodes: int
    """How many nodes more the hardened model has."""
    seconds: float
    """How long hardening took."""
    wrong: list[str] = field(default_factory=list[str])
    """What does not hold."""
    runs: int = 0
    same: int = 0
    """How many runs gave the bytes of the model, which did not fail."""
    failed_left: int = 0
    """How many runs failed in a node that was left as it is."""
    ratio: float = float("nan")
    """How much longer a run of the hardened model takes."""

    @property
    def line(self) -> str:
        """The row of the table."""
        states = ", ".join(
            f"{count} {state}" for state, count in sorted(self.before.items())
        )
        more = f"+{self.nodes} nodes, {self.ratio:.2f} x the time, {self.seconds:.1f} s"
        end = f"{self.runs:,} runs, {self.same:,} as the model"
        if self.named:
            end += f", {self.failed_left:,} failed where harden left {len(self.named)}"
        end += f", {len(self.wrong)} wrong"
        return f"{self.name:24}{self.policy:9}{states}; {more}; {end}"


def states(found: Any) -> Counter[str]:
    """How many gathers of an audit are in each state."""
    return Counter(gather.range.state for gather in found.gathers)


def facts_of(found: Any) -> dict[str, Any]:
    """Return what the draws need of an audit.

    Returns:
        `contract`, that of the model; `ends`, the indices at the ends of axes and just
        beyond.
    """
    known = {n for gather in found.gathers for n in gather.range.size or () if n}
    ends = {end for n in known for end in (-n - 1, -n, -1, 0, n - 1, n, n + 1)}
    return {"contract": found.contract, "ends": sorted(ends)}


def made(name: str, model: Any, before: Any, policy: str, folder: Path) -> Row:
    """Harden a model; write it and the model into a folder; check what needs no run."""
    premises = Premises(read_network(model))
    started = time.monotonic()
    result = hardened(premises, policy)
    seconds = time.monotonic() - started
    named = [str(left) for left in result.left]
    nodes = len(result.model.graph.node) - len(model.graph.node)
    row = Row(name, policy, states(before), named, nodes, seconds)
    left = {(each.node, each.operator) for each in result.left}
    for gather in og.audit(result.model).gathers:
        if gather.range.state != "proved" and (gather.node, gather.op) not in left:
            row.wrong.append(f"{gather.place}: {gather.node} is {gather.range.state}")
    again = og.harden(result.model, policy)
    if again.SerializeToString() != result.model.SerializeToString():
        row.wrong.append("hardening it again changes it")
    (folder / "hardened.onnx").write_bytes(result.model.SerializeToString())
    operators = [left.operator for left in result.left]
    (folder / "left.json").write_text(json.dumps(operators))
    return row


def run(row: Row, count: int, python: str, folder: Path) -> None:
    """Run the models of a folder in another program, anew where it ends."""
    first = -1
    while first < count:
        command = [python, __file__, "--worker", f"{folder}:{first}:{count}:{row.name}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line)
                first = told["run"] + 1
                row.ratio = told.get("ratio", row.ratio)
                row.runs += first > 0 and "sizes" not in told
                row.same += told.get("same", False)
                row.failed_left += told.get("left", False)
                row.wrong += [told["wrong"]] if told.get("wrong") else []
        if first < count:
            ended = f"the program ends in run {first} with {process.returncode}"
            row.wrong.append(ended)
            first += 1


def worker(folder: Path, first: int, count: int, name: str) -> Iterator[dict[str, Any]]:
    """Run the models of a folder; yield what came out of each run.

    Args:
        folder: With model.onnx, hardened.onnx, inputs.npz, left.json and facts.json.
        first: The first run; -1 stands for the arrays.
        count: The last run, and one more.
        name: What the draws depend on, beside the number of the run.
    """
    inputs = dict(np.load(folder / "inputs.npz"))
    facts = json.loads((folder / "facts.json").read_text())
    left = json.loads((folder / "left.json").read_text())
    proto = onnx.ModelProto.FromString((folder / "model.onnx").read_bytes())
    result = onnx.ModelProto.FromString((folder / "hardened.onnx").read_bytes())
    model, whole, is_changed = session(proto, 3), session(result, 3), result != proto
    checked = session(proto, 0)  # with a Gather where ONNX Runtime would run a Slice
    if first < 0:
        yield {"run": -1, **compared(model, whole, inputs)}
        first = 0
    draws = list[dict[str, Any]]()
    most = LARGEST * sum(array.size for array in inputs.values())
    sizes = facts["contract"].get("sizes", {})
    for k in range(TRIES):
        random = Random(f"{name} {k}")
        drawn = {which: random.choice(SIZES) for which in sizes} if k else {}
        fed = resized(inputs, sizes, drawn)
        if len(draws) == DRAWS or sum(array.size for array in fed.values()) > most:
            continue
        found = outputs(whole, fed)
        if not isinstance(found, str):
            draws.append(fed)
        elif OUT_OF_BOUNDS.search(found) and not fails_where_left(found, left):
            yield {"run": first - 1, "sizes": drawn, "wrong": f"sizes {drawn}: {found}"}
    checks = UNCHECKED.isdisjoint(node.op_type for node in proto.graph.node)
    for k in range(first, count):
        random = Random(f"{name} run {k}")
        kind = random.choice(["wild", "wild", "ends", "inside"])
        kept = 0.5 if left else 0.2
        fed = dict(draws[k % len(draws)])
        for which, array in fed.items():
            if random.random() >= kept:
                fed[which] = drawn_like(random, array, kind, facts)
        found = outputs(whole, fed)
        if isinstance(found, str):
            is_left = fails_where_left(found, left)
            wrong = "" if is_left else f"run {k}: {found}"
            yield {"run": k, "left": is_left, "wrong": wrong}
        elif not is_changed:
            yield {"run": k, "same": True}
        elif (
            not (checks or meets(facts["contract"], fed))
            or isinstance(outputs(checked, fed), str)
            or isinstance(wanted := outputs(model, fed), str)
        ):
            yield {"run": k}
        else:
            other = different(wanted, found)
            yield {"run": k, "same": not other, "wrong": other and f"run {k}: {other}"}


def fails_where_left(message: str, left: Sequence[str]) -> bool:
    """Whether a run failed in an operator that harden left."""
    return any(f"running {operator} node" in message for operator in left)


def drawn_like(random: Random, array: Any, kind: str, facts: dict[str, Any]) -> Any:
    """Random elements for an array.

    Args:
        random: The numbers.
        array: The array.
        kind: "wild" for any numbers; "ends" for half of them at the ends of axes, or
            just beyond; "inside" for those between the least and the greatest of the
            array.
        facts: With `ends`.
    """
    if kind == "inside" and array.size and array.dtype.kind in "iu":
        ends = int(array.min()), int(array.max())
        drawn = [random.randint(*ends) for _ in range(array.size)]
        return np.array(drawn, array.dtype).reshape(array.shape)
    style = "near" if kind == "inside" else "wild"
    made = numbers(random, str(array.dtype), array.shape, style)
    if kind == "ends" and array.dtype.kind in "iu":
        info = np.iinfo(array.dtype)
        ends = [end for end in facts["ends"] if info.min <= end <= info.max] or [0]
        flat = made.reshape(-1)
        for k in range(flat.size):
            flat[k] = random.choice([int(flat[k]), random.choice(ends)])
    return made


def outputs(whole: Any, fed: dict[str, Any]) -> dict[str, Any] | str:
    """Return the outputs of a run, or what ONNX Runtime says where it fails."""
    try:
        return results(whole, fed)
    except Exception as error:
        return str(error)


def meets(contract: dict[str, Any], fed: dict[str, Any]) -> bool:
    """Whether inputs meet a contract."""
    try:
        og.check_inputs(contract, fed)
    except og.OnnxGatherError:
        return False
    return True


def different(wanted: dict[str, Any], found: dict[str, Any]) -> str:
    """Which outputs have other bytes; "" where there is none."""
    names = [
        key for key, array in wanted.items() if array.tobytes() != found[key].tobytes()
    ]
    return f"other bytes of {', '.join(names)}" if names else ""


def compared(model: Any, whole: Any, inputs: dict[str, Any]) -> dict[str, Any]:
    """Whether the outputs are those of the model, and how much longer they take."""
    wrong = different(results(model, inputs), results(whole, inputs))
    ratios = list[float]()
    for _ in range(ROUNDS):
        took = list[float]()
        for each in (model, whole):
            before = time.perf_counter()
            results(each, inputs)
            took.append(time.perf_counter() - before)
        ratios.append(took[1] / took[0])
    return {"wrong": wrong, "ratio": median(ratios)}


def resized(
    inputs: dict[str, Any], sizes: dict[str, list[list[Any]]], drawn: dict[str, int]
) -> dict[str, Any]:
    """Return the inputs in other sizes: elements are repeated, or some are left out."""
    fed = dict(inputs)
    for name, size in drawn.items():
        for which, k in sizes[name]:
            shape = [*fed[which].shape]
            shape[k] = size
            fed[which] = np.resize(fed[which], shape)
    return fed


def main() -> int:
    """Harden the models of a folder, and print what holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("folder", nargs="?", type=Path, default=ZIP, metavar="FOLDER")
    add("--runs", type=int, default=DOCUMENTED, metavar="COUNT")
    add("--only", default="", help="what is in the names of the models")
    add("--policy", action="append", choices=POLICIES)
    add("--python", default=sys.executable, help="what runs the models")
    add("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        folder, first, count, name = options.worker.split(":", 3)
        for told in worker(Path(folder), int(first), int(count), name):
            print(json.dumps(told), flush=True)
        return HOLDS
    policies = options.policy or POLICIES
    models = [each for each in exported(options.folder) if options.only in each[0]]
    count = -(-options.runs // (len(models) * len(policies)))
    rows = list[Row]()
    for name, model, inputs in models:
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder, "inputs.npz"), **inputs)
            Path(folder, "model.onnx").write_bytes(model.SerializeToString())
            found = og.audit(model)
            Path(folder, "facts.json").write_text(json.dumps(facts_of(found)))
            for policy in policies:
                rows.append(row := made(name, model, found, policy, Path(folder)))
                run(row, count, options.python, Path(folder))
                print(row.line, *row.wrong[:3], *row.named, sep="\n    ", flush=True)
    wrong = sum(len(row.wrong) for row in rows)
    runs, same = sum(row.runs for row in rows), sum(row.same for row in rows)
    speed = median(row.ratio for row in rows)
    which = f"{number_of(len(models), 'model')}, hardened in {len(rows)} ways"
    print(
        f"{which}, {speed:.2f} x the time (median); {runs:,} runs, {same:,} with the"
        f" bytes of the model, {wrong} wrong"
    )
    return DOES_NOT if wrong else HOLDS


if __name__ == "__main__":
    sys.exit(main())
