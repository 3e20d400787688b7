// Programs of WebNN: the modules of `to_webnn`, imported as text and run by the browser's own navigator.ml. The page
// behind the lane `webnn` (web_page.mjs) uses it.
//
// WebNN has no fallback: a graph that is built runs in the browser's backend. What stands for the nodes that ran are
// the calls of MLGraphBuilder, counted while the module builds its graph.

const calls = [];
const NO_OPERATORS = new Set(["constructor", "build", "constant", "input"]);
const builder = globalThis.MLGraphBuilder?.prototype ?? {};
for (const name of Object.getOwnPropertyNames(builder)) {
  const method = builder[name];
  if (NO_OPERATORS.has(name) || typeof method !== "function") continue;
  builder[name] = function (...given) {
    const operand = method.apply(this, given);
    calls.push(name); // a call that throws makes no operator
    return operand;
  };
}

let context;
async function contextOfPage() {
  if (!navigator.ml) throw new Error("the browser has no WebNN");
  if (context) return context;
  const opened = await navigator.ml.createContext({ deviceType: "cpu" });
  opened.lost.then(() => {
    context = undefined; // the next program gets another
  });
  context = opened;
  return context;
}

// Returns a program whose graph is built: its module, and the operators of its graph.
export async function openProgram(text) {
  const context = await contextOfPage();
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  let module;
  try {
    module = await import(address);
  } finally {
    URL.revokeObjectURL(address);
  }
  calls.length = 0;
  const built = await module.build(context);
  return { module, built, nodes: [...calls] };
}

// Returns the bytes of OutputTensor.
export async function runProgram({ module, built }, arrays) {
  const output = await module.run(built, arrays);
  if (!(output instanceof Uint8Array)) throw new TypeError("run of the program returned no bytes");
  return output;
}

// Releases the graph of a program and its tensors. The context stays for the next program.
export function closeProgram({ built: { graph, inputs, outputs } }) {
  for (const value of [graph, ...Object.values(inputs), ...Object.values(outputs)]) value.destroy();
}
