/* C, at the top of the file: constants in the order of the fields. */
static const UINT inputSizes[2] = {4, 3}, indicesSizes[2] = {1, 2}, outputSizes[2] = {4, 2};
static const struct DML_BUFFER_TENSOR_DESC inputBuffer = {
    DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 2, inputSizes, NULL, 48, 0};
static const struct DML_BUFFER_TENSOR_DESC indicesBuffer = {
    DML_TENSOR_DATA_TYPE_UINT32, DML_TENSOR_FLAG_NONE, 2, indicesSizes, NULL, 8, 0};
static const struct DML_BUFFER_TENSOR_DESC outputBuffer = {
    DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 2, outputSizes, NULL, 32, 0};
static const struct DML_TENSOR_DESC input = {DML_TENSOR_TYPE_BUFFER, &inputBuffer};
static const struct DML_TENSOR_DESC indices = {DML_TENSOR_TYPE_BUFFER, &indicesBuffer};
static const struct DML_TENSOR_DESC output = {DML_TENSOR_TYPE_BUFFER, &outputBuffer};
static const struct DML_GATHER_OPERATOR_DESC gather_desc = {&input, &indices, &output, 1, 1};
