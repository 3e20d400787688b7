// The host of DirectML.dll with descriptors that are C++: the k-th request must say the same as the
// k-th of `written`, and DirectML gets that one.
#include "direct3d.h"

#include "directml.h"

namespace {

struct Request;
DML_OPERATOR_DESC described(const Request& request);

}  // namespace

#define OPERATOR_DESC_OF described
#include "directml_host.cpp"
#include "written.h"  // what to_cpp wrote, and const DML_OPERATOR_DESC* const written[]

namespace {

bool same(const UINT* one, const UINT* other, UINT count) {
    return one && other ? !std::memcmp(one, other, count * sizeof(UINT)) : one == other;
}

bool same(const DML_TENSOR_DESC* one, const DML_TENSOR_DESC& other) {
    auto a = static_cast<const DML_BUFFER_TENSOR_DESC*>(one->Desc);
    auto b = static_cast<const DML_BUFFER_TENSOR_DESC*>(other.Desc);
    return one->Type == other.Type && a->DataType == b->DataType && a->Flags == b->Flags &&
           a->DimensionCount == b->DimensionCount && same(a->Sizes, b->Sizes, a->DimensionCount) &&
           same(a->Strides, b->Strides, a->DimensionCount) &&
           a->TotalTensorSizeInBytes == b->TotalTensorSizeInBytes &&
           a->GuaranteedBaseOffsetAlignment == b->GuaranteedBaseOffsetAlignment;
}

// The pointers lead to equal tensors, and the `count` UINTs behind them are equal.
template <typename Desc, UINT count>
bool same(const void* one, const Request& request) {
    auto desc = static_cast<const Desc*>(one);
    return same(desc->InputTensor, request.tensors[0].desc) &&
           same(desc->IndicesTensor, request.tensors[1].desc) &&
           same(desc->OutputTensor, request.tensors[2].desc) &&
           same(reinterpret_cast<const UINT*>(&desc->OutputTensor + 1), request.fields.Fields,
                count);
}

bool same(const DML_OPERATOR_DESC& one, const Request& request) {
    if (one.Type != request.type) return false;
    switch (one.Type) {
        case DML_OPERATOR_GATHER: return same<DML_GATHER_OPERATOR_DESC, 2>(one.Desc, request);
        case DML_OPERATOR_GATHER_ELEMENTS:
            return same<DML_GATHER_ELEMENTS_OPERATOR_DESC, 1>(one.Desc, request);
        case DML_OPERATOR_GATHER_ND: return same<DML_GATHER_ND_OPERATOR_DESC, 2>(one.Desc, request);
        case DML_OPERATOR_GATHER_ND1:
            return same<DML_GATHER_ND1_OPERATOR_DESC, 3>(one.Desc, request);
    }
    return false;
}

DML_OPERATOR_DESC described(const Request& request) {
    static size_t next = 0;
    if (next == std::size(written) || !same(*written[next], request))
        misunderstood("descriptor " + std::to_string(next) + " differs");
    return *written[next++];
}

}  // namespace
