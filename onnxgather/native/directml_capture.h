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
#include <initializer_list>
#include <iterator>
#include <mutex>
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
    Program made;
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
            made.before = resources;
            made.indices = values;
            made.index_type = type_of(*each.buffer);
            made.index_count = count;
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
    made.before = R"({
    "resources": {)" +
                  made.before;
    made.after = resources + R"(
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
    return made;
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
        record_text([=] { return program_of(desc).text(); });
    }

    // Writes the text that a function returns, unless the text is empty or has been written.
    template <typename Text>
    void record_text(Text text_of) noexcept {
        DWORD before = GetLastError(), error = ERROR_SUCCESS;
        ONNXGATHER_TRY {
            std::string text = text_of();
            if (!text.empty()) error = write(text);
        } ONNXGATHER_OUT_OF_MEMORY {
            error = ERROR_NOT_ENOUGH_MEMORY;
        }
        if (error != ERROR_SUCCESS) failed(error);
        SetLastError(before);
    }

    // Tells the first failure.
    void failed(DWORD error) noexcept {
        if (!failed_.exchange(true)) tell(error);
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
        ONNXGATHER_TRY {
            error = write_file(text);
        } ONNXGATHER_OUT_OF_MEMORY {  // no memory for a name
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
        ONNXGATHER_TRY {
            std::wstring sentence = L"onnxgather: a gather was not written to \"" + path_ +
                                    L"\", Windows error " + std::to_wstring(error) +
                                    L"; later failures are not told";
            if (told_) told_(sentence.c_str());
            else OutputDebugStringW((sentence + L"\n").c_str());
        } ONNXGATHER_OUT_OF_MEMORY {  // no memory for the sentence
        }
    }

    std::wstring path_;
    Told told_;
    std::mutex mutex_;
    std::set<std::string> written_;
    std::atomic<bool> failed_{false};
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

// Of this header: the recording device and its binding tables answer to them, and an operator has
// the number of its gather as private data.
inline constexpr GUID RECORDING_DEVICE_ID{
    0x6f9b3c0e, 0x52d4, 0x4a8f, {0x9d, 0x1c, 0x77, 0x0e, 0x4b, 0x21, 0x5a, 0x01}};
inline constexpr GUID RECORDING_TABLE_ID{
    0x6f9b3c0e, 0x52d4, 0x4a8f, {0x9d, 0x1c, 0x77, 0x0e, 0x4b, 0x21, 0x5a, 0x02}};
inline constexpr GUID GATHER_ID{
    0x6f9b3c0e, 0x52d4, 0x4a8f, {0x9d, 0x1c, 0x77, 0x0e, 0x4b, 0x21, 0x5a, 0x03}};

// --- Indices ---------------------------------------------------------------------------------

// The indices of dispatches: copied on the GPU in front of a dispatch, written when the application
// says that the GPU has finished.
class Indices {
public:
    Indices(Folder& folder, UINT most) : folder_(folder), most_(most) {}
    Indices(const Indices&) = delete;
    Indices& operator=(const Indices&) = delete;
    ~Indices() {
        for (Copy& copy : copies_) copy.resource->Release();
    }

    bool are_read() const { return most_ > 0; }

    // Gives a new operator the number of its gather.
    void number(const DML_OPERATOR_DESC* desc, IDMLObject* op) noexcept {
        DWORD error = ERROR_SUCCESS;
        ONNXGATHER_TRY {
            Program program = program_of(desc);
            if (program.empty()) return;
            std::lock_guard<std::mutex> lock(mutex_);
            gathers_.push_back({std::move(program), 0});
            UINT number = static_cast<UINT>(gathers_.size() - 1);
            if (FAILED(op->SetPrivateData(GATHER_ID, sizeof number, &number)))
                error = ERROR_NOT_ENOUGH_MEMORY;
        } ONNXGATHER_OUT_OF_MEMORY {
            error = ERROR_NOT_ENOUGH_MEMORY;
        }
        if (error != ERROR_SUCCESS) folder_.failed(error);
    }

    // Gives a compiled operator the number of its operator, if that has one.
    void pass_on(IDMLObject* from, IDMLObject* to) noexcept {
        UINT number = 0, size = sizeof number;
        if (from && to && SUCCEEDED(from->GetPrivateData(GATHER_ID, &size, &number)))
            to->SetPrivateData(GATHER_ID, sizeof number, &number);
    }

    // Copies the indices of a dispatch, if it is that of a gather, and bound is where they are.
    void copy(ID3D12CommandList* commands, IDMLDispatchable* dispatchable,
              const DML_BUFFER_BINDING& bound) noexcept {
        UINT number = 0, size = sizeof number;
        if (!commands || !dispatchable || !bound.Buffer) return;
        if (FAILED(dispatchable->GetPrivateData(GATHER_ID, &size, &number))) return;
        DWORD error = ERROR_SUCCESS;
        ONNXGATHER_TRY {
            std::lock_guard<std::mutex> lock(mutex_);
            if (number >= gathers_.size() || gathers_[number].copied == most_) return;
            copies_.reserve(copies_.size() + 1);  // first, as there may be no memory for it
            Gather& gather = gathers_[number];
            UINT64 bytes = gather.program.index_count * gather.program.index_type.bytes;
            ID3D12Resource* resource = nullptr;
            if (bytes > bound.SizeInBytes) error = ERROR_INSUFFICIENT_BUFFER;
            else resource = copied(commands, bound, bytes);
            if (resource) {
                gather.copied++;
                copies_.push_back({number, bytes, resource});
            } else if (error == ERROR_SUCCESS) {
                error = ERROR_NOT_ENOUGH_MEMORY;
            }
        } ONNXGATHER_OUT_OF_MEMORY {
            error = ERROR_NOT_ENOUGH_MEMORY;
        }
        if (error != ERROR_SUCCESS) folder_.failed(error);
    }

    // Writes a program for each copy, and returns how many there are. The copies stay: a command
    // list may run again, and copies then to the same place.
    UINT write() noexcept {
        std::lock_guard<std::mutex> lock(mutex_);
        for (Copy& copy : copies_) {
            void* mapped = nullptr;
            D3D12_RANGE read{0, static_cast<SIZE_T>(copy.bytes)}, nothing{0, 0};
            if (SUCCEEDED(copy.resource->Map(0, &read, &mapped))) {
                const Program& program = gathers_[copy.gather].program;
                auto bytes = static_cast<const unsigned char*>(mapped);
                folder_.record_text([&] { return with_indices(program, bytes); });
                copy.resource->Unmap(0, &nothing);
            } else {
                folder_.failed(ERROR_READ_FAULT);
            }
        }
        return static_cast<UINT>(copies_.size());
    }

private:
    struct Gather {
        Program program;
        UINT copied;
    };
    struct Copy {
        UINT gather;
        UINT64 bytes;
        ID3D12Resource* resource;
    };

    // Puts a copy of a buffer on a list, and returns the buffer that it goes to; null where there
    // is none.
    static ID3D12Resource* copied(ID3D12CommandList* commands, const DML_BUFFER_BINDING& bound,
                                  UINT64 bytes) {
        void *device = nullptr, *list = nullptr, *resource = nullptr;
        D3D12_HEAP_PROPERTIES heap{};
        heap.Type = D3D12_HEAP_TYPE_READBACK;
        D3D12_RESOURCE_DESC desc{};
        desc.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
        desc.Width = bytes;
        desc.Height = desc.DepthOrArraySize = desc.MipLevels = 1;
        desc.SampleDesc.Count = 1;
        desc.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
        if (SUCCEEDED(commands->QueryInterface(LIST_ID, &list)) &&
            SUCCEEDED(bound.Buffer->GetDevice(DIRECT3D_ID, &device)) &&
            SUCCEEDED(static_cast<ID3D12Device*>(device)->CreateCommittedResource(
                &heap, D3D12_HEAP_FLAG_NONE, &desc, D3D12_RESOURCE_STATE_COPY_DEST, nullptr,
                RESOURCE_ID, &resource))) {
            auto target = static_cast<ID3D12GraphicsCommandList*>(list);
            // DirectML's tensors are in the state UNORDERED_ACCESS at a dispatch.
            D3D12_RESOURCE_BARRIER barrier{};
            barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
            barrier.Transition = {bound.Buffer, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES,
                                  D3D12_RESOURCE_STATE_UNORDERED_ACCESS,
                                  D3D12_RESOURCE_STATE_COPY_SOURCE};
            target->ResourceBarrier(1, &barrier);
            target->CopyBufferRegion(static_cast<ID3D12Resource*>(resource), 0, bound.Buffer,
                                     bound.Offset, bytes);
            std::swap(barrier.Transition.StateBefore, barrier.Transition.StateAfter);
            target->ResourceBarrier(1, &barrier);
        }
        if (device) static_cast<IUnknown*>(device)->Release();
        if (list) static_cast<IUnknown*>(list)->Release();
        return static_cast<ID3D12Resource*>(resource);
    }

    Folder& folder_;
    UINT most_;
    std::mutex mutex_;
    std::vector<Gather> gathers_;
    std::vector<Copy> copies_;
};

// What a recording device has of a child of DirectML's device: it forwards every call.
template <typename Interface>
class Child : public Interface {
public:
    Child(Interface* object, IUnknown* owner, Indices& indices)
        : object_(object), owner_(owner), indices_(indices) {
        owner_->AddRef();  // it has the indices
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

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
    STDMETHODIMP GetDevice(REFIID wanted, void** found) noexcept override {
        return object_->GetDevice(wanted, found);
    }

protected:
    virtual ~Child() {
        object_->Release();
        owner_->Release();
    }
    HRESULT query(REFIID wanted, void** found, const GUID& own, const GUID& second) noexcept {
        bool is_own = IsEqualGUID(wanted, UNKNOWN_ID) || IsEqualGUID(wanted, OBJECT_ID) ||
                      IsEqualGUID(wanted, CHILD_ID) || IsEqualGUID(wanted, own) ||
                      IsEqualGUID(wanted, second);
        if (!is_own || !found) return object_->QueryInterface(wanted, found);
        *found = static_cast<Interface*>(this);
        AddRef();
        return S_OK;
    }

    Interface* object_;
    IUnknown* owner_;
    Indices& indices_;

private:
    std::atomic<ULONG> references_{1};
};

// A binding table that knows where the indices are.
class Table final : public Child<IDMLBindingTable> {
public:
    using Child::Child;

    STDMETHODIMP QueryInterface(REFIID wanted, void** found) noexcept override {
        return query(wanted, found, TABLE_ID, RECORDING_TABLE_ID);
    }
    STDMETHODIMP_(void)
    BindInputs(UINT count, const DML_BINDING_DESC* bindings) noexcept override {
        bound_ = {nullptr, 0, 0};
        bool has_indices = bindings && count > 1 && bindings[1].Desc &&
                           bindings[1].Type == DML_BINDING_TYPE_BUFFER;
        if (has_indices) bound_ = *static_cast<const DML_BUFFER_BINDING*>(bindings[1].Desc);
        object_->BindInputs(count, bindings);
    }
    STDMETHODIMP_(void)
    BindOutputs(UINT count, const DML_BINDING_DESC* bindings) noexcept override {
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
        bound_ = {nullptr, 0, 0};
        return object_->Reset(desc);
    }

    const DML_BUFFER_BINDING& bound() const { return bound_; }
    IDMLBindingTable* directml() const { return object_; }

private:
    DML_BUFFER_BINDING bound_{nullptr, 0, 0};
};

// A command recorder that copies the indices in front of the dispatch of a gather.
class Recorder final : public Child<IDMLCommandRecorder> {
public:
    using Child::Child;

    STDMETHODIMP QueryInterface(REFIID wanted, void** found) noexcept override {
        return query(wanted, found, RECORDER_ID, RECORDER_ID);
    }
    STDMETHODIMP_(void)
    RecordDispatch(ID3D12CommandList* list, IDMLDispatchable* dispatchable,
                   IDMLBindingTable* table) noexcept override {
        void* found = nullptr;
        // A table that the application had before is DirectML's own.
        if (!table || FAILED(table->QueryInterface(RECORDING_TABLE_ID, &found))) {
            object_->RecordDispatch(list, dispatchable, table);
            return;
        }
        auto own = static_cast<Table*>(static_cast<IDMLBindingTable*>(found));
        indices_.copy(list, dispatchable, own->bound());
        object_->RecordDispatch(list, dispatchable, own->directml());
        own->Release();
    }
};

// --- The device ------------------------------------------------------------------------------

// Forwards every call to DirectML's device, whose objects it gives out as they are. The same object
// stands for all interfaces of a device. For any other interface, such as IDMLDebugDevice,
// DirectML's device answers.
class Device final : public IDMLDevice1 {
public:
    Device(IDMLDevice* device, const wchar_t* folder, Told told, UINT dispatches)
        : device_(device), folder_(folder, told), indices_(folder_, dispatches) {
        device_->AddRef();
        void* found = nullptr;
        if (SUCCEEDED(device_->QueryInterface(DEVICE1_ID, &found)))
            device1_ = static_cast<IDMLDevice1*>(found);
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    STDMETHODIMP QueryInterface(REFIID wanted, void** found) noexcept override {
        bool own = IsEqualGUID(wanted, UNKNOWN_ID) || IsEqualGUID(wanted, OBJECT_ID) ||
                   IsEqualGUID(wanted, DEVICE_ID) || IsEqualGUID(wanted, RECORDING_DEVICE_ID) ||
                   (device1_ && IsEqualGUID(wanted, DEVICE1_ID));
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
        HRESULT result = device_->CreateOperator(desc, wanted, found);
        if (indices_.are_read() && SUCCEEDED(result) && found && *found)
            indices_.number(desc, object(*found));
        return result;
    }
    STDMETHODIMP CompileOperator(IDMLOperator* op, DML_EXECUTION_FLAGS flags, REFIID wanted,
                                 void** found) noexcept override {
        HRESULT result = device_->CompileOperator(op, flags, wanted, found);
        if (indices_.are_read() && SUCCEEDED(result) && found && *found)
            indices_.pass_on(op, object(*found));
        return result;
    }
    STDMETHODIMP CreateOperatorInitializer(UINT count, IDMLCompiledOperator* const* operators,
                                           REFIID wanted, void** found) noexcept override {
        return device_->CreateOperatorInitializer(count, operators, wanted, found);
    }
    STDMETHODIMP CreateCommandRecorder(REFIID wanted, void** found) noexcept override {
        HRESULT result = device_->CreateCommandRecorder(wanted, found);
        if (indices_.are_read() && SUCCEEDED(result) && found && *found)
            put_in_front<Recorder, IDMLCommandRecorder>(found);
        return result;
    }
    STDMETHODIMP CreateBindingTable(const DML_BINDING_TABLE_DESC* desc, REFIID wanted,
                                    void** found) noexcept override {
        HRESULT result = device_->CreateBindingTable(desc, wanted, found);
        if (indices_.are_read() && SUCCEEDED(result) && found && *found)
            put_in_front<Table, IDMLBindingTable>(found);
        return result;
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

    UINT write_indices() noexcept { return indices_.write(); }

private:
    // What CreateOperator and CompileOperator give: all their interfaces begin as this one does.
    static IDMLObject* object(void* found) { return static_cast<IDMLObject*>(found); }

    // Gives the application an object of this header, which forwards to DirectML's. Without memory
    // for it, it stays DirectML's.
    template <typename Own, typename Interface>
    void put_in_front(void** found) noexcept {
        ONNXGATHER_TRY {
            auto own = new Own(static_cast<Interface*>(*found), this, indices_);
            *found = static_cast<Interface*>(own);
        } ONNXGATHER_OUT_OF_MEMORY {
            folder_.failed(ERROR_NOT_ENOUGH_MEMORY);
        }
    }

    ~Device() {
        if (device1_) device1_->Release();
        device_->Release();
    }

    std::atomic<ULONG> references_{1};
    IDMLDevice* device_;
    IDMLDevice1* device1_ = nullptr;  // where the device has this interface
    Folder folder_;
    Indices indices_;
};

}  // namespace recording

// Returns a recording device, which writes every gather to a folder before it forwards the call to
// `device`. The caller gets a reference to the recording device, and keeps its own reference to
// `device`. Without memory for a recording device it returns `device`; for null it returns null.
//
// The folder must exist. Where it cannot be written to, the application goes on: `told` gets one
// sentence at the first failure, on the thread that created the gather; without `told`, the
// debugger gets it.
//
// `dispatches` is of how many dispatches of each operator the indices are copied. The application
// must then call `write_indices`.
template <typename Device>
Device* capture(Device* device, const wchar_t* folder, Told told = nullptr, UINT dispatches = 0) {
    if (!device) return nullptr;
    ONNXGATHER_TRY {
        return new recording::Device(device, folder, told, dispatches);
    } ONNXGATHER_OUT_OF_MEMORY {
        device->AddRef();
        return device;
    }
}

// Writes a program for each dispatch whose indices were copied since the last call, and returns how
// many there were. The GPU must have finished these dispatches. A device that does not record has
// none.
inline UINT write_indices(IDMLDevice* device) {
    void* found = nullptr;
    if (!device || FAILED(device->QueryInterface(recording::RECORDING_DEVICE_ID, &found))) return 0;
    auto own = static_cast<recording::Device*>(static_cast<IDMLDevice1*>(found));
    UINT count = own->write_indices();
    own->Release();
    return count;
}

}  // namespace onnxgather

#undef ONNXGATHER_TRY
#undef ONNXGATHER_OUT_OF_MEMORY
