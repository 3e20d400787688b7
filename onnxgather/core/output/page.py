"""HTML pages that load nothing: a template filled with texts, style, scripts and data.

All pages share a frame, a style sheet and scripts, which are in this folder. The
template of a page, and a script of its own, are at the path that `filled` accepts. The
scripts are modules of JavaScript; a page has its own and all that this imports, as one
module. They read the data of the page as JSON; what is only shown on demand is
compressed.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any

import msgspec

from onnxgather.core.descriptors.operators import Descriptor
from onnxgather.core.files import packaged_text
from onnxgather.core.lowering.graph import ONNX_TYPES
from onnxgather.core.lowering.show import Description, describe
from onnxgather.core.options import DEFAULT_OPSET, OutOfRange, Target

CHUNK = 32
"""The number of cases whose details are compressed together.

The page unpacks a chunk when the first of its cases is opened.
"""

_IMPORT = re.compile(r'^import \{[^}]*\} from "([^"]+)";\n', re.MULTILINE)
"""An import of a script."""

_GRAPH_FIELDS = ("target", "opset", "choice", "inputs", "constants", "nodes")
"""The fields of a description that a page shows of a graph."""

_TYPES = {number: data_type.name for data_type, number in ONNX_TYPES.items()}
"""The name of each ONNX data type, by its number."""


def filled_part(template: str, texts: Mapping[str, str]) -> str:
    """Return a part of a page, made from a template; see `filled`."""
    html = packaged_text(f"{template}.html")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: texts[match[1]], html)


def filled(template: str, texts: Mapping[str, str], data: Mapping[str, Any]) -> bytes:
    """Return a page, made from a template.

    Args:
        template: The path of the template below the package, without `.html`. The
            page's own script, a `.mjs` file, is beside it.
        texts: The texts that replace the names in the template.
        data: The data that the scripts read.
    """
    parts = {name: text.encode() for name, text in texts.items()}
    parts["style"] = packaged_text("core/output/page.css").encode()
    script = script_of(f"{template}.mjs")
    parts["script"] = script.encode()
    parts["allowed"] = script_source(script).encode()
    parts["data"] = _embedded({"chunk": CHUNK, "types": _TYPES, **data})
    # The data of a large report takes more memory than the page.
    del data
    content = packaged_text(f"{template}.html")
    frame = packaged_text("core/output/frame.html").replace("{{content}}", content)
    # All names are replaced in one pass: a name within a text or the data stays.
    return re.sub(
        rb"\{\{(\w+)\}\}", lambda match: parts[match[1].decode()], frame.encode()
    )


def script_source(script: str) -> str:
    """Return what allows a script in the content security policy of its page.

    All pages have such a policy. No other script runs in them, but what a page of
    `repro` loads: a runtime or a module of its folder.

    Args:
        script: All that stands between the tags of the script.
    """
    digest = base64.b64encode(sha256(script.encode()).digest())
    return f"'sha256-{digest.decode()}'"


def script_of(path: str) -> str:
    """Return a script of the package and all that it imports as one module.

    Each stands before those that import it. No two of them define one name, so that
    none needs its imports any more.
    """
    texts: dict[str, str] = {}
    _add_script(path, texts)
    return "".join(texts.values())


def _add_script(path: str, texts: dict[str, str]) -> None:
    """Add a script and what it imports to texts by their paths."""
    text = packaged_text(path)
    for name in _IMPORT.findall(text):
        imported = posixpath.normpath(f"{posixpath.dirname(path)}/{name}")
        if imported not in texts:
            _add_script(imported, texts)
    text = _IMPORT.sub("", text)
    texts[path] = re.sub("^export ", "", text, flags=re.MULTILINE)


def compressed(details: Iterable[Any]) -> Iterator[str]:
    """Yield details in chunks of `CHUNK`, each as JSON, by zlib, in base64."""
    remaining = iter(details)
    while True:
        chunk = list(islice(remaining, CHUNK))
        if not chunk:
            return
        yield packed(chunk)


def packed(value: Any) -> str:
    """Return a value as JSON, by zlib, in base64; `unpacked` in data.mjs reads it."""
    # A name that is not Unicode is escaped, so that the text is ASCII.
    encoder = json.JSONEncoder(separators=(",", ":"))
    compressor = zlib.compressobj(9)
    # The text of many cases is never whole in memory.
    content = bytearray()
    for text in encoder.iterencode(value):
        content += compressor.compress(text.encode())
    content += compressor.flush()
    return base64.b64encode(content).decode()


def described(
    desc: Descriptor, out_of_range: OutOfRange, targets: Sequence[Target]
) -> dict[str, Any]:
    """Return a descriptor as data of a page, with its formula and its graphs."""
    descriptions: list[Description] = []
    for target in targets:
        descriptions.append(describe(desc, out_of_range, target, DEFAULT_OPSET, 1))
    return facts_of(descriptions)


def facts_of(descriptions: Sequence[Description]) -> dict[str, Any]:
    """Return the data of a page about a descriptor.

    Args:
        descriptions: The descriptor described for each target that the page shows.
    """
    graphs: list[dict[str, Any]] = []
    for description in descriptions:
        graph: dict[str, Any] = {}
        for field in _GRAPH_FIELDS:
            graph[field] = msgspec.to_builtins(getattr(description, field))
        graphs.append(graph)
        if description.webnn is not None:
            graphs.append(msgspec.to_builtins(description.webnn))
    # What is not about a graph is the same for all targets.
    first = descriptions[0]
    return {
        "descriptor": first.descriptor,
        "level": first.feature_level,
        "formula": msgspec.to_builtins(first.formula),
        "graphs": graphs,
    }


def _embedded(data: Any) -> bytes:
    """Return data as JSON for a script element, which no text in the data can end."""
    try:
        text = msgspec.json.encode(data)
    except UnicodeEncodeError:
        # Case: a name that is not Unicode, which only the standard library escapes.
        text = json.dumps(msgspec.to_builtins(data)).encode()
    return text.replace(b"<", b"\\u003c")
