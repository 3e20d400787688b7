"""What ONNX Runtime's optimizers are known to change: what a level then does otherwise
than the lowest one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from four_levels import (
    Difference,
    Failure,
    compared,
    differs,
    four_outcomes,
    four_sessions,
    is_float,
    reached,
)
from network_draft import Feeds, captured
from onnx import numpy_helper

from onnxgather.core.descriptors.arrays import Array

BASIC, EXTENDED, ALL = 1, 2, 3

SIZE_READERS = ("Shape", "Size")


@dataclass(frozen=True)
class Seen:
    """A difference of a level, with the model and the inputs that show it."""

    model: onnx.ModelProto
    feeds: Feeds
    difference: Difference


@dataclass(frozen=True)
class Quirk:
    """A change that an optimizer makes."""

    name: str
    level: int
    """The lowest level that has it."""
    kinds: tuple[str, ...]
    """The kinds of differences that it makes."""
    fits: Callable[[Seen], bool]
    """Whether the model has what is changed, and the outcome is what the change
    makes."""
    optimizers: tuple[str, ...] = ()
    """Those that make the change: without them the level does what the lowest one
    does."""
    versions: tuple[str, ...] = ("1.24", "1.32")
    """The versions of ONNX Runtime where it was measured."""
    form: str = ""
    """A form that shows it."""


def explained(model: onnx.ModelProto, feeds: Feeds, difference: Difference) -> str:
    """The names of the quirks that explain a difference; "" if it is not known.

    Args:
        model: The model.
        feeds: Its inputs.
        difference: What a level does otherwise on them.
    """
    seen = Seen(model, feeds, difference)
    fitting = [quirk for quirk in QUIRKS if _may_be(quirk, seen)]
    for quirk in fitting:
        if _ends(seen, quirk.optimizers):
            return quirk.name
    together = [name for quirk in fitting for name in quirk.optimizers]
    if len(fitting) > 1 and together and _ends(seen, together):
        return " + ".join(quirk.name for quirk in fitting)
    return ""


def _may_be(quirk: Quirk, seen: Seen) -> bool:
    """Whether a quirk may be the cause, before optimizers are turned off."""
    difference = seen.difference
    is_measured = onnxruntime.__version__.startswith(quirk.versions)
    is_reached = difference.level >= quirk.level and difference.kind in quirk.kinds
    return is_measured and is_reached and quirk.fits(seen)


def _ends(seen: Seen, optimizers: tuple[str, ...] | list[str]) -> bool:
    """Whether the difference ends where optimizers are turned off.

    A quirk without optimizers needs no more than what it fits.
    """
    if not optimizers:
        return True
    level = seen.difference.level
    return not differs(seen.model, seen.feeds, level, optimizers)


def _every_node(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of a model, those of bodies and functions too."""
    waiting = [*model.graph.node]
    waiting += [node for function in model.functions for node in function.node]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            waiting += attribute.g.node


def _made_by(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """The nodes of a model by their outputs."""
    return {name: node for node in _every_node(model) for name in node.output}


def _constants(model: onnx.ModelProto) -> dict[str, Array]:
    """The constants of the main graph by their names."""
    found = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            found[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return found


def _has(*operators: str) -> Callable[[Seen], bool]:
    """A model with each of some operators."""

    def fits(seen: Seen) -> bool:
        found = {node.op_type for node in _every_node(seen.model)}
        return found.issuperset(operators)

    return fits


def _is_gather_of_range(seen: Seen) -> bool:
    """Whether a Gather has a Range for its indices."""
    made = _made_by(seen.model)
    return any(
        node.op_type == "Gather"
        and node.input[1] in made
        and made[node.input[1]].op_type == "Range"
        for node in _every_node(seen.model)
    )


def _is_division_of_one(seen: Seen) -> bool:
    """Whether a constant 1 of one element is divided."""
    constants = _constants(seen.model)
    divided = [
        constants.get(node.input[0])
        for node in seen.model.graph.node
        if node.op_type == "Div"
    ]
    return any(array is not None and array.size == 1 for array in divided)


def _has_ranked_element(seen: Seen) -> bool:
    """Whether a constant of one element has a rank."""
    found = _constants(seen.model).values()
    return any(array.size == 1 and array.ndim > 0 for array in found)


def _has_scale(seen: Seen) -> bool:
    """Whether a product of integers is scaled."""
    is_scaled = _has("MatMulInteger", "Cast", "Mul")
    return is_scaled(seen) and _has_ranked_element(seen)


def _is_gelu(seen: Seen) -> bool:
    """Whether an activation has constants of one element that have a rank."""
    operators = {node.op_type for node in _every_node(seen.model)}
    return not operators.isdisjoint(["Erf", "Sigmoid"]) and _has_ranked_element(seen)


def _fails_at(*operators: str) -> Callable[[Seen], bool]:
    """An operator that fails at the lowest level."""

    def fits(seen: Seen) -> bool:
        wanted = seen.difference.wanted
        return isinstance(wanted, Failure) and wanted.operator in operators

    return fits


def _gives_sizes_alone(seen: Seen) -> bool:
    """Whether only sizes are read of what fails at the lowest level, or of what is
    computed of it."""
    wanted = seen.difference.wanted
    named = [n for n in _every_node(seen.model) if n.name == wanted.node]
    if not isinstance(wanted, Failure) or not named:
        return False
    ends = {output.name for output in seen.model.graph.output}
    reached_names = {*named[0].output}
    for node in seen.model.graph.node:
        if node.op_type not in SIZE_READERS and captured(node) & reached_names:
            reached_names |= {*node.output}
    return reached_names.isdisjoint(ends)


def _fails_at_load(seen: Seen) -> bool:
    """Whether no session is made at the level."""
    got = seen.difference.got
    return isinstance(got, Failure) and got.at_load


def _is_refused_by_inference(seen: Seen) -> bool:
    """Whether no session is made at the level, as types do not fit."""
    return _fails_at_load(seen) and "InferenceError" in seen.difference.got.text


def _is_padded_pool(seen: Seen) -> bool:
    """Whether a Pad is before a pool."""
    made = _made_by(seen.model)
    pools = [n for n in _every_node(seen.model) if n.op_type.endswith("Pool")]
    before = [made[n.input[0]].op_type for n in pools if n.input[0] in made]
    return "Pad" in before


def _is_declared(seen: Seen) -> bool:
    """Whether the level does what the lowest one does where nothing is declared."""
    if not seen.model.graph.value_info:
        return False
    bare = onnx.ModelProto()
    bare.CopyFrom(seen.model)
    del bare.graph.value_info[:]
    levels = [each.level for each in compared(bare, seen.feeds)]
    return seen.difference.level not in levels


def _is_rounding(seen: Seen) -> bool:
    """Whether floats differ by a few roundings of the largest of them."""
    wanted, got = seen.difference.wanted, seen.difference.got
    if not is_float(wanted):
        return False
    largest = np.abs(wanted[np.isfinite(wanted)], dtype=np.float64).max(initial=1)
    tolerance = 64 * float(np.finfo(wanted.dtype).eps)
    with np.errstate(all="ignore"):
        return np.allclose(wanted, got, tolerance, tolerance * largest, equal_nan=True)


def _fails_later(seen: Seen) -> bool:
    """Whether the node that fails at the level fails at the lowest one, too, when
    nothing else is asked."""
    got = seen.difference.got
    part = reached(seen.model, got.node)
    if part is None:
        return False
    lowest = four_outcomes(four_sessions(part)[:1], seen.feeds)[0]
    return isinstance(lowest, Failure) and lowest.is_like(got)


VALUES = ("fails", "returns", "failure", "shape", "bytes")
"""All kinds but other types."""

QUIRKS: tuple[Quirk, ...] = (
    Quirk(
        "a Gather of a Range becomes a Slice, which cuts what is out of range",
        EXTENDED,
        VALUES,
        _is_gather_of_range,
        ("GatherToSliceFusion",),
        form="gather_of_range",
    ),
    Quirk(
        "1 / x * y becomes y / x: one rounding, and the rank of the 1 is lost",
        BASIC,
        VALUES,
        _is_division_of_one,
        ("DivMulFusion",),
        form="division_then_product",
    ),
    Quirk(
        "a scale of one element loses its rank",
        EXTENDED,
        VALUES,
        _has_scale,
        ("MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion"),
        form="quantized_product",
    ),
    Quirk(
        "the constants of an activation lose their rank",
        BASIC,
        VALUES,
        _is_gelu,
        ("GeluFusionL1", "GeluFusionL2", "QuickGeluFusion"),
        form="gelu",
    ),
    Quirk(
        "a Reshape by sizes of its input becomes one by -1 and 0: a check is lost",
        BASIC,
        ("returns", "failure"),
        _fails_at("Reshape"),
        ("ReshapeFusion",),
        form="reshape_of_sizes",
    ),
    Quirk(
        "a node that fails is gone, as only its sizes are read",
        BASIC,
        ("returns", "failure"),
        _gives_sizes_alone,
        ("ConstantFolding",),
        form="squeezed_again",
    ),
    Quirk(
        "sizes that a model declares are believed",
        BASIC,
        VALUES,
        _is_declared,
        form="a_declared_size",
    ),
    Quirk(
        "two quantizations become one",
        BASIC,
        ("fails", "returns", "failure", "bytes"),
        _has("QuantizeLinear", "DequantizeLinear"),
        ("DoubleQDQPairsRemover",),
        form="quantized_twice",
    ),
    Quirk(
        "fused floats are rounded otherwise: only types and sizes are compared",
        BASIC,
        ("bytes",),
        _is_rounding,
        form="scaled_product",
    ),
    Quirk(
        "a node of constants that fails, fails when the model is loaded",
        BASIC,
        ("failure",),
        _fails_at_load,
        ("ConstantFolding",),
        versions=("1.24",),
        form="a_constant_out_of_range",
    ),
    Quirk(
        "a folded constant makes ONNX's inference refuse the model",
        BASIC,
        ("fails", "failure"),
        _is_refused_by_inference,
        ("ConstantFolding",),
        versions=("1.32",),
        form="a_folded_constant_that_is_refused",
    ),
    Quirk(
        "the pads of a Pad go to a pool, which refuses them or fills them otherwise",
        BASIC,
        ("fails", "returns", "failure", "bytes"),
        _is_padded_pool,
        ("Pad_Fusion",),
        versions=("1.24",),
        form="padded_then_pooled",
    ),
    Quirk(
        "of two nodes that fail, another one runs first",
        BASIC,
        ("failure",),
        _fails_later,
        form="two_that_fail",
    ),
)
"""The quirks; the first that fits explains a difference."""
