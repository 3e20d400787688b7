// Variables that a call may change by reference.
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
    UINT axis = 1, other = 0, filled = 1;
    std::swap(axis, other);
    DML_GATHER_OPERATOR_DESC swapped{&input, &indices, &output, axis, 1};
    Fill(filled);
    DML_GATHER_OPERATOR_DESC by_reference{&input, &indices, &output, filled, 1};
    DML_GATHER_OPERATOR_DESC exchanged{&input, &indices, &output, 1, 1};
    Exchange(exchanged.Axis);
}
