// Numbers and structs that are changed under another name.
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
void Reference() {
    UINT axis = 0;
    UINT& other = axis;
    other = 1;
    DML_GATHER_OPERATOR_DESC by_reference{&input, &indices, &output, axis, 1};
}
void Pointers() {
    DML_GATHER_OPERATOR_DESC one{&input, &indices, &output, 1, 1};
    DML_GATHER_OPERATOR_DESC two{&input, &indices, &output, 1, 1};
    DML_GATHER_OPERATOR_DESC* chosen = ByRow() ? &one : &two;
    chosen->Axis = 0;
    DML_GATHER_OPERATOR_DESC three{&input, &indices, &output, 1, 1};
    DML_GATHER_OPERATOR_DESC* every[] = {&three};
    for (auto* each : every) each->Axis = 0;
    DML_GATHER_OPERATOR_DESC four{&input, &indices, &output, 1, 1};
    DML_GATHER_OPERATOR_DESC* both[] = {&four};
    for (UINT i = 0; i < 1; ++i) both[i]->Axis = 0;
}
void Elements() {
    UINT sizes[] = {4, 3};
    for (UINT& size : sizes) size = 2;
    DML_BUFFER_TENSOR_DESC buffer = input_buffer;
    buffer.Sizes = sizes;
    DML_TENSOR_DESC tensor{DML_TENSOR_TYPE_BUFFER, &buffer};
    DML_GATHER_OPERATOR_DESC by_elements{&tensor, &indices, &output, 1, 1};
}
void Numbers() {
    UINT64 wrapped = 65536u * 65536u;
    DML_GATHER_OPERATOR_DESC by_type{&input, &indices, &output, wrapped ? 0u : 1u, 1};
}
