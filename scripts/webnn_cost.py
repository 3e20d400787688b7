"""What a gather from a large table costs in WebNN, beside onnxruntime-web's wasm.

`python scripts/webnn_cost.py` prints milliseconds for each way to give the table:

- as a constant of the graph, or an initializer of the model,
- as an input that stays on the device, or that each run gives anew.

It needs what `scripts/web/setup.sh` makes. Each figure is the least of several runs, in
the same browser; both have one page and the same indices. The outputs are compared.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar

import numpy as np
import onnx

import onnxgather as og
from onnxgather.core.execution.elsewhere.browser import (
    WITH_WEBNN,
    find_browser,
    start_browser,
)
from onnxgather.core.execution.elsewhere.hosts import web_folder, webnn_folder

ROWS = 32_000
COLUMNS = 4_096
INDICES = 512

PAGE = """<!doctype html><meta charset="utf-8"><script type="module">
const RUNS = 30;
const bytes = async (name) => new Uint8Array(await (await fetch(name)).arrayBuffer());
const took = async (work) => {
  const begun = performance.now();
  const value = await work();
  return [performance.now() - begun, value];
};
async function least(run) {
  let best = Infinity;
  for (let k = 0; k < RUNS; k += 1) best = Math.min(best, (await took(run))[0]);
  return best;
}
const figures = {};
try {
  const table = await bytes("table.bin");
  const indices = new BigInt64Array((await bytes("indices.bin")).buffer);
  const expected = await bytes("expected.bin");
  const check = (output) => {
    const { buffer, byteOffset, byteLength } = output;
    const actual = new Uint8Array(buffer, byteOffset, byteLength);
    const isRight = expected.every((byte, k) => byte === actual[k]);
    if (!isRight) throw new Error("an output has wrong bytes");
  };

  const ort = await import("./dist/ort.wasm.min.mjs");
  ort.env.wasm.numThreads = 1;
  const session = async (name) => ort.InferenceSession.create(await bytes(name));
  const wasm = async (opened, feeds) => (await opened.run(feeds)).OutputTensor.data;
  const places = new ort.Tensor("int64", indices, SHAPE);
  let opened = await session("constant.onnx");
  check(await wasm(opened, { IndicesTensor: places }));
  figures.wasm_constant = await least(() => wasm(opened, { IndicesTensor: places }));
  await opened.release();
  opened = await session("input.onnx");
  const Half = globalThis.Float16Array ?? Uint16Array;
  const halves = new Half(table.buffer);
  const given = new ort.Tensor("float16", halves, [ROWS, COLUMNS]);
  const feeds = { InputTensor: given, IndicesTensor: places };
  check(await wasm(opened, feeds));
  figures.wasm_input = await least(() => wasm(opened, feeds));
  await opened.release();

  const context = await navigator.ml.createContext({ deviceType: "cpu" });
  const program = await import("./gather.mjs");
  let built;
  const build = () => program.build(context, { InputTensor: table });
  [figures.webnn_build, built] = await took(build);
  check(await program.run(built, { IndicesTensor: indices }));
  const again = () => program.run(built, { IndicesTensor: indices });
  figures.webnn_constant = await least(again);
  built.graph.destroy();
  built = await program.build(context);
  const both = () => program.run(built, { InputTensor: table, IndicesTensor: indices });
  [figures.webnn_upload] = await took(both);
  check(await again());
  figures.webnn_input = await least(again);
  figures.browser = navigator.userAgent;
} catch (error) {
  figures.fault = String(error?.message ?? error);
}
await fetch("figures", { method: "POST", body: JSON.stringify(figures) });
</script>"""

LINES = {
    "wasm_constant": "onnxruntime-web wasm, table as an initializer",
    "webnn_constant": "WebNN, table as a constant",
    "wasm_input": "onnxruntime-web wasm, table as an input",
    "webnn_input": "WebNN, table as an input that stays",
    "webnn_build": "WebNN, build with the constant, once",
    "webnn_upload": "WebNN, first run with the input, which uploads it",
}

TYPES = {".mjs": "text/javascript", ".wasm": "application/wasm", "": "text/html"}


class Handler(BaseHTTPRequestHandler):
    """Serves the page and what it loads, and receives its figures."""

    files: ClassVar[dict[str, bytes]] = {}
    figures: ClassVar[SimpleQueue[dict[str, str | float]]] = SimpleQueue()

    def do_GET(self) -> None:
        """Send a file."""
        name = self.path.removeprefix("/")
        content = self.files.get(name)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        kind = TYPES.get(Path(name).suffix, "application/octet-stream")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        """Receive the figures."""
        size = int(self.headers["Content-Length"])
        self.figures.put(json.loads(self.rfile.read(size)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def files_of_page(rows: int) -> dict[str, bytes]:
    """Return what the page loads, for a table of some rows."""
    random = np.random.default_rng(2026)
    table = random.standard_normal((rows, COLUMNS), np.float32).astype(np.float16)
    indices = random.integers(0, rows, (1, INDICES))
    desc = og.GatherDesc(
        og.TensorDesc("FLOAT16", table.shape),
        og.TensorDesc("INT64", indices.shape),
        og.TensorDesc("FLOAT16", [INDICES, COLUMNS]),
        axis=0,
        index_dimensions=1,
    )
    model = og.to_onnx(desc, target="cpu")
    files = {"input.onnx": model.SerializeToString()}
    (given,) = (value for value in model.graph.input if value.name == "InputTensor")
    model.graph.input.remove(given)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "InputTensor"))
    files["constant.onnx"] = model.SerializeToString()
    files["gather.mjs"] = og.to_webnn(desc).to_javascript().encode()
    files["table.bin"] = table.tobytes()
    files["indices.bin"] = indices.tobytes()
    files["expected.bin"] = og.reference(desc, table, indices).tobytes()
    page = PAGE.replace("SHAPE", str(list(indices.shape)))
    page = page.replace("ROWS, COLUMNS", f"{rows}, {COLUMNS}")
    files[""] = page.encode()
    for path in (web_folder() / "dist").iterdir():
        if path.suffix in TYPES:
            files[f"dist/{path.name}"] = path.read_bytes()
    return files


def main() -> int:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the table")
    rows = parser.parse_args().rows
    Handler.files = files_of_page(rows)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/"
    path = find_browser(webnn_folder())
    start_browser(path, address, ["--no-sandbox", *WITH_WEBNN])
    begun = time.monotonic()
    figures = Handler.figures.get(timeout=500)
    if "fault" in figures:
        print(f"the page failed: {figures['fault']}")
        return 1
    print(f"{rows:,} x {COLUMNS:,} FLOAT16, {INDICES} indices, {figures['browser']}")
    for name, text in LINES.items():
        print(f"{figures[name]:10.2f} ms  {text}")
    ratio = float(figures["webnn_constant"]) / float(figures["wasm_constant"])
    print(f"{ratio:10.2f}     times wasm, both with the table inside")
    print(f"{time.monotonic() - begun:10.0f} s   in all")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
