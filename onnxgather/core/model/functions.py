"""Functions of the domain of onnxgather's own operators, and the nodes that call them.

A node of this domain runs a kernel where onnxgather's library of operators is
registered, and the body of the function of its name anywhere else. The library knows
`MOST_FUNCTIONS` names of each operator.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import count
from typing import Any

from onnx import AttributeProto, FunctionProto, NodeProto, helper

from onnxgather.core.lowering.graph import NATIVE_DOMAIN

MOST_FUNCTIONS = 8
"""How many functions of one operator a model may have whose nodes the kernels run."""


def function_of(node: NodeProto, body: FunctionProto) -> FunctionProto:
    """The function that a node calls, named as the node's operator.

    The node gets an attribute whose name has the digest of the body, and the body a
    reference to it. So ONNX refuses a model where the node meets another body, as after
    a careless merge.

    Args:
        node: The node.
        body: A function without domain and name.
    """
    digest = (
        f"body_{sha256(body.SerializeToString(deterministic=True)).hexdigest()[:8]}"
    )
    node.attribute.append(helper.make_attribute(digest, 1))
    guard = helper.make_node(
        "Constant", [], [digest], doc_string="refuses a node of another body"
    )
    guard.attribute.append(
        AttributeProto(name="value_int", ref_attr_name=digest, type=AttributeProto.INT)
    )
    made = FunctionProto(
        domain=NATIVE_DOMAIN, name=node.op_type, attribute=[digest], node=[guard]
    )
    made.MergeFrom(body)
    return made


def add_function(node: NodeProto, function: FunctionProto, others: Any) -> None:
    """Add a function to others, with a name apart from theirs, which the node that calls it gets.

    The name is the first of GATHER, GATHER_2, GATHER_3, … that is free or means the
    same function, which is not added then.

    Args:
        node: The node.
        function: The function of `function_of`.
        others: The functions of the model that the two come into: a list, or the field of a model.
    """
    taken = {other.name: other for other in others if other.domain == NATIVE_DOMAIN}
    operator = node.op_type
    for number in count(1):
        function.name = node.op_type = (
            operator if number == 1 else f"{operator}_{number}"
        )
        known = taken.get(function.name)
        if known is None:
            others.append(function)
        if known in (None, function):
            return
