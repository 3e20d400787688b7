"""Makes the picture of an index out of range from a page of `onnxgather show`.

It needs Chromium: `python scripts/picture.py [CHROMIUM]`. The page is shown in part;
nothing is drawn into it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"

PICTURE = DOCS / "picture.png"

WIDTH, HEIGHT = 900, 230
"""The size of the window in pixels."""

LIGHT = 1
"""Chromium's number for a system that prefers light colours."""

PROGRAM = {
    "resources": {
        "table": {
            "initialValuesDataType": "FLOAT32",
            "initialValues": [10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33],
        },
        "ids": {"initialValuesDataType": "UINT32", "initialValues": [5, 2]},
        "rows": {
            "initialValuesDataType": "FLOAT32",
            "initialValues": {"value": 0, "valueCount": 6},
        },
    },
    "dispatchables": {
        "gather": {
            "type": "DML_OPERATOR_GATHER",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [3, 4]},
                "IndicesTensor": {"DataType": "UINT32", "Sizes": [1, 2]},
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3, 2]},
                "Axis": 1,
                "IndexDimensions": 1,
            },
        }
    },
    "commands": [
        {
            "type": "dispatch",
            "dispatchable": "gather",
            "bindings": {
                "InputTensor": "table",
                "IndicesTensor": "ids",
                "OutputTensor": "rows",
            },
        }
    ],
}
"""A program whose first index, 5, is past the four elements of its axis."""

PART = (
    "<style>header, h2, h2 ~ p { display: none } body { padding: 0 } main { margin: 0"
    " }</style>"
)
"""Leaves the picture of the gather at the head of the page."""


def make(chromium: str) -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder:
        program, page = Path(folder) / "program.json", Path(folder) / "page.html"
        program.write_text(json.dumps(PROGRAM), encoding="utf-8")
        show = [
            "onnxgather",
            "show",
            program,
            "--out-of-range",
            "directml",
            "--html",
            page,
        ]
        subprocess.run([sys.executable, "-m", *show], check=True)
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("</head>", f"{PART}</head>"), encoding="utf-8")
        command = [
            chromium,
            "--headless",
            "--no-sandbox",
            "--hide-scrollbars",
            f"--user-data-dir={folder}/profile",
            f"--window-size={WIDTH},{HEIGHT}",
            "--force-device-scale-factor=1.5",
            f"--blink-settings=preferredColorScheme={LIGHT}",
            f"--screenshot={PICTURE}",
            page.as_uri(),
        ]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


if __name__ == "__main__":
    make(*(sys.argv[1:] or ["chromium"]))
