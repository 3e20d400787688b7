// std::array with double braces, class template deduction, std::size and ARRAYSIZE.
namespace {
constexpr std::array<UINT, 2> kInput = {{4, 3}};
constexpr std::array kIndices = {1u, 2u};
constexpr auto kOutput = std::array<UINT, 2>{4, 2};
constexpr UINT kPacked[] = {3, 1};
}  // namespace

void Build() {
    DML_BUFFER_TENSOR_DESC i{DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE,
                             (UINT)std::size(kInput), kInput.data(), nullptr, 48, 0};
    DML_BUFFER_TENSOR_DESC n{DML_TENSOR_DATA_TYPE_UINT32, DML_TENSOR_FLAG_NONE,
                             ARRAYSIZE(kPacked), std::data(kIndices), nullptr, 8, 0};
    DML_BUFFER_TENSOR_DESC o{DML_TENSOR_DATA_TYPE_FLOAT32, DML_TENSOR_FLAG_NONE,
                             UINT(kOutput.size()), &kOutput[0], nullptr, 32, 0};
    const DML_TENSOR_DESC tensors[] = {
        {DML_TENSOR_TYPE_BUFFER, &i}, {DML_TENSOR_TYPE_BUFFER, &n}, {DML_TENSOR_TYPE_BUFFER, &o}};
    DML_GATHER_OPERATOR_DESC gather_desc = {&tensors[0], &tensors[1], tensors + 2, 1, 1};
}
