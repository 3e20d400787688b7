/* C from before initializers: memset and ZeroMemory, and DirectML's function for the bytes. */
void build(void) {
    UINT input_sizes[2], indices_sizes[2], output_sizes[2];
    DML_BUFFER_TENSOR_DESC buffers[3];
    DML_TENSOR_DESC input, indices, output;
    DML_GATHER_OPERATOR_DESC gather_desc;
    UINT axis = 0;
    input_sizes[0] = output_sizes[0] = 4;
    input_sizes[1] = 3;
    indices_sizes[0] = 1;
    indices_sizes[1] = output_sizes[1] = 2;
    memset(&buffers[0], 0, sizeof(buffers[0]));
    buffers[0].DataType = DML_TENSOR_DATA_TYPE_FLOAT32;
    buffers[0].DimensionCount = 2;
    buffers[0].Sizes = input_sizes;
    buffers[0].TotalTensorSizeInBytes = DMLCalcBufferTensorSize(
        buffers[0].DataType, buffers[0].DimensionCount, buffers[0].Sizes, buffers[0].Strides);
    ZeroMemory(&buffers[1], sizeof(buffers[1]));
    buffers[1].DataType = DML_TENSOR_DATA_TYPE_UINT32;
    buffers[1].DimensionCount = 2;
    buffers[1].Sizes = indices_sizes;
    buffers[1].TotalTensorSizeInBytes =
        DMLCalcBufferTensorSize(DML_TENSOR_DATA_TYPE_UINT32, 2, indices_sizes, NULL);
    buffers[2] = buffers[0];
    buffers[2].Sizes = output_sizes;
    buffers[2].TotalTensorSizeInBytes = 32;
    input.Type = indices.Type = output.Type = DML_TENSOR_TYPE_BUFFER;
    input.Desc = &buffers[0];
    indices.Desc = &buffers[1];
    output.Desc = &buffers[2];
    memset(&gather_desc, 0, sizeof gather_desc);
    gather_desc.InputTensor = &input;
    gather_desc.IndicesTensor = &indices;
    gather_desc.OutputTensor = &output;
    axis += 2;
    --axis;
    gather_desc.Axis = axis;
    gather_desc.IndexDimensions = axis;
}
