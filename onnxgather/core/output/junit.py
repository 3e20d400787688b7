"""Building blocks of junit documents, which reports and audits share."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from onnxgather.core.checks import printable

_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def junit_document(root: ET.Element) -> bytes:
    """A document in UTF-8 of testsuites, which get the numbers of their testcases."""
    for element in (root, *root):
        element.set("tests", str(sum(1 for _ in element.iter("testcase"))))
        for attribute, tag in _COUNTED.items():
            if (element, attribute) != (root, "skipped"):  # the schema has none there
                element.set(attribute, str(sum(1 for _ in element.iter(tag))))
    for element in root.iter():
        element.attrib = {name: printable(value) for name, value in element.items()}
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def add_testcase(
    suite: ET.Element, group: str, name: str, element: str, kind: str, lines: list[str]
) -> None:
    """Add a testcase.

    Args:
        suite: The testsuite.
        group: The classname of the testcase.
        name: The name of the testcase.
        element: failure, error or skipped; empty for a testcase that passes.
        kind: The type of that element: a state, invalid, unusable or interrupted.
        lines: The text of that element; its message is the first line.
    """
    testcase = ET.SubElement(suite, "testcase", {"classname": group, "name": name})
    if element:
        attributes = {"type": kind, "message": f"{kind}: {lines[0]}"}
        ET.SubElement(testcase, element, attributes).text = "\n".join(
            map(printable, lines)
        )
