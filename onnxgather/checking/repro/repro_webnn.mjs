// Runs the WebNN program of this page, and compares the bytes of its output with the expected ones.
const { module, inputs, expected, rule } = JSON.parse(document.getElementById("data").textContent);
const said = document.getElementById("said");
const say = (...words) => {
  said.textContent += words.join(" ") + "\n";
  console.log(...words);
};
const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
const array = (kind, content) => new (globalThis[kind] ?? Uint16Array)(content.buffer);
const show = (name, type, shape, data) =>
  say(name, type, JSON.stringify(shape), Array.from(data).slice(0, 64).join(" "));

// Returns what the program needs, or says why it did not run.
async function start() {
  say(navigator.userAgent);
  if (!navigator.ml) throw new Error("the browser has no WebNN here");
  const context = await navigator.ml.createContext({ deviceType: "cpu" });
  const address = URL.createObjectURL(new Blob([module], { type: "text/javascript" }));
  return { context, program: await import(address) };
}

async function run({ context, program }) {
  const arrays = {};
  for (const [name, kind, type, content, shape] of inputs) {
    arrays[name] = bytes(content);
    show(name, type, shape, array(kind, arrays[name]));
  }
  const built = await program.build(context);
  say("devices of the graph:", JSON.stringify(built.graph.devices ?? "not told"));
  return program.run(built, arrays);
}

// Returns whether the output, or the error in its place, is the wrong one.
async function differs(started) {
  let output;
  try {
    output = await run(started);
  } catch (error) {
    say("an error:", error.message);
    return !(rule && error instanceof RangeError);
  }
  if (rule) {
    say("no error");
    return true;
  }
  const [, kind, type, content, shape] = expected;
  const wanted = bytes(content);
  show("expected:", type, shape, array(kind, wanted));
  const isWhole = output.length === wanted.length;
  const elements = isWhole ? array(kind, output.slice()) : output;
  show("actual:", isWhole ? type : "uint8", [elements.length], elements);
  return !isWhole || !wanted.every((byte, k) => byte === output[k]);
}

async function judge() {
  said.textContent = rule ? "expected: an error, as " + rule + "\n" : "";
  let started;
  try {
    started = await start();
  } catch (error) {
    say("It did not run:", error.message);
    return;
  }
  say((await differs(started)) ? "It differs." : "It does not differ.");
}
document.getElementById("run").onclick = judge;
judge();
