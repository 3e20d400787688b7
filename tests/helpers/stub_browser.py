"""A stand-in for a browser: a script that opens the page as a browser does, and answers
for it.

Each model gives the output that `fake_browser` is told. `change` is Python that runs
before that; it may change `answer` and `content`.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from onnxgather.core.descriptors.arrays import Array

SCRIPT = r"""#!{python} -SE
import json, os, re, signal, sys, time, urllib.request
from urllib.request import Request, urlopen
with open({notes!r}, "a") as notes:
    profile = next(word.partition("=")[2] for word in sys.argv if "user-data-dir" in word)
    print(os.getpid(), profile, file=notes)
start = urlopen(sys.argv[-1]).read().decode()
address = re.search(r"url=(http[^\"]+)", start)[1]
page = urlopen(address).read().decode()
alive = urlopen(address + "alive")
def post(name, body, length=None):
    told = {{}} if length is None else {{"Content-Length": str(length)}}
    return urlopen(Request(address + name, body, told)).read()
while True:
    header, _, blobs = urlopen(address + "next").read().partition(b"\n")
    header = json.loads(header)
    content = {content!r}
    outputs = [[{data_type!r}, {shape!r}, 0] for _ in header.get("feeds", ())]
    answer = {{"placed": 1, "outputs": outputs}}
    if header.get("session", {{}}).get("provider") == "webnn":
        answer = {{"nodes": ["gather"], "outputs": outputs}}
    if "model" not in header:
        answer, content = {{"versions": {{"chromium": "1.2.3.4", "onnxruntime": "9.9.9"}}}}, b""
    elif header["feeds"]:
        {change}
    post("answer", json.dumps(answer).encode() + b"\n" + content)
"""  # noqa: E501


def fake_browser(folder: Path, output: Array, change: str = "pass") -> Path:
    """Make a folder of onnxruntime-web and a browser; return the path of the browser.

    The file `notes` in the folder gets a line for each start: the number of its
    process, and the folder of its profile.
    """
    dist = folder / "onnxgather/web/node_modules/onnxruntime-web/dist"
    dist.mkdir(parents=True, exist_ok=True)
    (folder / "onnxgather/web/chromium").mkdir(exist_ok=True)
    for name in ("ort.wasm.min.mjs", "ort.webgpu.min.mjs", "ort.all.min.mjs"):
        (dist / name).write_text("export {};\n", encoding="utf-8")
    told = {
        "python": sys.executable,
        "notes": str(folder / "notes"),
        "content": output.tobytes(),
        "data_type": output.dtype.name,
        "shape": list(output.shape),
        "change": textwrap.indent(change, " " * 8).strip(),
    }
    browser = folder / "browser"
    browser.write_text(SCRIPT.format(**told), encoding="utf-8")
    browser.chmod(0o755)
    return browser
