"""Code in C++ and JavaScript that asks the guard of a model, an ONNX model itself."""

from __future__ import annotations

import json

from onnxgather.core.files import script_filled_in

_CPP = """\
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <onnxruntime_cxx_api.h>

// The file of the guard, for Ort::Session.
constexpr const ORTCHAR_T* guard_file = ORT_TSTR(PATH);

// Throws the first rule of the contract that inputs break. They are the guard's inputs: those of the
// model that the contract speaks of.
void check(Ort::Session& guard, const std::vector<const char*>& names, const std::vector<Ort::Value>& inputs) {
    const char* outputs[] = {"ok", "broken"};
    auto answers = guard.Run(Ort::RunOptions{}, names.data(), inputs.data(), inputs.size(), outputs, 2);
    if (*answers[0].GetTensorData<bool>()) return;
    const std::string key = "rule." + std::to_string(*answers[1].GetTensorData<int64_t>());
    Ort::AllocatorWithDefaultOptions allocator;
    auto rule = guard.GetModelMetadata().LookupCustomMetadataMapAllocated(key.c_str(), allocator);
    throw std::invalid_argument(rule.get());
}
"""  # noqa: E501


def cpp_check(guard_file: str) -> str:
    """Return a function of C++ that asks a guard.

    It needs ONNX Runtime's headers.

    Args:
        guard_file: The name of the guard's file.
    """
    return _CPP.replace("PATH", _literal(guard_file))


def javascript_check(guard_file: str) -> str:
    """Return a module of JavaScript whose function `check` asks a guard.

    It needs onnxruntime-web or onnxruntime-node.

    Args:
        guard_file: The name of the guard's file.
    """
    return script_filled_in("auditing/output/guard.mjs", PATH=_literal(guard_file))


def _literal(text: str) -> str:
    """Return a text as a literal of both languages.

    Characters that cannot be printed are escaped: some of them end a line.
    """
    literal = json.dumps(text, ensure_ascii=False)
    escaped = [
        character if character.isprintable() else json.dumps(character)[1:-1]
        for character in literal
    ]
    return "".join(escaped)
