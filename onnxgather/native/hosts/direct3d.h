// What both hosts need of Direct3D 12: references, and mends of two methods of Wine's.
#pragma once

#include <initguid.h>  // before d3d12.h: identifiers are defined here
// Methods that return structures get the place for them as an argument, as on Windows.
#define WIDL_EXPLICIT_AGGREGATE_RETURNS
#include <d3d12.h>
#include <windows.h>

#include <utility>

namespace {

// Owns one reference to a COM object.
template <typename T>
class Ref {
public:
    Ref() = default;
    Ref(Ref&& other) noexcept : object_(other.object_) { other.object_ = nullptr; }
    Ref& operator=(Ref&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    ~Ref() {
        if (object_) object_->Release();
    }
    T* get() const { return object_; }
    T* operator->() const { return object_; }
    T** put() { return &object_; }
    void** put_void() { return reinterpret_cast<void**>(&object_); }

private:
    T* object_ = nullptr;
};

const char* wine_version() {
    auto get = reinterpret_cast<const char*(CDECL*)()>(
        reinterpret_cast<void*>(GetProcAddress(GetModuleHandleA("ntdll"), "wine_get_version")));
    return get ? get() : "";
}

// Puts a method into a table of methods; all objects of the class share the table.
void replace(void** slot, void* method) {
    DWORD protection;
    VirtualProtect(slot, sizeof(void*), PAGE_READWRITE, &protection);
    *slot = method;
    VirtualProtect(slot, sizeof(void*), protection, &protection);
}

HRESULT STDMETHODCALLTYPE no_meta_commands(IUnknown*, UINT* count, void*) {
    *count = 0;
    return S_OK;
}

using CheckFeatureSupport =
    HRESULT(STDMETHODCALLTYPE*)(ID3D12Device*, D3D12_FEATURE, void*, UINT);
CheckFeatureSupport wines_answer;

HRESULT STDMETHODCALLTYPE without_int64_shaders(
    ID3D12Device* device, D3D12_FEATURE feature, void* data, UINT size) {
    HRESULT result = wines_answer(device, feature, data, size);
    if (SUCCEEDED(result) && feature == D3D12_FEATURE_D3D12_OPTIONS1)
        static_cast<D3D12_FEATURE_DATA_D3D12_OPTIONS1*>(data)->Int64ShaderOps = FALSE;
    return result;
}

// Mends two methods of Wine 10 that DirectML stumbles over; does nothing on Windows, or where a
// later Wine answers as DirectML expects.
//   59, EnumerateMetaCommands: an error, where there should be no meta-commands;
//   13, CheckFeatureSupport: shaders with 64-bit integers, though its shader model 5.1 has none.
void mend(ID3D12Device* device) {
    if (!*wine_version()) return;
    using Enumerate = HRESULT(STDMETHODCALLTYPE*)(IUnknown*, UINT*, void*);
    void** methods = *reinterpret_cast<void***>(device);
    Ref<ID3D12Device5> device5;
    if (SUCCEEDED(device->QueryInterface(IID_ID3D12Device5, device5.put_void()))) {
        void** methods5 = *reinterpret_cast<void***>(device5.get());
        UINT count = 0;
        if (FAILED(reinterpret_cast<Enumerate>(methods5[59])(device5.get(), &count, nullptr)))
            replace(&methods5[59], reinterpret_cast<void*>(&no_meta_commands));
    }
    D3D12_FEATURE_DATA_SHADER_MODEL model{D3D_SHADER_MODEL_6_0};
    HRESULT found = device->CheckFeatureSupport(D3D12_FEATURE_SHADER_MODEL, &model, sizeof model);
    if (FAILED(found) || model.HighestShaderModel < D3D_SHADER_MODEL_6_0) {
        wines_answer = reinterpret_cast<CheckFeatureSupport>(methods[13]);
        replace(&methods[13], reinterpret_cast<void*>(&without_int64_shaders));
    }
}

}  // namespace
