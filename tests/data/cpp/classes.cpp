// Constants of classes and namespaces, with their names in front.
namespace model::embedding {
class Table {
public:
    static constexpr UINT kRows = 4;
    enum { Columns = 3, Chosen = Columns - 1 };
    static const UINT kAxis{1};
};
struct Bytes { static constexpr UINT64 kTable = 48, kOutput = 32; };
}  // namespace model::embedding

void Build() {
    using T = model::embedding::Table;
    const UINT i[] = {model::embedding::Table::kRows, model::embedding::Table::Columns};
    const UINT n[] = {1, model::embedding::Table::Chosen};
    const UINT o[] = {model :: embedding :: Table :: kRows, 2};
    DML_BUFFER_TENSOR_DESC ib{DML_TENSOR_DATA_TYPE_FLOAT32, {}, 2, i, {}, model::embedding::Bytes::kTable, {}};
    DML_BUFFER_TENSOR_DESC nb{::DML_TENSOR_DATA_TYPE_UINT32, {}, 2, n, {}, 8, {}};
    DML_BUFFER_TENSOR_DESC ob{DML_TENSOR_DATA_TYPE_FLOAT32, {}, 2, o, {}, model::embedding::Bytes::kOutput};
    DML_TENSOR_DESC input{DML_TENSOR_TYPE_BUFFER, &ib}, indices{DML_TENSOR_TYPE_BUFFER, &nb};
    DML_TENSOR_DESC output{DML_TENSOR_TYPE_BUFFER, &ob};
    DML_GATHER_OPERATOR_DESC gather_desc{&input, &indices, &output, model::embedding::Table::kAxis, 1};
}
