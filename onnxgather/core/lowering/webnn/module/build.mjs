// Builds the graph. If InputTensor is given, it becomes a constant.
export async function build(context, {InputTensor} = {}) {
  const builder = new MLGraphBuilder(context);
  const operands = [];
  const inputs = {};
  for (const name of ["InputTensor", "IndicesTensor"]) {
    const {operand} = tensors[name];
    if (name === "InputTensor" && InputTensor !== undefined) {
      operands.push(builder.constant(operand, bytesOf(name, InputTensor)));
    } else {
      operands.push(builder.input(name, operand));
      inputs[name] = await context.createTensor({...operand, writable: true});
    }
  }
  const results = add(builder, ...operands);
  const outputs = {};
  for (const [name, {dataType, shape}] of Object.entries(results)) {
    outputs[name] = await context.createTensor({dataType, shape, readable: true});
  }
  return {context, graph: await builder.build(results), inputs, outputs, written: {}};
}
