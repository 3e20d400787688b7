"""The contract of a model as a Python function, which needs no onnxgather."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from onnxgather.auditing.algebra.sizes import MOST_OF_INPUT
from onnxgather.auditing.proof.contract import (
    INTEGER_KINDS,
    NUMBER_KINDS,
    NUMPY_TYPES,
    STRING_KINDS,
    Condition,
    Contract,
    GivenContract,
    decoded,
    expression_of,
    least_size,
    rule_of_column,
    rule_of_condition,
    rule_of_elements,
    rule_of_shape,
    rule_of_size,
    rule_of_type,
)

_START = f"""\
def array(name):
    if name not in inputs:
        raise ValueError(f"the contract needs input {{name!r}}, which is not given")
    x = inputs[name]
    # A scalar of numpy has no ctypes.
    if not hasattr(x, "ctypes") or hasattr(x, "mask"):
        raise ValueError(f"input {{name!r}} must be an array")
    # ONNX Runtime reads the bytes of numbers in the order of the machine.
    return x.view(x.dtype.newbyteorder("=")) if x.dtype.kind in "{NUMBER_KINDS}" else x

if not hasattr(inputs, "keys"):
    raise ValueError("inputs must be a mapping from names")"""
"""How the body of each guard starts (`quirks.BYTES_IN_OWN_ORDER`).

The inner function returns an input, and says in the sentences of `check_inputs` which
input is missing, or is no array.
"""


def guard(contract: GivenContract) -> str:
    """Return a Python function that checks inputs as `check_inputs` does, to be pasted.

    The function accepts the arrays by the names of the inputs, and returns them if they
    meet the contract. Else it raises a ValueError, which says the rule of the contract
    that `check_inputs` says.

    Raises:
        FileFormatError: The contract cannot be read, or breaks a rule.
    """
    rules = decoded(contract)
    size_texts = dict[str, str]()
    for name, dimensions in rules.sizes.items():
        # All dimensions of a size are the same number, which is checked before.
        input_name, dim = dimensions[0]
        size_texts[name] = f"inputs[{input_name!r}].shape[{dim}]"
    # `check_inputs` has the same order, so that both name the same rule.
    lines = [*_START.split("\n")]
    for name, shape in rules.shapes.items():
        tests = [f"array({name!r}).ndim == {len(shape)}"]
        for dim, size in enumerate(shape):
            if size is not None:
                tests.append(f"array({name!r}).shape[{dim}] == {size}")
        test = " and ".join(tests)
        # An input without a dimension may be missing: it may have a default.
        if not shape:
            test = f"{name!r} not in inputs or {test}"
        lines += _required(test, rule_of_shape(rules, name))
    for name, data_type in rules.types.items():
        dtype = f"array({name!r}).dtype"
        test = f"{dtype} == '{NUMPY_TYPES.get(data_type)}'"
        if data_type == "STRING":
            test = f"{dtype}.kind in '{STRING_KINDS}' and {dtype}.isnative"
        test = f"{name!r} not in inputs or {test}"
        lines += _required(test, rule_of_type(rules, name))
    lines += _lines_of_sizes(rules)
    for condition in rules.conditions:
        if condition.is_of_elements:
            lines += _lines_of_elements(rules, condition, size_texts)
            continue
        low, high = _ends(condition, size_texts)
        expression = expression_of(condition, rules.sizes)
        number = _in_python(expression, size_texts)
        lines += _required(f"{low}{number}{high}", rule_of_condition(condition))
    lines.append("return inputs")
    text = f"def check(inputs):  # arrays by name, for the model {rules.digest!r}\n"
    for line in lines:
        text += f"    {line}\n" if line else "\n"
    return text


def _required(test: str, rule: str) -> list[str]:
    """Return the lines that raise an error unless a test holds."""
    return [f"if not ({test}):", f"    raise ValueError({rule!r})"]


def _in_python(expression: str, size_texts: Mapping[str, str]) -> str:
    """Return an expression of open sizes as an expression of Python."""
    parts = re.split(r"([\s*+-]+)", expression)
    return "".join(size_texts.get(part, part) for part in parts)


def _lines_of_sizes(rules: Contract) -> Iterator[str]:
    """Yield the lines that check that each open size is one number of those allowed."""
    if rules.sizes:
        power = MOST_OF_INPUT.bit_length() - 1
        yield f"largest = 2**{power}  # of an open size, as proofs assume"
    least = least_size(rules)
    for name, dimensions in rules.sizes.items():
        numbers = [
            f"array({input_name!r}).shape[{dim}]" for input_name, dim in dimensions
        ]
        yield f"x = [{', '.join(numbers)}]"
        test = f"{least} <= min(x) == max(x) <= largest"
        yield from _required(test, rule_of_size(name, least))


def _lines_of_elements(
    rules: Contract, condition: Condition, size_texts: Mapping[str, str]
) -> Iterator[str]:
    """Yield the lines that check a condition on the elements of an input."""
    is_difference = condition.of == "difference"
    yield f"x = array({condition.input!r})"
    # An input in `types` is of a type of numbers, and was checked to have it.
    is_number = rules.types.get(condition.input or "") in NUMPY_TYPES
    if condition.needs_integers or not is_number:
        kinds = INTEGER_KINDS if condition.needs_integers else NUMBER_KINDS
        yield from _required(f"x.dtype.kind in '{kinds}'", rule_of_elements(condition))
    columns = [*(condition.columns or ())]
    if columns:
        test = f"x.ndim and x.shape[-1] > {max(columns)}"
        yield from _required(test, rule_of_column(condition))
        yield f"x = x[..., {columns}]"
    least = "x.min().item()"
    greatest = "x.max().item()"
    if is_difference:
        # Python's integers do not wrap around.
        yield "x = x.astype(object)"
        yield "x = x[..., :1] - x[..., 1:]"
        least = "x.min()"
        greatest = "x.max()"
    for number in condition.also or ():
        yield f"x = x[x != {number}]"
    low, high = _ends(condition, size_texts)
    # The least is compared with the greatest as that fails for NaN, even without ends.
    test = f"x.size == 0 or {low}{least} <= {greatest}{high}"
    yield from _required(test, rule_of_condition(condition))


def _ends(condition: Condition, size_texts: Mapping[str, str]) -> tuple[str, str]:
    """Return the ends of a condition as both sides of a comparison of Python.

    An end that is open is an empty text.
    """
    low = ""
    if condition.low_expression is not None:
        low = f"{_in_python(condition.low_expression, size_texts)} <= "
    elif condition.low is not None:
        low = f"{condition.low} <= "
    high = ""
    if condition.high_expression is not None:
        high = f" <= {_in_python(condition.high_expression, size_texts)}"
    elif condition.high is not None:
        high = f" <= {condition.high}"
    return low, high
