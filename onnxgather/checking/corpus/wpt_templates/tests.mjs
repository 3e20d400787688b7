[
  {
    name: 'NAME',
    graph: {
      inputs: {
        METHODInput: {
          data: DATA,
          descriptor: {shape: DATA_SHAPE, dataType: 'DATA_TYPE'}
        },
        METHODIndices: {
          data: INDICES,
          descriptor: {shape: INDEX_SHAPE, dataType: 'INDEX_TYPE'}
        }
      },
      operators: [{
        name: 'METHOD',
        arguments: ARGUMENTS,
        outputs: 'METHODOutput'
      }],
      OUTSIDE,
      expectedOutputs: {
        METHODOutput: {
          data: OUTPUT,
          descriptor: {shape: OUTPUT_SHAPE, dataType: 'DATA_TYPE'}
        }
      }
    }
  },
];
