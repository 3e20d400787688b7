import * as ort from "onnxruntime-web"; // in Node.js: "onnxruntime-node"

const guard = await ort.InferenceSession.create(PATH);

// Throws the numbers of the contract's rules that inputs of the model break.
export async function check(inputs) {
  const asked = guard.inputNames.map((name) => [name, inputs[name]]);
  const { ok, broken } = await guard.run(Object.fromEntries(asked));
  if (!ok.data[0])
    throw new RangeError(`The inputs break rules of the contract: ${[...broken.data]}`);
}
