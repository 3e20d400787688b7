// C99 compound literals, addresses of values without a name, braces in braces.
void Build(IDMLDevice* device) {
    Create(device, &(DML_GATHER_OPERATOR_DESC){
        &(DML_TENSOR_DESC){DML_TENSOR_TYPE_BUFFER, &(DML_BUFFER_TENSOR_DESC){
            DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 2, (const UINT[]){4, 3}, NULL, 48, 0}},
        &(DML_TENSOR_DESC){DML_TENSOR_TYPE_BUFFER, &(DML_BUFFER_TENSOR_DESC){
            DML_TENSOR_DATA_TYPE_UINT32, DML_TENSOR_FLAG_NONE, 2, (UINT[2]){1, 2}, NULL, 8, 0}},
        &(DML_TENSOR_DESC){.Desc = &(DML_BUFFER_TENSOR_DESC){
            DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 2, (UINT[]){4, 2}, NULL, 32, 0},
            .Type = DML_TENSOR_TYPE_BUFFER},
        .Axis = 1, 1});
}
