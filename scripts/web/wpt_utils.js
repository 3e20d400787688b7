// What the exported Web Platform Tests use of webnn/resources/utils.js of the Web Platform
// Tests, where a checkout of these is not at hand. It does the same with the operands of a
// gather, and compares bits: also those of -0.

'use strict';

const ARRAYS = {
  float32: Float32Array,
  float16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int8: Int8Array,
  uint8: Uint8Array,
};

// The data types and ranks that each implementation must support, as of the specification
// of 26 June 2026: of each operand its data types, its lowest and its highest rank.
const TYPES = ['float32', 'float16', 'int32', 'int8', 'uint8'];
const ELEMENTS_TYPES = ['float32', 'float16', 'int32'];
const REQUIRED = {
  gather: {input: [TYPES, 1, 5], indices: [['int32'], 0, 5], output: [TYPES, 1, 5]},
  gatherElements: {
    input: [ELEMENTS_TYPES, 1, 5],
    indices: [['int32'], 1, 5],
    output: [ELEMENTS_TYPES, 1, 5],
  },
  gatherND: {input: [TYPES, 1, 5], indices: [['int32'], 1, 5], output: [TYPES, 0, 5]},
};

const deviceType = location.search.substring(1);

const sizeOfShape = shape => shape.reduce((product, size) => product * size, 1);

// The bits of the float16 that is nearest to a number. Tests have only numbers that float16
// has, so nothing is rounded.
const float16Bits = number => {
  const sign = number < 0 || Object.is(number, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(number);
  if (magnitude === Infinity) return sign | 0x7c00;
  if (magnitude < 2 ** -14) return sign | (magnitude * 2 ** 24);
  const exponent = Math.floor(Math.log2(magnitude));
  return sign | ((exponent + 15) << 10) | ((magnitude / 2 ** exponent - 1) * 1024);
};

const getTypedArrayData = (dataType, size, data) => {
  if (data.length !== size) throw new Error(`${size} elements have ${data.length} numbers`);
  const numbers = dataType === 'float16' ? data.map(float16Bits) : data;
  return new ARRAYS[dataType](numbers);
};

const getZeroULPTolerance = () => ({metricType: 'ULP', value: 0});

const arrayOf = ({data, descriptor}) =>
    getTypedArrayData(descriptor.dataType, sizeOfShape(descriptor.shape), data);

const operandsOf = graph => {
  const [{name, outputs}] = graph.operators;
  return {
    input: graph.inputs[`${name}Input`],
    indices: graph.inputs[`${name}Indices`],
    output: graph.expectedOutputs[outputs],
  };
};

// Whether each operand of a graph has a data type and a rank of limits, which has
// [dataTypes, lowest, highest] of each operand.
const isWithin = (graph, limits) =>
    Object.entries(operandsOf(graph)).every(([name, {descriptor}]) => {
      const [dataTypes, lowest, highest] = limits[name];
      const rank = descriptor.shape.length;
      return dataTypes.includes(descriptor.dataType) && lowest <= rank && rank <= highest;
    });

const supportedLimits = (context, method) => {
  const limits = Object.entries(context.opSupportLimits()[method]);
  return Object.fromEntries(
      limits.map(([name, {dataTypes, rankRange}]) =>
          [name, [dataTypes, rankRange.min, rankRange.max]]));
};

const buildAndExecuteGraph = async (context, builder, graph) => {
  const operands = {};
  const inputs = {};
  for (const [name, input] of Object.entries(graph.inputs)) {
    if (input.constant) {
      operands[name] = builder.constant(input.descriptor, arrayOf(input));
      continue;
    }
    operands[name] = builder.input(name, input.descriptor);
    inputs[name] = await context.createTensor({...input.descriptor, writable: true});
    context.writeTensor(inputs[name], arrayOf(input));
  }
  const [operator] = graph.operators;
  const values = operator.arguments.map(argument => {
    const [[name, value]] = Object.entries(argument);
    return name === 'options' ? value : operands[value];
  });
  const operand = builder[operator.name](...values);
  const [[outputName, {descriptor}]] = Object.entries(graph.expectedOutputs);
  assert_equals(operand.dataType, descriptor.dataType, 'data type of the output');
  assert_array_equals(operand.shape, descriptor.shape, 'shape of the output');
  const built = await builder.build({[outputName]: operand});
  const output = await context.createTensor({...descriptor, readable: true});
  context.dispatch(built, inputs, {[outputName]: output});
  const content = await context.readTensor(output);
  const result = {[outputName]: new ARRAYS[descriptor.dataType](content)};
  return {result, intermediateOperands: {[outputName]: operand}};
};

const bytesOf = array => Array.from(new Uint8Array(array.buffer));

const webnn_conformance_test = (tests, execute) => {
  let probe;
  // What an earlier browser ran, which a test ended.
  const done = new Set(globalThis.testsDone);
  promise_setup(async () => {
    assert_implements(navigator.ml, 'missing navigator.ml');
    probe = await navigator.ml.createContext({deviceType});
  });
  for (const {name, graph} of tests.filter(({name}) => !done.has(name))) {
    promise_test(async () => {
      const [{name: method}] = graph.operators;
      if (!isWithin(graph, REQUIRED[method])) {
        assert_implements_optional(
            isWithin(graph, supportedLimits(probe, method)),
            'opSupportLimits() lacks an optional data type or rank');
      }
      const context = await navigator.ml.createContext({deviceType});
      const builder = new MLGraphBuilder(context);
      const {result} = await execute(context, builder, graph);
      const [[outputName, expected]] = Object.entries(graph.expectedOutputs);
      const difference = 'bytes of the output';
      assert_array_equals(bytesOf(result[outputName]), bytesOf(arrayOf(expected)), difference);
    }, name);
  }
};
