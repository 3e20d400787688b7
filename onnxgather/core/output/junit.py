"""JUnit XML: testcases, and the counts and escapes of a whole document.

Build servers show these documents. The attributes are those of the xUnit plugin's
junit-10.xsd.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET

from onnxgather.core.checks import printable

_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
"""The attributes that count the testcases with an element, and the element."""


def junit_document(root: ET.Element) -> bytes:
    """Return testsuites as a document in UTF-8, with the counts of their testcases."""
    for element in (root, *root):
        element.set("tests", _count(element, "testcase"))
        for attribute, tag in _COUNTED.items():
            # The schema has no such attribute of all testsuites.
            if element is root and attribute == "skipped":
                continue
            element.set(attribute, _count(element, tag))
    for element in root.iter():
        element.attrib = {name: printable(value) for name, value in element.items()}
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _count(element: ET.Element, tag: str) -> str:
    """Return the number of elements with a tag, as an attribute has it."""
    return str(sum(1 for _ in element.iter(tag)))


def add_testcase(
    suite: ET.Element, group: str, name: str, element: str, kind: str, lines: list[str]
) -> None:
    """Add a testcase to a testsuite.

    Args:
        suite: The testsuite.
        group: The classname of the testcase.
        name: The name of the testcase.
        element: failure, error or skipped; empty for a testcase that passes.
        kind: The type of that element: a state, invalid, unusable or interrupted.
        lines: The text of that element; its message is the first line.
    """
    testcase = ET.SubElement(suite, "testcase", {"classname": group, "name": name})
    if not element:
        return
    attributes = {"type": kind, "message": f"{kind}: {lines[0]}"}
    outcome = ET.SubElement(testcase, element, attributes)
    outcome.text = "\n".join(map(printable, lines))
