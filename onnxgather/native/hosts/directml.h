// The part of DirectML's binary interface that directml_host.cpp calls, declared by hand.
//
// Sources. Structures, enumerators, interfaces, their identifiers and the order of their methods:
// DirectML.h as it comes with the Windows SDK (10.0.19041 and later) and the NuGet package
// Microsoft.AI.DirectML, compared with the Win32 metadata (namespace
// Windows.Win32.AI.MachineLearning.DirectML). Methods that directml_host.cpp does not call stand
// here only for their place in the table of methods.
#pragma once

#include <d3d12.h>

// DML_FEATURE_LEVEL of DirectML.h: 1_0 is 0x1000, 2_1 is 0x2100, 6_4 is 0x6400.
using DML_FEATURE_LEVEL = UINT;
constexpr DML_FEATURE_LEVEL DML_FEATURE_LEVEL_1_0 = 0x1000;
constexpr DML_FEATURE_LEVEL DML_FEATURE_LEVEL_3_0 = 0x3000;

enum DML_TENSOR_DATA_TYPE {
    DML_TENSOR_DATA_TYPE_UNKNOWN,
    DML_TENSOR_DATA_TYPE_FLOAT32,
    DML_TENSOR_DATA_TYPE_FLOAT16,
    DML_TENSOR_DATA_TYPE_UINT32,
    DML_TENSOR_DATA_TYPE_UINT16,
    DML_TENSOR_DATA_TYPE_UINT8,
    DML_TENSOR_DATA_TYPE_INT32,
    DML_TENSOR_DATA_TYPE_INT16,
    DML_TENSOR_DATA_TYPE_INT8,
    DML_TENSOR_DATA_TYPE_FLOAT64,
    DML_TENSOR_DATA_TYPE_UINT64,
    DML_TENSOR_DATA_TYPE_INT64,
    DML_TENSOR_DATA_TYPE_UINT4,
    DML_TENSOR_DATA_TYPE_INT4,
};

enum DML_TENSOR_FLAGS { DML_TENSOR_FLAG_NONE, DML_TENSOR_FLAG_OWNED_BY_DML };

enum DML_OPERATOR_TYPE {
    DML_OPERATOR_GATHER = 67,
    DML_OPERATOR_GATHER_ELEMENTS = 107,
    DML_OPERATOR_GATHER_ND = 108,
    DML_OPERATOR_GATHER_ND1 = 140,
};

enum DML_TENSOR_TYPE { DML_TENSOR_TYPE_INVALID, DML_TENSOR_TYPE_BUFFER };

struct DML_BUFFER_TENSOR_DESC {
    DML_TENSOR_DATA_TYPE DataType;
    DML_TENSOR_FLAGS Flags;
    UINT DimensionCount;
    const UINT* Sizes;
    const UINT* Strides;  // or null
    UINT64 TotalTensorSizeInBytes;
    UINT GuaranteedBaseOffsetAlignment;
};

struct DML_TENSOR_DESC {
    DML_TENSOR_TYPE Type;
    const void* Desc;
};

struct DML_OPERATOR_DESC {
    DML_OPERATOR_TYPE Type;
    const void* Desc;
};

struct DML_GATHER_OPERATOR_DESC {
    const DML_TENSOR_DESC* InputTensor;
    const DML_TENSOR_DESC* IndicesTensor;
    const DML_TENSOR_DESC* OutputTensor;
    UINT Axis;
    UINT IndexDimensions;
};

struct DML_GATHER_ELEMENTS_OPERATOR_DESC {
    const DML_TENSOR_DESC* InputTensor;
    const DML_TENSOR_DESC* IndicesTensor;
    const DML_TENSOR_DESC* OutputTensor;
    UINT Axis;
};

struct DML_GATHER_ND_OPERATOR_DESC {
    const DML_TENSOR_DESC* InputTensor;
    const DML_TENSOR_DESC* IndicesTensor;
    const DML_TENSOR_DESC* OutputTensor;
    UINT InputDimensionCount;
    UINT IndicesDimensionCount;
};

struct DML_GATHER_ND1_OPERATOR_DESC {
    const DML_TENSOR_DESC* InputTensor;
    const DML_TENSOR_DESC* IndicesTensor;
    const DML_TENSOR_DESC* OutputTensor;
    UINT InputDimensionCount;
    UINT IndicesDimensionCount;
    UINT BatchDimensionCount;
};

// What the four share: three tensors, then UINTs. The host fills it whatever the operator is.
struct GatherFamilyDesc {
    const DML_TENSOR_DESC* InputTensor;
    const DML_TENSOR_DESC* IndicesTensor;
    const DML_TENSOR_DESC* OutputTensor;
    UINT Fields[3];
};

struct DML_BINDING_PROPERTIES {
    UINT RequiredDescriptorCount;
    UINT64 TemporaryResourceSize;
    UINT64 PersistentResourceSize;
};

enum DML_BINDING_TYPE {
    DML_BINDING_TYPE_NONE,
    DML_BINDING_TYPE_BUFFER,
    DML_BINDING_TYPE_BUFFER_ARRAY,
};

struct DML_BINDING_DESC {
    DML_BINDING_TYPE Type;
    const void* Desc;
};

struct DML_BUFFER_BINDING {
    ID3D12Resource* Buffer;
    UINT64 Offset;
    UINT64 SizeInBytes;
};

struct DML_BUFFER_ARRAY_BINDING {
    UINT BindingCount;
    const DML_BUFFER_BINDING* Bindings;
};

enum DML_FEATURE { DML_FEATURE_TENSOR_DATA_TYPE_SUPPORT, DML_FEATURE_FEATURE_LEVELS };

struct DML_FEATURE_QUERY_FEATURE_LEVELS {
    UINT RequestedFeatureLevelCount;
    const DML_FEATURE_LEVEL* RequestedFeatureLevels;
};

struct DML_FEATURE_DATA_FEATURE_LEVELS {
    DML_FEATURE_LEVEL MaxSupportedFeatureLevel;
};

enum DML_EXECUTION_FLAGS { DML_EXECUTION_FLAG_NONE };
enum DML_CREATE_DEVICE_FLAGS { DML_CREATE_DEVICE_FLAG_NONE };

struct IDMLDispatchable;

struct DML_BINDING_TABLE_DESC {
    IDMLDispatchable* Dispatchable;
    D3D12_CPU_DESCRIPTOR_HANDLE CPUDescriptorHandle;
    D3D12_GPU_DESCRIPTOR_HANDLE GPUDescriptorHandle;
    UINT SizeInDescriptors;
};

// Interfaces. `iid` is the identifier that DirectML.h gives each in DML_DECLARE_INTERFACE.

struct IDMLObject : IUnknown {
    virtual HRESULT STDMETHODCALLTYPE GetPrivateData(REFGUID, UINT*, void*) = 0;
    virtual HRESULT STDMETHODCALLTYPE SetPrivateData(REFGUID, UINT, const void*) = 0;
    virtual HRESULT STDMETHODCALLTYPE SetPrivateDataInterface(REFGUID, IUnknown*) = 0;
    virtual HRESULT STDMETHODCALLTYPE SetName(PCWSTR) = 0;
};

struct IDMLDeviceChild : IDMLObject {
    virtual HRESULT STDMETHODCALLTYPE GetDevice(REFIID, void**) = 0;
};

struct IDMLPageable : IDMLDeviceChild {};

struct IDMLOperator : IDMLDeviceChild {
    // {26caae7a-3081-4633-9581-226fbe57695d}
    static constexpr GUID iid{
        0x26caae7a, 0x3081, 0x4633, {0x95, 0x81, 0x22, 0x6f, 0xbe, 0x57, 0x69, 0x5d}};
};

struct IDMLDispatchable : IDMLPageable {
    // DirectML.h returns the structure. Windows passes the place for it behind `this`, GCC before
    // it; so the place is an argument here, which both pass alike.
    virtual DML_BINDING_PROPERTIES* STDMETHODCALLTYPE
    GetBindingProperties(DML_BINDING_PROPERTIES*) = 0;
};

struct IDMLCompiledOperator : IDMLDispatchable {
    // {6b15e56a-bf5c-4902-92d8-da3a650afea4}
    static constexpr GUID iid{
        0x6b15e56a, 0xbf5c, 0x4902, {0x92, 0xd8, 0xda, 0x3a, 0x65, 0x0a, 0xfe, 0xa4}};
};

struct IDMLOperatorInitializer : IDMLDispatchable {
    // {427c1113-435c-469c-8676-4d5dd072f813}
    static constexpr GUID iid{
        0x427c1113, 0x435c, 0x469c, {0x86, 0x76, 0x4d, 0x5d, 0xd0, 0x72, 0xf8, 0x13}};
    virtual HRESULT STDMETHODCALLTYPE Reset(UINT, IDMLCompiledOperator* const*) = 0;
};

struct IDMLBindingTable : IDMLDeviceChild {
    // {29c687dc-de74-4e3b-ab00-1168f2fc3cfc}
    static constexpr GUID iid{
        0x29c687dc, 0xde74, 0x4e3b, {0xab, 0x00, 0x11, 0x68, 0xf2, 0xfc, 0x3c, 0xfc}};
    virtual void STDMETHODCALLTYPE BindInputs(UINT, const DML_BINDING_DESC*) = 0;
    virtual void STDMETHODCALLTYPE BindOutputs(UINT, const DML_BINDING_DESC*) = 0;
    virtual void STDMETHODCALLTYPE BindTemporaryResource(const DML_BINDING_DESC*) = 0;
    virtual void STDMETHODCALLTYPE BindPersistentResource(const DML_BINDING_DESC*) = 0;
    virtual HRESULT STDMETHODCALLTYPE Reset(const DML_BINDING_TABLE_DESC*) = 0;
};

struct IDMLCommandRecorder : IDMLDeviceChild {
    // {e6857a76-2e3e-4fdd-bff4-5d2ba10fb453}
    static constexpr GUID iid{
        0xe6857a76, 0x2e3e, 0x4fdd, {0xbf, 0xf4, 0x5d, 0x2b, 0xa1, 0x0f, 0xb4, 0x53}};
    virtual void STDMETHODCALLTYPE
    RecordDispatch(ID3D12CommandList*, IDMLDispatchable*, IDMLBindingTable*) = 0;
};

struct IDMLDevice : IDMLObject {
    // {6dbd6437-96fd-423f-a98c-ae5e7c2a573f}
    static constexpr GUID iid{
        0x6dbd6437, 0x96fd, 0x423f, {0xa9, 0x8c, 0xae, 0x5e, 0x7c, 0x2a, 0x57, 0x3f}};
    virtual HRESULT STDMETHODCALLTYPE
    CheckFeatureSupport(DML_FEATURE, UINT, const void*, UINT, void*) = 0;
    virtual HRESULT STDMETHODCALLTYPE CreateOperator(const DML_OPERATOR_DESC*, REFIID, void**) = 0;
    virtual HRESULT STDMETHODCALLTYPE
    CompileOperator(IDMLOperator*, DML_EXECUTION_FLAGS, REFIID, void**) = 0;
    virtual HRESULT STDMETHODCALLTYPE
    CreateOperatorInitializer(UINT, IDMLCompiledOperator* const*, REFIID, void**) = 0;
    virtual HRESULT STDMETHODCALLTYPE CreateCommandRecorder(REFIID, void**) = 0;
    virtual HRESULT STDMETHODCALLTYPE
    CreateBindingTable(const DML_BINDING_TABLE_DESC*, REFIID, void**) = 0;
    virtual HRESULT STDMETHODCALLTYPE Evict(UINT, IDMLPageable* const*) = 0;
    virtual HRESULT STDMETHODCALLTYPE MakeResident(UINT, IDMLPageable* const*) = 0;
    virtual HRESULT STDMETHODCALLTYPE GetDeviceRemovedReason() = 0;
    virtual HRESULT STDMETHODCALLTYPE GetParentDevice(REFIID, void**) = 0;
};

// DMLCreateDevice1 of DirectML.dll: DirectML.h, "DML device functions".
using DMLCreateDevice1Function = HRESULT(STDMETHODCALLTYPE*)(
    ID3D12Device*, DML_CREATE_DEVICE_FLAGS, DML_FEATURE_LEVEL, REFIID, void**);
