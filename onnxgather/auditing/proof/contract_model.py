"""The contract of a model as an ONNX model, which any runtime checks inputs with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from onnx import helper, numpy_helper

from onnxgather.auditing.algebra.sizes import MOST_OF_INPUT, terms_in
from onnxgather.auditing.proof.contract import (
    NUMPY_TYPES,
    Condition,
    Contract,
    GivenContract,
    expression_of,
    least_size,
    read_contract,
    rule_of_shape,
    rule_of_size,
)
from onnxgather.core.checks import shown
from onnxgather.core.descriptors.arrays import Array
from onnxgather.core.errors import OnnxGatherError
from onnxgather.core.lowering.graph import new_name
from onnxgather.core.model.network import Network, read_network
from onnxgather.core.model.values import NUMBERS
from onnxgather.core.model.wire import whole_tensor
from onnxgather.core.public import public
from onnxgather.core.version import __version__

OK = "ok"
"""The output that says whether all rules hold."""

BROKEN = "broken"
"""The output with the numbers of the rules that do not hold."""

GUARD_OPSET = 18
"""The version of ONNX's operators in a guard."""

_IR_VERSION = 8
"""The IR version of ONNX 1.13, which has this opset."""

_NAMES = {np.int64: "INT64", np.float32: "FLOAT", np.float64: "DOUBLE"}
"""ONNX's names of the data types in which values are compared."""

_LIMITED_BY_ANY_NUMBER = (
    *("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32"),
)
"""The data types whose values are INT64, so that a larger number is beyond each."""

_PLACE = 2**28
"""What a digit of a large number counts, relative to the digit before it: no open size
is larger, so the product of a size and a digit is INT64."""

_LARGEST_PLAIN = 2**62
"""The largest number that INT64 computes: differences of two such numbers fit too."""


@public
def contract_model(
    contract: GivenContract, model: str | os.PathLike[str] | onnx.ModelProto
) -> onnx.ModelProto:
    """Return a contract as an ONNX model, the guard of the contract's model.

    Its inputs are the inputs of the model that the contract speaks of, with the same
    names and data types. Its outputs are `ok`, a BOOL, and `broken`, INT64 numbers of
    the rules that do not hold. First come the numbers of the conditions, in their order
    from 0, then those of the sizes, and of the shapes that have a number or are empty.
    The property `rule.N` of the model is rule N as a sentence.

    Args:
        contract: A file, or a plain dict such as `audit.contract`.
        model: The model of the contract, a file or the model itself.

    Raises:
        OnnxGatherError: The contract is of another model, or has a condition that no
            guard can compute.
        FileFormatError: The contract cannot be read, or breaks a rule.

    Example:
        >>> path = "models/networks/keywords.onnx"
        >>> guard = og.contract_model(og.audit(path).contract, path)
        >>> ok, broken = og.Session(guard).run({"words": np.array([[3, 99]], np.int64)})
        >>> ok, [guard.metadata_props[1 + number].value for number in broken]
        (array(False), ['each value of words is from -32 to 31'])
    """
    return guard_model(contract, read_network(model))


def guard_model(contract: GivenContract, network: Network) -> onnx.ModelProto:
    """Return the guard of a model that is read, as `contract_model` does."""
    rules = read_contract(contract, network)
    return _Guard(network, rules).model()


class GuardNodes(Struct):
    """Nodes and constants, each of which is there once."""

    taken: set[str]
    """The names that are taken."""
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    _names: dict[object, str] = {}
    """The name of each constant and of the output of each node, by its content."""

    def add(self, operator: str, *operands: str | int, **attributes: Any) -> str:
        """Add a node, unless there is the same node; return the name of its output.

        An integer stands for a constant that holds it alone.
        """
        inputs = [
            self.integers(operand) if isinstance(operand, int) else operand
            for operand in operands
        ]
        key = (operator, *inputs, *attributes.items())
        if key not in self._names:
            # Names are short, as they are most of a guard's bytes.
            name = new_name(f"v{len(self._names)}", self.taken)
            node = helper.make_node(operator, inputs, [name], **attributes)
            self.nodes.append(node)
            self._names[key] = name
        return self._names[key]

    def constant(self, array: Array) -> str:
        """Add a constant, unless there is the same constant; return its name."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._names:
            name = new_name(f"c{len(self._names)}", self.taken)
            self.constants.append(numpy_helper.from_array(array, name))
            self._names[key] = name
        return self._names[key]

    def integers(self, *numbers: int) -> str:
        """Return a row of INT64 numbers."""
        return self.constant(np.array(numbers, np.int64))

    def every(self, values: Sequence[str]) -> str:
        """Return whether all of some BOOL values are true, element by element."""
        if not values:
            return self.constant(np.array([True]))
        first, *others = values
        for value in others:
            first = self.add("And", first, value)
        return first

    def either(self, condition: str, value: str, other: str) -> str:
        """Return one of two BOOL values (`quirks.WHERE_OF_TRUTHS`)."""
        chosen = self.add("And", condition, value)
        passed = self.add("And", self.add("Not", condition), other)
        return self.add("Or", chosen, passed)

    def cast(self, value: str, dtype: type[np.generic]) -> str:
        """Return a value in another data type."""
        number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return self.add("Cast", value, to=number)

    def write(self, graph: onnx.GraphProto, outputs: Mapping[str, str]) -> None:
        """Write the nodes and the constants into a graph.

        Args:
            graph: The graph.
            outputs: The values that are outputs, by their names as outputs.
        """
        for output, value in outputs.items():
            node = helper.make_node("Identity", [value], [output])
            self.nodes.append(node)
        graph.node.extend(self.nodes)
        graph.initializer.extend(self.constants)


class _Numbers(Struct):
    """The numbers that expressions of open sizes are, computed by nodes.

    Each number is a row of one INT64 element.
    """

    _nodes: GuardNodes
    _sizes: Mapping[str, str]
    """The values that open sizes are, by their names."""

    def largest(self, expression: str) -> int:
        """Return a number that no part of an expression is above or below."""
        total = 0
        for _, count, names in self._terms(expression):
            total += count * MOST_OF_INPUT ** len(names)
        return total

    def number(self, expression: str) -> str:
        """Return the number of an expression that INT64 has."""
        nodes = self._nodes
        total = ""
        for sign, count, names in self._terms(expression):
            factors = [self._sizes[name] for name in names]
            if count != 1 or not names:
                factors.append(nodes.integers(count))
            term, *others = factors
            for factor in others:
                term = nodes.add("Mul", term, factor)
            if not total:
                total = nodes.add("Neg", term) if sign < 0 else term
            else:
                total = nodes.add("Sub" if sign < 0 else "Add", total, term)
        return total or nodes.integers(0)

    def is_within(self, expression: str, low: int | None, high: int | None) -> str:
        """Return whether the number of an expression is between two ends."""
        nodes = self._nodes
        checks: list[str] = []
        if self.largest(expression) <= _LARGEST_PLAIN:
            number = self.number(expression)
            if low is not None:
                checks.append(nodes.add("GreaterOrEqual", number, low))
            if high is not None:
                checks.append(nodes.add("LessOrEqual", number, high))
            return nodes.every(checks)

        # INT64 has no room for the number, so its digits are computed.
        if low is not None:
            checks.append(self._is_at_least(expression, low, 1))
        if high is not None:
            checks.append(self._is_at_least(expression, high, -1))
        return nodes.every(checks)

    def _terms(self, expression: str) -> list[tuple[int, int, list[str]]]:
        """Return the sign, the count and the names of each product of an expression."""
        terms: list[tuple[int, int, list[str]]] = []
        for sign, product in terms_in(expression):
            count = 1
            names: list[str] = []
            for factor in product.split("*"):
                if factor.isdecimal():
                    count *= int(factor)
                else:
                    names.append(factor)
            terms.append((-1 if sign == "-" else 1, count, names))
        return terms

    def _is_at_least(self, expression: str, end: int, direction: int) -> str:
        """Return whether a number, minus an end, is at least 0, of any size.

        Args:
            expression: The expression of the number.
            end: The end.
            direction: 1, or -1 for whether the difference is at most 0.
        """
        nodes = self._nodes
        base = nodes.integers(_PLACE)
        places: list[str] = []
        end_sign = 1 if end < 0 else -1
        for sign, count, names in [
            *self._terms(expression),
            (end_sign, abs(end), []),
        ]:
            # Each digit is below `_PLACE`, and the last counts most.
            digits: list[str] = []
            while count or not digits:
                count, digit = divmod(count, _PLACE)
                digits.append(nodes.integers(digit))
            for name in names:
                carried = nodes.integers(0)
                product: list[str] = []
                for digit in digits:
                    total = nodes.add("Mul", digit, self._sizes[name])
                    total = nodes.add("Add", total, carried)
                    product.append(nodes.add("Mod", total, base))
                    carried = nodes.add("Div", total, base)
                digits = [*product, carried]
            operator = "Add" if sign == direction else "Sub"
            for place, digit in enumerate(digits):
                if place == len(places):
                    places.append(nodes.integers(0))
                places[place] = nodes.add(operator, places[place], digit)

        # What is carried out of the last place is below 0 if the number is.
        carried = nodes.integers(0)
        for place in places:
            total = nodes.add("Add", place, carried)
            rest = nodes.add("Mod", total, base)
            carried = nodes.add("Div", nodes.add("Sub", total, rest), base)
        return nodes.add("GreaterOrEqual", carried, 0)


class _Guard:
    """The guard of a model while it is built."""

    def __init__(self, network: Network, rules: Contract) -> None:
        """Keep the model and its contract, and add the sizes of inputs."""
        self._network = network
        self._rules = rules
        self._inputs = self._inputs_of_rules()
        self._nodes = GuardNodes({OK, BROKEN, *self._inputs})
        self._places = dict[str, list[str]]()
        for name, dimensions in rules.sizes.items():
            self._places[name] = [
                self._nodes.add("Shape", input_name, start=dim, end=dim + 1)
                for input_name, dim in dimensions
            ]
        first_places = {name: places[0] for name, places in self._places.items()}
        self._numbers = _Numbers(self._nodes, first_places)

    def model(self) -> onnx.ModelProto:
        """Return the guard as a model."""
        checks, sentences = self._checks()
        nodes = self._nodes
        if checks:
            every = nodes.add("Concat", *checks, axis=0)
            places = nodes.add("NonZero", nodes.add("Not", every))
            broken = nodes.add("Reshape", places, -1)
        else:
            broken = nodes.integers()
        count = nodes.add("Size", broken)
        ok = nodes.add("Equal", count, nodes.constant(np.array(0, np.int64)))

        graph = onnx.GraphProto(name="guard")
        graph.doc_string = (
            "ok: the inputs meet the contract. broken: the numbers of the rules that"
            " they break; the property rule.N is rule N."
        )
        # An input has the rank that the model gives it, and all sizes are open. One
        # without a dimension has the default of the model, unless a condition is of it.
        main = self._network.main
        conditioned = {condition.input for condition in self._rules.conditions}
        for name in self._inputs:
            data_type, sizes = main.types[name]
            tensor = graph.input.add(name=name).type.tensor_type
            tensor.elem_type = NUMBERS[data_type]
            if sizes is not None:
                tensor.shape.SetInParent()  # a scalar has a shape without sizes
            for _ in sizes or ():
                tensor.shape.dim.add()
            if name in main.defaults and sizes == () and name not in conditioned:
                graph.initializer.add().CopyFrom(whole_tensor(main.defaults[name]))
        nodes.write(graph, {OK: ok, BROKEN: broken})
        graph.output.add().CopyFrom(
            helper.make_tensor_value_info(OK, onnx.TensorProto.BOOL, [])
        )
        graph.output.add().CopyFrom(
            helper.make_tensor_value_info(BROKEN, onnx.TensorProto.INT64, [None])
        )
        model = onnx.ModelProto(
            ir_version=_IR_VERSION,
            producer_name="onnxgather",
            producer_version=__version__,
            graph=graph,
        )
        model.opset_import.add(version=GUARD_OPSET)
        model.metadata_props.add(key="model", value=self._rules.digest)
        for number, sentence in enumerate(sentences):
            model.metadata_props.add(key=f"rule.{number}", value=sentence)
        return model

    def _inputs_of_rules(self) -> list[str]:
        """Return the inputs that the contract speaks of, in the order of the model.

        Raises:
            OnnxGatherError: An input has the name of an output of the guard, or no data
                type of ONNX.
        """
        rules = self._rules
        named = {*rules.shapes, *(condition.input for condition in rules.conditions)}
        for name in (OK, BROKEN):
            if name in named:
                rule = "an input must not have the name of an output of the guard"
                where = self._network.path
                raise OnnxGatherError(f"{where}: {rule}, got {shown(name)}")
        inputs = [name for name in self._network.main.inputs if name in named]
        for name in inputs:
            data_type = self._network.main.types[name].data_type
            if data_type not in NUMBERS:
                rule = f"input {shown(name)} must have a data type of ONNX"
                got = shown(data_type)
                raise OnnxGatherError(f"{self._network.path}: {rule}, got {got}")
        return inputs

    def _checks(self) -> tuple[list[str], list[str]]:
        """Return whether each rule holds, a BOOL of one element, and its sentence."""
        rules = self._rules
        checks = [
            self._check_of_condition(number, condition)
            for number, condition in enumerate(rules.conditions)
        ]
        sentences = list(map(str, rules.conditions))
        least = least_size(rules)
        for name, places in self._places.items():
            checks.append(self._check_of_size(places, least))
            sentences.append(rule_of_size(name, least))
        for name, shape in rules.shapes.items():
            # The rank of the guard's input says all of a shape of open sizes.
            if shape and all(size is None for size in shape):
                continue
            checks.append(self._check_of_shape(name, shape))
            sentences.append(rule_of_shape(rules, name))
        return checks, sentences

    def _check_of_size(self, places: Sequence[str], least: int) -> str:
        """Return whether the dimensions of an open size are one number in its ends."""
        nodes = self._nodes
        first, *others = places
        checks = [
            nodes.add("GreaterOrEqual", first, least),
            nodes.add("LessOrEqual", first, MOST_OF_INPUT),
        ]
        checks += [nodes.add("Equal", first, other) for other in others]
        return nodes.every(checks)

    def _check_of_shape(self, name: str, shape: Sequence[int | None]) -> str:
        """Return whether an input of any rank has a shape; None is any size."""
        nodes = self._nodes
        sizes = self._sizes_of(name)
        checks = [nodes.add("Equal", nodes.add("Shape", sizes), len(shape))]
        for dim, size in enumerate(shape):
            if size is not None:
                own_size = self._size_or_zero(sizes, dim, dim + 1)
                checks.append(nodes.add("Equal", own_size, size))
        return nodes.every(checks)

    def _sizes_of(self, name: str) -> str:
        """Return the shape of an input, as a row of numbers."""
        start = 0 if self._network.main.types[name].sizes else 1
        return self._nodes.add("Shape", self._ranked(name), start=start)

    def _ranked(self, name: str) -> str:
        """Return an input, with an axis before its own if it may have none."""
        nodes = self._nodes
        data_type, sizes = self._network.main.types[name]
        if sizes:
            return name
        axis = nodes.integers(0)
        if sizes == ():
            # `quirks.SCALARS_OF_ANY_SHAPE`, but `quirks.DECLARED_SIZES`: optimizations
            # do not know that this number is always 0.
            if data_type == "STRING":
                count = nodes.add("Shape", nodes.add("Unique", name))
                axis = nodes.add("Mul", count, axis)
            else:
                truth = nodes.cast(name, np.bool_)
                never = nodes.add("And", truth, nodes.add("Not", truth))
                count = nodes.add("ReduceSum", nodes.cast(never, np.int64), keepdims=0)
                axis = nodes.add("Reshape", count, 1)
        return nodes.add("Unsqueeze", name, axis)

    def _size_or_zero(self, sizes: str, start: int, end: int) -> str:
        """Return a number of a row of sizes; 0 if the row has no such number."""
        nodes = self._nodes
        axis = nodes.integers(0)
        size = nodes.add("Slice", sizes, start, end, axis)
        return nodes.add("ReduceSum", size, axis, keepdims=1)

    def _check_of_condition(self, number: int, condition: Condition) -> str:
        """Return whether a condition holds.

        Raises:
            OnnxGatherError: No guard can compute it.
        """
        if not condition.is_of_elements:
            expression = expression_of(condition, self._rules.sizes)
            return self._numbers.is_within(expression, condition.low, condition.high)

        nodes = self._nodes
        name = condition.input or ""
        where = f"the contract: $.conditions[{number}]"
        values = self._values_of(where, condition)
        checks: list[str] = []
        ranked = self._ranked(name)
        parts = [ranked]
        if condition.columns is not None:
            parts = [self._column(ranked, column) for column in condition.columns]
            last_size = self._size_or_zero(self._sizes_of(name), -1, 2**31)
            checks.append(nodes.add("Greater", last_size, max(condition.columns)))
        if condition.of == "difference":
            column, other = parts
            checks.append(self._all(values.difference(column, other)))
        else:
            checks += [self._all(values.within(part)) for part in parts]
        return nodes.every(checks)

    def _values_of(self, where: str, condition: Condition) -> _Values:
        """Return what compares the values of the input of a condition.

        Raises:
            OnnxGatherError: No guard can compute the condition.
        """
        name = condition.input or ""
        data_type = self._network.main.types[name].data_type
        is_number = data_type in NUMPY_TYPES
        is_float = is_number and NUMPY_TYPES[data_type].kind == "f"
        if not is_number or (condition.needs_integers and is_float):
            noun = "integers" if condition.needs_integers else "numbers"
            rule = f"must be of an input of {noun}"
            raise OnnxGatherError(f"{where} {rule}, got {data_type} {shown(name)}")

        expressions = [condition.low_expression, condition.high_expression]
        for expression in expressions:
            if expression is None or data_type in _LIMITED_BY_ANY_NUMBER:
                continue
            if self._numbers.largest(expression) > _LARGEST_PLAIN:
                rule = f"must have ends from -2^62 to 2^62 for {data_type}"
                raise OnnxGatherError(f"{where} {rule}, got {expression}")
        return _Values(self._nodes, self._numbers, condition, data_type)

    def _column(self, value: str, column: int) -> str:
        """Return a column of the last axis of a value; it is empty if it is missing."""
        return self._nodes.add("Slice", value, column, column + 1, -1)

    def _all(self, holds: str) -> str:
        """Return whether all elements of a BOOL value are true; so they are of none."""
        nodes = self._nodes
        faults = nodes.cast(nodes.add("Not", holds), np.int64)
        count = nodes.add("ReduceSum", faults, keepdims=0)
        return nodes.add("Equal", count, 0)


class _Values:
    """The comparisons of the values of an input with the ends of a condition."""

    def __init__(
        self, nodes: GuardNodes, numbers: _Numbers, condition: Condition, data_type: str
    ) -> None:
        """Keep the arguments.

        Args:
            nodes: The nodes of the guard.
            numbers: What expressions are.
            condition: The condition.
            data_type: ONNX's name of the input's data type.
        """
        self._nodes = nodes
        self._numbers = numbers
        self._condition = condition
        self._data_type = data_type
        expressions = [condition.low_expression, condition.high_expression]
        self._dtype: type[np.int64 | np.float32 | np.float64] = np.int64
        if NUMPY_TYPES[data_type].kind == "f":
            is_plain = data_type != "DOUBLE" and expressions == [None, None]
            self._dtype = np.float32 if is_plain else np.float64

    def within(self, value: str) -> str:
        """Return whether each element is between the ends, and is not NaN."""
        nodes = self._nodes
        compared = value
        if self._data_type != _NAMES[self._dtype]:
            compared = nodes.cast(value, self._dtype)
        checks = [self._within(compared, end) for end in self._ends()]
        if self._data_type == "UINT64":
            # INT64 is negative for what is from 2^63, which is above any end.
            is_above = nodes.add("Less", compared, 0)
            is_not_above = nodes.add("Not", is_above)
            for number, end in enumerate(self._ends()):
                operator = "Or" if end == "low" else "And"
                other = is_above if end == "low" else is_not_above
                checks[number] = nodes.add(operator, checks[number], other)
        if self._dtype is not np.int64:
            # For OpenVINO, NaN is at least any number.
            checks.append(nodes.add("Not", nodes.add("IsNaN", compared)))
        holds = nodes.every(checks) if checks else nodes.add("Equal", value, value)
        for number in self._condition.also or ():
            # INT64 is negative for large elements of UINT64.
            if number >= 0 or self._data_type != "UINT64":
                is_number = nodes.add("Equal", compared, number)
                holds = nodes.add("Or", holds, is_number)
        return holds

    def difference(self, value: str, other: str) -> str:
        """Return whether each difference of two elements is between the ends."""
        nodes = self._nodes
        sides = [value, other]
        if self._data_type != "INT64":
            sides = [nodes.cast(side, np.int64) for side in sides]
        if self._data_type == "UINT64":
            # All numbers are moved by 2^63, so that INT64 has them in their order.
            sides = [nodes.add("Add", side, -(2**63)) for side in sides]
        difference = nodes.add("Sub", *sides)
        checks = {end: self._within(difference, end) for end in self._ends()}
        # A difference that INT64 has not wraps around, to the other sign. OpenVINO
        # computes INT64 as INT32, so this may be so of each data type.
        first, second = [nodes.add("Less", side, 0) for side in sides]
        wrapped_sign = nodes.add("Less", difference, 0)
        differ = nodes.add("Xor", first, second)
        wraps = nodes.add("And", differ, nodes.add("Xor", first, wrapped_sign))
        for end, check in checks.items():
            # Such a difference has the sign of its first number.
            holds = first if end == "high" else second
            checks[end] = nodes.either(wraps, holds, check)
        return nodes.every([*checks.values()])

    def _ends(self) -> list[str]:
        """Return which ends the condition has."""
        condition = self._condition
        ends: list[str] = []
        if (condition.low, condition.low_expression) != (None, None):
            ends.append("low")
        if (condition.high, condition.high_expression) != (None, None):
            ends.append("high")
        return ends

    def _within(self, value: str, end: str) -> str:
        """Return whether each element is not beyond an end."""
        nodes = self._nodes
        operator = "GreaterOrEqual" if end == "low" else "LessOrEqual"
        expression = getattr(self._condition, f"{end}_expression")
        if expression is None:
            return nodes.add(operator, value, self._constant_end(end))

        number = self._numbers.number(expression)
        if self._dtype is not np.int64:
            rounded = nodes.cast(number, np.float64)
            operator = "Greater" if end == "low" else "Less"
            is_inside = nodes.add(operator, value, rounded)
            # Case: the element is the number as FLOAT64 rounds it, to either side.
            is_rounded = nodes.add("Equal", value, rounded)
            back = nodes.cast(rounded, np.int64)
            holds = nodes.add(f"{operator}OrEqual", back, number)
            return nodes.add("Or", is_inside, nodes.add("And", is_rounded, holds))
        holds = nodes.add(operator, value, number)
        if self._numbers.largest(expression) <= _LARGEST_PLAIN:
            return holds
        # The number is INT64 only if it is so large; else it is beyond each element.
        fits = self._numbers.is_within(expression, -(2**63), 2**63 - 1)
        is_positive = self._numbers.is_within(expression, 0, None)
        beyond = is_positive if end == "high" else nodes.add("Not", is_positive)
        return nodes.either(fits, holds, beyond)

    def _constant_end(self, end: str) -> str:
        """Return an end in the data type of the comparison, rounded to the inside."""
        number: int = getattr(self._condition, end)
        rounded = self._dtype(number)
        is_low = end == "low"
        is_outside = int(rounded) < number if is_low else int(rounded) > number
        if is_outside:
            inside = self._dtype(np.inf if is_low else -np.inf)
            rounded = np.nextafter(rounded, inside)
        return self._nodes.constant(np.array([rounded], self._dtype))
