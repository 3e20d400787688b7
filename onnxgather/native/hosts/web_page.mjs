// The page behind a web lane: it asks onnxgather/core/execution/elsewhere/browser.py for requests, runs them with
// onnxruntime-web, or as programs of WebNN, and sends the answers of `runtime.answer`. A request and an answer are a
// line of JSON and the bytes of arrays.
import { closeProgram, openProgram, runProgram } from "./webnn_programs.mjs";

const { library, sandbox } = document.documentElement.dataset;

// What ONNX Runtime logs. The glue of the WebAssembly module takes these functions when it loads.
const said = [];
for (const level of ["log", "info", "warn", "error", "debug"]) {
  console[level] = (...words) => said.push(words.join(" "));
}

const WAYS = {
  CPUExecutionProvider: "wasm",
  WebGpuExecutionProvider: "webgpu",
  WebNNExecutionProvider: { name: "webnn", deviceType: "cpu" },
};
const ARRAYS = {
  float64: Float64Array,
  float32: Float32Array,
  float16: globalThis.Float16Array ?? Uint16Array,
  int64: BigInt64Array,
  int32: Int32Array,
  int16: Int16Array,
  int8: Int8Array,
  uint64: BigUint64Array,
  uint32: Uint32Array,
  uint16: Uint16Array,
  uint8: Uint8Array,
  bool: Uint8Array,
};
const LONGEST_MESSAGE = 10_000;
const FALLBACK = "assigned to the default CPU EP";
const PLACER = "VerifyEachNodeIsAssignedToAnEp]";

class NoSession extends Error {
  constructor(answer) {
    super();
    this.answer = answer;
  }
}

function line(error) {
  const text = String(error?.message ?? error);
  return text.split(/\s+/).filter(Boolean).join(" ").slice(0, LONGEST_MESSAGE);
}

const send = (name, body) => fetch(name, { method: "POST", body });

// Has the program end, and the browser with it: what comes after would fail for no reason of its own.
async function end(why) {
  await send("broken", why);
  await new Promise(() => {});
}

let loading;
function load() {
  loading ??= import(`./dist/${library}`).then((ort) => {
    ort.env.wasm.numThreads = 1;
    ort.env.wasm.wasmPaths = new URL("dist/", location.href).href;
    return ort;
  });
  return loading;
}

async function environment() {
  const known = { versions: {}, devices: {} };
  const brands = await navigator.userAgentData?.getHighEntropyValues(["fullVersionList"]);
  const browser = brands?.fullVersionList.find((each) => each.brand === "Chromium");
  if (browser) known.versions.chromium = browser.version;
  if (sandbox) known.versions.sandbox = sandbox;
  const adapter = await navigator.gpu?.requestAdapter();
  if (adapter) {
    const { vendor, architecture, device, description } = adapter.info;
    const names = [vendor, architecture, device, description].filter(Boolean).join(" ");
    const halves = adapter.features.has("shader-f16") ? "with" : "without";
    known.devices.WebGpuExecutionProvider = [`${names}, ${halves} shader-f16`];
  }
  const backends = await (await fetch("backends")).text();
  if (backends) {
    const text = `${backends}, as the browser prints`;
    known.devices.webnn = [text];
    known.devices.WebNNExecutionProvider = [text];
  }
  if (!library) return known; // there is no onnxruntime-web
  try {
    known.versions.onnxruntime = (await load()).env.versions.web;
  } catch (error) {
    known.fault = line(error); // the first request fails likewise
  }
  return known;
}

// Where ONNX Runtime placed the nodes of the last session, as its verbose log says: per provider how
// many nodes, and, where there are several providers, the first of them.
function placements() {
  const lines = said.filter((text) => text.includes(PLACER));
  const found = [];
  for (const text of lines) {
    const rest = text.slice(text.indexOf(PLACER) + PLACER.length);
    const placed = rest.match(/placed on \[(\w+)\]\. Number of nodes: (\d+)$/);
    const node = rest.match(/^\s+(\S+) \((.*)\)$/);
    if (placed) found.push({ provider: placed[1], count: Number(placed[2]) });
    else if (node && found.length) found.at(-1).first ??= { operator: node[1], name: node[2] };
  }
  return lines.length ? found : undefined;
}

function elsewhere(provider) {
  const other = (placements() ?? []).find((each) => each.provider !== provider);
  if (!other?.first)
    return ["elsewhere", `some node would run on ${other?.provider ?? "the CPU"}`, null];
  const { name, operator } = other.first;
  const node = { name, operator, provider: other.provider };
  return ["elsewhere", `${name} (${operator}) runs on ${other.provider}`, node];
}

// ONNX Runtime destroys its device with its last session.
let watched, ending;
async function watch(ort) {
  const device = await ort.env.webgpu?.device;
  if (!device || device === watched) return;
  watched = device;
  device.lost.then((lost) => {
    if (lost.reason !== "destroyed") ending = end(`the browser lost its GPU device: ${line(lost)}`);
  });
}

// WebAssembly that has trapped answers nothing any more; a device that is lost tells so just after. A GPU
// device that throws within a run leaves the module there, where it opens no other session.
async function failed(error) {
  const hasTrapped = error instanceof WebAssembly.RuntimeError || /\bAborted\(/.test(String(error));
  const isLeft = error instanceof TypeError && /'GPUDevice'/.test(error.message);
  if (hasTrapped || isLeft) await end(`the WebAssembly module ended: ${line(error)}`);
  if (watched) await new Promise((done) => setTimeout(done, 20));
  await ending;
  return line(error);
}

// Where WebNN refuses a graph, onnxruntime-web leaves a promise unhandled, and answers nothing.
let reject = () => {};
addEventListener("unhandledrejection", (event) => {
  event.preventDefault();
  reject(event.reason);
});
function unlessRejected(promise) {
  const rejection = new Promise((_, fail) => {
    reject = fail;
  });
  return Promise.race([promise, rejection]);
}

async function open(model, { provider }) {
  const ort = await load().catch((error) => {
    throw new NoSession({ refused: line(error) });
  });
  const create = (fallback) => {
    said.length = 0;
    const session = ort.InferenceSession.create(model.slice(), {
      executionProviders: [WAYS[provider] ?? provider],
      logSeverityLevel: 0, // the log says where the nodes are
      extra: { session: { disable_cpu_ep_fallback: fallback ? "0" : "1" } },
    });
    return unlessRejected(session);
  };
  const isCpu = provider === "CPUExecutionProvider";
  let session;
  try {
    session = await create(isCpu);
  } catch (error) {
    const why = await failed(error);
    if (!why.includes(FALLBACK)) throw new NoSession({ refused: why });
    await (await create(true).catch(() => undefined))?.release(); // its log names the nodes
    throw new NoSession({ not_run: elsewhere(provider) });
  }
  await watch(ort);
  const found = placements();
  const why = (not_run) => session.release().then(() => Promise.reject(new NoSession({ not_run })));
  if (!found) await why(["too-old", ort.env.versions.web, null]);
  if (!found.length) await why(["folded", "none is left to run", null]);
  if (found.length > 1 || found[0].provider !== provider) await why(elsewhere(provider));
  return { ort, session, placed: found[0].count };
}

async function run({ ort, session }, feed, blobs, parts) {
  const inputs = {};
  for (const [name, [type, shape, offset]] of Object.entries(feed)) {
    const count = shape.reduce((product, size) => product * size, 1);
    const bytes = blobs.slice(offset, offset + count * ARRAYS[type].BYTES_PER_ELEMENT);
    inputs[name] = new ort.Tensor(type, new ARRAYS[type](bytes.buffer), shape);
  }
  said.length = 0;
  try {
    const output = (await unlessRejected(session.run(inputs)))[session.outputNames[0]];
    if (!(output.type in ARRAYS))
      return "the output is no array of numbers, but text or several arrays";
    const data = await output.getData(true);
    const offset = parts.reduce((length, part) => length + part.byteLength, 0);
    parts.push(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
    return [output.type, output.dims, offset];
  } catch (error) {
    return failed(error);
  }
}

async function openModule(text) {
  try {
    return await openProgram(text);
  } catch (error) {
    throw new NoSession({ refused: line(error) });
  }
}

async function runModule(program, feed, blobs, parts) {
  const arrays = {};
  for (const [name, [type, shape, offset]] of Object.entries(feed)) {
    const count = shape.reduce((product, size) => product * size, 1);
    arrays[name] = blobs.slice(offset, offset + count * ARRAYS[type].BYTES_PER_ELEMENT);
  }
  try {
    const output = await runProgram(program, arrays);
    const offset = parts.reduce((length, part) => length + part.byteLength, 0);
    parts.push(output);
    return ["uint8", [output.length], offset];
  } catch (error) {
    return line(error);
  }
}

// How models are run where the page has onnxruntime-web, and programs where it has none.
const MODELS = {
  open,
  run,
  close: ({ session }) => session.release(),
  described: ({ placed }) => ({ placed }),
};
const PROGRAMS = {
  open: openModule,
  run: runModule,
  close: closeProgram,
  described: ({ nodes }) => ({ nodes }),
};
const way = library ? MODELS : PROGRAMS;

let kept;
function keeps(model, setup) {
  return (
    kept?.setup === setup &&
    kept.model.length === model.length &&
    model.every((byte, place) => byte === kept.model[place])
  );
}

async function answer(request, blobs) {
  if (request.model === undefined) return [await environment(), []];
  const model = blobs.slice(0, request.model);
  const setup = JSON.stringify(request.session);
  const parts = [];
  try {
    if (!keeps(model, setup)) {
      if (kept) await way.close(kept.opened);
      kept = undefined;
      kept = { model, setup, opened: await way.open(model, request.session) };
    }
    const { opened } = kept;
    const outputs = [];
    for (const feed of request.feeds) outputs.push(await way.run(opened, feed, blobs, parts));
    if (!request.keep) {
      kept = undefined;
      await way.close(opened);
    }
    return [{ ...way.described(opened), outputs }, parts];
  } catch (error) {
    if (error instanceof NoSession) return [error.answer, []];
    throw error;
  }
}

// The connection lasts as long as the page: when it ends, the page has crashed.
globalThis.alive = fetch("alive");
try {
  for (;;) {
    const request = new Uint8Array(await (await fetch("next")).arrayBuffer());
    const split = request.indexOf(10);
    const header = JSON.parse(new TextDecoder().decode(request.subarray(0, split)));
    const [told, parts] = await answer(header, request.subarray(split + 1));
    await send("answer", new Blob([JSON.stringify(told), "\n", ...parts]));
  }
} catch (error) {
  await end(`the page failed: ${line(error)}`);
}
