// Writes every gather that an application asks DirectML for as a DxDispatch program:
//
//   #include "directml_capture.h"
//
//   ComPtr<IDMLDevice> device = ...;  // as before
//   device.Attach(onnxgather::capture(device.Get(), L"C:/gathers"));
//
// From there on a recording device stands in front of DirectML's. Each GATHER, GATHER_ELEMENTS,
// GATHER_ND and GATHER_ND1 that its CreateOperator gets becomes a file of the folder, such as
// gather-2c1f0c5e8d9a4b37.json, before DirectML sees it. Its indices are 0. Those that dispatches
// read are written too where a fourth argument says of how many dispatches, and the application
// calls write_indices. docs/capture.md says which calls are written and which are not.
//
// C++17, with DirectML's header alone, with or without exceptions and run-time type information.
// MinGW-w64 has compiled it without a warning, Visual C++ has not compiled it.
#pragma once

#include <DirectML.h>
#include <windows.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#if DML_TARGET_VERSION < 0x3000
#error "directml_capture.h needs DML_TARGET_VERSION of 0x3000 or more; see DirectML.h"
#endif

// Without exceptions, as games build, a failed allocation ends the application, as it does
// elsewhere in it. Older versions of Visual C++ define _CPPUNWIND alone.
#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define ONNXGATHER_TRY try
#define ONNXGATHER_OUT_OF_MEMORY catch (...)
#else
#define ONNXGATHER_TRY if (true)
#define ONNXGATHER_OUT_OF_MEMORY else
#endif

namespace onnxgather {

// Gets a sentence about the first failure. It may call the recording device.
using Report = void (*)(const wchar_t* sentence);

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

// How many values a resource that holds a tensor has: one for each element, or with strides as many
// as its bytes hold.
inline UINT64 value_count(const DML_BUFFER_TENSOR_DESC& buffer) {
    UINT64 count = 1;
    for (UINT k = 0; k < buffer.DimensionCount; k++) count *= buffer.Sizes[k];
    if (buffer.Strides) count = buffer.TotalTensorSizeInBytes / type_of(buffer).bytes;
    return count ? count : 1;  // of sizes that DirectML refuses; a resource holds a value at least
}

inline std::string generated(const char* value, UINT64 count) {
    return std::string("{") + value + ", \"valueCount\": " + std::to_string(count) + "}";
}

// The end of a resource that holds a tensor, behind its values.
inline std::string end_of_resource(const DML_BUFFER_TENSOR_DESC& buffer) {
    UINT64 bytes = (value_count(buffer) * type_of(buffer).bytes + 3) / 4 * 4;
    if (buffer.TotalTensorSizeInBytes <= bytes) return "}";
    return ", \"sizeInBytes\": " + std::to_string(buffer.TotalTensorSizeInBytes) + "}";
}

struct Field {
    const char* name;
    UINT value;
};

// A DxDispatch program that runs one gather, in parts: its data are 1, 2, 3 and so on, and its
// indices stand between `before` and `after`. `before` is empty where DxDispatch's JSON cannot hold
// the gather.
struct Program {
    std::string before, after;
    std::string indices;  // all 0
    DataType index_type{"UNKNOWN", 0};
    UINT64 index_count = 0;

    bool empty() const { return before.empty(); }
    std::string text() const { return before + indices + after; }
};

template <typename Desc>
Program program(const char* type, const Desc& desc, std::initializer_list<Field> fields) {
    struct {
        const char *tensor, *resource, *value;
        const DML_BUFFER_TENSOR_DESC* buffer;
    } const tensors[] = {
        {"InputTensor", "data", R"("valueStart": 1, "valueDelta": 1)", buffer_of(desc.InputTensor)},
        {"IndicesTensor", "indices", R"("value": 0)", buffer_of(desc.IndicesTensor)},
        {"OutputTensor", "output", R"("value": 0)", buffer_of(desc.OutputTensor)}};
    Program result;
    std::string resources, members, owned, bound;
    for (const auto& each : tensors) {
        if (!each.buffer) return Program();
        UINT64 count = value_count(*each.buffer);
        std::string values = generated(each.value, count);
        std::string separator = resources.empty() ? "" : ",";
        resources += separator + "\n        \"" + each.resource +
                     "\": {\"initialValuesDataType\": \"" + type_of(*each.buffer).name +
                     "\", \"initialValues\": ";
        if (each.tensor == tensors[1].tensor) {
            result.before = resources;
            result.indices = values;
            result.index_type = type_of(*each.buffer);
            result.index_count = count;
            resources = "";
        } else {
            resources += values;
        }
        resources += end_of_resource(*each.buffer);
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
    result.before = R"({
    "resources": {)" +
                    result.before;
    result.after = resources + R"(
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
    return result;
}

// The program of an operator; empty where the operator is no gather.
inline Program program_of(const DML_OPERATOR_DESC* desc) {
    if (!desc || !desc->Desc) return Program();
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
        default: return Program();
    }
}

template <typename T>
std::string listed_values(const unsigned char* bytes, UINT64 count) {
    std::string text = "[";
    for (UINT64 k = 0; k < count; k++) {
        T value;
        std::memcpy(&value, bytes + k * sizeof value, sizeof value);
        text += (k ? ", " : "") + std::to_string(value);
    }
    return text + "]";
}

// The program with the indices that a dispatch read; empty where DirectML's gathers take no indices
// of their type.
inline std::string with_indices(const Program& program, const unsigned char* bytes) {
    std::string type = program.index_type.name, values;
    UINT64 count = program.index_count;
    if (type == "INT32") values = listed_values<INT32>(bytes, count);
    if (type == "INT64") values = listed_values<INT64>(bytes, count);
    if (type == "UINT32") values = listed_values<UINT32>(bytes, count);
    if (type == "UINT64") values = listed_values<UINT64>(bytes, count);
    return values.empty() ? "" : program.before + values + program.after;
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

inline std::wstring hexadecimal(UINT64 value, int digit_count) {
    std::wstring digits;
    for (int shift = 4 * (digit_count - 1); shift >= 0; shift -= 4)
        digits += L"0123456789abcdef"[(value >> shift) & 15];
    return digits;
}

// 16 hexadecimal digits: FNV-1a of 64 bits.
inline std::wstring digest(const std::string& text) {
    UINT64 hash = 0xcbf29ce484222325;
    for (char character : text)
        hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3;
    return hexadecimal(hash, 16);
}

// The folder of one recording device.
class Folder {
public:
    Folder(const wchar_t* path, Report report) : report_(report) {
        if (!path || !*path) return;
        path_.resize(LONGEST_PATH);  // in full, as the application may change its current folder
        DWORD length = GetFullPathNameW(path, LONGEST_PATH, &path_[0], nullptr);
        path_.resize(length < LONGEST_PATH ? length : 0);
        while (path_.size() > ROOT && is_separator(path_.back())) path_.pop_back();
    }

    // Writes a gather, unless it has been written. Changes nothing that the application sees.
    void record(const DML_OPERATOR_DESC* desc) noexcept {
        keep_last_error([&] {
            std::string text = program_of(desc).text();
            return text.empty() ? ERROR_SUCCESS : write_once(text);
        });
    }

    // Writes the text that a function returns, unless the text is empty or a file has it.
    template <typename Text>
    void record_text(Text text_of) noexcept {
        keep_last_error([&] {
            std::string text = text_of();
            return text.empty() ? ERROR_SUCCESS : write_file(text);
        });
    }

    // Reports the first failure: a function returns what failed. No lock may be held.
    template <typename Failure>
    void failed(Failure failure_of) noexcept {
        if (is_reported_.exchange(true)) return;
        ONNXGATHER_TRY {
            std::wstring sentence =
                L"onnxgather: " + failure_of() + L"; later failures are not reported";
            if (report_) report_(sentence.c_str());
            else OutputDebugStringW((sentence + L"\n").c_str());
        } ONNXGATHER_OUT_OF_MEMORY {  // no memory for the sentence
        }
    }

private:
    static constexpr int MOST_NAMES = 100;
    static constexpr DWORD LONGEST_PATH = 32768;
    static constexpr size_t ROOT = 3;  // characters of C:\, whose separator stays

    static bool is_separator(wchar_t character) { return character == L'\\' || character == L'/'; }

    // Calls a function that writes a file, and reports the error that it returns.
    template <typename Write>
    void keep_last_error(Write write) noexcept {
        DWORD before = GetLastError(), error = ERROR_SUCCESS;
        ONNXGATHER_TRY {
            error = write();
        } ONNXGATHER_OUT_OF_MEMORY {
            error = ERROR_NOT_ENOUGH_MEMORY;
        }
        if (error != ERROR_SUCCESS)
            failed([&] {
                return L"a gather was not written to \"" + path_ + L"\", Windows error " +
                       std::to_wstring(error);
            });
        SetLastError(before);
    }

    DWORD write_once(const std::string& text) {
        std::lock_guard<std::mutex> lock(mutex_);
        auto [place, is_new] = written_.insert(text);  // first, as there may be no memory for it
        if (!is_new) return ERROR_SUCCESS;
        DWORD error = ERROR_NOT_ENOUGH_MEMORY;
        ONNXGATHER_TRY {
            error = write_file(text);
        } ONNXGATHER_OUT_OF_MEMORY {  // no memory for a name
        }
        if (error != ERROR_SUCCESS) written_.erase(place);
        return error;
    }

    DWORD write_file(const std::string& text) {
        if (path_.empty()) return ERROR_INVALID_NAME;
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

    std::wstring path_;
    Report report_;
    std::mutex mutex_;
    std::set<std::string> written_;
    std::atomic<bool> is_reported_{false};
};

// --- Identifiers -----------------------------------------------------------------------------

// By value, so that no library of identifiers is needed.
inline constexpr GUID UNKNOWN_ID{0, 0, 0, {0xc0, 0, 0, 0, 0, 0, 0, 0x46}};
inline constexpr GUID OBJECT_ID{
    0xc8263aac, 0x9e0c, 0x4a2d, {0x9b, 0x8e, 0x00, 0x75, 0x21, 0xa3, 0x31, 0x7c}};
inline constexpr GUID DEVICE_ID{
    0x6dbd6437, 0x96fd, 0x423f, {0xa9, 0x8c, 0xae, 0x5e, 0x7c, 0x2a, 0x57, 0x3f}};
inline constexpr GUID DEVICE1_ID{
    0xa0884f9a, 0xd2be, 0x4355, {0xaa, 0x5d, 0x59, 0x01, 0x28, 0x1a, 0xd1, 0xd2}};
inline constexpr GUID CHILD_ID{
    0x27e83142, 0x8165, 0x49e3, {0x97, 0x4e, 0x2f, 0xd6, 0x6e, 0x4c, 0xb6, 0x9d}};
inline constexpr GUID RECORDER_ID{
    0xe6857a76, 0x2e3e, 0x4fdd, {0xbf, 0xf4, 0x5d, 0x2b, 0xa1, 0x0f, 0xb4, 0x53}};
inline constexpr GUID TABLE_ID{
    0x29c687dc, 0xde74, 0x4e3b, {0xab, 0x00, 0x11, 0x68, 0xf2, 0xfc, 0x3c, 0xfc}};
inline constexpr GUID DIRECT3D_ID{
    0x189819f1, 0x1db6, 0x4b57, {0xbe, 0x54, 0x18, 0x21, 0x33, 0x9b, 0x85, 0xf7}};
inline constexpr GUID RESOURCE_ID{
    0x696442be, 0xa72e, 0x4059, {0xbc, 0x79, 0x5b, 0x5c, 0x98, 0x04, 0x0f, 0xad}};
inline constexpr GUID LIST_ID{
    0x5b160d0f, 0xac1b, 0x4185, {0x8b, 0xa8, 0xb3, 0xae, 0x42, 0xa5, 0xa4, 0x55}};

// Of this header: the recording device and its binding tables answer to them. GATHER_ID, with the
// address of the recording device's indices in it, names the private data of an operator.
inline constexpr GUID RECORDING_DEVICE_ID{
    0x6f9b3c0e, 0x52d4, 0x4a8f, {0x9d, 0x1c, 0x77, 0x0e, 0x4b, 0x21, 0x5a, 0x01}};
inline constexpr GUID RECORDING_TABLE_ID{
    0x6f9b3c0e, 0x52d4, 0x4a8f, {0x9d, 0x1c, 0x77, 0x0e, 0x4b, 0x21, 0x5a, 0x02}};
inline constexpr GUID GATHER_ID{
    0x6f9b3c0e, 0x52d4, 0x4a8f, {0x9d, 0x1c, 0x77, 0x0e, 0x4b, 0x21, 0x5a, 0x03}};

// --- Objects of COM --------------------------------------------------------------------------

// A reference to an object, released at its end.
template <typename T>
class Reference {
public:
    Reference() = default;
    Reference(const Reference&) = delete;
    Reference& operator=(const Reference&) = delete;
    ~Reference() {
        if (object_) object_->Release();
    }
    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T* release() { return std::exchange(object_, nullptr); }
    // For a call that gives an object as the interface T.
    void** put() { return reinterpret_cast<void**>(&object_); }

private:
    T* object_ = nullptr;
};

// Counts its references, and forwards what every object of DirectML has to such an object.
template <typename Interface, typename Object = Interface>
class Forwarding : public Interface {
public:
    Forwarding(const Forwarding&) = delete;
    Forwarding& operator=(const Forwarding&) = delete;

    STDMETHODIMP_(ULONG) AddRef() noexcept override { return ++references_; }
    STDMETHODIMP_(ULONG) Release() noexcept override {
        ULONG left = --references_;
        if (left == 0) delete this;
        return left;
    }
    STDMETHODIMP GetPrivateData(REFGUID guid, UINT* size, void* data) noexcept override {
        return object_->GetPrivateData(guid, size, data);
    }
    STDMETHODIMP SetPrivateData(REFGUID guid, UINT size, const void* data) noexcept override {
        return object_->SetPrivateData(guid, size, data);
    }
    STDMETHODIMP SetPrivateDataInterface(REFGUID guid, IUnknown* data) noexcept override {
        return object_->SetPrivateDataInterface(guid, data);
    }
    STDMETHODIMP SetName(PCWSTR name) noexcept override { return object_->SetName(name); }

protected:
    explicit Forwarding(Object* object) : object_(object) { object_->AddRef(); }
    virtual ~Forwarding() { object_->Release(); }

    Object* object_;

private:
    std::atomic<ULONG> references_{1};
};

// --- Indices ---------------------------------------------------------------------------------

// The buffers of a binding table that a copy of indices needs.
struct Bound {
    DML_BUFFER_BINDING indices{nullptr, 0, 0}, output{nullptr, 0, 0};

    bool is_in_place() const {
        return indices.Buffer == output.Buffer &&
               indices.Offset < output.Offset + output.SizeInBytes &&
               output.Offset < indices.Offset + indices.SizeInBytes;
    }
};

// The indices of dispatches: copied on the GPU behind a dispatch, written when the application says
// that the GPU has finished.
class Indices {
public:
    // `most` is of how many dispatches of each descriptor the indices are copied.
    Indices(Folder& folder, UINT most) : folder_(folder), most_(most), id_(GATHER_ID) {
        // Another recording device may stand in front of the same device of DirectML.
        auto address = reinterpret_cast<UINT_PTR>(this);
        std::memcpy(id_.Data4, &address, sizeof address);
    }
    Indices(const Indices&) = delete;
    Indices& operator=(const Indices&) = delete;
    ~Indices() {
        for (Copy& copy : copies_) copy.resource->Release();
    }

    bool are_read() const { return most_ > 0; }

    // Gives a new operator the number of its gather. Gathers with the same descriptor have the same
    // number, so that an application may create them again in each frame.
    void number(const DML_OPERATOR_DESC* desc, IUnknown* op) noexcept {
        HRESULT result = S_OK;
        ONNXGATHER_TRY {
            Program program = program_of(desc);
            if (!program.empty()) result = set_number(op, number_of(std::move(program)));
        } ONNXGATHER_OUT_OF_MEMORY {
            result = E_OUTOFMEMORY;
        }
        if (FAILED(result)) not_copied({nullptr, result});
    }

    // Gives a compiled operator the number of its operator, if that has a number.
    void pass_on(IDMLOperator* from, IUnknown* to) noexcept {
        UINT number = 0, size = sizeof number;
        if (!from || FAILED(from->GetPrivateData(id_, &size, &number))) return;
        HRESULT result = set_number(to, number);
        if (FAILED(result)) not_copied({nullptr, result});
    }

    // Copies the indices of a dispatch that the list has, if it is the dispatch of a gather.
    void copy(ID3D12CommandList* commands, IDMLDispatchable* dispatchable,
              const Bound& bound) noexcept {
        UINT number = 0, size = sizeof number;
        if (!commands || !dispatchable || !bound.indices.Buffer) return;
        if (FAILED(dispatchable->GetPrivateData(id_, &size, &number))) return;
        Failure failure;
        ONNXGATHER_TRY {
            failure = try_copy(commands, number, bound);
        } ONNXGATHER_OUT_OF_MEMORY {
            failure = {nullptr, E_OUTOFMEMORY};
        }
        if (failure.reason || FAILED(failure.result)) not_copied(failure);
    }

    // Writes a program for each copy that the GPU has made, and returns how many there are. The
    // copies stay: a command list may run again, and copies then to the same place.
    UINT write() noexcept {
        UINT count = 0;
        ONNXGATHER_TRY {
            for (const Copy& copy : copies())
                if (write_copy(copy)) count++;
        } ONNXGATHER_OUT_OF_MEMORY {
            not_copied({nullptr, E_OUTOFMEMORY});
        }
        return count;
    }

private:
    struct Gather {
        Program program;
        UINT copied;
    };
    struct Copy {
        const Program* program;
        UINT64 bytes;
        ID3D12Resource* resource;  // the indices, and MARK where the GPU has copied them
    };
    // Why indices were not copied: a reason, or a result of Direct3D.
    struct Failure {
        const wchar_t* reason = nullptr;
        HRESULT result = S_OK;
    };

    static constexpr UINT MARK = 1;
    // Of all copies. Direct3D gives memory in units of UNIT bytes.
    static constexpr UINT64 MOST_BYTES = UINT64{256} << 20, UNIT = UINT64{64} << 10;

    void not_copied(const Failure& failure) noexcept {
        folder_.failed([&] {
            std::wstring sentence = L"the indices of a dispatch were not copied, ";
            if (failure.reason) return sentence + failure.reason;
            return sentence + L"HRESULT 0x" + hexadecimal(static_cast<UINT>(failure.result), 8);
        });
    }

    UINT number_of(Program program) {
        std::lock_guard<std::mutex> lock(mutex_);
        auto place = numbers_.find(program.text());
        if (place != numbers_.end()) return place->second;
        gathers_.push_back({std::move(program), 0});  // if the map has no memory, it is unused
        UINT number = static_cast<UINT>(gathers_.size() - 1);
        numbers_.insert({gathers_.back().program.text(), number});
        return number;
    }

    HRESULT set_number(IUnknown* object, UINT number) const {
        Reference<IDMLObject> op;
        HRESULT result = object->QueryInterface(OBJECT_ID, op.put());
        return FAILED(result) ? result : op->SetPrivateData(id_, sizeof number, &number);
    }

    Failure try_copy(ID3D12CommandList* commands, UINT number, const Bound& bound) {
        std::lock_guard<std::mutex> lock(mutex_);
        if (number >= gathers_.size() || gathers_[number].copied == most_) return {};
        const Program& program = gathers_[number].program;
        UINT64 bytes = program.index_count * program.index_type.bytes;
        UINT64 taken = (bytes + sizeof MARK + UNIT - 1) / UNIT * UNIT;
        if (bytes > bound.indices.SizeInBytes)
            return {L"as their binding is smaller than they are"};
        if (bound.is_in_place()) return {L"as the output of the dispatch is bound over them"};
        if (taken > MOST_BYTES - taken_) return {L"as all copies may have 256 MiB"};
        copies_.reserve(copies_.size() + 1);  // first, as there may be no memory for it
        Reference<ID3D12Resource> copy;
        HRESULT result = record_copy(commands, bound.indices, bytes, copy);
        if (FAILED(result)) return {nullptr, result};
        copies_.push_back({&program, bytes, copy.release()});
        gathers_[number].copied++;
        taken_ += taken;
        return {};
    }

    // Puts the copy of a buffer on a list, behind the dispatch that reads the buffer.
    HRESULT record_copy(ID3D12CommandList* commands, const DML_BUFFER_BINDING& source, UINT64 bytes,
                        Reference<ID3D12Resource>& copy) {
        Reference<ID3D12GraphicsCommandList> list;
        Reference<ID3D12Device> device;
        HRESULT result = commands->QueryInterface(LIST_ID, list.put());
        if (SUCCEEDED(result)) result = source.Buffer->GetDevice(DIRECT3D_ID, device.put());
        if (SUCCEEDED(result) && !mark_.get()) result = make_mark(device.get());
        if (SUCCEEDED(result))
            result = make_buffer(device.get(), bytes + sizeof MARK, D3D12_HEAP_TYPE_READBACK,
                                 D3D12_RESOURCE_STATE_COPY_DEST, copy);
        if (FAILED(result)) return result;
        // DirectML takes a buffer in the state UNORDERED_ACCESS, or in a state that its dispatch
        // promotes to UNORDERED_ACCESS, such as COMMON. Behind the dispatch the buffer is in the
        // state UNORDERED_ACCESS in either case; in front of it nobody knows.
        D3D12_RESOURCE_BARRIER barrier{};
        barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
        barrier.Transition = {source.Buffer, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES,
                              D3D12_RESOURCE_STATE_UNORDERED_ACCESS,
                              D3D12_RESOURCE_STATE_COPY_SOURCE};
        list->ResourceBarrier(1, &barrier);
        list->CopyBufferRegion(copy.get(), 0, source.Buffer, source.Offset, bytes);
        list->CopyBufferRegion(copy.get(), bytes, mark_.get(), 0, sizeof MARK);
        std::swap(barrier.Transition.StateBefore, barrier.Transition.StateAfter);
        list->ResourceBarrier(1, &barrier);
        return S_OK;
    }

    // A new buffer holds zeros.
    static HRESULT make_buffer(ID3D12Device* device, UINT64 bytes, D3D12_HEAP_TYPE heap,
                               D3D12_RESOURCE_STATES state, Reference<ID3D12Resource>& buffer) {
        D3D12_HEAP_PROPERTIES properties{};
        properties.Type = heap;
        D3D12_RESOURCE_DESC desc{};
        desc.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
        desc.Width = bytes;
        desc.Height = desc.DepthOrArraySize = desc.MipLevels = 1;
        desc.SampleDesc.Count = 1;
        desc.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
        return device->CreateCommittedResource(&properties, D3D12_HEAP_FLAG_NONE, &desc, state,
                                               nullptr, RESOURCE_ID, buffer.put());
    }

    HRESULT make_mark(ID3D12Device* device) {
        Reference<ID3D12Resource> buffer;
        HRESULT result = make_buffer(device, sizeof MARK, D3D12_HEAP_TYPE_UPLOAD,
                                     D3D12_RESOURCE_STATE_GENERIC_READ, buffer);
        void* mapped = nullptr;
        D3D12_RANGE nothing{0, 0};
        if (SUCCEEDED(result)) result = buffer->Map(0, &nothing, &mapped);
        if (FAILED(result)) return result;
        std::memcpy(mapped, &MARK, sizeof MARK);
        buffer->Unmap(0, nullptr);
        *mark_.put() = buffer.release();
        return S_OK;
    }

    // As they are now: reports are made without the lock.
    std::vector<Copy> copies() {
        std::lock_guard<std::mutex> lock(mutex_);
        return copies_;
    }

    // Writes the program of a copy; false where the GPU has not copied the indices, as their list
    // did not run.
    bool write_copy(const Copy& copy) noexcept {
        void* mapped = nullptr;
        D3D12_RANGE all{0, static_cast<SIZE_T>(copy.bytes + sizeof MARK)}, nothing{0, 0};
        HRESULT result = copy.resource->Map(0, &all, &mapped);
        if (FAILED(result)) {
            not_copied({nullptr, result});
            return false;
        }
        auto bytes = static_cast<const unsigned char*>(mapped);
        bool is_copied = std::memcmp(bytes + copy.bytes, &MARK, sizeof MARK) == 0;
        if (is_copied) folder_.record_text([&] { return with_indices(*copy.program, bytes); });
        copy.resource->Unmap(0, &nothing);
        return is_copied;
    }

    Folder& folder_;
    UINT most_;
    GUID id_;
    std::mutex mutex_;
    std::map<std::string, UINT> numbers_;  // of the texts of gathers
    std::deque<Gather> gathers_;           // by number; each stays at its place
    std::vector<Copy> copies_;
    UINT64 taken_ = 0;  // bytes of the copies
    Reference<ID3D12Resource> mark_;
};

// What a recording device has of a child of DirectML's device.
template <typename Interface>
class Child : public Forwarding<Interface> {
public:
    using Base = Interface;

    Child(Interface* object, IUnknown* owner, Indices& indices)
        : Forwarding<Interface>(object), owner_(owner), indices_(indices) {
        owner_->AddRef();  // it has the indices
    }
    STDMETHODIMP GetDevice(REFIID wanted, void** device) noexcept override {
        return this->object_->GetDevice(wanted, device);
    }

protected:
    ~Child() override { owner_->Release(); }
    HRESULT query(REFIID wanted, void** answer, const GUID& own, const GUID& second) noexcept {
        bool is_own = IsEqualGUID(wanted, UNKNOWN_ID) || IsEqualGUID(wanted, OBJECT_ID) ||
                      IsEqualGUID(wanted, CHILD_ID) || IsEqualGUID(wanted, own) ||
                      IsEqualGUID(wanted, second);
        if (!is_own || !answer) return this->object_->QueryInterface(wanted, answer);
        *answer = static_cast<Interface*>(this);
        this->AddRef();
        return S_OK;
    }

    IUnknown* owner_;
    Indices& indices_;
};

// A binding table that knows where the indices are.
class Table final : public Child<IDMLBindingTable> {
public:
    using Child::Child;
    static constexpr const GUID& ID = TABLE_ID;

    STDMETHODIMP QueryInterface(REFIID wanted, void** answer) noexcept override {
        return query(wanted, answer, TABLE_ID, RECORDING_TABLE_ID);
    }
    STDMETHODIMP_(void)
    BindInputs(UINT count, const DML_BINDING_DESC* bindings) noexcept override {
        bound_.indices = buffer(bindings, count, 1);
        object_->BindInputs(count, bindings);
    }
    STDMETHODIMP_(void)
    BindOutputs(UINT count, const DML_BINDING_DESC* bindings) noexcept override {
        bound_.output = buffer(bindings, count, 0);
        object_->BindOutputs(count, bindings);
    }
    STDMETHODIMP_(void)
    BindTemporaryResource(const DML_BINDING_DESC* binding) noexcept override {
        object_->BindTemporaryResource(binding);
    }
    STDMETHODIMP_(void)
    BindPersistentResource(const DML_BINDING_DESC* binding) noexcept override {
        object_->BindPersistentResource(binding);
    }
    STDMETHODIMP Reset(const DML_BINDING_TABLE_DESC* desc) noexcept override {
        bound_ = Bound();
        return object_->Reset(desc);
    }

    const Bound& bound() const { return bound_; }
    IDMLBindingTable* directml() const { return object_; }

private:
    // The buffer of a binding; null where there is none.
    static DML_BUFFER_BINDING buffer(const DML_BINDING_DESC* bindings, UINT count, UINT number) {
        if (!bindings || count <= number) return {nullptr, 0, 0};
        const DML_BINDING_DESC& binding = bindings[number];
        if (binding.Type != DML_BINDING_TYPE_BUFFER || !binding.Desc) return {nullptr, 0, 0};
        return *static_cast<const DML_BUFFER_BINDING*>(binding.Desc);
    }

    Bound bound_;
};

// A command recorder that copies the indices behind the dispatch of a gather.
class Recorder final : public Child<IDMLCommandRecorder> {
public:
    using Child::Child;
    static constexpr const GUID& ID = RECORDER_ID;

    STDMETHODIMP QueryInterface(REFIID wanted, void** answer) noexcept override {
        return query(wanted, answer, RECORDER_ID, RECORDER_ID);
    }
    STDMETHODIMP_(void)
    RecordDispatch(ID3D12CommandList* list, IDMLDispatchable* dispatchable,
                   IDMLBindingTable* table) noexcept override {
        void* answer = nullptr;
        // A table that the application had before is DirectML's own.
        if (!table || FAILED(table->QueryInterface(RECORDING_TABLE_ID, &answer))) {
            object_->RecordDispatch(list, dispatchable, table);
            return;
        }
        auto own = static_cast<Table*>(static_cast<IDMLBindingTable*>(answer));
        object_->RecordDispatch(list, dispatchable, own->directml());
        indices_.copy(list, dispatchable, own->bound());
        own->Release();
    }
};

// --- The device ------------------------------------------------------------------------------

// Forwards every call to DirectML's device, whose objects it gives out as they are, but for what
// copies of indices need. The same object stands for all interfaces of a device. For any other
// interface, such as IDMLDebugDevice, DirectML's device answers.
class Device final : public Forwarding<IDMLDevice1, IDMLDevice> {
public:
    Device(IDMLDevice* device, const wchar_t* folder, Report report, UINT dispatches)
        : Forwarding(device), folder_(folder, report), indices_(folder_, dispatches) {
        device->QueryInterface(DEVICE1_ID, device1_.put());
    }

    STDMETHODIMP QueryInterface(REFIID wanted, void** answer) noexcept override {
        bool is_own = IsEqualGUID(wanted, UNKNOWN_ID) || IsEqualGUID(wanted, OBJECT_ID) ||
                      IsEqualGUID(wanted, DEVICE_ID) || IsEqualGUID(wanted, RECORDING_DEVICE_ID) ||
                      (device1_.get() && IsEqualGUID(wanted, DEVICE1_ID));
        if (!is_own || !answer) return object_->QueryInterface(wanted, answer);
        *answer = static_cast<IDMLDevice1*>(this);
        AddRef();
        return S_OK;
    }

    STDMETHODIMP CheckFeatureSupport(DML_FEATURE feature, UINT query_size, const void* query,
                                     UINT size, void* data) noexcept override {
        return object_->CheckFeatureSupport(feature, query_size, query, size, data);
    }
    STDMETHODIMP CreateOperator(const DML_OPERATOR_DESC* desc, REFIID wanted,
                                void** op) noexcept override {
        folder_.record(desc);
        HRESULT result = object_->CreateOperator(desc, wanted, op);
        if (is_watched(result, op)) indices_.number(desc, static_cast<IUnknown*>(*op));
        return result;
    }
    STDMETHODIMP CompileOperator(IDMLOperator* op, DML_EXECUTION_FLAGS flags, REFIID wanted,
                                 void** compiled) noexcept override {
        HRESULT result = object_->CompileOperator(op, flags, wanted, compiled);
        if (is_watched(result, compiled)) indices_.pass_on(op, static_cast<IUnknown*>(*compiled));
        return result;
    }
    STDMETHODIMP CreateOperatorInitializer(UINT count, IDMLCompiledOperator* const* operators,
                                           REFIID wanted, void** initializer) noexcept override {
        return object_->CreateOperatorInitializer(count, operators, wanted, initializer);
    }
    STDMETHODIMP CreateCommandRecorder(REFIID wanted, void** recorder) noexcept override {
        HRESULT result = object_->CreateCommandRecorder(wanted, recorder);
        if (is_watched(result, recorder)) put_in_front<Recorder>(wanted, recorder);
        return result;
    }
    STDMETHODIMP CreateBindingTable(const DML_BINDING_TABLE_DESC* desc, REFIID wanted,
                                    void** table) noexcept override {
        HRESULT result = object_->CreateBindingTable(desc, wanted, table);
        if (is_watched(result, table)) put_in_front<Table>(wanted, table);
        return result;
    }
    STDMETHODIMP Evict(UINT count, IDMLPageable* const* objects) noexcept override {
        return object_->Evict(count, objects);
    }
    STDMETHODIMP MakeResident(UINT count, IDMLPageable* const* objects) noexcept override {
        return object_->MakeResident(count, objects);
    }
    STDMETHODIMP GetDeviceRemovedReason() noexcept override {
        return object_->GetDeviceRemovedReason();
    }
    STDMETHODIMP GetParentDevice(REFIID wanted, void** device) noexcept override {
        return object_->GetParentDevice(wanted, device);
    }
    // A node of a graph is an operator that CreateOperator made, so its gather is written.
    STDMETHODIMP CompileGraph(const DML_GRAPH_DESC* desc, DML_EXECUTION_FLAGS flags, REFIID wanted,
                              void** compiled) noexcept override {
        if (!device1_.get()) return E_NOTIMPL;
        return device1_->CompileGraph(desc, flags, wanted, compiled);
    }

    UINT write_indices() noexcept { return indices_.write(); }

private:
    // Where indices are copied and a call gave an object. The object may be any of its interfaces;
    // each begins with the methods of IUnknown.
    bool is_watched(HRESULT result, void** object) const {
        return indices_.are_read() && SUCCEEDED(result) && object && *object;
    }

    // Gives the application an object of this header, which forwards to DirectML's. Without memory
    // for it, or for an interface that only DirectML's object has, the object stays DirectML's.
    template <typename Own>
    void put_in_front(REFIID wanted, void** object) noexcept {
        auto directml = static_cast<IUnknown*>(*object);
        Reference<typename Own::Base> forwarded;
        if (FAILED(directml->QueryInterface(Own::ID, forwarded.put()))) return;
        auto own = new (std::nothrow) Own(forwarded.get(), this, indices_);
        if (!own) {
            folder_.failed([] {
                return std::wstring(L"indices are not copied, as there was no memory");
            });
            return;
        }
        void* answer = nullptr;
        if (SUCCEEDED(own->QueryInterface(wanted, &answer))) {
            directml->Release();
            *object = answer;
        }
        own->Release();
    }

    Reference<IDMLDevice1> device1_;  // where the device has this interface
    Folder folder_;
    Indices indices_;
};

}  // namespace recording

// Returns a recording device, which writes every gather to a folder before it forwards the call to
// `device`. The caller gets a reference to the recording device, and keeps its own reference to
// `device`. Without memory for a recording device it returns `device`; for null it returns null.
//
// The folder must exist. Where it cannot be written to, the application goes on: `report` gets one
// sentence at the first failure, on the thread whose call failed; without `report`, the debugger
// gets it.
//
// `dispatches` is of how many dispatches of each descriptor the indices are copied, in 256 MiB at
// most. The application must then call `write_indices`.
template <typename Device>
Device* capture(Device* device, const wchar_t* folder, Report report = nullptr,
                UINT dispatches = 0) {
    if (!device) return nullptr;
    ONNXGATHER_TRY {
        return new recording::Device(device, folder, report, dispatches);
    } ONNXGATHER_OUT_OF_MEMORY {
        device->AddRef();
        return device;
    }
}

// Writes a program for each dispatch whose indices the GPU has copied so far, and returns how many
// there are: a list of commands that never ran has none. The GPU must have finished the lists that
// ran. A device that does not record has none.
inline UINT write_indices(IDMLDevice* device) {
    void* answer = nullptr;
    if (!device || FAILED(device->QueryInterface(recording::RECORDING_DEVICE_ID, &answer)))
        return 0;
    auto own = static_cast<recording::Device*>(static_cast<IDMLDevice1*>(answer));
    UINT count = own->write_indices();
    own->Release();
    return count;
}

}  // namespace onnxgather

#undef ONNXGATHER_TRY
#undef ONNXGATHER_OUT_OF_MEMORY
