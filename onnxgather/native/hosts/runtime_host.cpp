// Runs ONNX models on one execution provider of an ONNX Runtime library, over its C API: what
// onnxgather/core/execution/runtime.py does in a Python environment, for a library without Python.
//
//   runtime_host LIBRARY          such as libonnxruntime.so.1 or onnxruntime.dll
//
// Speaks the protocol of runtime.py, as protocol.h says; runtime.answer says what the requests are.
// A model that crashes ONNX Runtime ends the host.
//
// A request may have `graphs`, which no worker knows: the DirectML provider then writes its graphs,
// the descriptors of DirectML's operators, as files virtual_model/Partition_N.bin below the current
// folder. The host removes them; `graphs` of the answer has the offset and the size of each.
//
// BUILDING, with GCC or Clang on Linux and macOS, or MinGW-w64:
//
//   c++ -std=c++20 -O2 -o runtime_host runtime_host.cpp -ldl
//   x86_64-w64-mingw32-g++ -std=c++20 -O2 -static -s -o runtime_host.exe runtime_host.cpp
//       -ld3d12 -ldxguid
//
// ONNX Runtime's functions are declared by their number in OrtApi (onnxruntime_c_api.h), to which
// each version only adds. The library must have the API of version 24, the first with all of them.
#ifdef _WIN32
#include "direct3d.h"
#include "directml.h"
#else
#include <dlfcn.h>
#endif

#include <fstream>
#include <optional>
#include <stdexcept>
#include <utility>

#include "protocol.h"

namespace {

// --- ONNX Runtime ----------------------------------------------------------------------------

struct Failed : std::runtime_error {  // ONNX Runtime's own message, on one line
    using std::runtime_error::runtime_error;
};

struct NotRun {  // as NotRunError of runtime.py
    string json;
    NotRun(const char* kind, const string& detail, const string& node = "null")
        : json(list({quoted(kind), quoted(detail), node})) {}
};

constexpr uint32_t OLDEST_API = 24;  // the first that records which provider runs a node

struct ApiBase {
    void* const* (*get_api)(uint32_t version);
    const char* (*get_version)();
};

// The number of each function in OrtApi.
enum Function {
    GetErrorMessage = 2,
    CreateEnv = 3,
    CreateSessionFromArray = 8,
    Run = 9,
    CreateSessionOptions = 10,
    SetSessionExecutionMode = 13,
    DisableMemPattern = 17,
    SetSessionLogSeverityLevel = 22,
    SetIntraOpNumThreads = 24,
    SessionGetOutputCount = 31,
    SessionGetOutputName = 37,
    CreateTensorWithDataAsOrtValue = 49,
    GetTensorMutableData = 51,
    GetTensorElementType = 60,
    GetDimensionsCount = 61,
    GetDimensions = 62,
    GetTensorTypeAndShape = 65,
    CreateCpuMemoryInfo = 69,
    GetAllocatorWithDefaultOptions = 78,
    ReleaseStatus = 93,
    ReleaseSession = 95,
    ReleaseValue = 96,
    ReleaseTensorTypeAndShapeInfo = 99,
    ReleaseSessionOptions = 100,
    GetAvailableProviders = 125,
    AddSessionConfigEntry = 130,
    GetExecutionProviderApi = 195,
    SessionOptionsAppendExecutionProvider = 216,
    RegisterCustomOpsLibrary_V2 = 228,
    RegisterExecutionProviderLibrary = 301,
    GetEpDevices = 303,
    SessionOptionsAppendExecutionProvider_V2 = 304,
    EpDevice_EpName = 312,
    Session_GetEpGraphAssignmentInfo = 407,
    EpAssignedSubgraph_GetEpName = 408,
    EpAssignedSubgraph_GetNodes = 409,
    EpAssignedNode_GetName = 410,
    EpAssignedNode_GetOperatorType = 412,
};

void* const* api;
const char* version;
void* environment;

template <typename Result, typename... Arguments>
Result plain(Function function, Arguments... arguments) {
    return reinterpret_cast<Result (*)(Arguments...)>(api[function])(arguments...);
}

// Throws the message of a status that is one of failure.
void succeed(void* status) {
    if (!status) return;
    string message, words = plain<const char*>(GetErrorMessage, static_cast<const void*>(status));
    plain<void>(ReleaseStatus, status);
    for (char c : words)
        if (!std::strchr(" \t\r\n", c)) message += c;
        else if (!message.empty() && message.back() != ' ') message += ' ';
    throw Failed(message);
}

// Calls a function that returns a status.
template <typename... Arguments>
void call(Function function, Arguments... arguments) {
    succeed(plain<void*>(function, arguments...));
}

// How a model is opened; as Setup of runtime.py, of which it has no more.
struct Setup {
    string provider;
    int64_t threads = 0;
    string library, operators;  // empty: none is used
    std::vector<std::pair<string, string>> settings;
    bool operator==(const Setup&) const = default;
};

// A path as ONNX Runtime takes it.
#ifdef _WIN32
std::wstring native_path(const string& path) {
    std::wstring wide(path.size() + 1, L'\0');  // as many as the bytes are enough
    MultiByteToWideChar(CP_UTF8, 0, path.c_str(), -1, wide.data(), static_cast<int>(wide.size()));
    return wide;
}
#else
string native_path(const string& path) { return path; }
#endif

// Owns an object of ONNX Runtime.
class Owned {
public:
    explicit Owned(Function release) : release_(release) {}
    Owned(Owned&& other) noexcept : release_(other.release_), object_(other.object_) {
        other.object_ = nullptr;
    }
    ~Owned() {
        if (object_) plain<void>(release_, object_);
    }
    void* get() const { return object_; }
    void** put() { return &object_; }

private:
    Function release_;
    void* object_ = nullptr;
};

struct DataType {
    const char* name;  // numpy's
    int number;        // of ONNXTensorElementDataType
    size_t size;
};

constexpr DataType DATA_TYPES[] = {
    {"float32", 1, 4}, {"uint8", 2, 1},    {"int8", 3, 1},     {"uint16", 4, 2},
    {"int16", 5, 2},   {"int32", 6, 4},    {"int64", 7, 8},    {"bool", 9, 1},
    {"float16", 10, 2}, {"float64", 11, 8}, {"uint32", 12, 4}, {"uint64", 13, 8},
};

const string CPU = "CPUExecutionProvider", DIRECTML = "DmlExecutionProvider",
             WEBGPU = "WebGpuExecutionProvider";

#ifdef _WIN32
// The Direct3D device, the queue and the DirectML device that the DirectML provider is given.
struct DirectMl {
    Ref<ID3D12Device> direct3d;
    Ref<ID3D12CommandQueue> queue;
    Ref<IDMLDevice> directml;

    DirectMl() {
        check("D3D12CreateDevice", D3D12CreateDevice(nullptr, D3D_FEATURE_LEVEL_11_0,
                                                     IID_ID3D12Device, direct3d.put_void()));
        mend(direct3d.get());
        D3D12_COMMAND_QUEUE_DESC desc{};
        desc.Type = D3D12_COMMAND_LIST_TYPE_COMPUTE;
        check("CreateCommandQueue",
              direct3d->CreateCommandQueue(&desc, IID_ID3D12CommandQueue, queue.put_void()));
        HMODULE library = LoadLibraryA("DirectML.dll");
        if (!library) throw Failed("DirectML.dll does not load");
        auto create = reinterpret_cast<DMLCreateDevice1Function>(
            reinterpret_cast<void*>(GetProcAddress(library, "DMLCreateDevice1")));
        // The level that the provider itself asks for.
        check("DMLCreateDevice1", create(direct3d.get(), DML_CREATE_DEVICE_FLAG_NONE, 0x5000,
                                         IDMLDevice::iid, directml.put_void()));
    }

    static void check(const char* what, HRESULT result) {
        if (SUCCEEDED(result)) return;
        char text[100];
        std::snprintf(text, sizeof text, "%s gave 0x%08lX", what, result);
        throw Failed(text);
    }
};
#endif

std::vector<string> available() {
    char** names;
    int count;
    call(GetAvailableProviders, &names, &count);
    return {names, names + count};
}

// The devices of a provider that a plugin library brings.
std::vector<const void*> plugin_devices(const string& provider) {
    const void* const* devices;
    size_t count;
    std::vector<const void*> found;
    call(GetEpDevices, static_cast<const void*>(environment), &devices, &count);
    for (size_t k = 0; k < count; k++)
        if (provider == plain<const char*>(EpDevice_EpName, devices[k]))
            found.push_back(devices[k]);
    return found;
}

// Registers the library of a provider once; throws NotRun where that brings no device.
void register_plugin(const Setup& setup) {
    if (!plugin_devices(setup.provider).empty()) return;
    try {
        auto path = native_path(setup.library);
        call(RegisterExecutionProviderLibrary, environment, setup.provider.c_str(), path.c_str());
    } catch (const Failed& failed) {
        throw NotRun("library", failed.what());
    }
    if (plugin_devices(setup.provider).empty()) throw NotRun("no-device", setup.provider);
}

void append_plugin(void* options, const Setup& setup) {
    std::vector<const void*> devices = plugin_devices(setup.provider);
    std::vector<const char*> keys, values;
    for (const auto& [key, value] : setup.settings) {
        keys.push_back(key.c_str());
        values.push_back(value.c_str());
    }
    call(SessionOptionsAppendExecutionProvider_V2, options, environment, devices.data(),
         devices.size(), keys.data(), values.data(), keys.size());
}

void append(void* options, const Setup& setup) {
    const string& provider = setup.provider;
    if (!setup.library.empty()) return append_plugin(options, setup);
    if (provider == CPU) return;
    if (provider == DIRECTML) {
#ifdef _WIN32
        static const DirectMl device;
        // OrtDmlApi: the second function takes a DirectML device and a queue.
        void* const* functions;
        call(GetExecutionProviderApi, "DML", OLDEST_API, &functions);
        call(DisableMemPattern, options);
        call(SetSessionExecutionMode, options, 0);  // one node after another
        auto append_device = reinterpret_cast<void* (*)(void*, void*, void*)>(functions[1]);
        succeed(append_device(options, device.directml.get(), device.queue.get()));
        return;
#endif
    }
    string name = provider.substr(0, provider.size() - std::strlen("ExecutionProvider"));
    if (name == "WebGpu") name = "WebGPU";
    const char** none = nullptr;
    call(SessionOptionsAppendExecutionProvider, options, name.c_str(), none, none, size_t{0});
}

using Node = std::pair<string, string>;  // its name and its operator

// The nodes of a session; throws NotRun where another provider has one.
std::vector<Node> proved(void* session, const string& provider) {
    void *const *parts, *const *nodes;
    size_t part_count, node_count;
    std::vector<Node> found;
    auto text = [](Function function, void* of) {
        const char* value;
        call(function, of, &value);
        return string(value);
    };
    call(Session_GetEpGraphAssignmentInfo, session, &parts, &part_count);
    for (size_t p = 0; p < part_count; p++) {
        string where = text(EpAssignedSubgraph_GetEpName, parts[p]);
        call(EpAssignedSubgraph_GetNodes, parts[p], &nodes, &node_count);
        for (size_t n = 0; n < node_count; n++) {
            string name = text(EpAssignedNode_GetName, nodes[n]);
            string type = text(EpAssignedNode_GetOperatorType, nodes[n]);
            if (where != provider) {
                string node = "{\"name\": " + quoted(name) + ", \"operator\": " + quoted(type) +
                              ", \"provider\": " + quoted(where) + "}";
                throw NotRun("elsewhere", name + " (" + type + ") runs on " + where, node);
            }
            found.emplace_back(name, type);
        }
    }
    if (found.empty()) throw NotRun("folded", "none is left to run");
    return found;
}

void entry(void* options, const char* key, const char* value) {
    call(AddSessionConfigEntry, options, key, value);
}

// Has a session take the operators of a library; throws NotRun where it does not load.
void register_operators(void* options, const string& path) {
    try {
        auto native = native_path(path);
        call(RegisterCustomOpsLibrary_V2, options, native.c_str());
    } catch (const Failed& failed) {
        throw NotRun("operators", string("their library does not load: ") + failed.what());
    }
}

// Throws NotRun where this ONNX Runtime does not have a provider itself.
void check_available(const string& provider) {
    string every;
    for (const string& name : available()) {
        if (name == provider) return;
        every += (every.empty() ? "" : ", ") + name;
    }
    throw NotRun("absent", every);
}

// A session on one provider, made as `Opened` of runtime.py makes it; with `graphs` the DirectML
// provider writes its graphs. A second session, with the fallback, is for `proved` to name the node
// that went elsewhere.
Owned opened(const Bytes& model, const Setup& setup, bool graphs, bool fallback = false) {
    const string& provider = setup.provider;
    if (setup.library.empty()) check_available(provider);
    else register_plugin(setup);
    Owned options(ReleaseSessionOptions), session(ReleaseSession);
    call(CreateSessionOptions, options.put());
    call(SetSessionLogSeverityLevel, options.get(), 4);
    call(SetIntraOpNumThreads, options.get(), static_cast<int>(setup.threads));
    entry(options.get(), "session.record_ep_graph_assignment_info", "1");
    if (provider != CPU)
        entry(options.get(), "session.disable_cpu_ep_fallback", fallback ? "0" : "1");
    if (graphs) {  // the files lie in a folder named after the model's, which bytes have only here
        entry(options.get(), "ep.dml.enable_graph_serialization", "true");
        entry(options.get(), "session.model_external_initializers_file_folder_path", ".");
    }
    if (provider == WEBGPU) {
        entry(options.get(), "ep.webgpuexecutionprovider.preferredLayout", "NCHW");
        entry(options.get(), "ep.webgpuexecutionprovider.enableInt64", "1");
    }
    append(options.get(), setup);
    if (!setup.operators.empty()) register_operators(options.get(), setup.operators);
    try {
        call(CreateSessionFromArray, environment, static_cast<const void*>(model.data()),
             model.size(), options.get(), session.put());
    } catch (const Failed& failed) {
        if (fallback) throw NotRun("elsewhere", "some node would run on " + CPU);
        if (!std::strstr(failed.what(), "assigned to the default CPU EP")) throw;
        return opened(model, setup, graphs, true);
    }
    return session;
}

// Removes the files that the DirectML provider wrote of its graphs; returns what they held.
std::vector<Bytes> taken_graphs() {
    std::vector<Bytes> found;
    for (;;) {
        string name = "virtual_model/Partition_" + std::to_string(found.size()) + ".bin";
        std::ifstream file(name, std::ios::binary);
        if (!file) return found;
        found.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
        file.close();
        std::remove(name.c_str());
    }
}

// Runs a session on a feed; appends the first output to `content` and returns its JSON.
string run(void* session, const Json& feed, Bytes& blobs, Bytes& content) {
    static void* memory = [] {
        void* made;
        call(CreateCpuMemoryInfo, 0, 0, &made);
        return made;
    }();
    std::vector<Owned> inputs;
    std::vector<void*> values;
    std::vector<const char*> names;
    for (size_t k = 0; k < feed.items.size(); k++) {
        const std::vector<Json>& array = feed.items[k].items;
        if (array.size() != 3) misunderstood("an array that is none");
        std::vector<int64_t> shape;
        const DataType* type = nullptr;
        for (const DataType& known : DATA_TYPES)
            if (array[0].text == known.name) type = &known;
        if (!type) misunderstood("an unknown data type");
        size_t bytes = type->size, offset = array[2].number;
        for (const Json& size : array[1].items) {
            shape.push_back(size.number);
            bytes *= size.number;
        }
        if (offset > blobs.size() || bytes > blobs.size() - offset)
            misunderstood("an array beyond the frame");
        names.push_back(feed.keys[k].c_str());
        inputs.emplace_back(ReleaseValue);
        call(CreateTensorWithDataAsOrtValue, memory, static_cast<void*>(blobs.data() + offset),
             bytes, static_cast<const int64_t*>(shape.data()), shape.size(), type->number,
             inputs.back().put());
        values.push_back(inputs.back().get());
    }
    void* allocator;
    call(GetAllocatorWithDefaultOptions, &allocator);
    char* name;
    call(SessionGetOutputName, session, size_t{0}, allocator, &name);
    Owned output(ReleaseValue), info(ReleaseTensorTypeAndShapeInfo);
    call(Run, session, static_cast<void*>(nullptr), names.data(), values.data(), values.size(),
         const_cast<const char**>(&name), size_t{1}, output.put());
    call(GetTensorTypeAndShape, output.get(), info.put());
    int number;
    size_t rank;
    call(GetTensorElementType, info.get(), &number);
    call(GetDimensionsCount, info.get(), &rank);
    std::vector<int64_t> shape(rank);
    call(GetDimensions, info.get(), shape.data(), rank);
    for (const DataType& type : DATA_TYPES) {
        if (type.number != number) continue;
        size_t bytes = type.size, offset = content.size();
        std::vector<string> sizes;
        for (int64_t size : shape) {
            sizes.push_back(std::to_string(size));
            bytes *= size;
        }
        unsigned char* data;
        call(GetTensorMutableData, output.get(), reinterpret_cast<void**>(&data));
        content.insert(content.end(), data, data + bytes);
        return list({quoted(type.name), list(sizes), std::to_string(offset)});
    }
    throw Failed("the output has a data type that no gather has");
}

string about() {
    std::vector<string> providers;
    for (const string& name : available()) providers.push_back(quoted(name));
    string versions = "{\"onnxruntime\": " + quoted(version);
#ifdef _WIN32
    if (*wine_version()) versions += ", \"wine\": " + quoted(wine_version());
#endif
    return "{\"versions\": " + versions + "}, \"providers\": " + list(providers) + "}";
}

// A model that was opened.
struct Opened {
    Bytes model;
    Setup setup;
    Owned session;
    std::vector<Node> nodes;
};

Setup setup_of(const Json& session) {
    auto text = [&](const char* key) {
        const Json* given = session.find(key);
        return given ? given->text : "";
    };
    Setup setup{.provider = session["provider"].text,
                .threads = session["threads"].number,
                .library = text("library"),
                .operators = text("operators"),
                .settings = {}};
    if (const Json* settings = session.find("settings"))
        for (size_t k = 0; k < settings->keys.size(); k++)
            setup.settings.emplace_back(settings->keys[k], settings->items[k].text);
    return setup;
}

// The answer to a request, a line of JSON; bytes of the outputs go to `content`.
string answer(const Json& request, Bytes& blobs, Bytes& content) {
    if (request.items.empty()) return about();
    const Setup setup = setup_of(request["session"]);
    size_t size = request["model"].number;
    if (size > blobs.size()) misunderstood("a model beyond the frame");
    std::vector<string> names, operators, outputs, written;
    bool graphs = request.find("graphs");
    static std::optional<Opened> kept;  // for requests that follow with the same model
    try {
        Bytes model(blobs.begin(), blobs.begin() + size);
        if (graphs || !(kept && kept->model == model && kept->setup == setup)) {
            kept.reset();
            if (graphs) taken_graphs();  // those of a session that was refused
            Owned session = opened(model, setup, graphs);
            std::vector<Node> nodes = proved(session.get(), setup.provider);
            kept.emplace(Opened{std::move(model), setup, std::move(session), nodes});
        }
        for (const auto& [name, type] : kept->nodes) {
            names.push_back(quoted(name));
            operators.push_back(quoted(type));
        }
        for (const Bytes& graph : graphs ? taken_graphs() : std::vector<Bytes>()) {
            written.push_back(list({std::to_string(content.size()), std::to_string(graph.size())}));
            content.insert(content.end(), graph.begin(), graph.end());
        }
        for (const Json& feed : request["feeds"].items) {
            try {
                outputs.push_back(run(kept->session.get(), feed, blobs, content));
            } catch (const Failed& failed) {
                outputs.push_back(quoted(failed.what()));
            }
        }
    } catch (const NotRun& found) {
        return "{\"not_run\": " + found.json + "}";
    } catch (const Failed& failed) {
        return "{\"refused\": " + quoted(failed.what()) + "}";
    }
    if (!request["keep"].number) kept.reset();
    return "{\"names\": " + list(names) + ", \"nodes\": " + list(operators) +
           ", \"outputs\": " + list(outputs) +
           (graphs ? ", \"graphs\": " + list(written) : "") + "}";
}

// --- The program -----------------------------------------------------------------------------

void load(const char* path) {
#ifdef _WIN32
    HMODULE library = LoadLibraryA(path);
    if (!library) misunderstood(string(path) + " does not load");
    void* found = reinterpret_cast<void*>(GetProcAddress(library, "OrtGetApiBase"));
#else
    void* library = dlopen(path, RTLD_NOW);
    if (!library) misunderstood(dlerror());
    void* found = dlsym(library, "OrtGetApiBase");
#endif
    if (!found) misunderstood(string(path) + " is no ONNX Runtime");
    const ApiBase* base = reinterpret_cast<const ApiBase* (*)()>(found)();
    version = base->get_version();
    api = base->get_api(OLDEST_API);
    if (!api) misunderstood(string("ONNX Runtime must be 1.24 or later, got ") + version);
    call(CreateEnv, 4, "onnxgather", &environment);  // 4: logs what is fatal alone
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) misunderstood("takes one argument, ONNX Runtime's library");
#ifdef _WIN32
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX);
#endif
    open_frames();
    try {
        load(arguments[1]);
        serve(answer);
    } catch (const std::exception& error) {
        misunderstood(error.what());
    }
}
