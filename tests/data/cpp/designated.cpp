// C++20, as in Chromium: designated initializers, trailing commas.
#include <DirectML.h>

void Build() {
  const UINT input_sizes[] = {4, 3};
  const UINT indices_sizes[] = {1, 2};
  const UINT output_sizes[] = {4, 2};
  DML_BUFFER_TENSOR_DESC input_buffer{
      .DataType = DML_TENSOR_DATA_TYPE_FLOAT32,
      .Flags = DML_TENSOR_FLAG_NONE,
      .DimensionCount = 2,
      .Sizes = input_sizes,
      .TotalTensorSizeInBytes = 48,
  };
  DML_BUFFER_TENSOR_DESC indices_buffer{.DataType = DML_TENSOR_DATA_TYPE_UINT32,
                                        .DimensionCount = 2,
                                        .Sizes = indices_sizes,
                                        .TotalTensorSizeInBytes = 8};
  DML_BUFFER_TENSOR_DESC output_buffer{.DataType = DML_TENSOR_DATA_TYPE_FLOAT32,
                                       .DimensionCount = 2,
                                       .Sizes = output_sizes,
                                       .TotalTensorSizeInBytes = 32};
  DML_TENSOR_DESC input{.Type = DML_TENSOR_TYPE_BUFFER, .Desc = &input_buffer};
  DML_TENSOR_DESC indices{.Type = DML_TENSOR_TYPE_BUFFER, .Desc = &indices_buffer};
  DML_TENSOR_DESC output{.Type = DML_TENSOR_TYPE_BUFFER, .Desc = &output_buffer};
  DML_GATHER_OPERATOR_DESC gather_desc{
      .InputTensor = &input,
      .IndicesTensor = &indices,
      .OutputTensor = &output,
      // The dimension of InputTensor to gather on.
      .Axis = 1,
      .IndexDimensions = 1,
  };
}
