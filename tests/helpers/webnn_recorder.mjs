// Runs WebNN modules on a stand-in for WebNN that records and computes nothing.
//
// The argument is a file of JSON: a list of {file, arrays, constants, outputs}, where
// `arrays` are given to run, `constants` to build, and `outputs` are what the stand-in
// answers; all in base64. It prints a list of {calls, result, error, written}.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const fromBase64 = (text) => new Uint8Array(Buffer.from(text, "base64"));
const toBase64 = (view) =>
  Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString("base64");

// A module of several gathers returns an object of outputs.
const encoded = (result) =>
  result instanceof Uint8Array
    ? toBase64(result)
    : Object.fromEntries(Object.entries(result).map(([key, view]) => [key, toBase64(view)]));

class Operand {
  constructor(name) {
    this.name = name;
  }
}

function recorder(calls) {
  return class {
    input(name, { dataType, shape }) {
      calls.inputs[name] = { dataType, shape };
      return new Operand(name);
    }

    constant({ dataType, shape }, view) {
      calls.constants.push({ dataType, shape, base64: toBase64(view) });
      return new Operand(`constant ${calls.constants.length - 1}`);
    }

    async build(results) {
      for (const [name, operand] of Object.entries(results)) {
        calls.outputs[name] = operand.name;
      }
      return "the graph";
    }
  };
}

function addMethods(Builder, calls, methods) {
  for (const method of methods) {
    Builder.prototype[method] = (...given) => {
      const step = { method, operands: [], arguments: [], options: {} };
      for (const value of given) {
        const isList = Array.isArray(value) && value[0] instanceof Operand;
        if (isList) step.operands.push(...value.map((operand) => operand.name));
        else if (value instanceof Operand) step.operands.push(value.name);
        else if (typeof value === "object" && !Array.isArray(value)) step.options = value;
        else step.arguments.push(value);
      }
      calls.steps.push(step);
      return new Operand(`step ${calls.steps.length - 1}`);
    };
  }
}

async function record({ file, arrays, constants, outputs }, methods) {
  const calls = { inputs: {}, constants: [], steps: [], outputs: {} };
  const written = [];
  const Builder = recorder(calls);
  addMethods(Builder, calls, methods);
  globalThis.MLGraphBuilder = Builder;
  let dispatched = 0;
  const context = {
    async createTensor(descriptor) {
      return descriptor;
    },
    writeTensor(tensor, view) {
      written.push(toBase64(view));
    },
    dispatch(graph, inputs, results) {
      dispatched += 1;
      for (const [name, tensor] of Object.entries(results)) tensor.name = name;
    },
    async readTensor(tensor) {
      return fromBase64(outputs[tensor.name]).buffer;
    },
  };
  const decoded = (texts) =>
    Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, fromBase64(text)]));
  const answer = { calls, written };
  try {
    const { build, run } = await import(pathToFileURL(file));
    const built = await build(context, decoded(constants));
    answer.result = encoded(await run(built, decoded(arrays)));
    // Again, with the inputs of the first run.
    answer.again = encoded(await run(built, {}));
  } catch (error) {
    answer.error = `${error.name}: ${error.message}`;
  }
  return { ...answer, dispatched };
}

const { methods, modules } = JSON.parse(readFileSync(process.argv[2], "utf8"));
const answers = [];
for (const module of modules) answers.push(await record(module, methods));
console.log(JSON.stringify(answers));
