// Frames on the standard input and output: a u64, the number of bytes that follow, and those bytes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#include <windows.h>
#else
#include <unistd.h>
#endif

namespace {

using Bytes = std::vector<unsigned char>;

FILE *requests, *answers;

// Ends at once: the destructors of Direct3D and DirectML crash in the order that exit has them in.
[[noreturn]] void end(int code) {
    std::fflush(nullptr);
#ifdef _WIN32
    TerminateProcess(GetCurrentProcess(), code);
#endif
    std::_Exit(code);
}

[[noreturn]] void misunderstood(const std::string& what) {
    std::fprintf(stderr, "host: %s\n", what.c_str());
    end(2);
}

// Opens the frames. What libraries print goes to the standard error, not between the frames.
void open_frames() {
#ifdef _WIN32
    requests = _fdopen(_dup(0), "rb");
    answers = _fdopen(_dup(1), "wb");
    _setmode(_fileno(requests), _O_BINARY);
    _setmode(_fileno(answers), _O_BINARY);
    _dup2(2, 1);
#else
    requests = fdopen(dup(0), "rb");
    answers = fdopen(dup(1), "wb");
    dup2(2, 1);
#endif
}

// Writes one frame.
void send(const Bytes& content) {
    uint64_t count = content.size();
    std::fwrite(&count, sizeof count, 1, answers);
    std::fwrite(content.data(), 1, content.size(), answers);
    if (std::fflush(answers)) end(1);  // nobody listens
}

// Reads one frame; false where the input ended before it.
bool receive(Bytes& frame) {
    uint64_t count;
    size_t found = std::fread(&count, 1, sizeof count, requests);
    if (!found) return false;
    if (found != sizeof count) misunderstood("the input ends within a frame");
    if (count >> 33) misunderstood("a frame of more than 8 GiB");
    frame.resize(count);
    if (std::fread(frame.data(), 1, count, requests) != count)
        misunderstood("the input ends within a frame");
    return true;
}

}  // namespace
