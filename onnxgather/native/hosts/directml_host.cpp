// Asks DirectML.dll: reads gather descriptors with their buffers from standard input, has the DLL
// create, compile and dispatch each operator, and writes what became of it to standard output.
//
//   directml_host.exe [--directml PATH] [--adapter NUMBER] [--example]
//
// PATH is the DLL, by default DirectML.dll beside this program or where Windows finds it. NUMBER
// counts adapters as DXGI lists them; by default Direct3D takes its own first one. With --example it only
// runs one gather, which needs feature level 3_0, and prints the result; the exit code is 1 where
// it is not the known one. Ends when its input does. A descriptor that crashes DirectML or a driver
// ends it, with a line on standard error where that is possible.
//
// BUILDING, with MinGW-w64 on Linux or Windows (what is tested), or with Visual C++:
//
//   x86_64-w64-mingw32-g++ -std=c++20 -O2 -static -s -o directml_host.exe directml_host.cpp
//       -ld3d12 -ldxgi -ldxguid -lversion
//   cl /std:c++20 /O2 /EHsc /DNOMINMAX directml_host.cpp d3d12.lib dxgi.lib dxguid.lib version.lib
//
// WINDOWS. Put DirectML.dll beside this program: it is in the folder onnxruntime/capi of the wheel
// onnxruntime-directml, and in the NuGet package Microsoft.AI.DirectML. Without it Windows takes
// its own from System32, which is older. onnxgather looks for directml_host.exe in
// %LOCALAPPDATA%\onnxgather\directml.
//
// PROTOCOL. That of runtime.py, as protocol.h says. A host that cannot start writes no MAGIC, but a
// line on standard error and ends with exit code 2.
//
//   {}        asks for the host itself. The answer has "version" of DirectML.dll, "adapter" (the
//             name of the graphics adapter), "feature_level" (the highest, such as "6_4") and
//             "wine" (its version, null on Windows).
//   {"operator": 67, "feature_level": 4096, "tensors": [...], "fields": [...], "buffers": [...],
//    "bindings": null}
//             asks for an operator. "operator" is a DML_OPERATOR_TYPE, "feature_level" the minimum
//             of the DirectML device (4096 is 1_0; devices are kept). A tensor is a list of the
//             fields of DML_BUFFER_TENSOR_DESC in their order, without DimensionCount; Strides may
//             be null. "fields" are those after the tensors, in their order. "buffers" are the
//             numbers of bytes of the buffers before the dispatch, which follow the JSON; where it
//             is null, the operator is only created. "bindings" has two numbers for each tensor:
//             which buffer it is bound to, from 0, and the offset in bytes there; several tensors
//             may be bound to one. Where it is null, each tensor has its own buffer, in their
//             order. The answer has "stage" (the call that refused, or "done"), "hresult" (0 at
//             "done"), "guards_touched" (whether guard bytes beside the output were written) and
//             "device_lost" (whether the host can run no more). The bytes of OutputTensor after the
//             dispatch, all TotalTensorSizeInBytes, follow; with "bindings" its whole buffer.
//
// With "bindings" a tensor is bound from its offset to the end of its buffer, as dxdispatch does.
// Without them it is bound at exactly TotalTensorSizeInBytes; a shorter content is followed by
// zeros, a longer one is bound as far. Guard bytes lie behind every buffer; without "bindings" also
// in front of each tensor whose GuaranteedBaseOffsetAlignment is at most 1 MiB. OutputTensor's are
// checked. An input that is OWNED_BY_DML is bound when the operator is initialised, not when it is
// dispatched. A buffer of more than 1 GiB is not run: BUFFERS refuses it with E_OUTOFMEMORY.
#include "direct3d.h"  // before dxgi: identifiers are defined there
#include <dxgi1_4.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "directml.h"
#include "protocol.h"

namespace {

enum Stage : UINT {
    DONE = 0,
    DIRECT3D_DEVICE = 1,  // D3D12CreateDevice and the queue
    DIRECTML_DEVICE = 2,  // LoadLibrary, DMLCreateDevice1
    CREATE_OPERATOR = 3,
    COMPILE_OPERATOR = 4,
    BUFFERS = 5,     // creating and filling the buffers
    INITIALIZE = 6,  // the operator's initializer
    DISPATCH = 7,
};

// The names of the stages in answers.
constexpr const char* STAGES[] = {"done",           "D3D12CreateDevice", "DMLCreateDevice1",
                                  "CreateOperator", "CompileOperator",   "buffers",
                                  "initialize",     "dispatch"};

constexpr UINT64 GUARD = 4096;
constexpr UINT64 LARGEST_GUARD = 1 << 20;
constexpr UINT64 LARGEST_BUFFER = 1 << 30;

struct Failure {
    Stage stage;
    HRESULT result;
};

// In words, such as "CreateOperator gave 0x80070057".
string told(Stage stage, HRESULT result) {
    char text[100];
    std::snprintf(text, sizeof text, "%s gave 0x%08lX", STAGES[stage], result);
    return text;
}

void check(Stage stage, HRESULT result) {
    if (FAILED(result)) throw Failure{stage, result};
}

// --- Requests --------------------------------------------------------------------------------

struct Tensor {
    DML_BUFFER_TENSOR_DESC buffer{};
    std::vector<UINT> sizes, strides;
    DML_TENSOR_DESC desc{};

    bool owned() const { return buffer.Flags & DML_TENSOR_FLAG_OWNED_BY_DML; }

    void read(const Json& fields) {
        buffer.DataType = static_cast<DML_TENSOR_DATA_TYPE>(fields.at(0).number);
        buffer.Flags = static_cast<DML_TENSOR_FLAGS>(fields.at(1).number);
        sizes = numbers(fields.at(2));
        strides = numbers(fields.at(3));
        if (!strides.empty() && strides.size() != sizes.size())
            misunderstood("a tensor with more or fewer strides than sizes");
        buffer.DimensionCount = static_cast<UINT>(sizes.size());
        buffer.Sizes = sizes.data();
        buffer.Strides = fields.at(3).kind == Json::LIST ? strides.data() : nullptr;
        buffer.TotalTensorSizeInBytes = fields.at(4).number;
        buffer.GuaranteedBaseOffsetAlignment = static_cast<UINT>(fields.at(5).number);
        desc = {DML_TENSOR_TYPE_BUFFER, &buffer};
    }

    static std::vector<UINT> numbers(const Json& list) {
        std::vector<UINT> found;
        for (const Json& item : list.items) found.push_back(static_cast<UINT>(item.number));
        return found;
    }
};

// Where a tensor is bound: the number of its buffer, and the offset in bytes there.
struct Binding {
    UINT64 buffer, offset;
};

struct Request {
    bool only_create;
    bool shared;  // whether the request has bindings
    DML_OPERATOR_TYPE type;
    DML_FEATURE_LEVEL level;
    Tensor tensors[3];
    std::vector<Bytes> contents;  // of the buffers
    Binding bindings[3] = {{0, 0}, {1, 0}, {2, 0}};
    GatherFamilyDesc fields{};

    Request(const Json& asked, const Bytes& blobs) {
        type = static_cast<DML_OPERATOR_TYPE>(asked["operator"].number);
        level = static_cast<DML_FEATURE_LEVEL>(asked["feature_level"].number);
        only_create = asked["buffers"].kind != Json::LIST;
        shared = asked["bindings"].kind == Json::LIST;
        auto begin = blobs.begin();
        for (const Json& item : asked["buffers"].items) {
            UINT64 count = item.number;
            if (count > UINT64(blobs.end() - begin)) misunderstood("a buffer beyond the frame");
            contents.emplace_back(begin, begin + count);
            begin += count;
        }
        for (size_t k = 0; k < std::size(tensors); k++) {
            tensors[k].read(asked["tensors"].at(k));
            if (only_create) continue;
            Binding& bound = bindings[k];
            if (shared) {
                const Json& asked_for = asked["bindings"].at(k);
                bound = {UINT64(asked_for.at(0).number), UINT64(asked_for.at(1).number)};
            }
            if (bound.buffer >= contents.size()) misunderstood("a tensor without a buffer");
            if (bound.offset > contents[bound.buffer].size())
                misunderstood("a binding beyond its buffer");
        }
        std::vector<UINT> behind = Tensor::numbers(asked["fields"]);
        if (behind.size() > std::size(fields.Fields)) misunderstood("more than 3 fields");
        std::copy(behind.begin(), behind.end(), fields.Fields);
        fields.InputTensor = &tensors[0].desc;
        fields.IndicesTensor = &tensors[1].desc;
        fields.OutputTensor = &tensors[2].desc;
    }
    Request(const Request&) = delete;
};

struct Answer {
    Stage stage = DONE;
    HRESULT result = S_OK;
    bool guards_touched = false, device_lost = false;
    Bytes output;
};

// --- Direct3D --------------------------------------------------------------------------------

D3D12_RESOURCE_BARRIER transition(
    ID3D12Resource* resource, D3D12_RESOURCE_STATES before, D3D12_RESOURCE_STATES after) {
    D3D12_RESOURCE_BARRIER barrier{};
    barrier.Type = D3D12_RESOURCE_BARRIER_TYPE_TRANSITION;
    barrier.Transition = {resource, D3D12_RESOURCE_BARRIER_ALL_SUBRESOURCES, before, after};
    return barrier;
}

// One Direct3D device with a compute queue that is waited for after each list of commands.
class Gpu {
public:
    void open(int adapter_number) {
        Ref<IDXGIFactory4> factory;
        check(DIRECT3D_DEVICE, CreateDXGIFactory1(IID_IDXGIFactory4, factory.put_void()));
        Ref<IDXGIAdapter1> adapter;
        if (adapter_number >= 0)
            check(DIRECT3D_DEVICE, factory->EnumAdapters1(adapter_number, adapter.put()));
        check(DIRECT3D_DEVICE, D3D12CreateDevice(adapter.get(), D3D_FEATURE_LEVEL_11_0,
                                                 IID_ID3D12Device, device_.put_void()));
        LUID luid = device_->GetAdapterLuid();
        Ref<IDXGIAdapter1> used;
        DXGI_ADAPTER_DESC1 desc{};
        if (SUCCEEDED(factory->EnumAdapterByLuid(luid, IID_IDXGIAdapter1, used.put_void())) &&
            SUCCEEDED(used->GetDesc1(&desc))) {
            char name[4 * std::size(desc.Description)];
            int length = WideCharToMultiByte(
                CP_UTF8, 0, desc.Description, -1, name, sizeof name, nullptr, nullptr);
            if (length > 0) adapter_name_ = name;
        }
        mend(device_.get());
        D3D12_COMMAND_QUEUE_DESC queue{};
        queue.Type = D3D12_COMMAND_LIST_TYPE_COMPUTE;
        check(DIRECT3D_DEVICE,
              device_->CreateCommandQueue(&queue, IID_ID3D12CommandQueue, queue_.put_void()));
        check(DIRECT3D_DEVICE, device_->CreateCommandAllocator(
                                   queue.Type, IID_ID3D12CommandAllocator, allocator_.put_void()));
        check(DIRECT3D_DEVICE,
              device_->CreateCommandList(0, queue.Type, allocator_.get(), nullptr,
                                         IID_ID3D12GraphicsCommandList, list_.put_void()));
        check(DIRECT3D_DEVICE,
              device_->CreateFence(0, D3D12_FENCE_FLAG_NONE, IID_ID3D12Fence, fence_.put_void()));
        event_ = CreateEventW(nullptr, FALSE, FALSE, nullptr);
    }

    ID3D12Device* device() const { return device_.get(); }
    ID3D12GraphicsCommandList* list() const { return list_.get(); }
    const string& adapter_name() const { return adapter_name_; }

    bool lost() const { return FAILED(device_->GetDeviceRemovedReason()); }

    Ref<ID3D12Resource> buffer(UINT64 bytes, D3D12_HEAP_TYPE heap) const {
        D3D12_HEAP_PROPERTIES properties{};
        properties.Type = heap;
        D3D12_RESOURCE_DESC desc{};
        desc.Dimension = D3D12_RESOURCE_DIMENSION_BUFFER;
        desc.Width = (bytes + 255) / 256 * 256;
        desc.Height = desc.DepthOrArraySize = desc.MipLevels = 1;
        desc.SampleDesc.Count = 1;
        desc.Layout = D3D12_TEXTURE_LAYOUT_ROW_MAJOR;
        auto state = D3D12_RESOURCE_STATE_COMMON;
        if (heap == D3D12_HEAP_TYPE_DEFAULT)
            desc.Flags = D3D12_RESOURCE_FLAG_ALLOW_UNORDERED_ACCESS;
        if (heap == D3D12_HEAP_TYPE_UPLOAD) state = D3D12_RESOURCE_STATE_GENERIC_READ;
        if (heap == D3D12_HEAP_TYPE_READBACK) state = D3D12_RESOURCE_STATE_COPY_DEST;
        Ref<ID3D12Resource> made;
        check(BUFFERS, device_->CreateCommittedResource(&properties, D3D12_HEAP_FLAG_NONE, &desc,
                                                        state, nullptr, IID_ID3D12Resource,
                                                        made.put_void()));
        return made;
    }

    // A heap with room for `count` descriptors; kept, as Wine takes long to make one.
    ID3D12DescriptorHeap* descriptors(UINT count) {
        if (count > descriptor_count_ || !heap_.get()) {
            D3D12_DESCRIPTOR_HEAP_DESC desc{};
            desc.Type = D3D12_DESCRIPTOR_HEAP_TYPE_CBV_SRV_UAV;
            desc.Flags = D3D12_DESCRIPTOR_HEAP_FLAG_SHADER_VISIBLE;
            desc.NumDescriptors = std::max(2 * count, 64u);
            Ref<ID3D12DescriptorHeap> made;
            check(BUFFERS, device_->CreateDescriptorHeap(&desc, IID_ID3D12DescriptorHeap,
                                                         made.put_void()));
            heap_ = std::move(made);
            descriptor_count_ = desc.NumDescriptors;
        }
        return heap_.get();
    }

    // Runs what the list holds and waits for it.
    void run(Stage stage) {
        check(stage, list_->Close());
        ID3D12CommandList* lists[] = {list_.get()};
        queue_->ExecuteCommandLists(1, lists);
        check(stage, queue_->Signal(fence_.get(), ++value_));
        check(stage, fence_->SetEventOnCompletion(value_, event_));
        WaitForSingleObject(event_, INFINITE);
        check(stage, device_->GetDeviceRemovedReason());
        check(stage, reset());
    }

    // Empties the list where a request broke off while it was being filled; false where that fails.
    bool abandon() {
        list_->Close();
        return !lost() && SUCCEEDED(reset());
    }

private:
    HRESULT reset() {
        HRESULT result = allocator_->Reset();
        return FAILED(result) ? result : list_->Reset(allocator_.get(), nullptr);
    }

    Ref<ID3D12Device> device_;
    Ref<ID3D12CommandQueue> queue_;
    Ref<ID3D12CommandAllocator> allocator_;
    Ref<ID3D12GraphicsCommandList> list_;
    Ref<ID3D12Fence> fence_;
    Ref<ID3D12DescriptorHeap> heap_;
    UINT descriptor_count_ = 0;
    string adapter_name_ = "unknown";
    HANDLE event_ = nullptr;
    UINT64 value_ = 0;
};

// A buffer of `size` bytes between guard bytes: `front` in front of it, GUARD behind it.
class GuardedBuffer {
public:
    GuardedBuffer(Gpu& gpu, const Bytes& content, UINT64 size, UINT64 front)
        : front_(front), size_(size) {
        if (size_ > LARGEST_BUFFER) throw Failure{BUFFERS, E_OUTOFMEMORY};
        UINT64 all = front_ + size_ + GUARD;
        upload_ = gpu.buffer(all, D3D12_HEAP_TYPE_UPLOAD);
        buffer_ = gpu.buffer(all, D3D12_HEAP_TYPE_DEFAULT);
        void* mapped = nullptr;
        D3D12_RANGE nothing{};
        check(BUFFERS, upload_->Map(0, &nothing, &mapped));
        auto bytes = static_cast<unsigned char*>(mapped);
        for (UINT64 k = 0; k < front_; k++) bytes[k] = guard(k);
        for (UINT64 k = front_ + size_; k < all; k++) bytes[k] = guard(k);
        UINT64 given = std::min<UINT64>(size_, content.size());
        std::memcpy(bytes + front_, content.data(), given);
        std::memset(bytes + front_ + given, 0, size_ - given);
        upload_->Unmap(0, nullptr);
        auto list = gpu.list();
        list->CopyBufferRegion(buffer_.get(), 0, upload_.get(), 0, all);
        auto barrier = transition(buffer_.get(), D3D12_RESOURCE_STATE_COPY_DEST,
                                  D3D12_RESOURCE_STATE_UNORDERED_ACCESS);
        list->ResourceBarrier(1, &barrier);
    }

    // From an offset to the end.
    DML_BUFFER_BINDING binding(UINT64 offset) const {
        return {buffer_.get(), front_ + offset, size_ - offset};
    }

    // Puts the copy back onto the list; `fetch` reads it once the list has run.
    void record_copy_back(Gpu& gpu) {
        readback_ = gpu.buffer(front_ + size_ + GUARD, D3D12_HEAP_TYPE_READBACK);
        auto barrier = transition(buffer_.get(), D3D12_RESOURCE_STATE_UNORDERED_ACCESS,
                                  D3D12_RESOURCE_STATE_COPY_SOURCE);
        gpu.list()->ResourceBarrier(1, &barrier);
        gpu.list()->CopyBufferRegion(readback_.get(), 0, buffer_.get(), 0, front_ + size_ + GUARD);
    }

    void fetch(Answer& answer) const {
        void* mapped = nullptr;
        D3D12_RANGE all{0, static_cast<SIZE_T>(front_ + size_ + GUARD)}, nothing{};
        check(DISPATCH, readback_->Map(0, &all, &mapped));
        auto bytes = static_cast<const unsigned char*>(mapped);
        for (UINT64 k = 0; k < front_; k++)
            if (bytes[k] != guard(k)) answer.guards_touched = true;
        for (UINT64 k = front_ + size_; k < all.End; k++)
            if (bytes[k] != guard(k)) answer.guards_touched = true;
        answer.output.assign(bytes + front_, bytes + front_ + size_);
        readback_->Unmap(0, &nothing);
    }

private:
    static unsigned char guard(UINT64 k) { return static_cast<unsigned char>(0xA5 ^ (k * 7)); }

    UINT64 front_, size_;
    Ref<ID3D12Resource> upload_, buffer_, readback_;
};

// --- DirectML --------------------------------------------------------------------------------

// A DirectML device with what all its operators share: making a recorder and an initializer takes
// longer than running an operator.
struct Device {
    Ref<IDMLDevice> directml;
    Ref<IDMLCommandRecorder> recorder;
    Ref<IDMLOperatorInitializer> initializer;
};

class DirectMl {
public:
    void load(const char* path) {
        library_ = LoadLibraryA(path);
        if (!library_) throw Failure{DIRECTML_DEVICE, HRESULT_FROM_WIN32(GetLastError())};
        create_ = reinterpret_cast<DMLCreateDevice1Function>(
            reinterpret_cast<void*>(GetProcAddress(library_, "DMLCreateDevice1")));
        if (!create_) throw Failure{DIRECTML_DEVICE, HRESULT_FROM_WIN32(GetLastError())};
    }

    // The version in the DLL's resources, such as "1.15.4.0".
    string version() const {
        char path[MAX_PATH];
        GetModuleFileNameA(library_, path, sizeof path);
        Bytes info(GetFileVersionInfoSizeA(path, nullptr));
        VS_FIXEDFILEINFO* fixed = nullptr;
        UINT length = 0;
        void* place = nullptr;
        if (info.empty() || !GetFileVersionInfoA(path, 0, info.size(), info.data()) ||
            !VerQueryValueA(info.data(), "\\", &place, &length))
            return "unknown";
        fixed = static_cast<VS_FIXEDFILEINFO*>(place);
        char text[64];
        std::snprintf(text, sizeof text, "%u.%u.%u.%u", unsigned{HIWORD(fixed->dwFileVersionMS)},
                      unsigned{LOWORD(fixed->dwFileVersionMS)},
                      unsigned{HIWORD(fixed->dwFileVersionLS)},
                      unsigned{LOWORD(fixed->dwFileVersionLS)});
        return text;
    }

    Device& device(Gpu& gpu, DML_FEATURE_LEVEL level) {
        auto kept = devices_.find(level);
        if (kept != devices_.end()) return kept->second;
        Device made;
        check(DIRECTML_DEVICE, create_(gpu.device(), DML_CREATE_DEVICE_FLAG_NONE, level,
                                       IDMLDevice::iid, made.directml.put_void()));
        return devices_.emplace(level, std::move(made)).first->second;
    }

    // Drops a device that may be lost.
    void drop(DML_FEATURE_LEVEL level) { devices_.erase(level); }

private:
    HMODULE library_ = nullptr;
    DMLCreateDevice1Function create_ = nullptr;
    std::map<DML_FEATURE_LEVEL, Device> devices_;
};

DML_FEATURE_LEVEL highest_feature_level(IDMLDevice* device) {
    // DirectML.h, DML_FEATURE_LEVEL: every level up to 6_4.
    static const DML_FEATURE_LEVEL levels[] = {0x1000, 0x2000, 0x2100, 0x3000, 0x3100,
                                               0x4000, 0x4100, 0x5000, 0x5100, 0x5200,
                                               0x6000, 0x6100, 0x6200, 0x6300, 0x6400};
    DML_FEATURE_QUERY_FEATURE_LEVELS query{UINT{std::size(levels)}, levels};
    DML_FEATURE_DATA_FEATURE_LEVELS found{};
    check(DIRECTML_DEVICE, device->CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, sizeof query,
                                                       &query, sizeof found, &found));
    return found.MaxSupportedFeatureLevel;
}

// Memory that DirectML asks for, bound where it asks for any.
class Scratch {
public:
    Scratch(Gpu& gpu, UINT64 size) {
        if (!size) return;
        buffer_ = gpu.buffer(size, D3D12_HEAP_TYPE_DEFAULT);
        binding_ = {buffer_.get(), 0, size};
        desc_ = {DML_BINDING_TYPE_BUFFER, &binding_};
    }
    Scratch(const Scratch&) = delete;
    const DML_BINDING_DESC* desc() const { return buffer_.get() ? &desc_ : nullptr; }

private:
    Ref<ID3D12Resource> buffer_;
    DML_BUFFER_BINDING binding_{};
    DML_BINDING_DESC desc_{};
};

DML_BINDING_PROPERTIES properties(IDMLDispatchable* dispatchable) {
    DML_BINDING_PROPERTIES found{};
    dispatchable->GetBindingProperties(&found);
    return found;
}

// The buffers of a request: those of its bindings as they are, else one around each tensor.
std::vector<GuardedBuffer> buffers_of(Gpu& gpu, const Request& request) {
    std::vector<GuardedBuffer> made;
    if (request.shared)
        for (const Bytes& content : request.contents)
            made.emplace_back(gpu, content, content.size(), 0);
    else
        for (size_t k = 0; k < std::size(request.tensors); k++) {
            const DML_BUFFER_TENSOR_DESC& tensor = request.tensors[k].buffer;
            UINT64 front = std::max(GUARD, UINT64{tensor.GuaranteedBaseOffsetAlignment});
            if (front > LARGEST_GUARD) front = 0;  // offset 0 keeps any promise
            made.emplace_back(gpu, request.contents[k], tensor.TotalTensorSizeInBytes, front);
        }
    return made;
}

void run(Gpu& gpu, Device& device, const Request& request, IDMLCompiledOperator* compiled,
         Answer& answer) {
    IDMLDevice* directml = device.directml.get();
    if (!device.recorder.get())
        check(INITIALIZE, directml->CreateCommandRecorder(IDMLCommandRecorder::iid,
                                                          device.recorder.put_void()));
    if (!device.initializer.get())
        check(INITIALIZE, directml->CreateOperatorInitializer(
                              0, nullptr, IDMLOperatorInitializer::iid,
                              device.initializer.put_void()));
    IDMLOperatorInitializer* initializer = device.initializer.get();
    const Tensor* tensors = request.tensors;
    std::vector<GuardedBuffer> buffers = buffers_of(gpu, request);
    DML_BUFFER_BINDING bound[3];
    for (int k = 0; k < 3; k++)
        bound[k] = buffers[request.bindings[k].buffer].binding(request.bindings[k].offset);
    GuardedBuffer& output = buffers[request.bindings[2].buffer];

    IDMLCompiledOperator* operators[] = {compiled};
    check(INITIALIZE, initializer->Reset(1, operators));
    auto first = properties(initializer), second = properties(compiled);
    Scratch first_temporary(gpu, first.TemporaryResourceSize);
    Scratch second_temporary(gpu, second.TemporaryResourceSize);
    Scratch persistent(gpu, second.PersistentResourceSize);

    ID3D12DescriptorHeap* heap = gpu.descriptors(
        std::max(first.RequiredDescriptorCount, second.RequiredDescriptorCount));
    DML_BINDING_TABLE_DESC table_desc{initializer, heap->GetCPUDescriptorHandleForHeapStart(),
                                      heap->GetGPUDescriptorHandleForHeapStart(),
                                      first.RequiredDescriptorCount};
    Ref<IDMLBindingTable> table;
    check(INITIALIZE,
          directml->CreateBindingTable(&table_desc, IDMLBindingTable::iid, table.put_void()));

    // The initializer takes what DirectML owns, and puts it into the persistent memory.
    DML_BUFFER_BINDING owned[2]{};
    DML_BUFFER_ARRAY_BINDING owned_array{2, owned};
    DML_BINDING_DESC owned_desc{DML_BINDING_TYPE_BUFFER_ARRAY, &owned_array};
    for (int k = 0; k < 2; k++)
        if (tensors[k].owned()) owned[k] = bound[k];
    if (tensors[0].owned() || tensors[1].owned()) table->BindInputs(1, &owned_desc);
    if (first_temporary.desc()) table->BindTemporaryResource(first_temporary.desc());
    if (persistent.desc()) table->BindOutputs(1, persistent.desc());
    gpu.list()->SetDescriptorHeaps(1, &heap);
    device.recorder->RecordDispatch(gpu.list(), initializer, table.get());
    check(INITIALIZE, directml->GetDeviceRemovedReason());
    gpu.run(INITIALIZE);

    table_desc.Dispatchable = compiled;
    table_desc.SizeInDescriptors = second.RequiredDescriptorCount;
    check(DISPATCH, table->Reset(&table_desc));
    DML_BINDING_DESC descs[3]{};
    for (int k = 0; k < 3; k++)
        if (!tensors[k].owned()) descs[k] = {DML_BINDING_TYPE_BUFFER, &bound[k]};
    table->BindInputs(2, descs);
    table->BindOutputs(1, &descs[2]);
    if (second_temporary.desc()) table->BindTemporaryResource(second_temporary.desc());
    if (persistent.desc()) table->BindPersistentResource(persistent.desc());
    gpu.list()->SetDescriptorHeaps(1, &heap);
    device.recorder->RecordDispatch(gpu.list(), compiled, table.get());
    check(DISPATCH, directml->GetDeviceRemovedReason());
    output.record_copy_back(gpu);
    gpu.run(DISPATCH);
    output.fetch(answer);
}

Answer answer_to(Gpu& gpu, DirectMl& directml, const Request& request) {
    Answer answer;
    try {
        Device& device = directml.device(gpu, request.level);
        const DML_OPERATOR_DESC desc = {request.type, &request.fields};
        Ref<IDMLOperator> op;
        check(CREATE_OPERATOR,
              device.directml->CreateOperator(&desc, IDMLOperator::iid, op.put_void()));
        if (request.only_create) return answer;
        Ref<IDMLCompiledOperator> compiled;
        check(COMPILE_OPERATOR, device.directml->CompileOperator(
                                    op.get(), DML_EXECUTION_FLAG_NONE, IDMLCompiledOperator::iid,
                                    compiled.put_void()));
        run(gpu, device, request, compiled.get(), answer);
    } catch (const Failure& failure) {
        answer = {failure.stage, failure.result, false, false, {}};
        answer.device_lost = failure.stage >= BUFFERS ? !gpu.abandon() : gpu.lost();
        // A wrong binding makes DirectML's device useless, and a lost one fails at any call;
        // E_INVALIDARG before that is the descriptor's own.
        if (failure.stage >= BUFFERS || failure.result != E_INVALIDARG)
            directml.drop(request.level);
    }
    return answer;
}

string named(DML_FEATURE_LEVEL level) {
    return std::to_string(level >> 12) + "_" + std::to_string(level >> 8 & 15);
}

// Runs one gather and prints its result: the elements at 2 and 7 along an axis of 3. DirectML takes
// the element at 7 from a later row, as one offset into the buffer, at most the last. False, with a
// sentence, where the result is another.
bool run_example(Gpu& gpu, DirectMl& directml, DML_FEATURE_LEVEL highest) {
    // Before it, tensors have 4 or 5 dimensions.
    if (highest < DML_FEATURE_LEVEL_3_0) {
        std::fprintf(stderr,
                     "host: the example needs feature level 3_0, DirectML.dll %s has %s\n",
                     directml.version().c_str(), named(highest).c_str());
        return false;
    }
    // DML_OPERATOR_GATHER at 3_0, of FLOAT32 by UINT32.
    const char* gather =
        "{\"operator\": 67, \"feature_level\": 12288, \"fields\": [1, 1], "
        "\"tensors\": [[1, 0, [4, 3], null, 48, 0], [3, 0, [1, 2], null, 8, 0], "
        "[1, 0, [4, 2], null, 32, 0]], \"buffers\": [48, 8, 0], \"bindings\": null}";
    float data[12], result[8];
    std::iota(std::begin(data), std::end(data), 0.0f);
    UINT indices[] = {2, 7};
    Bytes blobs(sizeof data + sizeof indices);
    std::memcpy(blobs.data(), data, sizeof data);
    std::memcpy(blobs.data() + sizeof data, indices, sizeof indices);
    Answer answer = answer_to(gpu, directml, Request(Parser(gather).value(), blobs));
    if (answer.stage != DONE || answer.guards_touched || answer.output.size() != sizeof result) {
        std::fprintf(stderr, "host: the example failed, %s\n",
                     told(answer.stage, answer.result).c_str());
        return false;
    }
    std::memcpy(result, answer.output.data(), sizeof result);
    string shown;
    for (float value : result) {
        char text[32];
        std::snprintf(text, sizeof text, " %g", value);
        shown += text;
    }
    const string known = " 2 7 5 10 8 11 11 11";
    if (shown != known) {
        std::fprintf(stderr, "host: the example must give%s, got%s\n", known.c_str(),
                     shown.c_str());
        return false;
    }
    std::printf("DML_GATHER {4,3} at 2, 7 of axis 1:%s (DirectML.dll %s, %s)\n", shown.c_str(),
                directml.version().c_str(), gpu.adapter_name().c_str());
    return true;
}

string truth(bool value) { return value ? "true" : "false"; }

// The JSON of what the host says of itself.
string about(Gpu& gpu, DirectMl& directml, DML_FEATURE_LEVEL highest) {
    string wine = wine_version();
    return "{\"version\": " + quoted(directml.version()) +
           ", \"adapter\": " + quoted(gpu.adapter_name()) +
           ", \"feature_level\": " + quoted(named(highest)) +
           ", \"wine\": " + (wine.empty() ? "null" : quoted(wine)) + "}";
}

// The JSON of an answer, without the output.
string json(const Answer& answer) {
    return "{\"stage\": " + quoted(STAGES[answer.stage]) +
           ", \"hresult\": " + std::to_string(static_cast<UINT>(answer.result)) +
           ", \"guards_touched\": " + truth(answer.guards_touched) +
           ", \"device_lost\": " + truth(answer.device_lost) + "}";
}

LONG WINAPI report_crash(EXCEPTION_POINTERS* found) {
    std::fprintf(stderr, "host: exception 0x%08lX\n", found->ExceptionRecord->ExceptionCode);
    end(3);
}

}  // namespace

int main(int count, char** arguments) {
    const char* path = "DirectML.dll";
    int adapter = -1;
    bool example = false;
    for (int k = 1; k < count; k++) {
        string option = arguments[k];
        if (option == "--example") example = true;
        else if (option == "--directml" && k + 1 < count) path = arguments[++k];
        else if (option == "--adapter" && k + 1 < count) adapter = std::atoi(arguments[++k]);
        else misunderstood("the options are --directml PATH, --adapter NUMBER and --example");
    }
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
    SetUnhandledExceptionFilter(report_crash);
    if (!example) open_frames();

    Gpu gpu;
    DirectMl directml;
    DML_FEATURE_LEVEL highest = DML_FEATURE_LEVEL_1_0;
    try {
        gpu.open(adapter);
        directml.load(path);
        highest = highest_feature_level(directml.device(gpu, highest).directml.get());
    } catch (const Failure& failure) {
        misunderstood(told(failure.stage, failure.result));
    }
    if (example) end(run_example(gpu, directml, highest) ? 0 : 1);
    serve([&](const Json& asked, const Bytes& blobs, Bytes& output) {
        if (asked.items.empty()) return about(gpu, directml, highest);
        Answer answer = answer_to(gpu, directml, Request(asked, blobs));
        output = std::move(answer.output);
        return json(answer);
    });
}
