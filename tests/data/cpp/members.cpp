// Every field in a statement of its own, after `= {}`; sizes in std::vector.
#include <vector>

Microsoft::WRL::ComPtr<IDMLOperator> CreateGather(IDMLDevice* device) {
    std::vector<uint32_t> inputSizes = {4, 3};
    std::vector<uint32_t> indicesSizes{1, 2};
    const std::vector<uint32_t> outputSizes({4, 2});

    DML_BUFFER_TENSOR_DESC inputBufferDesc = {};
    inputBufferDesc.DataType = DML_TENSOR_DATA_TYPE_FLOAT32;
    inputBufferDesc.Flags = DML_TENSOR_FLAG_NONE;
    inputBufferDesc.DimensionCount = static_cast<UINT>(inputSizes.size());
    inputBufferDesc.Sizes = inputSizes.data();
    inputBufferDesc.Strides = nullptr;
    inputBufferDesc.TotalTensorSizeInBytes = 4 * 3 * sizeof(float);

    DML_BUFFER_TENSOR_DESC indicesBufferDesc = inputBufferDesc;
    indicesBufferDesc.DataType = DML_TENSOR_DATA_TYPE_UINT32;
    indicesBufferDesc.Sizes = indicesSizes.data();
    indicesBufferDesc.TotalTensorSizeInBytes = 2 * sizeof(uint32_t);

    DML_BUFFER_TENSOR_DESC outputBufferDesc = inputBufferDesc;
    outputBufferDesc.Sizes = outputSizes.data();
    outputBufferDesc.TotalTensorSizeInBytes = 32;

    DML_TENSOR_DESC inputDesc = {}, indicesDesc = {}, outputDesc = {};
    inputDesc.Type = indicesDesc.Type = outputDesc.Type = DML_TENSOR_TYPE_BUFFER;
    inputDesc.Desc = &inputBufferDesc;
    indicesDesc.Desc = &indicesBufferDesc;
    outputDesc.Desc = &outputBufferDesc;

    DML_GATHER_OPERATOR_DESC gather_desc = {};
    gather_desc.InputTensor = &inputDesc;
    gather_desc.IndicesTensor = &indicesDesc;
    gather_desc.OutputTensor = &outputDesc;
    gather_desc.Axis = 1;
    gather_desc.IndexDimensions = 1;

    DML_OPERATOR_DESC opDesc = {};
    opDesc.Type = DML_OPERATOR_GATHER;
    opDesc.Desc = &gather_desc;
    Microsoft::WRL::ComPtr<IDMLOperator> op;
    ThrowIfFailed(device->CreateOperator(&opDesc, IID_PPV_ARGS(&op)));
    return op;
}
