// Builds the graph. An input that `constants` has becomes a constant.
export async function build(context, constants = {}) {
  const builder = new MLGraphBuilder(context);
  const operands = {};
  const inputs = {};
  for (const name of NAMES) {
    const {operand} = tensors[name];
    if (constants[name] !== undefined) {
      operands[name] = builder.constant(operand, bytesOf(name, constants[name]));
    } else {
      operands[name] = builder.input(name, operand);
      inputs[name] = await context.createTensor({...operand, writable: true});
    }
  }
  const results = add(builder, operands);
  const outputs = {};
  for (const [name, {dataType, shape}] of Object.entries(results)) {
    outputs[name] = await context.createTensor({dataType, shape, readable: true});
  }
  return {context, graph: await builder.build(results), inputs, outputs, written: {}};
}
