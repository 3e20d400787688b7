// META: title=test WebNN API METHOD operation with indices out of range
// META: global=window
// META: variant=?cpu
// META: variant=?gpu
// META: variant=?npu
// META: script=../resources/utils.js
// META: timeout=long

'use strict';

// https://www.w3.org/TR/webnn/#api-mlgraphbuilder-METHOD
// The specification wants indices in [-N, N). For others it wants proper bounds checking
// (Security Considerations), and names clamping in a note alone. So an output element of
// `outOfRangePositions` may be any element of the input, or 0, but no other memory. All
// other elements must be exact.

const METHODOutOfRangeTests = [
  TESTS,
];

const elementsOf = operand => getTypedArrayData(
    operand.descriptor.dataType, sizeOfShape(operand.descriptor.shape), operand.data);

const buildAndExecuteWithinBounds = async (context, builder, graph) => {
  // The elements are taken first, as building may change the type of a descriptor.
  const input = elementsOf(graph.inputs.METHODInput);
  const expected = elementsOf(graph.expectedOutputs.METHODOutput);
  const zero = new input.constructor(1)[0];
  const allowed = new Set([...input, zero]);
  const executed = await buildAndExecuteGraph(context, builder, graph);
  const output = executed.result.METHODOutput;
  for (const position of graph.outOfRangePositions) {
    assert_true(
        allowed.has(output[position]),
        `output element ${position}, ${output[position]}, is an element of the input or 0`);
    // The harness then compares the other elements.
    output[position] = expected[position];
  }
  return executed;
};

webnn_conformance_test(
    METHODOutOfRangeTests, buildAndExecuteWithinBounds, getZeroULPTolerance);
