"""A page as a browser without a network gets it, taken apart."""

from __future__ import annotations

import base64
import json
import re
import zlib
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

HOSTILE = (
    "</script><script>alert(1)</script><!--'\"&\x00\x1b\udc80\u202e\u2028🦖{{data}}"
)

VOID = {"meta", "input"}
LOADING = {
    "src",
    "srcset",
    "href",
    "poster",
    "data",
    "action",
    "formaction",
    "background",
}


_CALLS = r"fetch\(|XMLHttp|WebSocket|import\s*\(|sendBeacon|innerHTML"


def addresses(text: str) -> set[str]:
    """The addresses in a text."""
    return set(re.findall(r"https?://[\w./]+", text))


class Page(HTMLParser):
    """A page taken apart: its texts by element, and whether its tags are balanced."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(page.decode())
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data)

    @property
    def policy(self) -> dict[str, list[str]]:
        """The content security policy: the sources that each directive allows."""
        (text,) = [
            value for _, value in self.attributes if value.startswith("default-src")
        ]
        directives = [each.split() for each in text.split(";")]
        return {name: sources for name, *sources in directives}

    @property
    def digests(self) -> list[str]:
        """The sources that would allow the scripts of the page; not its data."""
        scripts = self.texts["script"][1:]
        hashes = [sha256(script.encode()).digest() for script in scripts]
        return [f"'sha256-{base64.b64encode(each).decode()}'" for each in hashes]

    @property
    def loads(self) -> list[str]:
        """What loads something: attributes, and calls of the script."""
        loading = [name for name, _ in self.attributes if name in LOADING]
        return loading + re.findall(_CALLS, self.texts["script"][1])

    @property
    def asked(self) -> set[str]:
        """The identifiers of elements that the script asks for."""
        script = self.texts["script"][1]
        return set(re.findall(r'getElementById\("(\w+)"\)', script))

    @property
    def identifiers(self) -> set[str]:
        return {value for name, value in self.attributes if name == "id"}

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.texts["script"][0])

    @property
    def packed(self) -> dict[str, Any]:
        """The cases of the page of a check: rows, groups, and different results."""
        return json.loads(zlib.decompress(base64.b64decode(self.data["packed"])))

    @property
    def cases(self) -> list[dict[str, Any]]:
        """The cases of the page of a check, as its script reads them."""
        packed = self.packed
        cases: list[dict[str, Any]] = []
        for row in packed["cases"]:
            name, group, operator, data_type, index_type, policy, *flags = row[:8]
            cases.append(
                {
                    "name": name,
                    "group": packed["groups"][group],
                    "operator": operator,
                    "data_type": data_type,
                    "index_type": index_type,
                    "out_of_range": policy,
                    "in_range, wrapped": flags,
                    "origin": row[8],
                    "detail": row[9],
                    "results": [packed["results"][number] for number in row[-1]],
                }
            )
        return cases

    @property
    def details(self) -> list[dict[str, Any]]:
        chunks = [
            zlib.decompress(base64.b64decode(text)) for text in self.data["details"]
        ]
        return [detail for chunk in chunks for detail in json.loads(chunk)]
