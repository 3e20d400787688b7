// Bytes from DirectML's function, and an alignment from a cast.
constexpr UINT kInput[] = {4, 3}, kIndices[] = {1, 2}, kOutput[] = {4, 2};
const DML_BUFFER_TENSOR_DESC input_buffer{
    DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 2, kInput, nullptr, 48, 0};
const DML_BUFFER_TENSOR_DESC indices_buffer{
    DML_TENSOR_DATA_TYPE_UINT32, DML_TENSOR_FLAG_NONE, 2, kIndices, nullptr, 8, 0};
const DML_BUFFER_TENSOR_DESC output_buffer{
    DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 2, kOutput, nullptr, 32, 0};
const DML_TENSOR_DESC input{DML_TENSOR_TYPE_BUFFER, &input_buffer};
const DML_TENSOR_DESC indices{DML_TENSOR_TYPE_BUFFER, &indices_buffer};
const DML_TENSOR_DESC output{DML_TENSOR_TYPE_BUFFER, &output_buffer};
void Build() {
    std::vector<UINT> sizes = {4, 3};
    DML_BUFFER_TENSOR_DESC buffer = {};
    buffer.DataType = DML_TENSOR_DATA_TYPE_FLOAT32;
    buffer.DimensionCount = (UINT)sizes.size();
    buffer.Sizes = sizes.data();
    buffer.TotalTensorSizeInBytes = DMLCalcBufferTensorSize(
        buffer.DataType, buffer.DimensionCount, buffer.Sizes, buffer.Strides);
    DML_TENSOR_DESC tensor{DML_TENSOR_TYPE_BUFFER, &buffer};
    DML_GATHER_OPERATOR_DESC gather_desc{&tensor, &indices, &output, 1, 1};
}
