// Returns the bytes of OutputTensor. An input left out stays as in the last run.
export async function run({context, graph, inputs, outputs, written}, arrays = {}) {
  for (const name of Object.keys({...inputs, ...arrays})) {
    if (!(name in inputs)) throw new RangeError(`${name} is no input of the graph`);
    if (arrays[name] === undefined && name in written) continue;
    const bytes = bytesOf(name, arrays[name]);
    context.writeTensor(inputs[name], bytes);
    written[name] = name === "IndicesTensor" ? bytes.slice() : true;
  }
  context.dispatch(graph, inputs, outputs);
  const indices = new ARRAY(written.IndicesTensor.buffer);
  const results = [outputs.Outside, outputs.OutputTensor]; // before another run writes
  const [count, output] = await Promise.all(results.map((r) => context.readTensor(r)));
  if (new Int32Array(count)[0] > 0) throw new RangeError(firstOutside(indices));
  return new Uint8Array(output);
}
