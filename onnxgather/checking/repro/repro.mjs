// Runs the model of this page, and compares the output with the expected one, byte by byte. A first
// gather, which every provider accepts, runs before it: only behind that is an error the model's.
const { model, first, inputs, expected, rule, library, provider } = JSON.parse(
  document.getElementById("data").textContent,
);
const said = document.getElementById("said");
const folder = document.getElementById("folder");
const say = (...words) => {
  said.textContent += words.join(" ") + "\n";
  console.log(...words);
};
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const array = ([, kind, , content]) => new (globalThis[kind] ?? Uint16Array)(bytes(content).buffer);
const show = (name, type, shape, data) =>
  say(name, type, JSON.stringify(shape), Array.from(data).slice(0, 64).join(" "));
let hasStarted = false; // whether the first gather has run
async function outputOf(ort, content, arrays) {
  const forbids = provider === "wasm" ? "0" : "1"; // the fallback to the CPU
  const extra = { session: { disable_cpu_ep_fallback: forbids } };
  const session = await ort.InferenceSession.create(bytes(content), {
    executionProviders: [provider],
    extra,
  });
  const feeds = {};
  for (const input of arrays) {
    const [name, , type, , shape] = input;
    feeds[name] = new ort.Tensor(type, array(input), shape);
  }
  return (await session.run(feeds))[session.outputNames[0]];
}
async function run() {
  hasStarted = false;
  said.textContent = rule ? "expected: an error, as " + rule + "\n" : "";
  const place = folder.value.endsWith("/") ? folder.value : folder.value + "/";
  const ort = await import(place + library);
  Object.assign(ort.env.wasm, { wasmPaths: place, numThreads: 1 });
  say("onnxruntime-web", ort.env.versions.web, library, provider, navigator.userAgent);
  await (await outputOf(ort, first.model, first.inputs)).getData();
  hasStarted = true;
  for (const input of inputs) {
    const [name, , type, , shape] = input;
    show(name, type, shape, array(input));
  }
  const output = await outputOf(ort, model, inputs);
  const data = await output.getData();
  if (!rule) show("expected:", expected[2], expected[4], array(expected));
  show("actual:", output.type, output.dims, data);
  const actual = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  const wanted = rule ? [] : bytes(expected[3]);
  const isSame =
    !rule && actual.length === wanted.length && wanted.every((byte, k) => byte === actual[k]);
  say(isSame ? "It does not differ." : "It differs.");
}
function end(error) {
  if (!hasStarted) {
    say("It did not run:", error.message);
    return;
  }
  say("an error:", error.message);
  say(rule ? "It does not differ." : "It differs.");
}
const start = () => run().catch(end);
addEventListener("unhandledrejection", (event) => end(event.reason)); // WebNN refuses a graph
document.getElementById("run").onclick = start;
if (location.hash) {
  folder.value = location.hash.slice(1);
  start();
}
