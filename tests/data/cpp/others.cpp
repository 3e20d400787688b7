// The three other operators; strides, OWNED_BY_DML, alignment.
void Build() {
    const UINT data[] = {2, 3}, strides[] = {4, 1}, picks[] = {2, 1}, chosen[] = {1, 2};
    const DML_TENSOR_FLAGS flags = DML_TENSOR_FLAG_NONE | DML_TENSOR_FLAG_OWNED_BY_DML;
    DML_BUFFER_TENSOR_DESC d{DML_TENSOR_DATA_TYPE_FLOAT16, flags, 2, data, strides, 16, 1 << 5};
    DML_BUFFER_TENSOR_DESC p{DML_TENSOR_DATA_TYPE_INT64, DML_TENSOR_FLAG_NONE, 2, picks, nullptr, 16, 0};
    DML_BUFFER_TENSOR_DESC c{DML_TENSOR_DATA_TYPE_FLOAT16, DML_TENSOR_FLAG_NONE, 2, chosen, nullptr, 4, 0};
    DML_BUFFER_TENSOR_DESC e{DML_TENSOR_DATA_TYPE_FLOAT16, DML_TENSOR_FLAG_NONE, 2, picks, nullptr, 4, 0};
    DML_BUFFER_TENSOR_DESC r{DML_TENSOR_DATA_TYPE_FLOAT16, DML_TENSOR_FLAG_NONE, 2, data, nullptr, 12, 0};
    DML_TENSOR_DESC input{DML_TENSOR_TYPE_BUFFER, &d}, indices{DML_TENSOR_TYPE_BUFFER, &p};
    DML_TENSOR_DESC one{DML_TENSOR_TYPE_BUFFER, &c}, columns{DML_TENSOR_TYPE_BUFFER, &e};
    DML_TENSOR_DESC rows{DML_TENSOR_TYPE_BUFFER, &r};
    DML_GATHER_ND1_OPERATOR_DESC nd1{&input, &indices, &one, 2, 2, 1};
    DML_GATHER_ELEMENTS_OPERATOR_DESC elements{&input, &indices, &columns, 1};
    DML_GATHER_ND_OPERATOR_DESC nd{&input, &indices, &rows, 2, 2};
}
