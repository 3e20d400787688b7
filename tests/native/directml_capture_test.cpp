// Captures gathers on DirectML.dll and on a device of its own, and prints the name of each part
// whose checks hold. The folders under OUT are for the caller to read; OUT\full has room for a few
// files, and Y: is OUT\drive.
//
//   directml_capture_test.exe OUT
#define main host_main  // not called
#include "directml_host.cpp"
#undef main

#include <functional>
#include <new>

namespace {

int allocations_left = 0;  // until there is no memory, once; 0: there always is
std::function<void(const wchar_t* from)> on_moved;  // called when the header has renamed a file

BOOL move_file(const wchar_t* from, const wchar_t* to, DWORD flags) {
    BOOL moved = MoveFileExW(from, to, flags);
    if (moved && on_moved) on_moved(from);
    return moved;
}

}  // namespace

void* operator new(size_t size) {
    void* memory = allocations_left && --allocations_left == 0 ? nullptr : std::malloc(size);
    if (!memory) throw std::bad_alloc();
    return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

#define MoveFileExW move_file
#include "directml_capture.h"
#undef MoveFileExW
#include "written.h"  // descriptors, and const DML_OPERATOR_DESC* const written[]

#include <map>
#include <thread>

namespace {

int failures = 0;

void check_that(bool holds, const char* condition, int line) {
    if (holds) return;
    failures++;
    std::printf("line %d does not hold: %s\n", line, condition);
}

#define CHECK(condition) check_that(condition, #condition, __LINE__)

using std::wstring;
wstring out;

wstring folder(const wchar_t* name) {
    wstring path = out + L"\\" + name;
    CreateDirectoryW(path.c_str(), nullptr);
    return path;
}

// The names of the files in a folder.
std::vector<wstring> files(const wstring& path) {
    std::vector<wstring> found;
    WIN32_FIND_DATAW each;
    HANDLE search = FindFirstFileW((path + L"\\*").c_str(), &each);
    if (search == INVALID_HANDLE_VALUE) return found;
    do {
        if (each.cFileName[0] != L'.') found.push_back(each.cFileName);
    } while (FindNextFileW(search, &each));
    FindClose(search);
    return found;
}

void replace_content(const wstring& path, const char* text) {
    HANDLE file = CreateFileW(path.c_str(), GENERIC_WRITE, 0, nullptr, CREATE_ALWAYS, 0, nullptr);
    DWORD done = 0;
    WriteFile(file, text, static_cast<DWORD>(std::strlen(text)), &done, nullptr);
    CloseHandle(file);
}

string content(const wstring& path) {
    HANDLE file = CreateFileW(path.c_str(), GENERIC_READ, 0, nullptr, OPEN_EXISTING, 0, nullptr);
    char text[10000];
    DWORD done = 0;
    ReadFile(file, text, sizeof text, &done, nullptr);
    CloseHandle(file);
    return string(text, done);
}

std::vector<wstring> sentences;
void keep(const wchar_t* sentence) { sentences.push_back(sentence); }

Ref<IDMLOperator> created(IDMLDevice* device, const DML_OPERATOR_DESC& desc) {
    Ref<IDMLOperator> op;
    CHECK(device->CreateOperator(&desc, IDMLOperator::iid, op.put_void()) == S_OK);
    CHECK(op.get());
    return op;
}

template <typename T>
class Captured {
public:
    Captured(T* device, const wstring& path)
        : object_(onnxgather::capture(device, path.c_str(), keep)) {}
    Captured(const Captured&) = delete;
    ~Captured() { object_->Release(); }
    T* get() const { return object_; }
    T* operator->() const { return object_; }

private:
    T* object_;
};

// --- DirectML.dll ----------------------------------------------------------------------------

void test_every_descriptor(IDMLDevice* directml) {
    Captured<IDMLDevice> device(directml, folder(L"all"));
    for (int time = 0; time < 2; time++)
        for (auto desc : written) created(device.get(), *desc);
    CHECK(sentences.empty());
}

// Every 20th descriptor as the only node of a graph.
void test_graphs(IDMLDevice* directml) {
    Captured<IDMLDevice> device(directml, folder(L"graphs"));
    Ref<IDMLDevice1> device1;
    CHECK(device->QueryInterface(IDMLDevice1::iid, device1.put_void()) == S_OK);
    for (size_t k = 0; k < std::size(written); k += 20) {
        Ref<IDMLOperator> op = created(device1.get(), *written[k]);
        DML_OPERATOR_GRAPH_NODE_DESC node{op.get(), "a \"name\""};
        DML_INPUT_GRAPH_EDGE_DESC data{0, 0, 0, nullptr}, indices{1, 0, 1, nullptr};
        DML_OUTPUT_GRAPH_EDGE_DESC output{0, 0, 0, nullptr};
        DML_GRAPH_NODE_DESC nodes[] = {{DML_GRAPH_NODE_TYPE_OPERATOR, &node}};
        DML_GRAPH_EDGE_DESC inputs[] = {{DML_GRAPH_EDGE_TYPE_INPUT, &data},
                                        {DML_GRAPH_EDGE_TYPE_INPUT, &indices}};
        DML_GRAPH_EDGE_DESC outputs[] = {{DML_GRAPH_EDGE_TYPE_OUTPUT, &output}};
        DML_GRAPH_DESC graph{2, 1, 1, nodes, 2, inputs, 1, outputs, 0, nullptr};
        Ref<IDMLCompiledOperator> compiled;
        CHECK(device1->CompileGraph(&graph, DML_EXECUTION_FLAG_NONE, IDMLCompiledOperator::iid,
                                    compiled.put_void()) == S_OK);
        CHECK(compiled.get());
    }
    CHECK(sentences.empty());
}

// The states of buffers on the host's list of commands, as Direct3D's debug layer follows them: a
// buffer begins each list in the state COMMON, which a copy or a dispatch promotes.
class States {
public:
    // In place of the list's methods; a list is as good as another, as they share their methods.
    static void watch(ID3D12GraphicsCommandList* list) {
        void** methods = *reinterpret_cast<void***>(list);
        replace(methods, 9, close_, close);
        replace(methods, 14, dispatch_, dispatch);
        replace(methods, 15, copy_, copy);
        replace(methods, 26, barriers_, barriers);
    }
    static inline int copies = 0, wrong = 0;

private:
    using List = ID3D12GraphicsCommandList;
    using Close = HRESULT(STDMETHODCALLTYPE*)(List*);
    using Dispatch = void(STDMETHODCALLTYPE*)(List*, UINT, UINT, UINT);
    using Copy = void(STDMETHODCALLTYPE*)(List*, ID3D12Resource*, UINT64, ID3D12Resource*, UINT64,
                                          UINT64);
    using Barriers = void(STDMETHODCALLTYPE*)(List*, UINT, const D3D12_RESOURCE_BARRIER*);

    template <typename Method>
    static void replace(void** methods, int number, Method& old, Method now) {
        DWORD access = 0;
        VirtualProtect(methods + number, sizeof(void*), PAGE_READWRITE, &access);
        old = reinterpret_cast<Method>(methods[number]);
        methods[number] = reinterpret_cast<void*>(now);
        VirtualProtect(methods + number, sizeof(void*), access, &access);
    }
    static D3D12_RESOURCE_STATES& state(ID3D12Resource* buffer) {
        auto first = has_dispatched_ ? D3D12_RESOURCE_STATE_UNORDERED_ACCESS
                                     : D3D12_RESOURCE_STATE_COMMON;
        return states_.insert({buffer, first}).first->second;
    }
    static void use(ID3D12Resource* buffer, D3D12_RESOURCE_STATES wanted) {
        D3D12_HEAP_PROPERTIES heap{};
        buffer->GetHeapProperties(&heap, nullptr);
        if (heap.Type != D3D12_HEAP_TYPE_DEFAULT) return;  // such buffers keep their state
        if (state(buffer) == D3D12_RESOURCE_STATE_COMMON) state(buffer) = wanted;
        if (state(buffer) != wanted) wrong++;
    }
    static HRESULT STDMETHODCALLTYPE close(List* list) {
        states_.clear();
        has_dispatched_ = false;
        return close_(list);
    }
    static void STDMETHODCALLTYPE dispatch(List* list, UINT x, UINT y, UINT z) {
        has_dispatched_ = true;
        dispatch_(list, x, y, z);
    }
    static void STDMETHODCALLTYPE copy(List* list, ID3D12Resource* target, UINT64 offset,
                                       ID3D12Resource* source, UINT64 from, UINT64 bytes) {
        use(target, D3D12_RESOURCE_STATE_COPY_DEST);
        use(source, D3D12_RESOURCE_STATE_COPY_SOURCE);
        copies++;
        copy_(list, target, offset, source, from, bytes);
    }
    static void STDMETHODCALLTYPE barriers(List* list, UINT count,
                                           const D3D12_RESOURCE_BARRIER* all) {
        for (UINT k = 0; k < count; k++) {
            if (all[k].Type != D3D12_RESOURCE_BARRIER_TYPE_TRANSITION) continue;
            auto& transition = all[k].Transition;
            if (state(transition.pResource) != transition.StateBefore) wrong++;
            state(transition.pResource) = transition.StateAfter;
        }
        barriers_(list, count, all);
    }

    static inline Close close_;
    static inline Dispatch dispatch_;
    static inline Copy copy_;
    static inline Barriers barriers_;
    static inline std::map<ID3D12Resource*, D3D12_RESOURCE_STATES> states_;
    static inline bool has_dispatched_ = false;
};

// What a captured operator is for: it is compiled, and DirectML's other objects take it.
void test_use(IDMLDevice* directml) {
    Captured<IDMLDevice> device(directml, folder(L"use"));
    Ref<IDMLOperator> op = created(device.get(), *written[0]);
    Ref<IDMLCompiledOperator> compiled;
    CHECK(device->CompileOperator(op.get(), DML_EXECUTION_FLAG_NONE, IDMLCompiledOperator::iid,
                                  compiled.put_void()) == S_OK);
    IDMLCompiledOperator* operators[] = {compiled.get()};
    Ref<IDMLOperatorInitializer> initializer;
    CHECK(device->CreateOperatorInitializer(1, operators, IDMLOperatorInitializer::iid,
                                            initializer.put_void()) == S_OK);
    Ref<IDMLDevice> parent;
    CHECK(op->GetDevice(IDMLDevice::iid, parent.put_void()) == S_OK);
    CHECK(parent.get() == directml);
    IUnknown *direct3d = nullptr, *expected = nullptr;
    CHECK(device->GetParentDevice(IID_ID3D12Device, reinterpret_cast<void**>(&direct3d)) == S_OK);
    CHECK(directml->GetParentDevice(IID_ID3D12Device, reinterpret_cast<void**>(&expected)) == S_OK);
    CHECK(direct3d == expected);
    direct3d->Release();
    expected->Release();
}

// A request to the host, as text, and its buffers.
Request request_of(const string& text, const Bytes& blobs) {
    return Request(Parser(text.c_str()).value(), blobs);
}

template <typename T>
Bytes blobs_of(const std::vector<T>& indices) {
    float data[12];
    std::iota(std::begin(data), std::end(data), 1.0f);
    Bytes blobs(sizeof data + indices.size() * sizeof(T));
    std::memcpy(blobs.data(), data, sizeof data);
    std::memcpy(blobs.data() + sizeof data, indices.data(), indices.size() * sizeof(T));
    return blobs;
}

// Dispatches a GATHER of [4, 3] along axis 1 three times, with the same indices and each time one
// more; checks that capture changes no output.
template <typename T>
void dispatch_three_times(Gpu& gpu, IDMLDevice* directml, int type, std::vector<T> indices) {
    Device plain, captured;
    directml->AddRef();
    *plain.directml.put() = directml;
    *captured.directml.put() =
        onnxgather::capture(directml, folder(L"indices").c_str(), keep, 2);
    string bytes = std::to_string(indices.size() * sizeof(T));
    string count = std::to_string(indices.size());
    string output = std::to_string(4 * indices.size() * sizeof(float));
    string text = "{\"operator\": 67, \"feature_level\": 12288, \"fields\": [1, 1], "
                  "\"tensors\": [[1, 0, [4, 3], null, 48, 0], [" +
                  std::to_string(type) + ", 0, [1, " + count + "], null, " + bytes +
                  ", 0], [1, 0, [4, " + count + "], null, " + output +
                  ", 0]], \"buffers\": [48, " + bytes + ", 0], \"bindings\": null}";
    Request first = request_of(text, blobs_of(indices));
    DML_OPERATOR_DESC desc{first.type, &first.fields};
    auto compiled_by = [&](Device& device) {
        Ref<IDMLOperator> op = created(device.directml.get(), desc);
        Ref<IDMLCompiledOperator> compiled;
        CHECK(device.directml->CompileOperator(op.get(), DML_EXECUTION_FLAG_NONE,
                                               IDMLCompiledOperator::iid,
                                               compiled.put_void()) == S_OK);
        return compiled;
    };
    Ref<IDMLCompiledOperator> expected = compiled_by(plain), watched = compiled_by(captured);
    for (int time = 0; time < 3; time++) {
        Request request = request_of(text, blobs_of(indices));
        Answer right, answer;
        run(gpu, plain, request, expected.get(), right);
        run(gpu, captured, request, watched.get(), answer);
        CHECK(!answer.output.empty() && answer.output == right.output);
        CHECK(!answer.guards_touched);
        indices[0]++;
    }
    size_t before = files(folder(L"indices")).size();
    CHECK(onnxgather::write_indices(captured.directml.get()) == 2);
    CHECK(files(folder(L"indices")).size() == before + 2);
    // A list may run again, so the copies stay; texts that are there are not written again.
    CHECK(onnxgather::write_indices(captured.directml.get()) == 2);
    CHECK(files(folder(L"indices")).size() == before + 2);
    CHECK(onnxgather::write_indices(directml) == 0);
    CHECK(onnxgather::write_indices(nullptr) == 0);
}

void test_indices(Gpu& gpu, IDMLDevice* directml) {
    States::watch(gpu.list());
    dispatch_three_times<UINT32>(gpu, directml, DML_TENSOR_DATA_TYPE_UINT32, {2, 7});
    dispatch_three_times<INT32>(gpu, directml, DML_TENSOR_DATA_TYPE_INT32, {-4, 1, 0});
    dispatch_three_times<UINT64>(gpu, directml, DML_TENSOR_DATA_TYPE_UINT64,
                                 {UINT64{1} << 63, 1, 0, 0});
    dispatch_three_times<INT64>(gpu, directml, DML_TENSOR_DATA_TYPE_INT64,
                                {-(INT64{1} << 40), 0, 1, 2, 0});
    CHECK(States::copies > 4 * 2);
    CHECK(States::wrong == 0);
    CHECK(sentences.empty());
}

// Descriptors that DxDispatch's JSON cannot hold: DirectML refuses them, captured or not.
void test_no_json(IDMLDevice* directml) {
    Captured<IDMLDevice> device(directml, folder(L"no json"));
    UINT sizes[] = {2, 1, 1, 1, 1, 1, 1, 1, 1};
    DML_BUFFER_TENSOR_DESC good{};
    good.DataType = DML_TENSOR_DATA_TYPE_UINT32;
    good.DimensionCount = 1;
    good.Sizes = sizes;
    good.TotalTensorSizeInBytes = 8;
    DML_BUFFER_TENSOR_DESC bad[8];
    std::fill(std::begin(bad), std::end(bad), good);
    bad[0].DataType = DML_TENSOR_DATA_TYPE_UNKNOWN;
    bad[1].DataType = DML_TENSOR_DATA_TYPE_UINT4;
    bad[2].DataType = static_cast<DML_TENSOR_DATA_TYPE>(99);
    bad[3].Flags = static_cast<DML_TENSOR_FLAGS>(2);
    bad[4].DimensionCount = 0;
    bad[5].DimensionCount = 9;
    bad[6].Sizes = nullptr;
    bad[7].TotalTensorSizeInBytes = 0;
    auto refused = [&](const DML_TENSOR_DESC* tensor,
                       DML_OPERATOR_TYPE type = DML_OPERATOR_GATHER) {
        DML_TENSOR_DESC others{DML_TENSOR_TYPE_BUFFER, &good};
        DML_GATHER_OPERATOR_DESC gather{tensor, &others, &others, 0, 1};
        DML_OPERATOR_DESC desc{type, &gather};
        Ref<IDMLOperator> op;
        CHECK(device->CreateOperator(&desc, IDMLOperator::iid, op.put_void()) == E_INVALIDARG);
        CHECK(!op.get());
    };
    for (const auto& buffer : bad) {
        DML_TENSOR_DESC tensor{DML_TENSOR_TYPE_BUFFER, &buffer};
        refused(&tensor);
    }
    DML_TENSOR_DESC tensor{DML_TENSOR_TYPE_INVALID, &good};
    refused(&tensor);
    tensor = {DML_TENSOR_TYPE_BUFFER, nullptr};
    refused(&tensor);
    refused(nullptr);
    refused(&tensor, static_cast<DML_OPERATOR_TYPE>(9999));
    CHECK(files(folder(L"no json")).empty());
    CHECK(sentences.empty());
    // A tensor that DirectML refuses, and that JSON can hold, is written.
    DML_BUFFER_TENSOR_DESC small = good;
    small.TotalTensorSizeInBytes = 4;
    tensor = {DML_TENSOR_TYPE_BUFFER, &small};
    refused(&tensor);
    CHECK(files(folder(L"no json")).size() == 1);
}

void test_threads(IDMLDevice* directml) {
    Captured<IDMLDevice> device(directml, folder(L"threads"));
    constexpr size_t COUNT = 100;
    std::vector<std::thread> threads;
    std::atomic<int> made{0};
    for (size_t number = 0; number < 8; number++)
        threads.emplace_back([&, number] {
            for (size_t k = 0; k < COUNT; k++) {
                Ref<IDMLOperator> op;
                const DML_OPERATOR_DESC* desc = written[(k + number * COUNT / 16) % COUNT];
                device->AddRef();
                if (device->CreateOperator(desc, IDMLOperator::iid, op.put_void()) == S_OK) made++;
                device->Release();
            }
        });
    for (auto& thread : threads) thread.join();
    CHECK(made == 8 * COUNT);
    CHECK(files(folder(L"threads")).size() == COUNT);
    CHECK(device->AddRef() == 2);
    CHECK(device->Release() == 1);
    CHECK(sentences.empty());
}

// --- A device of its own ---------------------------------------------------------------------

constexpr HRESULT FAILED_AT = static_cast<HRESULT>(0x887A0000);  // plus the method's number

// Fails at every call, and keeps what it got.
class Broken : public IDMLDevice1 {
public:
    explicit Broken(bool has_graphs) : has_graphs_(has_graphs) {}

    ULONG references = 1;
    std::vector<UINT64> got;

    HRESULT STDMETHODCALLTYPE QueryInterface(REFIID wanted, void** found) override {
        if (!found) return E_POINTER;
        bool known = wanted == IID_IUnknown || wanted == IDMLDevice::iid ||
                     (has_graphs_ && wanted == IDMLDevice1::iid);
        *found = known ? this : nullptr;
        if (known) AddRef();
        return known ? S_OK : E_NOINTERFACE;
    }
    ULONG STDMETHODCALLTYPE AddRef() override { return ++references; }
    ULONG STDMETHODCALLTYPE Release() override { return --references; }
    HRESULT STDMETHODCALLTYPE GetPrivateData(REFGUID a, UINT* b, void* c) override {
        return failed(1, &a, b, c);
    }
    HRESULT STDMETHODCALLTYPE SetPrivateData(REFGUID a, UINT b, const void* c) override {
        return failed(2, &a, b, c);
    }
    HRESULT STDMETHODCALLTYPE SetPrivateDataInterface(REFGUID a, IUnknown* b) override {
        return failed(3, &a, b);
    }
    HRESULT STDMETHODCALLTYPE SetName(PCWSTR a) override { return failed(4, a); }
    HRESULT STDMETHODCALLTYPE
    CheckFeatureSupport(DML_FEATURE a, UINT b, const void* c, UINT d, void* e) override {
        return failed(5, a, b, c, d, e);
    }
    HRESULT STDMETHODCALLTYPE
    CreateOperator(const DML_OPERATOR_DESC* a, REFIID b, void** c) override {
        if (c) *c = nullptr;
        return failed(6, a, &b, c);
    }
    HRESULT STDMETHODCALLTYPE
    CompileOperator(IDMLOperator* a, DML_EXECUTION_FLAGS b, REFIID c, void** d) override {
        return failed(7, a, b, &c, d);
    }
    HRESULT STDMETHODCALLTYPE CreateOperatorInitializer(
        UINT a, IDMLCompiledOperator* const* b, REFIID c, void** d) override {
        return failed(8, a, b, &c, d);
    }
    HRESULT STDMETHODCALLTYPE CreateCommandRecorder(REFIID a, void** b) override {
        return failed(9, &a, b);
    }
    HRESULT STDMETHODCALLTYPE
    CreateBindingTable(const DML_BINDING_TABLE_DESC* a, REFIID b, void** c) override {
        return failed(10, a, &b, c);
    }
    HRESULT STDMETHODCALLTYPE Evict(UINT a, IDMLPageable* const* b) override {
        return failed(11, a, b);
    }
    HRESULT STDMETHODCALLTYPE MakeResident(UINT a, IDMLPageable* const* b) override {
        return failed(12, a, b);
    }
    HRESULT STDMETHODCALLTYPE GetDeviceRemovedReason() override { return failed(13); }
    HRESULT STDMETHODCALLTYPE GetParentDevice(REFIID a, void** b) override {
        return failed(14, &a, b);
    }
    HRESULT STDMETHODCALLTYPE CompileGraph(
        const DML_GRAPH_DESC* a, DML_EXECUTION_FLAGS b, REFIID c, void** d) override {
        return failed(15, a, b, &c, d);
    }

private:
    template <typename... Arguments>
    HRESULT failed(int method, Arguments... arguments) {
        got = {number(arguments)...};
        return FAILED_AT + method;
    }
    template <typename T>
    static UINT64 number(T* pointer) { return reinterpret_cast<UINT64>(pointer); }
    static UINT64 number(UINT value) { return value; }

    bool has_graphs_;
};

// A pointer that nothing follows.
template <typename T>
T* place(UINT64 number) { return reinterpret_cast<T*>(0x1000 + number); }

bool got(const Broken& broken, std::initializer_list<UINT64> expected) {
    return broken.got == std::vector<UINT64>(expected);
}

void test_forwarding() {
    Broken broken(true);
    Captured<IDMLDevice1> device(&broken, folder(L"forwarding"));
    const GUID& id = *place<const GUID>(1);
    const UINT64 a = 0x1001, b = 0x1002, c = 0x1003;
    auto flags = static_cast<DML_EXECUTION_FLAGS>(4);
    void** found = place<void*>(3);
    CHECK(device->GetPrivateData(id, place<UINT>(2), place<void>(3)) == FAILED_AT + 1);
    CHECK(got(broken, {a, b, c}));
    CHECK(device->SetPrivateData(id, 7, place<void>(2)) == FAILED_AT + 2);
    CHECK(got(broken, {a, 7, b}));
    CHECK(device->SetPrivateDataInterface(id, place<IUnknown>(2)) == FAILED_AT + 3);
    CHECK(got(broken, {a, b}));
    CHECK(device->SetName(place<const wchar_t>(1)) == FAILED_AT + 4);
    CHECK(got(broken, {a}));
    CHECK(device->CheckFeatureSupport(DML_FEATURE_FEATURE_LEVELS, 7, place<void>(2), 8,
                                      place<void>(3)) == FAILED_AT + 5);
    CHECK(got(broken, {1, 7, b, 8, c}));
    CHECK(device->CompileOperator(place<IDMLOperator>(2), flags, id, found) == FAILED_AT + 7);
    CHECK(got(broken, {b, 4, a, c}));
    CHECK(device->CreateOperatorInitializer(7, place<IDMLCompiledOperator*>(2), id, found) ==
          FAILED_AT + 8);
    CHECK(got(broken, {7, b, a, c}));
    CHECK(device->CreateCommandRecorder(id, found) == FAILED_AT + 9);
    CHECK(got(broken, {a, c}));
    CHECK(device->CreateBindingTable(place<DML_BINDING_TABLE_DESC>(2), id, found) ==
          FAILED_AT + 10);
    CHECK(got(broken, {b, a, c}));
    CHECK(device->Evict(7, place<IDMLPageable*>(2)) == FAILED_AT + 11);
    CHECK(got(broken, {7, b}));
    CHECK(device->MakeResident(7, place<IDMLPageable*>(2)) == FAILED_AT + 12);
    CHECK(got(broken, {7, b}));
    CHECK(device->GetDeviceRemovedReason() == FAILED_AT + 13);
    CHECK(got(broken, {}));
    CHECK(device->GetParentDevice(id, found) == FAILED_AT + 14);
    CHECK(got(broken, {a, c}));
    CHECK(device->CompileGraph(place<DML_GRAPH_DESC>(2), flags, id, found) == FAILED_AT + 15);
    CHECK(got(broken, {b, 4, a, c}));

    // CreateOperator: a gather, another operator, nothing; the last error stays the program's.
    SetLastError(1234);
    DML_OPERATOR_DESC other{static_cast<DML_OPERATOR_TYPE>(1), place<void>(1)};
    DML_OPERATOR_DESC empty{DML_OPERATOR_GATHER, nullptr};
    for (const DML_OPERATOR_DESC* desc : {written[0], static_cast<const DML_OPERATOR_DESC*>(&other),
                                          static_cast<const DML_OPERATOR_DESC*>(&empty),
                                          static_cast<const DML_OPERATOR_DESC*>(nullptr)}) {
        void* made = place<void>(9);
        CHECK(device->CreateOperator(desc, id, &made) == FAILED_AT + 6);
        CHECK(got(broken, {reinterpret_cast<UINT64>(desc), a, reinterpret_cast<UINT64>(&made)}));
        CHECK(!made);
        CHECK(device->CreateOperator(desc, id, nullptr) == FAILED_AT + 6);
        CHECK(got(broken, {reinterpret_cast<UINT64>(desc), a, 0}));
    }
    CHECK(GetLastError() == 1234);
    CHECK(files(folder(L"forwarding")).size() == 1);
    CHECK(sentences.empty());
}

void test_references() {
    Broken broken(true);
    IDMLDevice* device = onnxgather::capture<IDMLDevice>(&broken, out.c_str());
    CHECK(broken.references == 3);  // both interfaces
    CHECK(device->AddRef() == 2);
    CHECK(device->Release() == 1);
    for (const GUID& id : {IID_IUnknown, onnxgather::recording::OBJECT_ID, IDMLDevice::iid,
                           IDMLDevice1::iid}) {
        void* found = nullptr;
        CHECK(device->QueryInterface(id, &found) == S_OK);
        CHECK(found == device);  // one object has one IUnknown
        CHECK(device->Release() == 1);
    }
    CHECK(device->QueryInterface(IDMLDevice::iid, nullptr) == E_POINTER);
    void* found = place<void>(1);
    CHECK(device->QueryInterface(IDMLOperator::iid, &found) == E_NOINTERFACE);
    CHECK(!found);
    CHECK(broken.references == 3);
    CHECK(device->Release() == 0);
    CHECK(broken.references == 1);

    Broken old(false);
    device = onnxgather::capture<IDMLDevice>(&old, out.c_str());
    CHECK(old.references == 2);
    found = place<void>(1);
    CHECK(device->QueryInterface(IDMLDevice1::iid, &found) == E_NOINTERFACE);
    CHECK(!found);
    CHECK(device->Release() == 0);
    CHECK(old.references == 1);
    CHECK(!onnxgather::capture<IDMLDevice>(nullptr, out.c_str()));
}

// --- Objects of its own ----------------------------------------------------------------------

// An object whose IUnknown is another object, as COM allows. It keeps private data.
template <typename Interface>
class Split : public Interface {
public:
    Split() { identity.whole = this; }

    ULONG references = 1;
    std::map<string, string> data;
    struct Identity final : IUnknown {
        Split* whole;
        HRESULT STDMETHODCALLTYPE QueryInterface(REFIID wanted, void** answer) override {
            return whole->QueryInterface(wanted, answer);
        }
        ULONG STDMETHODCALLTYPE AddRef() override { return whole->AddRef(); }
        ULONG STDMETHODCALLTYPE Release() override { return whole->Release(); }
    } identity;

    HRESULT STDMETHODCALLTYPE QueryInterface(REFIID wanted, void** answer) override {
        bool is_whole = wanted == Interface::iid || wanted == onnxgather::recording::OBJECT_ID;
        *answer = nullptr;
        if (is_whole) *answer = this;
        if (wanted == IID_IUnknown) *answer = &identity;
        if (*answer) AddRef();
        return *answer ? S_OK : E_NOINTERFACE;
    }
    ULONG STDMETHODCALLTYPE AddRef() override { return ++references; }
    ULONG STDMETHODCALLTYPE Release() override { return --references; }
    HRESULT STDMETHODCALLTYPE GetPrivateData(REFGUID id, UINT* size, void* value) override {
        auto place = data.find(key(id));
        if (place == data.end() || *size < place->second.size()) return E_FAIL;
        std::memcpy(value, place->second.data(), place->second.size());
        return S_OK;
    }
    HRESULT STDMETHODCALLTYPE SetPrivateData(REFGUID id, UINT size, const void* value) override {
        data[key(id)] = string(static_cast<const char*>(value), size);
        return S_OK;
    }
    HRESULT STDMETHODCALLTYPE SetPrivateDataInterface(REFGUID, IUnknown*) override {
        return E_NOTIMPL;
    }
    HRESULT STDMETHODCALLTYPE SetName(PCWSTR) override { return E_NOTIMPL; }
    HRESULT STDMETHODCALLTYPE GetDevice(REFIID, void**) override { return E_NOTIMPL; }

private:
    static string key(REFGUID id) { return string(reinterpret_cast<const char*>(&id), sizeof id); }
};

class Operator final : public Split<IDMLOperator> {};

class Compiled final : public Split<IDMLCompiledOperator> {
public:
    DML_BINDING_PROPERTIES* STDMETHODCALLTYPE
    GetBindingProperties(DML_BINDING_PROPERTIES* answer) override {
        return answer;
    }
};

class Dispatches final : public Split<IDMLCommandRecorder> {
public:
    int count = 0;
    void STDMETHODCALLTYPE
    RecordDispatch(ID3D12CommandList*, IDMLDispatchable*, IDMLBindingTable*) override {
        count++;
    }
};

// A list of commands that never runs, or copies at once what the processor can read. As every
// object of COM, it begins with its methods.
struct List {
    const void* const* methods;
    HRESULT result = S_OK;  // of QueryInterface
    bool runs = false;
    int copies = 0;

    List() {
        static const void* all[27] = {};
        all[0] = reinterpret_cast<const void*>(query);
        all[1] = all[2] = reinterpret_cast<const void*>(count);
        all[15] = reinterpret_cast<const void*>(copy);
        all[26] = reinterpret_cast<const void*>(barriers);
        methods = all;
    }
    ID3D12CommandList* get() { return reinterpret_cast<ID3D12CommandList*>(this); }

private:
    static HRESULT STDMETHODCALLTYPE query(List* list, REFIID, void** answer) {
        *answer = SUCCEEDED(list->result) ? list : nullptr;
        return list->result;
    }
    static ULONG STDMETHODCALLTYPE count(List*) { return 1; }
    static void STDMETHODCALLTYPE copy(List* list, ID3D12Resource* target, UINT64 offset,
                                       ID3D12Resource* source, UINT64 from, UINT64 bytes) {
        list->copies++;
        void *read = nullptr, *written = nullptr;
        if (!list->runs || FAILED(source->Map(0, nullptr, &read))) return;
        if (SUCCEEDED(target->Map(0, nullptr, &written))) {
            std::memcpy(static_cast<char*>(written) + offset, static_cast<char*>(read) + from,
                        bytes);
            target->Unmap(0, nullptr);
        }
        source->Unmap(0, nullptr);
    }
    static void STDMETHODCALLTYPE barriers(List*, UINT, const void*) {}
};

// A GATHER of [4, 3] along axis 1 at this many UINT32 indices.
struct Gather {
    explicit Gather(UINT count) : sizes{1, count}, output_sizes{4, count} {
        tensor(buffers[0], data_sizes, DML_TENSOR_DATA_TYPE_FLOAT32);
        tensor(buffers[1], sizes, DML_TENSOR_DATA_TYPE_UINT32);
        tensor(buffers[2], output_sizes, DML_TENSOR_DATA_TYPE_FLOAT32);
    }
    Gather(const Gather&) = delete;

    UINT data_sizes[2] = {4, 3}, sizes[2], output_sizes[2];
    DML_BUFFER_TENSOR_DESC buffers[3]{};
    DML_TENSOR_DESC tensors[3] = {{DML_TENSOR_TYPE_BUFFER, &buffers[0]},
                                  {DML_TENSOR_TYPE_BUFFER, &buffers[1]},
                                  {DML_TENSOR_TYPE_BUFFER, &buffers[2]}};
    DML_GATHER_OPERATOR_DESC fields{&tensors[0], &tensors[1], &tensors[2], 1, 1};
    DML_OPERATOR_DESC desc{DML_OPERATOR_GATHER, &fields};

private:
    static void tensor(DML_BUFFER_TENSOR_DESC& buffer, const UINT* sizes,
                       DML_TENSOR_DATA_TYPE type) {
        buffer.DataType = type;
        buffer.DimensionCount = 2;
        buffer.Sizes = sizes;
        buffer.TotalTensorSizeInBytes = UINT64{4} * sizes[0] * sizes[1];
    }
};

// Copies on a list that never runs, of dispatches of one descriptor.
class Copies {
public:
    Copies(Gpu& gpu, const wstring& path, UINT most, UINT count,
           onnxgather::Report report = keep)
        : gather_(count), folder_(path.c_str(), report), indices(folder_, most),
          buffer_(gpu.buffer(1024, D3D12_HEAP_TYPE_DEFAULT)) {
        bound.indices = {buffer_.get(), 0, UINT64{4} * count};
        dispatch();
    }

    // Creates the operator again, compiles and dispatches it.
    void dispatch() {
        Operator op;
        Compiled compiled;
        indices.number(&gather_.desc, &op.identity);
        indices.pass_on(&op, &compiled.identity);
        CHECK(op.data.size() == 1 && op.data == compiled.data);
        CHECK(op.references == 1 && compiled.references == 1);
        indices.copy(list.get(), &compiled, bound);
    }

private:
    Gather gather_;
    onnxgather::recording::Folder folder_;

public:
    List list;
    onnxgather::recording::Indices indices;
    onnxgather::recording::Bound bound;

private:
    Ref<ID3D12Resource> buffer_;
};

bool reported(const wstring& failure) {
    bool is_it = sentences.size() == 1 && sentences[0] == L"onnxgather: " + failure +
                                                              L"; later failures are not reported";
    for (const wstring& sentence : sentences) std::printf("reported: %ls\n", sentence.c_str());
    sentences.clear();
    return is_it;
}

// A list that was recorded and never ran: nothing is written.
void test_lists_that_never_run(Gpu& gpu) {
    Copies copies(gpu, folder(L"never"), 2, 2);
    CHECK(copies.list.copies == 2);  // the indices, and the mark that they are there
    CHECK(copies.indices.write() == 0);
    CHECK(files(folder(L"never")).empty());
    CHECK(sentences.empty());
}

// However often an application creates an operator, its copies stay as few as it wanted.
void test_bounds(Gpu& gpu) {
    Copies copies(gpu, folder(L"bounds"), 2, 2);
    for (int time = 0; time < 100; time++) copies.dispatch();
    CHECK(copies.list.copies == 2 * 2);
    CHECK(sentences.empty());
    Copies large(gpu, folder(L"bounds"), 8, 40 << 20);
    CHECK(sentences.empty());
    large.dispatch();
    CHECK(large.list.copies == 2);
    CHECK(reported(L"the indices of a dispatch were not copied, as all copies may have 256 MiB"));
}

void test_failed_copies(Gpu& gpu) {
    const wstring start = L"the indices of a dispatch were not copied, ";
    Copies copies(gpu, folder(L"failed"), 8, 2);
    copies.bound.indices.SizeInBytes = 4;
    copies.dispatch();
    CHECK(reported(start + L"as their binding is smaller than they are"));
    for (UINT64 offset : {0, 4, 8, 12, 16}) {
        Copies in_place(gpu, folder(L"failed"), 8, 2);
        in_place.bound.indices.Offset = 8;
        in_place.bound.output = {in_place.bound.indices.Buffer, offset, 8};
        in_place.dispatch();
        bool is_over = offset > 0 && offset < 16;
        CHECK(!is_over ? sentences.empty()
                       : reported(start + L"as the output of the dispatch is bound over them"));
    }
    Copies no_list(gpu, folder(L"failed"), 8, 2);
    no_list.list.result = E_NOINTERFACE;
    no_list.dispatch();
    CHECK(reported(start + L"HRESULT 0x80004002"));
    CHECK(copies.list.copies == 2);
    CHECK(files(folder(L"failed")).empty());
}

Copies* reporting = nullptr;
std::atomic<bool> called_back{false};

// A report may call the recording device: no lock is held.
void test_reports(Gpu& gpu) {
    auto call_back = [](const wchar_t* sentence) {
        keep(sentence);
        std::thread([] {
            reporting->indices.write();
            called_back = true;
        }).detach();
        for (int time = 0; time < 1000 && !called_back; time++) Sleep(10);
    };
    Copies copies(gpu, folder(L"reports"), 8, 2, call_back);
    reporting = &copies;
    copies.bound.indices.SizeInBytes = 4;
    copies.dispatch();
    CHECK(called_back);
    called_back = false;
    Copies unwritten(gpu, L"Z:\\nowhere", 8, 2, call_back);
    reporting = &unwritten;
    unwritten.list.runs = true;
    unwritten.dispatch();
    CHECK(unwritten.indices.write() == 1);  // of two dispatches one ran
    CHECK(called_back);
    CHECK(sentences.size() == 2);
    sentences.clear();
}

// Gives objects whose IUnknown is another object.
class Giving final : public Broken {
public:
    Giving() : Broken(false) {}
    Dispatches dispatches;
    HRESULT STDMETHODCALLTYPE CreateCommandRecorder(REFIID wanted, void** recorder) override {
        return dispatches.QueryInterface(wanted, recorder);
    }
};

// An application gets the interface that it wants, and the recorder copies behind any of them.
void test_interfaces() {
    Giving giving;
    IDMLDevice* device =
        onnxgather::capture<IDMLDevice>(&giving, folder(L"interfaces").c_str(), keep, 8);
    for (const GUID& id :
         {IID_IUnknown, onnxgather::recording::OBJECT_ID, IDMLCommandRecorder::iid}) {
        Ref<IUnknown> first, again;
        Ref<IDMLCommandRecorder> recorder;
        CHECK(device->CreateCommandRecorder(id, first.put_void()) == S_OK);
        CHECK(first->QueryInterface(IDMLCommandRecorder::iid, recorder.put_void()) == S_OK);
        CHECK(recorder.get() != &giving.dispatches);
        CHECK(recorder->QueryInterface(IID_IUnknown, again.put_void()) == S_OK);
        CHECK(again.get() == first.get());
        int before = giving.dispatches.count;
        recorder->RecordDispatch(nullptr, nullptr, nullptr);
        CHECK(giving.dispatches.count == before + 1);
        CHECK(giving.dispatches.references == 2);
    }
    CHECK(giving.dispatches.references == 1);
    void* answer = nullptr;
    CHECK(device->CreateCommandRecorder(IDMLOperator::iid, &answer) == E_NOINTERFACE);
    CHECK(!answer);
    CHECK(device->Release() == 0);
    CHECK(giving.references == 1);
    CHECK(sentences.empty());
}

// --- Files -----------------------------------------------------------------------------------

// Where nothing can be written, the calls go on, and one sentence is told.
void test_bad_folders() {
    Broken broken(true);
    wstring file = folder(L"bad") + L"\\file";
    replace_content(file, "");
    struct {
        const wchar_t* path;
        wstring sentence;
    } const bad[] = {
        {L"Z:\\nowhere\\at all", L"\"Z:\\nowhere\\at all\", Windows error 3"},
        {L"Z:/nowhere", L"\"Z:\\nowhere\", Windows error 3"},
        {L"Z:/nowhere//", L"\"Z:\\nowhere\", Windows error 3"},
        {L"Q:/", L"\"Q:\\\", Windows error 2"},
        {file.c_str(), L"\"" + file + L"\", Windows error 3"},
        {L"", L"\"\", Windows error 123"},
        {nullptr, L"\"\", Windows error 123"},
    };
    for (const auto& each : bad) {
        IDMLDevice* device = onnxgather::capture<IDMLDevice>(&broken, each.path, keep);
        for (size_t k = 0; k < 3; k++)
            CHECK(device->CreateOperator(written[k], IDMLOperator::iid, nullptr) == FAILED_AT + 6);
        device->Release();
        CHECK(sentences.size() == 1);
        if (!sentences.empty()) std::printf("reported: %ls\n", sentences[0].c_str());
        CHECK(!sentences.empty() && sentences[0] == L"onnxgather: a gather was not written to " +
                                                        each.sentence +
                                                        L"; later failures are not reported");
        sentences.clear();
    }
    IDMLDevice* device = onnxgather::capture<IDMLDevice>(&broken, L"Z:\\nowhere");  // the debugger
    CHECK(device->CreateOperator(written[0], IDMLOperator::iid, nullptr) == FAILED_AT + 6);
    device->Release();
    CHECK(broken.references == 1);
    CHECK(files(folder(L"bad")).size() == 1);
}

// A disk without room: what is there is whole.
void test_full_disk() {
    Broken broken(true);
    Captured<IDMLDevice> device(&broken, folder(L"full"));
    for (auto desc : written)
        CHECK(device->CreateOperator(desc, IDMLOperator::iid, nullptr) == FAILED_AT + 6);
    CHECK(sentences.size() == 1);
    sentences.clear();
    auto found = files(folder(L"full"));
    CHECK(found.size() > 0 && found.size() < 10);
    for (const wstring& name : found) {
        string text = content(folder(L"full") + L"\\" + name);
        CHECK(name.find(L".json") != wstring::npos);
        CHECK(text.size() > 2 && text.substr(text.size() - 2) == "}\n");
    }
}

// Files of other programs keep their names and their content; a file with the same text is enough.
void test_names() {
    Broken broken(true);
    wstring path = folder(L"names");
    auto create = [&] {
        Captured<IDMLDevice> device(&broken, path);
        device->CreateOperator(written[0], IDMLOperator::iid, nullptr);
    };
    create();
    auto first = files(path);
    CHECK(first.size() == 1);
    create();
    CHECK(files(path) == first);
    wstring start = path + L"\\" + first[0].substr(0, first[0].find(L'.'));
    string whole = content(start + L".json");
    for (string other : {string("x"), whole.substr(0, whole.size() - 1), whole + "\n", string()}) {
        DeleteFileW((start + L"-2.json").c_str());
        replace_content(start + L".json", other.c_str());
        create();
        CHECK(content(start + L".json") == other);
        CHECK(content(start + L"-2.json") == whole);
        create();
        CHECK(files(path).size() == 2);
    }
    DeleteFileW((start + L".json").c_str());
    CreateDirectoryW((start + L".json").c_str(), nullptr);
    DeleteFileW((start + L"-2.json").c_str());
    create();
    CHECK(content(start + L"-2.json") == whole);
    RemoveDirectoryW((start + L".json").c_str());
    for (int k = 1; k <= 100; k++)
        replace_content(start + (k > 1 ? L"-" + std::to_wstring(k) : L"") + L".json", "x");
    CHECK(sentences.empty());
    create();
    CHECK(sentences.size() == 1 && sentences[0].find(L"Windows error 80;") != wstring::npos);
    sentences.clear();
    CHECK(files(path).size() == 100);
}

// A name of a temporary file that another process takes once it is free: that file is not touched.
void test_taken_names() {
    Broken broken(true);
    wstring path = folder(L"taken"), taken;
    auto create = [&] {
        Captured<IDMLDevice> device(&broken, path);
        device->CreateOperator(written[0], IDMLOperator::iid, nullptr);
    };
    on_moved = [&](const wchar_t* from) { replace_content(taken = from, "of another process"); };
    create();
    on_moved = nullptr;
    CHECK(taken.find(path + L"\\gather-" + std::to_wstring(GetCurrentProcessId()) + L"-") == 0);
    CHECK(content(taken) == "of another process");
    CHECK(files(path).size() == 2);
    create();  // its own temporary file goes, as the gather is there
    CHECK(content(taken) == "of another process");
    CHECK(files(path).size() == 2);
    CHECK(sentences.empty());
}

void test_other_folders() {
    Broken broken(true);
    auto create = [&](const wstring& path) {
        Captured<IDMLDevice> device(&broken, path);
        device->CreateOperator(written[0], IDMLOperator::iid, nullptr);
    };
    create(folder(L"g\u00e4thers \u53ce\u96c6"));
    create(folder(L"slash") + L"//");
    create(folder(L"backslash") + L"\\");
    create(L"\\\\?\\" + folder(L"prefix") + L"\\");
    folder(L"drive");
    create(L"Y:/");
    wstring path = L"\\\\?\\" + folder(L"long"), name;
    for (int k = 0; k < 25; k++) name += L"long";
    for (int k = 0; k < 3; k++) CreateDirectoryW((path += L"\\" + name).c_str(), nullptr);
    create(path);
    CHECK(path.size() > MAX_PATH && files(path).size() == 1);
    CHECK(sentences.empty());
}

// Memory ends at the first allocation, at the second and so on: either a gather is told and nothing
// of it is left, or it is there. Later it is written.
void test_no_memory() {
    wstring path = folder(L"memory");
    int told_times = 0;
    bool ended = true;
    for (int k = 1; ended; k++) {
        onnxgather::recording::Folder recorded(path.c_str(), keep);
        allocations_left = k;
        recorded.record(written[0]);
        ended = allocations_left == 0;
        allocations_left = 0;
        CHECK(ended || sentences.empty());
        auto found = files(path);
        if (sentences.empty()) {
            CHECK(found.size() == 1);
        } else {
            CHECK(found.empty());
            CHECK(sentences.size() == 1 && sentences[0].find(L"Windows error 8;") != wstring::npos);
            told_times++;
            recorded.record(written[0]);
            found = files(path);
            CHECK(found.size() == 1);
        }
        for (const wstring& name : found) DeleteFileW((path + L"\\" + name).c_str());
        sentences.clear();
    }
    CHECK(told_times > 10);
    std::printf("without memory: %d\n", told_times);
}

void test_current_folder() {
    Broken broken(true);
    wstring path = folder(L"current");
    SetCurrentDirectoryW(path.c_str());
    Captured<IDMLDevice> device(&broken, L".");
    SetCurrentDirectoryW(out.c_str());
    device->CreateOperator(written[0], IDMLOperator::iid, nullptr);
    CHECK(files(path).size() == 1);
    CHECK(sentences.empty());
}

}  // namespace

int main(int, char** arguments) {
    for (const char* letter = arguments[1]; *letter; letter++) out += static_cast<wchar_t>(*letter);
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
    SetUnhandledExceptionFilter(report_crash);
    Gpu gpu;
    DirectMl directml;
    IDMLDevice* device = nullptr;
    try {
        gpu.open(-1);
        directml.load("DirectML.dll");
        device = directml.device(gpu, DML_FEATURE_LEVEL_1_0).directml.get();
    } catch (const Failure& failure) {
        misunderstood(told(failure.stage, failure.result));
    }
    auto part = [](const char* name, auto test) {
        int before = failures;
        test();
        std::printf("%s: %s\n", name, failures == before ? "holds" : "FAILED");
        std::fflush(stdout);
    };
    part("references", test_references);
    part("forwarding", test_forwarding);
    part("interfaces", test_interfaces);
    part("lists that never run", [&] { test_lists_that_never_run(gpu); });
    part("bounds", [&] { test_bounds(gpu); });
    part("failed copies", [&] { test_failed_copies(gpu); });
    part("reports", [&] { test_reports(gpu); });
    part("bad folders", test_bad_folders);
    part("full disk", test_full_disk);
    part("names", test_names);
    part("taken names", test_taken_names);
    part("current folder", test_current_folder);
    part("other folders", test_other_folders);
    part("no memory", test_no_memory);
    part("every descriptor", [=] { test_every_descriptor(device); });
    part("graphs", [=] { test_graphs(device); });
    part("use", [=] { test_use(device); });
    part("indices", [&] { test_indices(gpu, device); });
    part("no JSON", [=] { test_no_json(device); });
    part("threads", [=] { test_threads(device); });
    end(failures ? 1 : 0);
}
