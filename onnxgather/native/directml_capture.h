// Writes every gather that an application asks DirectML for as a DxDispatch program:
//
//   #include "directml_capture.h"
//
//   ComPtr<IDMLDevice> device = ...;  // as before
//   device.Attach(onnxgather::capture(device.Get(), L"C:/gathers"));
//
// From there on a recording device stands in front of DirectML's. Each GATHER, GATHER_ELEMENTS,
// GATHER_ND and GATHER_ND1 that its CreateOperator gets becomes a file of the folder, such as
// gather-2c1f0c5e8d9a4b37.json, before DirectML sees it. docs/capture.md says which calls are
// written and which are not.
//
// C++17, with DirectML's header alone. MinGW-w64 has compiled it without a warning, Visual C++ has
// not compiled it.
#pragma once

#include <DirectML.h>
#include <windows.h>

#include <atomic>
#include <initializer_list>
#include <iterator>
#include <mutex>
#include <set>
#include <string>

#if DML_TARGET_VERSION < 0x3000
#error "directml_capture.h needs DML_TARGET_VERSION of 0x3000 or more; see DirectML.h"
#endif

namespace onnxgather {

// Gets a sentence on the first gather that could not be written.
using Told = void (*)(const wchar_t* sentence);

namespace recording {

// --- Descriptors as JSON ---------------------------------------------------------------------

struct DataType {
    const char* name;
    UINT64 bytes;
};

// By DML_TENSOR_DATA_TYPE. DirectML's gathers take no other data types, and DxDispatch has no
// values of other data types.
inline constexpr DataType DATA_TYPES[] = {
    {"UNKNOWN", 0}, {"FLOAT32", 4}, {"FLOAT16", 2}, {"UINT32", 4}, {"UINT16", 2},  {"UINT8", 1},
    {"INT32", 4},   {"INT16", 2},   {"INT8", 1},    {"FLOAT64", 8}, {"UINT64", 8}, {"INT64", 8}};

inline constexpr UINT MOST_DIMENSIONS = 8;

// The buffer of a tensor; null where DxDispatch's JSON cannot hold the tensor.
inline const DML_BUFFER_TENSOR_DESC* buffer_of(const DML_TENSOR_DESC* tensor) {
    if (!tensor || tensor->Type != DML_TENSOR_TYPE_BUFFER || !tensor->Desc) return nullptr;
    auto buffer = static_cast<const DML_BUFFER_TENSOR_DESC*>(tensor->Desc);
    auto type = static_cast<UINT>(buffer->DataType), flags = static_cast<UINT>(buffer->Flags);
    bool can = type > 0 && type < std::size(DATA_TYPES) && flags <= DML_TENSOR_FLAG_OWNED_BY_DML &&
               buffer->DimensionCount > 0 && buffer->DimensionCount <= MOST_DIMENSIONS &&
               buffer->Sizes && buffer->TotalTensorSizeInBytes > 0;
    return can ? buffer : nullptr;
}

inline DataType type_of(const DML_BUFFER_TENSOR_DESC& buffer) {
    return DATA_TYPES[buffer.DataType];
}

inline bool is_owned(const DML_BUFFER_TENSOR_DESC& buffer) {
    return buffer.Flags == DML_TENSOR_FLAG_OWNED_BY_DML;
}

inline std::string listed(const UINT* values, UINT count) {
    std::string text = "[";
    for (UINT k = 0; k < count; k++) text += (k ? ", " : "") + std::to_string(values[k]);
    return text + "]";
}

// The fields of DML_BUFFER_TENSOR_DESC. A field that is null or 0 is left out.
inline std::string tensor_json(const DML_BUFFER_TENSOR_DESC& buffer) {
    std::string text = std::string("{\"DataType\": \"") + type_of(buffer).name + "\"";
    if (is_owned(buffer)) text += ", \"Flags\": \"OWNED_BY_DML\"";
    text += ", \"Sizes\": " + listed(buffer.Sizes, buffer.DimensionCount);
    if (buffer.Strides) text += ", \"Strides\": " + listed(buffer.Strides, buffer.DimensionCount);
    text += ", \"TotalTensorSizeInBytes\": " + std::to_string(buffer.TotalTensorSizeInBytes);
    if (buffer.GuaranteedBaseOffsetAlignment)
        text += ", \"GuaranteedBaseOffsetAlignment\": " +
                std::to_string(buffer.GuaranteedBaseOffsetAlignment);
    return text + "}";
}

// A resource that holds a tensor: a value per element, or with strides as many values as its bytes
// hold.
inline std::string resource_json(const DML_BUFFER_TENSOR_DESC& buffer, const char* value) {
    DataType type = type_of(buffer);
    UINT64 count = 1;
    for (UINT k = 0; k < buffer.DimensionCount; k++) count *= buffer.Sizes[k];
    if (buffer.Strides) count = buffer.TotalTensorSizeInBytes / type.bytes;
    if (count == 0) count = 1;  // of sizes that DirectML refuses; a resource holds a value at least
    std::string text = std::string("{\"initialValuesDataType\": \"") + type.name +
                       "\", \"initialValues\": {" + value +
                       ", \"valueCount\": " + std::to_string(count) + "}";
    if (buffer.TotalTensorSizeInBytes > (count * type.bytes + 3) / 4 * 4)
        text += ", \"sizeInBytes\": " + std::to_string(buffer.TotalTensorSizeInBytes);
    return text + "}";
}

struct Field {
    const char* name;
    UINT value;
};

// A DxDispatch program that runs one gather; empty where DxDispatch's JSON cannot hold the gather.
// Its data are 1, 2, 3 and so on, its indices are 0.
template <typename Desc>
std::string program(const char* type, const Desc& desc, std::initializer_list<Field> fields) {
    struct {
        const char *tensor, *resource, *value;
        const DML_BUFFER_TENSOR_DESC* buffer;
    } const tensors[] = {
        {"InputTensor", "data", R"("valueStart": 1, "valueDelta": 1)", buffer_of(desc.InputTensor)},
        {"IndicesTensor", "indices", R"("value": 0)", buffer_of(desc.IndicesTensor)},
        {"OutputTensor", "output", R"("value": 0)", buffer_of(desc.OutputTensor)}};
    std::string resources, members, owned, bound;
    for (const auto& each : tensors) {
        if (!each.buffer) return "";
        std::string separator = resources.empty() ? "" : ",";
        resources += separator + "\n        \"" + each.resource +
                     "\": " + resource_json(*each.buffer, each.value);
        members += separator + "\n                \"" + each.tensor +
                   "\": " + tensor_json(*each.buffer);
        std::string& list = is_owned(*each.buffer) ? owned : bound;
        list += (list.empty() ? "\"" : ", \"") + std::string(each.tensor) + "\": \"" +
                each.resource + "\"";
    }
    for (const Field& field : fields)
        members += std::string(",\n                \"") + field.name +
                   "\": " + std::to_string(field.value);
    if (!owned.empty()) owned = ",\n            \"bindings\": {" + owned + "}";
    return R"({
    "resources": {)" +
           resources + R"(
    },
    "dispatchables": {
        "gather": {
            "type": "DML_OPERATOR_)" +
           type + R"(",
            "desc": {)" +
           members + R"(
            })" +
           owned + R"(
        }
    },
    "commands": [
        {"type": "dispatch", "dispatchable": "gather", "bindings": {)" +
           bound + R"(}},
        {"type": "print", "resource": "output"}
    ]
}
)";
}

// The program of an operator; empty where the operator is no gather.
inline std::string program_of(const DML_OPERATOR_DESC* desc) {
    if (!desc || !desc->Desc) return "";
    switch (desc->Type) {
        case DML_OPERATOR_GATHER: {
            auto& gather = *static_cast<const DML_GATHER_OPERATOR_DESC*>(desc->Desc);
            return program("GATHER", gather, {{"Axis", gather.Axis},
                                              {"IndexDimensions", gather.IndexDimensions}});
        }
        case DML_OPERATOR_GATHER_ELEMENTS: {
            auto& gather = *static_cast<const DML_GATHER_ELEMENTS_OPERATOR_DESC*>(desc->Desc);
            return program("GATHER_ELEMENTS", gather, {{"Axis", gather.Axis}});
        }
        case DML_OPERATOR_GATHER_ND: {
            auto& gather = *static_cast<const DML_GATHER_ND_OPERATOR_DESC*>(desc->Desc);
            return program("GATHER_ND", gather,
                           {{"InputDimensionCount", gather.InputDimensionCount},
                            {"IndicesDimensionCount", gather.IndicesDimensionCount}});
        }
        case DML_OPERATOR_GATHER_ND1: {
            auto& gather = *static_cast<const DML_GATHER_ND1_OPERATOR_DESC*>(desc->Desc);
            return program("GATHER_ND1", gather,
                           {{"InputDimensionCount", gather.InputDimensionCount},
                            {"IndicesDimensionCount", gather.IndicesDimensionCount},
                            {"BatchDimensionCount", gather.BatchDimensionCount}});
        }
        default: return "";
    }
}

// --- Files -----------------------------------------------------------------------------------

class File {
public:
    File(const std::wstring& path, DWORD access, DWORD shared, DWORD disposition)
        : handle_(CreateFileW(path.c_str(), access, shared, nullptr, disposition,
                              FILE_ATTRIBUTE_NORMAL, nullptr)) {}
    File(const File&) = delete;
    File& operator=(const File&) = delete;
    ~File() { close(); }
    bool is_open() const { return handle_ != INVALID_HANDLE_VALUE; }
    bool write(const std::string& text) {
        DWORD done = 0, size = static_cast<DWORD>(text.size());
        if (!WriteFile(handle_, text.data(), size, &done, nullptr)) return false;
        if (done != size) SetLastError(ERROR_DISK_FULL);
        return done == size;
    }
    bool holds(const std::string& text) {
        std::string content(text.size() + 1, '\0');  // one byte more, to see that the file ends
        DWORD done = 0;
        return ReadFile(handle_, &content[0], static_cast<DWORD>(content.size()), &done, nullptr) &&
               content.compare(0, done, text) == 0;
    }
    bool close() {
        HANDLE handle = handle_;
        handle_ = INVALID_HANDLE_VALUE;
        return handle == INVALID_HANDLE_VALUE || CloseHandle(handle);
    }

private:
    HANDLE handle_;
};

// A file that is deleted, unless it has been renamed.
struct Temporary {
    std::wstring path;
    bool is_there = false;
    Temporary() = default;
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    ~Temporary() {
        if (is_there) DeleteFileW(path.c_str());
    }
};

// 16 hexadecimal digits: FNV-1a of 64 bits.
inline std::wstring digest(const std::string& text) {
    UINT64 hash = 0xcbf29ce484222325;
    for (char character : text)
        hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3;
    std::wstring digits;
    for (int shift = 60; shift >= 0; shift -= 4)
        digits += L"0123456789abcdef"[(hash >> shift) & 15];
    return digits;
}

// The folder of one recording device.
class Folder {
public:
    Folder(const wchar_t* path, Told told) : told_(told) {
        if (!path || !*path) return;
        path_.resize(LONGEST_PATH);  // in full, as the application may change its current folder
        DWORD length = GetFullPathNameW(path, LONGEST_PATH, &path_[0], nullptr);
        path_.resize(length < LONGEST_PATH ? length : 0);
        while (path_.size() > ROOT && is_separator(path_.back())) path_.pop_back();
    }

    // Writes a gather, unless it has been written. Changes nothing that the application sees.
    void record(const DML_OPERATOR_DESC* desc) noexcept {
        DWORD before = GetLastError(), error = ERROR_SUCCESS;
        try {
            std::string text = program_of(desc);
            if (!text.empty()) error = write(text);
        } catch (...) {
            error = ERROR_NOT_ENOUGH_MEMORY;
        }
        if (error != ERROR_SUCCESS && !failed_.exchange(true)) tell(error);
        SetLastError(before);
    }

private:
    static constexpr int MOST_NAMES = 100;
    static constexpr DWORD LONGEST_PATH = 32768;
    static constexpr size_t ROOT = 3;  // characters of C:\, whose separator stays

    static bool is_separator(wchar_t character) { return character == L'\\' || character == L'/'; }

    DWORD write(const std::string& text) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (path_.empty()) return ERROR_INVALID_NAME;
        auto [place, is_new] = written_.insert(text);  // first, as there may be no memory for it
        if (!is_new) return ERROR_SUCCESS;
        DWORD error = ERROR_NOT_ENOUGH_MEMORY;
        try {
            error = write_file(text);
        } catch (...) {  // no memory for a name
        }
        if (error != ERROR_SUCCESS) written_.erase(place);
        return error;
    }

    DWORD write_file(const std::string& text) {
        Temporary temporary;
        std::wstring start = path_ + (is_separator(path_.back()) ? L"" : L"\\") + L"gather-";
        DWORD error = write_temporary(temporary, start, text);
        return error == ERROR_SUCCESS ? name_file(temporary, start + digest(text), text) : error;
    }

    // Writes a new file whose name shows that it is not whole. Another device, library or machine
    // may write to the same folder: the name has the time, and no file of that name is replaced.
    DWORD write_temporary(Temporary& temporary, const std::wstring& start,
                          const std::string& text) {
        DWORD error = ERROR_FILE_EXISTS;
        for (int tried = 0; error == ERROR_FILE_EXISTS && tried < MOST_NAMES; tried++) {
            LARGE_INTEGER ticks;
            QueryPerformanceCounter(&ticks);
            temporary.path = start + std::to_wstring(GetCurrentProcessId()) + L"-" +
                             std::to_wstring(ticks.QuadPart) + L".tmp";
            File file(temporary.path, GENERIC_WRITE, 0, CREATE_NEW);
            temporary.is_there = file.is_open();
            if (file.is_open() && file.write(text) && file.close()) return ERROR_SUCCESS;
            error = GetLastError();
        }
        return error;
    }

    // Renames the file to the first name that no other file has. A file of that name with the same
    // text, of an earlier run or of another application, stays instead.
    DWORD name_file(Temporary& temporary, const std::wstring& start, const std::string& text) {
        for (int number = 1; number <= MOST_NAMES; number++) {
            std::wstring suffix = number > 1 ? L"-" + std::to_wstring(number) : L"";
            std::wstring path = start + suffix + L".json";
            temporary.is_there = !MoveFileExW(temporary.path.c_str(), path.c_str(), 0);
            if (!temporary.is_there) return ERROR_SUCCESS;
            DWORD error = GetLastError();
            if (error != ERROR_ALREADY_EXISTS && error != ERROR_FILE_EXISTS) return error;
            File there(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, OPEN_EXISTING);
            if (there.is_open() && there.holds(text)) return ERROR_SUCCESS;
        }
        return ERROR_FILE_EXISTS;
    }

    void tell(DWORD error) noexcept {
        try {
            std::wstring sentence = L"onnxgather: a gather was not written to \"" + path_ +
                                    L"\", Windows error " + std::to_wstring(error) +
                                    L"; later failures are not told";
            if (told_) told_(sentence.c_str());
            else OutputDebugStringW((sentence + L"\n").c_str());
        } catch (...) {  // no memory for the sentence
        }
    }

    std::wstring path_;
    Told told_;
    std::mutex mutex_;
    std::set<std::string> written_;
    std::atomic<bool> failed_{false};
};

// --- The device ------------------------------------------------------------------------------

// By value, so that no library of identifiers is needed.
inline constexpr GUID UNKNOWN_ID{0, 0, 0, {0xc0, 0, 0, 0, 0, 0, 0, 0x46}};
inline constexpr GUID OBJECT_ID{
    0xc8263aac, 0x9e0c, 0x4a2d, {0x9b, 0x8e, 0x00, 0x75, 0x21, 0xa3, 0x31, 0x7c}};
inline constexpr GUID DEVICE_ID{
    0x6dbd6437, 0x96fd, 0x423f, {0xa9, 0x8c, 0xae, 0x5e, 0x7c, 0x2a, 0x57, 0x3f}};
inline constexpr GUID DEVICE1_ID{
    0xa0884f9a, 0xd2be, 0x4355, {0xaa, 0x5d, 0x59, 0x01, 0x28, 0x1a, 0xd1, 0xd2}};

// Forwards every call to DirectML's device, whose objects it gives out as they are. The same object
// stands for all interfaces of a device. For any other interface, such as IDMLDebugDevice,
// DirectML's device answers.
class Device final : public IDMLDevice1 {
public:
    Device(IDMLDevice* device, const wchar_t* folder, Told told)
        : device_(device), folder_(folder, told) {
        device_->AddRef();
        void* found = nullptr;
        if (SUCCEEDED(device_->QueryInterface(DEVICE1_ID, &found)))
            device1_ = static_cast<IDMLDevice1*>(found);
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    STDMETHODIMP QueryInterface(REFIID wanted, void** found) noexcept override {
        bool own = IsEqualGUID(wanted, UNKNOWN_ID) || IsEqualGUID(wanted, OBJECT_ID) ||
                   IsEqualGUID(wanted, DEVICE_ID) || (device1_ && IsEqualGUID(wanted, DEVICE1_ID));
        if (!own || !found) return device_->QueryInterface(wanted, found);
        *found = static_cast<IDMLDevice1*>(this);
        AddRef();
        return S_OK;
    }
    STDMETHODIMP_(ULONG) AddRef() noexcept override { return ++references_; }
    STDMETHODIMP_(ULONG) Release() noexcept override {
        ULONG left = --references_;
        if (left == 0) delete this;
        return left;
    }

    STDMETHODIMP GetPrivateData(REFGUID guid, UINT* size, void* data) noexcept override {
        return device_->GetPrivateData(guid, size, data);
    }
    STDMETHODIMP SetPrivateData(REFGUID guid, UINT size, const void* data) noexcept override {
        return device_->SetPrivateData(guid, size, data);
    }
    STDMETHODIMP SetPrivateDataInterface(REFGUID guid, IUnknown* data) noexcept override {
        return device_->SetPrivateDataInterface(guid, data);
    }
    STDMETHODIMP SetName(PCWSTR name) noexcept override { return device_->SetName(name); }

    STDMETHODIMP CheckFeatureSupport(DML_FEATURE feature, UINT query_size, const void* query,
                                     UINT size, void* data) noexcept override {
        return device_->CheckFeatureSupport(feature, query_size, query, size, data);
    }
    STDMETHODIMP CreateOperator(const DML_OPERATOR_DESC* desc, REFIID wanted,
                                void** found) noexcept override {
        folder_.record(desc);
        return device_->CreateOperator(desc, wanted, found);
    }
    STDMETHODIMP CompileOperator(IDMLOperator* op, DML_EXECUTION_FLAGS flags, REFIID wanted,
                                 void** found) noexcept override {
        return device_->CompileOperator(op, flags, wanted, found);
    }
    STDMETHODIMP CreateOperatorInitializer(UINT count, IDMLCompiledOperator* const* operators,
                                           REFIID wanted, void** found) noexcept override {
        return device_->CreateOperatorInitializer(count, operators, wanted, found);
    }
    STDMETHODIMP CreateCommandRecorder(REFIID wanted, void** found) noexcept override {
        return device_->CreateCommandRecorder(wanted, found);
    }
    STDMETHODIMP CreateBindingTable(const DML_BINDING_TABLE_DESC* desc, REFIID wanted,
                                    void** found) noexcept override {
        return device_->CreateBindingTable(desc, wanted, found);
    }
    STDMETHODIMP Evict(UINT count, IDMLPageable* const* objects) noexcept override {
        return device_->Evict(count, objects);
    }
    STDMETHODIMP MakeResident(UINT count, IDMLPageable* const* objects) noexcept override {
        return device_->MakeResident(count, objects);
    }
    STDMETHODIMP GetDeviceRemovedReason() noexcept override {
        return device_->GetDeviceRemovedReason();
    }
    STDMETHODIMP GetParentDevice(REFIID wanted, void** found) noexcept override {
        return device_->GetParentDevice(wanted, found);
    }
    // A node of a graph is an operator that CreateOperator made, so its gather is written.
    STDMETHODIMP CompileGraph(const DML_GRAPH_DESC* desc, DML_EXECUTION_FLAGS flags, REFIID wanted,
                              void** found) noexcept override {
        return device1_ ? device1_->CompileGraph(desc, flags, wanted, found) : E_NOTIMPL;
    }

private:
    ~Device() {
        if (device1_) device1_->Release();
        device_->Release();
    }

    std::atomic<ULONG> references_{1};
    IDMLDevice* device_;
    IDMLDevice1* device1_ = nullptr;  // where the device has this interface
    Folder folder_;
};

}  // namespace recording

// Returns a recording device, which writes every gather to a folder before it forwards the call to
// `device`. The caller gets a reference to the recording device, and keeps its own reference to
// `device`. Without memory for a recording device it returns `device`; for null it returns null.
//
// The folder must exist. Where it cannot be written to, the application goes on: `told` gets one
// sentence at the first failure, on the thread that created the gather; without `told`, the
// debugger gets it.
template <typename Device>
Device* capture(Device* device, const wchar_t* folder, Told told = nullptr) {
    if (!device) return nullptr;
    try {
        return new recording::Device(device, folder, told);
    } catch (...) {
        device->AddRef();
        return device;
    }
}

}  // namespace onnxgather
