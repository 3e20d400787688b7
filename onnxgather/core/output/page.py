"""Building blocks of page documents, which reports and audits share."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any

import msgspec

from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.lowering.graph import ONNX_TYPES
from onnxgather.core.lowering.show import Description, describe
from onnxgather.core.options import DEFAULT_OPSET, OutOfRange, Target

CHUNK = 32
"""Cases whose details are compressed together; the page unpacks a chunk when one is
opened."""


SCRIPTS = ("dom", "data", "graph", "grids", "picture", "details")
"""The scripts of every page, in this folder; a page has one of its own beside its
template."""


_SHOWN_OF_A_GRAPH = ("target", "opset", "choice", "inputs", "constants", "nodes")


_TYPES = {number: dtype.name for dtype, number in ONNX_TYPES.items()}


_built = msgspec.to_builtins


def filled_part(template: str, texts: Mapping[str, str]) -> str:
    """A part of a page made from a template; `template` and `texts` are as of `filled`."""
    return re.sub(
        r"\{\{(\w+)\}\}", lambda match: texts[match[1]], _resource(f"{template}.html")
    )


def filled(
    template: str,
    texts: Mapping[str, str],
    data: Mapping[str, Any],
    scripts: Sequence[str] = SCRIPTS,
) -> bytes:
    """A page made from a template.

    Args:
        template: The path of the template below the package, without `.html`; the page's own script
            stands beside it.
        texts: What stands where the template names a text.
        data: What the scripts read.
        scripts: The names of the scripts that run before the page's own.
    """
    parts = {name: text.encode() for name, text in texts.items()}
    parts["style"] = _resource("core/output/page.css").encode()
    paths = (*(f"core/output/{name}" for name in scripts), template)
    parts["script"] = "".join(_resource(f"{path}.js") for path in paths).encode()
    parts["data"] = _embedded({"chunk": CHUNK, "types": _TYPES, **data})
    # One pass, so that nothing put in is itself replaced.
    frame = _resource("core/output/frame.html").replace(
        "{{content}}", _resource(f"{template}.html")
    )
    return re.sub(
        rb"\{\{(\w+)\}\}", lambda match: parts[match[1].decode()], frame.encode()
    )


def compressed(details: Iterable[Any]) -> Iterator[str]:
    """Yield details, a chunk of them at a time: JSON, zlib, base64."""
    left = iter(details)
    while chunk := [*islice(left, CHUNK)]:
        text = json.dumps(chunk, separators=(",", ":"))
        yield base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def described(
    desc: Descriptor, out_of_range: OutOfRange, targets: Sequence[Target]
) -> dict[str, Any]:
    """A descriptor with its formula, and its graphs for some targets."""
    return facts_of(
        [describe(desc, out_of_range, t, DEFAULT_OPSET, 1) for t in targets]
    )


def facts_of(graphs: Sequence[Description]) -> dict[str, Any]:
    """What the page says of a descriptor that is described for one or more targets."""
    return {
        "descriptor": graphs[0].descriptor,
        "level": graphs[0].feature_level,
        "formula": _built(graphs[0].formula),
        "graphs": [
            {name: _built(getattr(graph, name)) for name in _SHOWN_OF_A_GRAPH}
            for graph in graphs
        ],
    }


def _embedded(data: Any) -> bytes:
    """JSON for a script element, which no text in it can end."""
    try:
        text = msgspec.json.encode(data)
    except UnicodeEncodeError:  # a name that is not Unicode
        text = json.dumps(_built(data)).encode()
    return text.replace(b"<", b"\\u003c")


@cache
def _resource(path: str) -> str:
    return files("onnxgather").joinpath(path).read_text(encoding="utf-8")
