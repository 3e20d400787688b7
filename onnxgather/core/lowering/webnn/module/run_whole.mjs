// Returns the bytes of each output. An input left out stays as in the last run.
export async function run({context, graph, inputs, outputs, written}, arrays = {}) {
  for (const name of Object.keys({...inputs, ...arrays})) {
    if (!(name in inputs)) throw new RangeError(`${name} is no input of the graph`);
    if (arrays[name] === undefined && name in written) continue;
    context.writeTensor(inputs[name], bytesOf(name, arrays[name]));
    written[name] = true;
  }
  context.dispatch(graph, inputs, outputs);
  // All are read before another run can write.
  const reads = Object.entries(outputs).map(async ([name, tensor]) => {
    return [name, new Uint8Array(await context.readTensor(tensor))];
  });
  return Object.fromEntries(await Promise.all(reads));
}
