// Builds the graph.
export async function build(context) {
  const builder = new MLGraphBuilder(context);
  const {operand} = tensors.IndicesTensor;
  const operands = [builder.input("IndicesTensor", operand)];
  const IndicesTensor = await context.createTensor({...operand, writable: true});
  const inputs = {IndicesTensor};
  const results = add(builder, ...operands);
  const outputs = {};
  for (const [name, {dataType, shape}] of Object.entries(results)) {
    outputs[name] = await context.createTensor({dataType, shape, readable: true});
  }
  return {context, graph: await builder.build(results), inputs, outputs, written: {}};
}
