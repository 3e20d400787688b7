// Casts of every kind; hexadecimal, binary, octal and grouped digits, with suffixes.
constexpr unsigned int kRows = 0x4u, kColumns = 0b11, kChosen = 02, kBytes = 1'048'576 >> 15;
enum class Dimension : UINT { Row, Column };
void Build() {
    const UINT i[] = {kRows, (UINT)kColumns}, n[] = {UINT{1}, UINT(kChosen)};
    const UINT o[2] = {static_cast<UINT>(kRows), gsl::narrow_cast<uint32_t>(kChosen)};
    DML_BUFFER_TENSOR_DESC ib{static_cast<DML_TENSOR_DATA_TYPE>(1), (DML_TENSOR_FLAGS)0, 2,
                              const_cast<UINT*>(i), nullptr, UINT64{48}, 0u};
    DML_BUFFER_TENSOR_DESC nb{DML_TENSOR_DATA_TYPE_UINT32, DML_TENSOR_FLAG_NONE, 2, n, nullptr, 8ull};
    DML_BUFFER_TENSOR_DESC ob{DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE, 2, o, nullptr,
                              kBytes};
    DML_TENSOR_DESC input{DML_TENSOR_TYPE_BUFFER, static_cast<const void*>(&ib)};
    DML_TENSOR_DESC indices{DML_TENSOR_TYPE_BUFFER, reinterpret_cast<const void*>(&nb)};
    DML_TENSOR_DESC output{DML_TENSOR_TYPE_BUFFER, (const void*)&ob};
    DML_GATHER_OPERATOR_DESC gather_desc{&input, &indices, &output,
                                         static_cast<UINT>(Dimension::Column), true};
}
