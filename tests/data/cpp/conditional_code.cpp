// Constants in #if are not followed.
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
#if 0
constexpr UINT kAxis = 7;
#else
constexpr UINT kAxis = 1;
#endif
#define FAST 1
#if FAST
const UINT kOthers = 1;
#else
const UINT kOthers = 2;
#endif
#ifdef _DEBUG
const char* kName = "gather";
#endif
const DML_GATHER_OPERATOR_DESC gather_desc = {&input, &indices, &output, kAxis, kOthers};
