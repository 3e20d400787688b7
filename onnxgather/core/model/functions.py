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
    """Return the function that a node calls, named as the node's operator.

    The node gets an attribute whose name has the digest of the body, and the body a
    reference to it. So ONNX refuses a model where the node meets another body, as after
    a careless merge.

    Args:
        node: The node.
        body: A function without domain and name.
    """
    content = body.SerializeToString(deterministic=True)
    name = f"body_{sha256(content).hexdigest()[:8]}"
    node.attribute.append(helper.make_attribute(name, 1))
    # The Constant reads the node's attribute; nothing reads the Constant.
    why = "refuses a node of another body"
    guard = helper.make_node("Constant", [], [name], doc_string=why)
    reference = AttributeProto(
        name="value_int", ref_attr_name=name, type=AttributeProto.INT
    )
    guard.attribute.append(reference)
    function = FunctionProto(
        domain=NATIVE_DOMAIN, name=node.op_type, attribute=[name], node=[guard]
    )
    function.MergeFrom(body)
    return function


def add_function(node: NodeProto, function: FunctionProto, others: Any) -> None:
    """Add a function to others; give it and the node that calls it a name of its own.

    The name is the first of GATHER, GATHER_2, GATHER_3, … that is free or means the
    same function, which is not added then.

    Args:
        node: The node.
        function: The function of `function_of`.
        others: The functions of the model that the two come into: a list, or the field
            of a model.
    """
    taken = {other.name: other for other in others if other.domain == NATIVE_DOMAIN}
    operator = node.op_type
    for number in count(1):
        name = operator if number == 1 else f"{operator}_{number}"
        function.name = name
        node.op_type = name
        if name not in taken:
            others.append(function)
            return
        # With the name of the other function it is equal to it, if their bodies are.
        if taken[name] == function:
            return
