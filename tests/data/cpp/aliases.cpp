// Names of types, references, pointers and autos.
using GatherDesc = DML_GATHER_OPERATOR_DESC;
typedef DML_BUFFER_TENSOR_DESC Buffer;
void Build() {
    const UINT sizes[3][2] = {{4, 3}, {1, 2}, {4, 2}};
    std::array<Buffer, 3> buffers = {};
    const UINT* first = sizes[0];
    auto& input_buffer = buffers[0];
    input_buffer.DataType = DML_TENSOR_DATA_TYPE_FLOAT32;
    input_buffer.DimensionCount = 2;
    input_buffer.Sizes = first;
    input_buffer.TotalTensorSizeInBytes = 48;
    Buffer* indices_buffer = &buffers[1];
    indices_buffer->DataType = DML_TENSOR_DATA_TYPE_UINT32;
    indices_buffer->DimensionCount = 2;
    indices_buffer->Sizes = sizes[1];
    indices_buffer->TotalTensorSizeInBytes = 8;
    buffers[2] = {DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 2, sizes[2], nullptr, 32, 0};
    const auto tensor = DML_TENSOR_DESC{DML_TENSOR_TYPE_BUFFER, &input_buffer};
    auto other = DML_TENSOR_DESC{DML_TENSOR_TYPE_BUFFER, indices_buffer};
    DML_TENSOR_DESC output;
    output.Type = DML_TENSOR_TYPE_BUFFER;
    (&output)->Desc = &buffers[2];
    GatherDesc gather_desc = GatherDesc();
    gather_desc = GatherDesc{&tensor, &other, &output, 1, 1};
}
