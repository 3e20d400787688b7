  {
    name: '$name',
    graph: {
      inputs: {
        ${method}Input: {
          data: $data,
          descriptor: {shape: $data_shape, dataType: '$data_type'}
        },
        ${method}Indices: {
          data: $indices,
          descriptor: {shape: $index_shape, dataType: '$index_type'}
        }
      },
      operators: [{
        name: '$method',
        arguments: [{input: '${method}Input'}, {indices: '${method}Indices'}$options],
        outputs: '${method}Output'
      }],
$outside      expectedOutputs: {
        ${method}Output: {
          data: $output,
          descriptor: {shape: $output_shape, dataType: '$data_type'}
        }
      }
    }
  },
