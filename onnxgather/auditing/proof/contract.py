"""The contract of a model: the conditions on its inputs that its proofs need.

Checking inputs against a contract needs numpy and msgspec alone.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast, get_args

import msgspec
import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from onnxgather.auditing.algebra.sizes import (
    MOST_OF_INPUT,
    AnySize,
    Size,
    Symbol,
    assume,
    larger,
    lesser,
    low_of,
    never_negative,
    size_from,
    terms_in,
)
from onnxgather.core.checks import check_type, path_text, shown, shown_with_suggestion
from onnxgather.core.descriptors.arrays import Array, plain_array
from onnxgather.core.errors import FAULTS, FileFormatError, OnnxGatherError
from onnxgather.core.files import got
from onnxgather.core.json_files import decoding, whole
from onnxgather.core.public import public

if TYPE_CHECKING:
    from onnxgather.core.model.network import Network

FAR_FROM_0 = 2**30
"""Hardly an axis is as large. Farther from 0 are ends at which integers of the model
wrap around, or at which providers order them in two ways."""

LARGEST_CONTRACT = 2**20
"""The most bytes of the file of a contract."""

Assumption = Literal[
    "open sizes of inputs are at least 1", "open sizes of inputs are at least 0"
]
NOT_EMPTY: Assumption = "open sizes of inputs are at least 1"
MAY_BE_EMPTY: Assumption = "open sizes of inputs are at least 0"

GivenContract = str | os.PathLike[str] | Mapping[str, Any]
"""A file, or a plain dict such as `audit.contract`."""

Count = Annotated[int, Meta(ge=0)]
"""The number of a dimension or of a column."""

End = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

CheckedType = Literal[
    "BOOL",
    "FLOAT16",
    "FLOAT",
    "DOUBLE",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "STRING",
]
"""ONNX's name of a data type that arrays of numpy have."""

_SPELLED = {"FLOAT": "float32", "DOUBLE": "float64"}
NUMPY_TYPES = {
    name: np.dtype(_SPELLED.get(name, name.lower()))
    for name in get_args(CheckedType)
    if name != "STRING"
}
"""The types of numpy's arrays of numbers by ONNX's names."""

INTEGER_KINDS = "biu"
"""numpy's letters of the kinds of arrays of integers, with BOOL."""

NUMBER_KINDS = "biuf"
"""numpy's letters of the kinds of arrays of numbers."""

STRING_KINDS = "OU"
"""numpy's letters of the kinds of arrays that ONNX Runtime takes for STRING."""

LARGEST_VALUE = 2**64
"""No integer that is an element is larger, or below the negative number."""

NamedSizes = Mapping[str, Annotated[list[tuple[str, Count]], Meta(min_length=1)]]
"""The dimensions of inputs by the names of open sizes.

Each dimension is an input and a number from 0.
"""


@public
class Condition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A condition on the inputs of a model.

    It has at least one end, but for the values of a float input: without an end they
    are any numbers, and none is NaN.

    Example:
        >>> audit = og.audit("models/networks/keywords.onnx")
        >>> (condition,) = audit.gathers[2].range.conditions
        >>> print(condition)
        each value of words is from -32 to 31
        >>> condition.admits(31), condition.admits(32)
        (True, False)
    """

    of: Literal["values", "difference", "size", "sizes"]
    """The values of an input, the difference of two columns of an input, an open size
    of an input, or an expression of open sizes."""
    input: str | None = None
    """None for an expression."""
    columns: Annotated[tuple[Count, ...], Meta(min_length=1)] | None = None
    """Of values: which numbers of the last axis the condition is for; None means all
    values. Of a difference: two numbers `[a, b]` of the last axis, for column a minus
    column b of each row."""
    dim: Count | None = None
    """Of a size: which dimension, from 0."""
    expression: Annotated[str, Meta(max_length=1000)] | None = None
    """A sum of products of names of open sizes, such as `12*batch*sequence - past`. Of
    one size it is the name alone."""
    low: End | None = None
    """The least number; None is an open end, or one that is an expression."""
    high: End | None = None
    """The greatest number; None is an open end, or one that is an expression."""
    low_expression: Annotated[str, Meta(max_length=1000)] | None = None
    """Of values or a difference: the least number where it depends on open sizes, such
    as `-length`; None where it does not."""
    high_expression: Annotated[str, Meta(max_length=1000)] | None = None
    """Of values or a difference: the greatest number where it depends on open sizes,
    such as `length - 1`; None where it does not."""
    also: Annotated[tuple[End, ...], Meta(min_length=1)] | None = None
    """Of values: other numbers, which need not be between the ends, such as one that
    the model replaces before it gathers."""
    exact: bool = False
    """Whether beyond each end some input, which meets the other conditions of the
    gather, takes an index out of range or has sizes that do not fit. If not, the
    condition is only sufficient: inputs outside it may be in range too."""

    def admits(self, number: float) -> bool:
        """Return whether a number is between the ends, or in `also`; NaN never is.

        Ends that are expressions admit any number: `with_numbers` replaces them.
        """
        if self.also and number in self.also:
            return True
        # `not >=` instead of `<`: no comparison with NaN is true.
        if self.low is not None and not number >= self.low:
            return False
        if self.high is not None and not number <= self.high:
            return False
        return isinstance(number, int) or not math.isnan(number)

    @property
    def is_of_elements(self) -> bool:
        """Whether the elements of an input decide it, not sizes alone."""
        return self.of in ("values", "difference")

    def ends(
        self, sizes: Mapping[str, AnySize]
    ) -> tuple[AnySize | None, AnySize | None]:
        """Return the ends, numbers or open sizes, for sizes by their names.

        None for an open end, and for an expression of which a size is not known.
        """
        ends: list[AnySize | None] = [self.low, self.high]
        expressions = (self.low_expression, self.high_expression)
        for side, expression in enumerate(expressions):
            if expression is not None:
                with suppress(KeyError):
                    ends[side] = size_from(expression, sizes)
        low, high = ends
        return low, high

    def ends_of_all(
        self, sizes: Mapping[str, AnySize]
    ) -> tuple[AnySize | None, AnySize | None]:
        """Return the ends as `ends` does, with the numbers in `also` between them."""
        low, high = self.ends(sizes)
        for number in self.also or ():
            low = None if low is None else lesser(low, number)
            high = None if high is None else larger(high, number)
        return low, high

    @property
    def needs_integers(self) -> bool:
        """Whether it is only of the elements of an input of integers."""
        return self.of == "difference" or bool(self.also)

    def with_numbers(self, sizes: Mapping[str, int]) -> Condition:
        """Return the condition with numbers as ends, for sizes by their names."""
        low, high = (None if end is None else low_of(end) for end in self.ends(sizes))
        plain = replace(self, low_expression=None, high_expression=None)
        return replace(plain, low=low, high=high)

    def __str__(self) -> str:
        is_one_number = self.low == self.high
        has_one_end = self.low is None or is_one_number
        if self.of == "sizes" and self.high is not None and has_one_end:
            # Each side has the terms that are added there: `past + 2 is at most
            # sequence`.
            expression = self.expression or ""
            terms = terms_in(f"{expression} {-self.high:+d}")
            added = [term for sign, term in terms if sign != "-" and term != "0"]
            subtracted = [term for sign, term in terms if sign == "-"]
            left = " + ".join(added) or "0"
            right = " + ".join(subtracted) or "0"
            verb = "is" if is_one_number else "is at most"
            return f"{left} {verb} {right}"
        others = ", ".join(map(str, self.also or ()))
        verb = f"is {others} or" if others else "is"
        low = self.low if self.low_expression is None else self.low_expression
        high = self.high if self.high_expression is None else self.high_expression
        return f"{self._subject} {verb} {_ends_text(low, high)}"

    @property
    def _subject(self) -> str:
        """Return what the condition is about, as the start of a sentence."""
        columns = self.columns or ()
        if self.of == "size":
            name = f" ({self.expression})" if self.expression else ""
            return f"size {self.dim} of {self.input}{name}"
        if self.of == "difference":
            names = " minus ".join(f"column {column}" for column in columns)
            return f"{names} of the last axis of {self.input}"
        if self.of == "values":
            if not columns:
                return f"each value of {self.input}"
            noun = "column" if len(columns) == 1 else "columns"
            numbers = ", ".join(map(str, columns))
            return f"each value of {noun} {numbers} of the last axis of {self.input}"
        return self.expression or ""


def _ends_text(low: int | str | None, high: int | str | None) -> str:
    """Return the ends of a condition as the end of a sentence.

    An end that is far from 0 is said in words, if 0 is between the ends.
    """
    is_far_below = isinstance(low, int) and low < -FAR_FROM_0
    is_far_above = isinstance(high, int) and high > FAR_FROM_0
    if isinstance(low, int) and low > 0:
        is_far_above = False
    if isinstance(high, int) and high < 0:
        is_far_below = False
    if is_far_below and is_far_above:
        return "not far from 0"
    if is_far_below:
        near = "" if high is None else f"at most {high} and "
        return f"{near}not far below 0"
    if is_far_above:
        near = "" if low is None else f"at least {low} and "
        return f"{near}not far above 0"

    if low is None and high is None:
        return "a number, not NaN"
    if low is None:
        return f"at most {high}"
    if high is None:
        return f"at least {low}"
    if low == high:
        return f"{low}"
    # Nothing meets two conditions together whose ends are not in their order.
    if isinstance(low, int) and isinstance(high, int) and low < high:
        return f"from {low} to {high}"
    return f"at least {low} and at most {high}"


class Contract(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """What the inputs of a model must be, so that the proofs of an audit hold."""

    digest: str
    """The SHA-256 digest of the model as it was given and of its external data, such as
    `sha256:...`."""
    assumes: Assumption
    """`open sizes of inputs are at least 1`, or with `--allow-empty` `... at least
    0`."""
    sizes: NamedSizes
    """The dimensions of inputs that share each open size, each an input and a number
    from 0, by the names of the sizes."""
    types: Mapping[str, CheckedType]
    """The data types, by ONNX's names, of the inputs that the contract speaks of: those
    with an open size, with a condition, without a dimension, or with a shape that was
    given. A data type that numpy lacks, such as BFLOAT16, is left out, and not
    checked."""
    # `quirks.SCALARS_OF_ANY_SHAPE`
    shapes: Mapping[str, list[Count | None]]
    """The shapes of these inputs; None is an open size. An input whose rank the model
    leaves open is left out, unless its shape was given."""
    no_negative: bool = False
    """Whether an index below 0 that depends on an input counts as out of range, as
    with `--no-negative`; left out where ONNX's rule holds."""
    conditions: tuple[Condition, ...]
    """All of these hold."""
    made_by: str | None = None
    """Who wrote the file, of a file in a folder of contracts; left out of any other."""

    @classmethod
    def of(
        cls,
        network: Network,
        conditions: tuple[Condition, ...],
        allow_empty: bool,
        no_negative: bool = False,
    ) -> Contract:
        """Return the contract of a model, without a digest.

        The flags are those of `audit`.
        """
        check_type("allow_empty", allow_empty, "True or False", bool)
        check_type("no_negative", no_negative, "True or False", bool)
        contract = cls(
            digest="",
            assumes=MAY_BE_EMPTY if allow_empty else NOT_EMPTY,
            sizes=open_sizes(network),
            types={},
            shapes={},
            no_negative=no_negative,
            conditions=conditions,
        )
        return contract.with_inputs(network, {})

    def with_digest(self, network: Network) -> Contract:
        """Return the contract with the digest of its model.

        The digest of large external data takes seconds.
        """
        return replace(self, digest=network.digest)

    def with_inputs(
        self, network: Network, given_shapes: Mapping[str, Sequence[int | None]]
    ) -> Contract:
        """Return the contract with the types and the shapes of the inputs it speaks of.

        Args:
            network: The model, with the sizes of its file.
            given_shapes: The shapes that were given. Those of an open rank count.
        """
        names = {condition.input for condition in self.conditions}
        for dimensions in self.sizes.values():
            names.update(input_name for input_name, _ in dimensions)
        types: dict[str, CheckedType] = {}
        shapes: dict[str, list[int | None]] = {}
        for name in network.main.inputs:
            data_type, shape = network.main.types[name]
            is_given = shape is None and name in given_shapes
            if name not in names and shape != () and not is_given:
                continue
            if is_given:
                shape = given_shapes[name]
            if shape is not None:
                shapes[name] = list(shape)
            if data_type in get_args(CheckedType):
                types[name] = cast("CheckedType", data_type)
        return replace(self, types=types, shapes=shapes)

    def joined(self, conditions: Iterable[Condition]) -> Contract:
        """Return the contract with more conditions.

        Raises:
            OnnxGatherError: No input meets these and its own.
        """
        both = tightened([*self.conditions, *conditions])
        excluded = _excluded_by_others(both, self.sizes, least_size(self))
        if excluded is not None:
            rule = "some input must meet all conditions, but none meets"
            raise OnnxGatherError(f"{rule} {shown(str(excluded))} and the others")
        return replace(self, conditions=both)

    @property
    def plain(self) -> dict[str, Any]:
        """Return the contract as plain JSON, which is `audit.contract`."""
        text = msgspec.json.encode(self)
        return msgspec.json.decode(text)


def tightened(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Return a condition for each subject with the tightest ends, in their order.

    An end that is an expression belongs to the subject: no end is known to be tighter.
    """
    tightest: dict[Condition, Condition] = {}
    for condition in conditions:
        subject = replace(condition, low=None, high=None, exact=False)
        other = tightest.get(subject)
        if other is None:
            tightest[subject] = condition
            continue
        lows = [end for end in (condition.low, other.low) if end is not None]
        highs = [end for end in (condition.high, other.high) if end is not None]
        low = max(lows, default=None)
        high = min(highs, default=None)
        both = replace(condition, low=low, high=high)
        exact = _is_exact_at(both, "low", condition, other) and _is_exact_at(
            both, "high", condition, other
        )
        tightest[subject] = replace(both, exact=exact)
    return tuple(tightest.values())


def _is_exact_at(
    both: Condition, end: Literal["low", "high"], *conditions: Condition
) -> bool:
    """Return whether an end of two conditions together is that of an exact one."""
    number = getattr(both, end)
    return any(
        condition.exact and getattr(condition, end) == number
        for condition in conditions
    )


def _excluded_by_others(
    conditions: Sequence[Condition], sizes: NamedSizes, least: int
) -> Condition | None:
    """Return a condition that surely no input meets which meets the others.

    Args:
        conditions: The conditions.
        sizes: The places of the open sizes.
        least: The least number that an open size may be.
    """
    numbers = defaultdict[str, Size](lambda: _unknown(least, MOST_OF_INPUT))
    # A value may be below 0, which no symbol is.
    values = defaultdict[tuple[str | None, int], AnySize](
        lambda: _unknown(0, 2 * LARGEST_VALUE) - LARGEST_VALUE
    )
    # A condition on all values is one on the columns that others name, or on any.
    columns_by_input = defaultdict[str | None, set[int]](lambda: {0})
    for condition in conditions:
        columns_by_input[condition.input].update(condition.columns or ())

    facts: dict[AnySize, Condition] = {}
    for condition in conditions:
        columns = condition.columns or columns_by_input[condition.input]
        subjects = [values[condition.input, column] for column in columns]
        if condition.of == "difference":
            subjects = [subjects[0] - subjects[1]]
        elif not condition.is_of_elements:
            subjects = [size_from(expression_of(condition, sizes), numbers)]
        low, high = condition.ends_of_all(numbers)
        for subject in subjects:
            if low is not None:
                facts[subject - low] = condition
            if high is not None:
                facts[high - subject] = condition
    for fact in facts:
        assume(fact)
    for fact, condition in facts.items():
        # A fact is at least 0, and the others prove that it is below.
        if never_negative(-1 - fact):
            return condition
    return None


def _unknown(low: int, high: int) -> Size:
    """Return a number of which the ends alone are known."""
    return Size({(Symbol("", low, high),): 1})


def open_sizes(network: Network) -> NamedSizes:
    """Return the dimensions of inputs that a model leaves open, by their names."""
    sizes: dict[str, list[tuple[str, int]]] = {}
    for input_name, dimensions in network.dimensions.items():
        for dim, size in enumerate(dimensions or ()):
            if isinstance(size, str):
                sizes.setdefault(size, []).append((input_name, dim))
    return sizes


def condition_on_size(
    name: str, place: tuple[str, int], low: int | None, high: int | None
) -> Condition:
    """Return the condition that an open size is between two ends.

    Args:
        name: The name of the size.
        place: An input that has it, and the dimension.
        low: The least number; None is an open end.
        high: The greatest number; None is an open end.
    """
    input_name, dim = place
    return Condition(
        of="size",
        input=input_name,
        dim=dim,
        expression=name,
        low=low,
        high=high,
    )


def sizes_given(
    sizes: NamedSizes, shapes: Mapping[str, Sequence[int]]
) -> list[Condition]:
    """Return the conditions that open sizes are those of given shapes of inputs."""
    conditions: list[Condition] = []
    for name, dimensions in sizes.items():
        for input_name, dim in dimensions:
            shape = shapes.get(input_name, ())
            if dim >= len(shape):
                continue
            number = shape[dim]
            place = (input_name, dim)
            conditions.append(condition_on_size(name, place, number, number))
            break  # the first given dimension of a size is enough
    return conditions


_FIELDS = {
    "values": ["input"],
    "difference": ["input", "columns"],
    "size": ["input", "dim"],
    "sizes": ["expression"],
}
"""The fields besides its ends that a condition must have."""

_OPTIONAL = {"values": ["columns", "also"], "size": ["expression"]}
"""The fields that a condition may have, too."""


def decoded(given: GivenContract) -> Contract:
    """Return a contract from a file or a plain dict.

    Only the rules that need no model are checked.

    Raises:
        FileFormatError: It breaks a rule; the message names the field.
    """
    where = _place_of(given)
    with decoding(where, "docs/proof.md"):
        is_plain = isinstance(given, Mapping)
        text = _json_of(given) if is_plain else _text_of_file(where)
        contract = msgspec.json.decode(text, type=Contract)
    # What is made of the contract is no file in a folder of contracts.
    contract = replace(contract, made_by=None)
    for name, dimensions in contract.sizes.items():
        for input_name, dim in dimensions:
            shape = contract.shapes.get(input_name, [])
            if dim >= len(shape):
                rule = f"must have dimension {dim} of {shown(input_name)}"
                why = f"as $.sizes has it for {shown(name)}"
                raise FileFormatError(f"{where}: $.shapes {rule}, {why}, got {shape}")
    for number, condition in enumerate(contract.conditions):
        place = f"{where}: $.conditions[{number}]"
        _check_condition(place, condition, contract.sizes)
    return contract


def _json_of(given: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(dict(given))
    except FAULTS as error:  # of a value that JSON does not have, such as a generator
        where = _place_of(given)
        raise FileFormatError(f"{where}: $ must be plain: {error}") from None


def _text_of_file(path: str) -> bytes:
    with open(path, "rb") as file:
        text = whole(file, LARGEST_CONTRACT)
    # A file of another kind, such as a model, gets a message that names the kind.
    other_kind = got(text, "a contract") if text else ""
    if other_kind:
        raise FileFormatError(
            f"{path}: must be a contract of onnxgather audit{other_kind}"
        )
    return text


def _place_of(given: GivenContract) -> str:
    """Return the place that messages on a contract start with: of a file, its path.

    Raises:
        OnnxGatherError: It is neither a file nor a dict.
    """
    if isinstance(given, Mapping):
        return "the contract"
    return path_text("contract", given, "a file or a plain dict")


def _check_condition(where: str, condition: Condition, sizes: NamedSizes) -> None:
    """Check that a condition has its fields, ends in order, and only open sizes.

    Raises:
        FileFormatError: It does not.
    """
    required = _FIELDS[condition.of]
    allowed = {*required, *_OPTIONAL.get(condition.of, ())}
    fields = [
        field
        for field in ("input", "columns", "dim", "expression", "also")
        if getattr(condition, field) is not None
    ]
    # A field of another kind of condition is an error, not ignored.
    if not {*required} <= {*fields} <= allowed:
        rule = f"must have {' and '.join(required)} where of is {condition.of!r}"
        raise FileFormatError(f"{where} {rule}, got {', '.join(fields) or 'none'}")

    columns = condition.columns or ()
    if condition.of == "difference" and len(columns) != 2:
        rule = "must have two columns where of is 'difference'"
        raise FileFormatError(f"{where} {rule}, got {[*columns]}")

    expressions = [expression_of(condition, sizes)]
    for end in ("low", "high"):
        expression = getattr(condition, f"{end}_expression")
        if expression is None:
            continue
        if not condition.is_of_elements:
            rule = f"must not have {end}_expression where of is {condition.of!r}"
            raise FileFormatError(f"{where} {rule}, got {shown(expression)}")
        number = getattr(condition, end)
        if number is not None:
            rule = f"must have {end} or {end}_expression, not both"
            raise FileFormatError(f"{where} {rule}, got {number} and {expression}")
        expressions.append(expression)

    low = condition.low
    high = condition.high
    # Only values may have no end: they are then any numbers but NaN.
    has_no_end = low is None and high is None and len(expressions) == 1
    is_without_end = has_no_end and condition.of != "values"
    if is_without_end or (low is not None and high is not None and low > high):
        rule = "must have low, high, or both in their order"
        raise FileFormatError(f"{where} {rule}, got {low} and {high}")

    for expression in expressions:
        try:
            size_from(expression, dict.fromkeys(sizes, 1))
        except KeyError as error:
            name = shown_with_suggestion(error.args[0], sizes)
            rule = "must be of open sizes in $.sizes"
            raise FileFormatError(f"{where} {rule}, got {name}") from None


def expression_of(condition: Condition, sizes: NamedSizes) -> str:
    """Return the expression of a condition on sizes; the name of a single size."""
    if condition.of != "size":
        return condition.expression or ""
    dimension = (condition.input, condition.dim)
    for name, dimensions in sizes.items():
        if dimension in dimensions:
            return name
    return f"{condition.input}.{condition.dim}"


def read_contract(given: GivenContract, network: Network) -> Contract:
    """Return a contract, if it is a contract of a model.

    Args:
        given: A file, or the plain dict.
        network: The model, with the sizes of its file.

    Raises:
        OnnxGatherError: The contract is of another model, or breaks a rule.
    """
    # It imports onnx, which checking inputs does without.
    from onnxgather.core.model.network import check_input

    contract = decoded(given)
    where = _place_of(given)
    model = Contract.of(network, contract.conditions, allow_empty=False)
    model = model.with_inputs(network, contract.shapes).with_digest(network)
    for field in ("digest", "sizes", "shapes", "types"):
        expected = getattr(model, field)
        value = getattr(contract, field)
        if value != expected:
            rule = f"must be that of {network.path}, {shown(expected)}"
            raise FileFormatError(f"{where}: $.{field} {rule}, got {shown(value)}")

    for number, condition in enumerate(contract.conditions):
        if condition.input is None:
            continue
        place = f"{where}: $.conditions[{number}]"
        check_input(place, network.main.inputs, condition.input, "a condition")
        sizes = network.main.type_of(condition.input).sizes
        _check_columns(place, condition, sizes)
    return contract


def _check_columns(
    where: str, condition: Condition, sizes: Sequence[int | None] | None
) -> None:
    """Check that an input of some sizes has the columns of a condition."""
    if not condition.columns or not sizes:
        return
    last_size = sizes[-1]
    last_column = max(condition.columns)
    if last_size is not None and last_column >= last_size:
        rule = f"must be below {last_size}, the last size of {shown(condition.input)}"
        raise FileFormatError(f"{where}.columns {rule}, got {last_column}")


@public
def check_inputs(contract: GivenContract, inputs: Mapping[str, Any]) -> None:
    """Check that the inputs of a model meet its contract.

    Args:
        contract: A file, or a plain dict such as `audit.contract`.
        inputs: The arrays by the names of the inputs.

    Raises:
        OnnxGatherError: They do not. The message names the input, the element and the
            condition.
        FileFormatError: The contract cannot be read, or breaks a rule.

    Example:
        >>> contract = og.audit("models/networks/keywords.onnx").contract
        >>> og.check_inputs(contract, {"words": np.array([[3, 31]], np.int64)})
        >>> og.check_inputs(contract, {"words": np.array([[3, 99]], np.int64)})
        Traceback (most recent call last):
        onnxgather.OnnxGatherError: input 'words' must meet 'each value of words is from
        -32 to 31', got 99 at [0, 1]
    """
    rules = decoded(contract)
    check_type("inputs", inputs, "a mapping from names", Mapping)
    _check_shapes_and_types(rules, inputs)
    numbers = _checked_sizes(rules, inputs)
    for condition in rules.conditions:
        if condition.is_of_elements:
            array = _array(inputs, condition.input or "")
            _check_elements(condition, condition.with_numbers(numbers), array)
            continue
        expression = expression_of(condition, rules.sizes)
        number = low_of(size_from(expression, numbers))
        if not condition.admits(number):
            rule = rule_of_condition(condition)
            raise OnnxGatherError(f"{rule}, got {expression} = {number}")


def _check_shapes_and_types(rules: Contract, inputs: Mapping[str, Any]) -> None:
    """Check that inputs have the shapes and types of a contract.

    Raises:
        OnnxGatherError: They do not.
    """
    for name, shape in rules.shapes.items():
        # An input without a dimension may be missing: it may have a default.
        if not shape and name not in inputs:
            continue
        own_shape = [*_array(inputs, name).shape]
        pairs = zip(shape, own_shape, strict=False)
        with_open_sizes = [own if size is None else size for size, own in pairs]
        if with_open_sizes != own_shape or len(shape) != len(own_shape):
            rule = rule_of_shape(rules, name)
            raise OnnxGatherError(f"{rule}, got the shape {own_shape}")
    for name, data_type in rules.types.items():
        if name not in inputs:
            continue
        dtype = _array(inputs, name).dtype
        if data_type == "STRING":
            has_type = dtype.kind in STRING_KINDS and dtype.isnative
        else:
            has_type = dtype == NUMPY_TYPES[data_type]
        if not has_type:
            raise OnnxGatherError(f"{rule_of_type(rules, name)}, got {dtype}")


def _checked_sizes(rules: Contract, inputs: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of open sizes that inputs have, by their names.

    Raises:
        OnnxGatherError: A size is several numbers, or too small or large a number.
    """
    least = least_size(rules)
    numbers: dict[str, int] = {}
    for name, dimensions in rules.sizes.items():
        sizes: list[int] = []
        for input_name, dim in dimensions:
            sizes.append(_array(inputs, input_name).shape[dim])
        if not least <= min(sizes) == max(sizes) <= MOST_OF_INPUT:
            places = ", ".join(
                f"dimension {dim} of {shown(input_name)}"
                for input_name, dim in dimensions
            )
            rule = f"{rule_of_size(name, least)} ({places})"
            raise OnnxGatherError(f"{rule}, got {', '.join(map(str, sizes))}")
        numbers[name] = sizes[0]
    return numbers


def least_size(rules: Contract) -> int:
    """Return the least number that an open size may be."""
    return 1 if rules.assumes == NOT_EMPTY else 0


def rule_of_size(name: str, least: int) -> str:
    """Return the rule that every proof assumes of an open size."""
    largest = f"2^{MOST_OF_INPUT.bit_length() - 1}, the largest that proofs assume"
    return f"the size {shown(name)} must be one number from {least} to {largest}"


def rule_of_shape(rules: Contract, name: str) -> str:
    """Return the rule of the shape of an input."""
    shape = rules.shapes[name]
    if not shape:
        return f"input {shown(name)} must have no dimension"
    texts = [str(size) for size in shape]
    for size_name, dimensions in rules.sizes.items():
        for input_name, dim in dimensions:
            if input_name == name:
                texts[dim] = size_name
    return f"input {shown(name)} must have the shape [{', '.join(texts)}]"


def rule_of_type(rules: Contract, name: str) -> str:
    """Return the rule of the data type of an input."""
    data_type = rules.types[name]
    numpy_type = NUMPY_TYPES.get(data_type, "str")
    return f"input {shown(name)} must be of {data_type} ({numpy_type})"


def _array(inputs: Mapping[str, Any], name: str) -> Array:
    """Return the array of an input."""
    if name not in inputs:
        rule = f"the contract needs input {shown(name)}, which is not given"
        raise OnnxGatherError(f"{rule}, got {shown([*inputs])}")
    array = plain_array(f"input {shown(name)} must be an array", inputs[name])
    # `quirks.BYTES_IN_OWN_ORDER`
    if array.dtype.kind in NUMBER_KINDS:
        array = array.view(array.dtype.newbyteorder("="))
    return array


def _check_elements(condition: Condition, numbers: Condition, array: Array) -> None:
    """Check the least and the greatest element, of all or of some columns.

    Args:
        condition: The condition.
        numbers: The condition with numbers as ends.
        array: The input.

    Raises:
        OnnxGatherError: They do not meet it.
    """
    columns = condition.columns
    is_difference = condition.of == "difference"
    kinds = INTEGER_KINDS if condition.needs_integers else NUMBER_KINDS
    if array.dtype.kind not in kinds:
        raise OnnxGatherError(f"{rule_of_elements(condition)}, got {array.dtype}")

    part = array
    if columns is not None:
        last_size = array.shape[-1] if array.shape else 0
        if max(columns) >= last_size:
            rule = rule_of_column(condition)
            raise OnnxGatherError(f"{rule}, got the shape {[*array.shape]}")
        part = array[..., [*columns]]
    if is_difference:
        # Python's integers do not wrap around.
        exact = part.astype(object)
        part = exact[..., :1] - exact[..., 1:]
    if not part.size:
        return
    # If all elements are in `also`, both positions are that of such an element.
    compared: Any = part
    for number in condition.also or ():
        compared = np.ma.masked_where(part == number, compared)
    # Both positions are that of a NaN if there is any.
    index: int
    for index in (compared.argmin(), compared.argmax()):
        number = part.item(index)
        if numbers.admits(number):
            continue
        place: list[int | str] = [*map(int, np.unravel_index(index, part.shape))]
        if is_difference:
            place[-1] = f"{columns[0]} - {columns[1]}" if columns else ""
        elif columns is not None:
            place[-1] = columns[int(place[-1])]
        shown_place = ", ".join(map(str, place))
        rule = rule_of_condition(condition)
        raise OnnxGatherError(f"{rule}, got {number} at [{shown_place}]")


def rule_of_condition(condition: Condition) -> str:
    """Return the rule that inputs meet a condition."""
    subject = "the inputs"
    if condition.is_of_elements:
        subject = f"input {shown(condition.input)}"
    return f"{subject} must meet {shown(str(condition))}"


def rule_of_elements(condition: Condition) -> str:
    """Return the rule of what the elements of an input are."""
    noun = "integers" if condition.needs_integers else "numbers"
    return f"input {shown(condition.input)} must hold {noun}"


def rule_of_column(condition: Condition) -> str:
    """Return the rule that an input has the columns of a condition."""
    last_column = max(condition.columns or (0,))
    subject = f"input {shown(condition.input)}"
    return f"{subject} must have a column {last_column} in its last axis"
