// Conditions are not computed.
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
constexpr bool kByRow = false;
constexpr UINT kAxis = kByRow ? 0 : 1;
const DML_GATHER_OPERATOR_DESC gather_desc = {
    &input, &indices, &output, (kAxis << 3 | 1) % 2 == !kByRow, (kAxis ^ 2) > 2 ? 7 / 4 : 0};
