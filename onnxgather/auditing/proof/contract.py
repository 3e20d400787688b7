"""The contract of a model: the conditions on its inputs under which its gathers are proved.

Checking inputs against a contract needs numpy and msgspec alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import replace

from onnxgather.auditing.algebra.sizes import MOST_OF_INPUT, low_of, size_from, terms_in
from onnxgather.core.checks import check_type, shown, shown_with_suggestion
from onnxgather.core.descriptors.arrays import Array, plain_array
from onnxgather.core.errors import FileFormatError, OnnxGatherError
from onnxgather.core.files import got
from onnxgather.core.json_files import decoding, whole

if TYPE_CHECKING:
    from onnxgather.core.model.network import Network

FARTHEST = 2**62
"""The largest number that is tried for a float input, where its data type has it."""

LARGEST_CONTRACT = 2**20
"""The most bytes of a file of a contract."""

Assumption = Literal[
    "open sizes of inputs are at least 1", "open sizes of inputs are at least 0"
]
NOT_EMPTY: Assumption = "open sizes of inputs are at least 1"
MAY_BE_EMPTY: Assumption = "open sizes of inputs are at least 0"

GivenContract = str | os.PathLike[str] | Mapping[str, Any]
"""A file, or the plain dict that `audit.contract` is."""

Count = Annotated[int, Meta(ge=0)]
"""The number of a dimension or of a column."""

End = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

NamedSizes = Mapping[str, Annotated[list[tuple[str, Count]], Meta(min_length=1)]]
"""The dimensions of inputs, each an input and a number from 0, by the names of open
sizes."""


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One condition on the inputs of a model; at least one of its ends is given."""

    of: Literal["values", "size", "sizes"]
    """The values of an input, an open size of an input, or an expression of open
    sizes."""
    input: str | None = None
    """None for an expression."""
    columns: Annotated[tuple[Count, ...], Meta(min_length=1)] | None = None
    """Of values: which numbers of the last axis the condition is for; None means all
    values."""
    dim: Count | None = None
    """Of a size: which dimension, from 0."""
    expression: Annotated[str, Meta(max_length=1000)] | None = None
    """A sum of products of names of open sizes, such as `12*batch*sequence - past`. Of
    one size it is the name alone."""
    low: End | None = None
    """The least number; None is an open end."""
    high: End | None = None
    """The greatest number; None is an open end."""

    def admits(self, number: float) -> bool:
        """Whether a number is between the ends, as NaN never is."""
        low, high = self.low, self.high
        return (low is None or number >= low) and (high is None or number <= high)

    def __str__(self) -> str:
        low, high, expression = self.low, self.high, self.expression or ""
        if self.of == "sizes" and low is None and high is not None:
            terms = terms_in(f"{expression} {-high:+d}")  # whose sum is at most 0
            more = " + ".join(
                part for sign, part in terms if sign != "-" and part != "0"
            )
            less = " + ".join(part for sign, part in terms if sign == "-")
            return f"{more or 0} is at most {less or 0}"
        subject = expression
        if self.of == "size":
            name = f" ({expression})" if expression else ""
            subject = f"size {self.dim} of {self.input}{name}"
        elif self.of == "values":
            noun = "column" if self.columns and len(self.columns) == 1 else "columns"
            numbers = ", ".join(map(str, self.columns or ()))
            columns = f"{noun} {numbers} of the last axis of " if numbers else ""
            subject = f"each value of {columns}{self.input}"
        within = ""
        if FARTHEST in (high, -(low or 0)):
            low, high = (None if n in (FARTHEST, -FARTHEST) else n for n in (low, high))
            within = f" (within 2^{FARTHEST.bit_length() - 1}, not NaN)"
        if low is None and high is None:
            return f"{subject} is any number{within}"
        if low is None or high is None:
            return (
                f"{subject} is at"
                f" {f'most {high}' if low is None else f'least {low}'}{within}"
            )
        return f"{subject} is {low if low == high else f'from {low} to {high}'}"


class Contract(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """What the inputs of a model must be, so that what an audit proves holds."""

    digest: str
    """The SHA-256 digest of the model as it was given, such as `sha256:...`."""
    assumes: Assumption
    """`open sizes of inputs are at least 1`, or with `--allow-empty` `... at least
    0`."""
    sizes: NamedSizes
    """The dimensions of inputs that share each open size, each an input and a number
    from 0, by the names of the sizes."""
    scalars: tuple[str, ...] = ()
    """The inputs that have no dimension, which ONNX Runtime does not check; left out
    where there is no such input."""
    shapes: Mapping[str, list[Count]] = {}
    """The shapes that were given of inputs whose rank the model leaves open; left out
    where there is no such input."""
    conditions: tuple[Condition, ...]
    """All of these hold."""

    @classmethod
    def of(
        cls, network: Network, conditions: tuple[Condition, ...], allow_empty: bool
    ) -> Contract:
        """The contract of a model; `allow_empty` is as of `audit`."""
        check_type("allow_empty", allow_empty, "True or False", bool)
        return cls(
            digest=network.digest,
            assumes=MAY_BE_EMPTY if allow_empty else NOT_EMPTY,
            sizes=open_sizes(network),
            scalars=tuple(
                name for name, sizes in network.dimensions.items() if sizes == ()
            ),
            conditions=conditions,
        )

    def joined(self, conditions: Iterable[Condition]) -> Contract:
        """The contract with more conditions; as it is where they exclude its own."""
        try:
            return replace(self, conditions=tightened([*self.conditions, *conditions]))
        except OnnxGatherError:
            return self

    @property
    def plain(self) -> dict[str, Any]:
        """The contract as JSON has it, which `audit.contract` is."""
        return msgspec.json.decode(msgspec.json.encode(self))


def tightened(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """The tightest ends of each subject, in the order of the subjects.

    Raises:
        OnnxGatherError: Nothing meets the conditions on one subject.
    """
    tightest = dict[Condition, Condition]()
    for one in conditions:
        subject = replace(one, low=None, high=None)
        other = tightest.get(subject, subject)
        lows = [low for low in (one.low, other.low) if low is not None]
        highs = [high for high in (one.high, other.high) if high is not None]
        if lows and highs and max(lows) > min(highs):
            raise OnnxGatherError(
                f"two conditions exclude each other: {other}, and {one}"
            )
        low, high = max(lows, default=None), min(highs, default=None)
        tightest[subject] = replace(one, low=low, high=high)
    return tuple(tightest.values())


def open_sizes(network: Network) -> NamedSizes:
    """The dimensions of the inputs that the model leaves open, by the names of their sizes."""
    sizes = dict[str, list[tuple[str, int]]]()
    for name, dimensions in network.dimensions.items():
        for k, size in enumerate(dimensions or ()):
            if isinstance(size, str):
                sizes.setdefault(size, []).append((name, k))
    return sizes


def sizes_given(
    sizes: NamedSizes, shapes: Mapping[str, Sequence[int]]
) -> list[Condition]:
    """The conditions that open sizes are those of given shapes of inputs."""
    found = list[Condition]()
    for name, dimensions in sizes.items():
        for which, k in [
            pair for pair in dimensions if pair[1] < len(shapes.get(pair[0], ()))
        ][:1]:
            n = shapes[which][k]
            found.append(
                Condition(of="size", input=which, dim=k, expression=name, low=n, high=n)
            )
    return found


_FIELDS = {"values": ["input"], "size": ["input", "dim"], "sizes": ["expression"]}
"""The fields that a condition must have besides its ends."""

_OPTIONAL = {"values": "columns", "size": "expression", "sizes": "expression"}
"""The field that it may have too."""


def decoded(given: GivenContract) -> Contract:
    """A contract from a file or a plain dict, if it keeps the rules that need no model.

    Raises:
        FileFormatError: It does not; the message names the field.
    """
    check_type("contract", given, "a file or a plain dict", str, os.PathLike, Mapping)
    where = _named(given)
    with decoding(where, "docs/proof.md"):
        if isinstance(given, Mapping):
            text = _json_of(given)
        else:
            with open(given, "rb") as file:
                text = whole(file, LARGEST_CONTRACT)
            if text and (found := got(text, "a contract")):
                raise FileFormatError(
                    f"{where}: must be a contract of onnxgather audit{found}"
                )
        contract = msgspec.json.decode(text, type=Contract)
    for k, condition in enumerate(contract.conditions):
        _check_condition(f"{where}: $.conditions[{k}]", condition, contract.sizes)
    return contract


def _json_of(given: Mapping[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(dict(given))
    except TypeError as error:  # what JSON has not, such as a generator
        raise FileFormatError(f"{_named(given)}: $ must be plain: {error}") from None


def _named(given: GivenContract) -> str:
    return "the contract" if isinstance(given, Mapping) else os.fspath(given)


def _check_condition(where: str, condition: Condition, sizes: NamedSizes) -> None:
    """Check that a condition has its fields, ends in their order, and open sizes alone.

    Raises:
        FileFormatError: It does not.
    """
    needs, fields = _FIELDS[condition.of], ("input", "columns", "dim", "expression")
    got = [field for field in fields if getattr(condition, field) is not None]
    if not {*needs} <= {*got} <= {*needs, _OPTIONAL[condition.of]}:
        rule = f"must have {' and '.join(needs)} where of is {condition.of!r}"
        raise FileFormatError(f"{where} {rule}, got {', '.join(got) or 'none'}")
    ends = [end for end in (condition.low, condition.high) if end is not None]
    if not ends or ends[0] > ends[-1]:
        rule = "must have low, high, or both in their order"
        raise FileFormatError(
            f"{where} {rule}, got {condition.low} and {condition.high}"
        )
    try:
        size_from(expression_of(condition, sizes), dict.fromkeys(sizes, 1))
    except KeyError as error:
        found = shown_with_suggestion(error.args[0], sizes)
        raise FileFormatError(
            f"{where} must be of open sizes in $.sizes, got {found}"
        ) from None


def expression_of(condition: Condition, sizes: NamedSizes) -> str:
    """The expression of a condition on sizes; of one size, its name."""
    if condition.of == "size":
        one = (condition.input, condition.dim)
        names = (name for name, dimensions in sizes.items() if one in dimensions)
        return next(names, f"{condition.input}.{condition.dim}")
    return condition.expression or ""


def read_contract(given: GivenContract, network: Network) -> Contract:
    """A contract that is one of a model.

    Args:
        given: A file, or the plain dict.
        network: The model, with the sizes of its file.

    Raises:
        OnnxGatherError: The contract is of another model, or breaks a rule.
    """
    from onnxgather.core.model.network import check_input

    contract, where = decoded(given), _named(given)
    model = Contract.of(network, (), allow_empty=False)
    for field in ("digest", "sizes", "scalars"):
        own = getattr(model, field)
        if (found := getattr(contract, field)) != own:
            rule = f"must be that of {network.path}, {shown(own)}"
            raise FileFormatError(f"{where}: $.{field} {rule}, got {shown(found)}")
    for name in contract.shapes:
        check_input(
            f"{where}: $.shapes: {network.path}", network.main.inputs, name, "a shape"
        )
    for k, condition in enumerate(contract.conditions):
        at, name = f"{where}: $.conditions[{k}]", condition.input
        if name is not None:
            check_input(at, network.main.inputs, name, "a condition")
            *_, last = network.main.type_of(name).sizes or (None,)
            if (
                condition.columns
                and last is not None
                and max(condition.columns) >= last
            ):
                rule = f"must be below {last}, the last size of {shown(name)}"
                raise FileFormatError(
                    f"{at}.columns {rule}, got {max(condition.columns)}"
                )
    return contract


def check_inputs(contract: GivenContract, inputs: Mapping[str, Any]) -> None:
    """Check that the inputs of a model meet its contract.

    Args:
        contract: A file, or the plain dict that `audit.contract` is.
        inputs: The arrays by the names of the inputs.

    Raises:
        OnnxGatherError: They do not; the message names the input, the element and the condition.
        FileFormatError: The contract cannot be read, or breaks a rule.
    """
    told, numbers = decoded(contract), dict[str, int]()
    least = int(told.assumes == NOT_EMPTY)
    for name, dims in told.sizes.items():
        found = [_array(inputs, which, k + 1).shape[k] for which, k in dims]
        if not least <= min(found) == max(found) <= MOST_OF_INPUT:
            at = ", ".join(f"dimension {k} of {shown(which)}" for which, k in dims)
            rule = f"{_one_number(name, least)} ({at})"
            raise OnnxGatherError(f"{rule}, got {', '.join(map(str, found))}")
        numbers[name] = found[0]
    for name in told.scalars:
        if name in inputs and (sizes := _array(inputs, name).shape):
            rule = f"input {shown(name)} must have no dimension"
            raise OnnxGatherError(f"{rule}, got the shape {[*sizes]}")
    for name, sizes in told.shapes.items():
        if (found := [*_array(inputs, name).shape]) != sizes:
            rule = f"input {shown(name)} must have the shape {sizes}"
            raise OnnxGatherError(f"{rule}, got the shape {found}")
    for condition in told.conditions:
        if condition.of == "values":
            _check_values(condition, _array(inputs, condition.input or ""))
        else:
            expression = expression_of(condition, told.sizes)
            found = low_of(size_from(expression, numbers))
            if not condition.admits(found):
                rule = f"the inputs must meet {shown(str(condition))}"
                raise OnnxGatherError(f"{rule}, got {expression} = {found}")


def _one_number(name: str, least: int) -> str:
    """The rule that every proof assumes of an open size."""
    return f"the size {shown(name)} must be one number from {least} to {MOST_OF_INPUT}"


def _array(inputs: Mapping[str, Any], name: str, rank: int = 0) -> Array:
    """The array of an input, of at least so many dimensions."""
    if name not in inputs:
        rule = f"the inputs must hold {shown(name)}, which the contract names"
        raise OnnxGatherError(f"{rule}, got {shown([*inputs])}")
    array = plain_array(f"input {shown(name)} must be an array", inputs[name])
    if array.ndim < rank:
        rule = f"input {shown(name)} must have at least {rank} dimensions"
        raise OnnxGatherError(f"{rule}, got the shape {[*array.shape]}")
    return array


def _check_values(condition: Condition, array: Array) -> None:
    """Check the least and the greatest element, or those of columns of the last axis."""
    rule, columns = f"input {shown(condition.input)} must", condition.columns
    if array.dtype.kind not in "biuf":
        raise OnnxGatherError(f"{rule} hold numbers, got {array.dtype}")
    if columns and max(columns) >= (array.shape or (0,))[-1]:
        found = f"the shape {[*array.shape]}"
        raise OnnxGatherError(
            f"{rule} have a column {max(columns)} in its last axis, got {found}"
        )
    part = array if columns is None else array[..., [*columns]]
    for k in (part.argmin(), part.argmax()) if part.size else ():
        at, number = [*map(int, np.unravel_index(k, part.shape))], part.flat[k].item()
        if not condition.admits(number):
            place = [*at[:-1], columns[at[-1]]] if columns else at
            raise OnnxGatherError(
                f"{rule} meet {shown(str(condition))}, got {number} at {place}"
            )


def guard(contract: GivenContract) -> str:
    """A function of Python that checks inputs as `check_inputs` does, to be pasted.

    It takes the arrays by the names of the inputs, and raises an error unless they meet
    the contract; a ValueError names the condition.

    Raises:
        FileFormatError: The contract cannot be read, or breaks a rule.
    """
    told, counts = decoded(contract), dict[str, str]()
    lines, least = list[str](), int(told.assumes == NOT_EMPTY)

    def require(rule: str, said: str) -> None:
        lines.extend([f"if not ({rule}):", f"    raise ValueError({said!r})"])

    for name, dims in told.sizes.items():
        each = [f"inputs[{which!r}].shape[{k}]" for which, k in dims]
        require(
            f"{least} <= {' == '.join(each)} <= {MOST_OF_INPUT}",
            _one_number(name, least),
        )
        counts[name] = each[0]
    for name in told.scalars:
        rule = f"input {shown(name)} must have no dimension"
        require(f"{name!r} not in inputs or inputs[{name!r}].shape == ()", rule)
    for name, sizes in told.shapes.items():
        rule = f"input {shown(name)} must have the shape {sizes}"
        require(f"inputs[{name!r}].shape == {(*sizes,)}", rule)
    for condition in told.conditions:
        low = "" if condition.low is None else f"{condition.low} <= "
        high = "" if condition.high is None else f" <= {condition.high}"
        if condition.of == "values":
            columns = f"[..., {[*condition.columns]}]" if condition.columns else ""
            lines.append(f"x = inputs[{condition.input!r}]{columns}")
            ends = f"{low}x.min().item() <= x.max().item(){high}"
            require(f"x.size == 0 or {ends}", str(condition))
        else:
            parts = re.split(r"([\s*+-]+)", expression_of(condition, told.sizes))
            tested = "".join(counts.get(part, part) for part in parts)
            require(f"{low}{tested}{high}", str(condition))
    first = f"def check(inputs):  # arrays by name, for the model {told.digest!r}"
    return "\n    ".join([first, *lines, "return inputs"]) + "\n"
