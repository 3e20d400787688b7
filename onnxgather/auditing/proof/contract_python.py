"""The contract of a model as a Python function, which needs no onnxgather."""

from __future__ import annotations

import re

from onnxgather.auditing.algebra.sizes import MOST_OF_INPUT
from onnxgather.auditing.proof.contract import (
    NUMPY_TYPES,
    GivenContract,
    decoded,
    expression_of,
    least_size,
    rule_of_integers,
    rule_of_scalar,
    rule_of_shape,
    rule_of_size,
    rule_of_type,
)


def guard(contract: GivenContract) -> str:
    """Return a Python function that checks inputs as `check_inputs` does, to be pasted.

    The function accepts the arrays by the names of the inputs. It raises an error
    unless they meet the contract; a ValueError names the condition.

    Raises:
        FileFormatError: The contract cannot be read, or breaks a rule.
    """
    rules = decoded(contract)
    least = least_size(rules)
    lines: list[str] = []

    def require(test: str, rule: str) -> None:
        lines.append(f"if not ({test}):")
        lines.append(f"    raise ValueError({rule!r})")

    if rules.sizes:
        power = MOST_OF_INPUT.bit_length() - 1
        lines.append(f"largest = 2**{power}  # of an open size, as proofs assume")
    size_expressions: dict[str, str] = {}
    for name, dimensions in rules.sizes.items():
        sizes = [
            f"inputs[{input_name!r}].shape[{dim}]" for input_name, dim in dimensions
        ]
        equal_sizes = " == ".join(sizes)
        test = f"{least} <= {equal_sizes} <= largest"
        require(test, rule_of_size(name, least))
        size_expressions[name] = sizes[0]
    for name in rules.scalars:
        test = f"{name!r} not in inputs or inputs[{name!r}].shape == ()"
        require(test, rule_of_scalar(name))
    for name, shape in rules.shapes.items():
        test = f"inputs[{name!r}].shape == {tuple(shape)}"
        require(test, rule_of_shape(name, shape))

    for name, data_type in rules.types.items():
        dtype = NUMPY_TYPES[data_type]
        test = f"{name!r} not in inputs or inputs[{name!r}].dtype == '{dtype}'"
        require(test, rule_of_type(rules, name))

    def number_of(expression: str) -> str:
        parts = re.split(r"([\s*+-]+)", expression)
        return "".join(size_expressions.get(part, part) for part in parts)

    for condition in rules.conditions:
        # An open end asks nothing.
        low = "" if condition.low is None else f"{condition.low} <= "
        high = "" if condition.high is None else f" <= {condition.high}"
        if condition.low_expression is not None:
            low = f"{number_of(condition.low_expression)} <= "
        if condition.high_expression is not None:
            high = f" <= {number_of(condition.high_expression)}"
        source = f"inputs[{condition.input!r}]"
        ends = f"{low}x.min().item() <= x.max().item(){high}"
        if condition.of == "difference":
            column, other = condition.columns or (0, 0)
            require(f"{source}.dtype.kind in 'biu'", rule_of_integers(condition))
            lines.append(f"x = {source}.astype(object)")
            lines.append(f"x = x[..., [{column}]] - x[..., [{other}]]")
            ends = f"{low}x.min() <= x.max(){high}"
        elif condition.of == "values":
            columns = f"[..., {[*condition.columns]}]" if condition.columns else ""
            lines.append(f"x = {source}{columns}")
        if condition.is_of_elements:
            require(f"x.size == 0 or {ends}", str(condition))
        else:
            expression = expression_of(condition, rules.sizes)
            require(f"{low}{number_of(expression)}{high}", str(condition))
    header = f"def check(inputs):  # arrays by name, for the model {rules.digest!r}"
    return "\n    ".join([header, *lines, "return inputs"]) + "\n"
