// A runtime in JavaScript that answers the cases of `onnxgather corpus export --format json`.
//
//     node gather.mjs EXPORT ANSWERS

import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";

const READERS = {
  int32: "readInt32LE",
  int64: "readBigInt64LE",
  uint32: "readUInt32LE",
  uint64: "readBigUInt64LE",
};

/** The bytes of an element, such as 4 of "float32". */
function sizeOf(type) {
  return Number(type.replace(/\D/g, "")) / 8;
}

/**
 * The runtime itself. It knows one operator, GatherElements: on axis 1 its output[i, j, k] is
 * data[i, indices[i, j, k], k].
 */
function run({ descriptor, data, indices }) {
  if (descriptor?.type !== "DML_OPERATOR_GATHER_ELEMENTS") throw new Error("no such operator");
  if (JSON.stringify(descriptor).includes("Strides")) throw new Error("no strides");
  const axis = descriptor.desc.Axis;
  const length = data.shape[axis];
  const size = sizeOf(data.type);
  const elements = Buffer.from(data.hex, "hex");
  const indexBytes = Buffer.from(indices.hex, "hex");
  const count = indexBytes.length / sizeOf(indices.type);
  const output = [];
  for (let number = 0; number < count; number++) {
    let index = Number(indexBytes[READERS[indices.type]](number * sizeOf(indices.type)));
    if (index < 0) index += length;
    if (index < 0 || index >= length) throw new Error("an index is out of range");
    let offset = 0;
    let step = 1;
    let rest = number;
    for (let dimension = data.shape.length - 1; dimension >= 0; dimension--) {
      const coordinate = rest % indices.shape[dimension];
      rest = Math.floor(rest / indices.shape[dimension]);
      offset += step * (dimension === axis ? index : coordinate);
      step *= data.shape[dimension];
    }
    output.push(elements.subarray(offset * size, (offset + 1) * size));
  }
  return { type: data.type, shape: indices.shape, bytes: Buffer.concat(output) };
}

/** An array as an .npy file. */
function npy({ type, shape, bytes }) {
  const sizes = shape.map((length) => `${length},`).join(" ");
  const header = `{'descr': '<${type[0]}${sizeOf(type)}', 'fortran_order': False, 'shape': (${sizes})}\n`;
  const start = Buffer.from("\x93NUMPY\x01\x00??", "latin1");
  start.writeUInt16LE(header.length, 8);
  return Buffer.concat([start, Buffer.from(header), bytes]);
}

const [exported, answers] = process.argv.slice(2);
mkdirSync(answers, { recursive: true });
const runtime = { name: "gather-js", version: "0.1.0" };
writeFileSync(`${answers}/runtime.json`, JSON.stringify(runtime));
for (const line of readFileSync(`${exported}/cases.jsonl`, "utf8").trim().split("\n")) {
  const testCase = JSON.parse(line);
  const folder = `${answers}/${testCase.name}`;
  if (existsSync(folder)) continue; // An earlier run answered the case, or ended in it.
  mkdirSync(folder, { recursive: true });
  try {
    writeFileSync(`${folder}/output.npy`, npy(run(testCase)));
  } catch (error) {
    writeFileSync(`${folder}/error.txt`, error.message);
  }
}
