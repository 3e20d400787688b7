// The protocol of runtime.py, which both hosts speak on the standard input and output.
//
// A host writes MAGIC, then a frame for each frame that it reads, in order. A frame is a u64, little
// endian, the number of bytes that follow, and those bytes: a line of JSON, and the bytes that the
// JSON speaks of. A host ends when its input does. One that reads a frame that it does not
// understand, or whose input ends within a frame, ends with exit code 2.
#pragma once

#include <algorithm>
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

using std::string;
using Bytes = std::vector<unsigned char>;

// --- Frames ----------------------------------------------------------------------------------

FILE *requests, *answers;

// Ends at once: the destructors of Direct3D and DirectML crash in the order that exit has them in.
[[noreturn]] void end(int code) {
    std::fflush(nullptr);
#ifdef _WIN32
    TerminateProcess(GetCurrentProcess(), code);
#endif
    std::_Exit(code);
}

[[noreturn]] void misunderstood(const string& what) {
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

// --- JSON: what the requests hold, and text for the answers ----------------------------------

struct Json {
    enum Kind { NOTHING, NUMBER, TEXT, LIST, OBJECT } kind = NOTHING;
    int64_t number = 0;  // of a number from 2^63 on, the same 64 bits
    string text;
    std::vector<Json> items;
    std::vector<string> keys;  // of OBJECT, one per item

    const Json* find(const char* key) const {  // nullptr where it is not there
        for (size_t k = 0; k < keys.size(); k++)
            if (keys[k] == key) return &items[k];
        return nullptr;
    }
    const Json& operator[](const char* key) const {
        if (const Json* found = find(key)) return *found;
        misunderstood(string("a request without ") + key);
    }
    const Json& at(size_t place) const {
        if (place >= items.size()) misunderstood("a list in a request is too short");
        return items[place];
    }
};

inline void append_utf8(string& text, uint32_t c) {
    if (c < 0x80) return text.push_back(c);
    int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    text += static_cast<char>(0xFF << (7 - more) | c >> 6 * more);
    while (more--) text += static_cast<char>(0x80 | (c >> 6 * more & 0x3F));
}

class Parser {
public:
    explicit Parser(const string& text) : at_(text.c_str()) {}
    Json value() {
        Json found;
        char first = next();
        if (first == '{' || first == '[') {
            found.kind = first == '{' ? Json::OBJECT : Json::LIST;
            char last = first == '{' ? '}' : ']';
            if (peek() == last) return ++at_, found;
            do {
                if (first == '{') {
                    found.keys.push_back(text(next()));
                    if (next() != ':') misunderstood("no : in a request");
                }
                found.items.push_back(value());
            } while (peek() == ',' && ++at_);
            if (next() != last) misunderstood("no end in a request");
        } else if (first == '"') {
            found.kind = Json::TEXT;
            found.text = text(first);
        } else if (first == 'n' && !std::strncmp(at_, "ull", 3)) {
            at_ += 3;
        } else {
            found.kind = Json::NUMBER;
            char* end;
            found.number = static_cast<int64_t>(std::strtoull(at_ - 1, &end, 10));
            if (end == at_ - 1) misunderstood("no value in a request");
            at_ = end;
        }
        return found;
    }

private:
    char peek() {
        while (*at_ == ' ') ++at_;
        return *at_;
    }
    char next() {
        char found = peek();
        if (!found) misunderstood("a request is cut short");
        return ++at_, found;
    }
    string text(char quote) {
        string found;
        if (quote != '"') misunderstood("no text in a request");
        while (*at_ && *at_ != '"') {
            if (*at_ == '\\' && *++at_ == 'u') append_utf8(found, escaped());
            else found += *at_++;
        }
        if (!*at_) misunderstood("a request is cut short");
        return ++at_, found;
    }
    // The character of an escape, whose u is next: one \uXXXX, or two that make one character.
    uint32_t escaped() {
        uint32_t unit = four_digits();
        if (unit >> 10 != 0xD800 >> 10 || std::strncmp(at_, "\\u", 2)) return unit;
        ++at_;
        return 0x10000 + ((unit & 0x3FF) << 10) + (four_digits() & 0x3FF);
    }
    uint32_t four_digits() {
        if (std::strlen(at_) < 5) misunderstood("a request is cut short");
        uint32_t unit = std::strtoul(string(at_ + 1, 4).c_str(), nullptr, 16);
        return at_ += 5, unit;
    }
    const char* at_;
};

inline string quoted(const string& text) {
    string found = "\"";
    for (unsigned char c : text) {
        char escaped[8];
        if (c == '"' || c == '\\') std::snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c < 32) std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
        else std::snprintf(escaped, sizeof escaped, "%c", c);
        found += escaped;
    }
    return found + "\"";
}

// The items in a list; the items are JSON.
inline string list(const std::vector<string>& items) {
    string found;
    for (const string& item : items) found += (found.empty() ? "" : ", ") + item;
    return "[" + found + "]";
}

// --- Requests and answers --------------------------------------------------------------------

// Answers requests until the input ends. `answer` takes the JSON of a request and its bytes; it
// returns the JSON of the answer, and puts the answer's bytes into its last argument.
template <typename Answer>
[[noreturn]] void serve(Answer answer) {
    std::fwrite("\x93gather\n", 1, 8, answers);
    std::fflush(answers);
    Bytes frame;
    while (receive(frame)) {
        auto line = std::find(frame.begin(), frame.end(), '\n');
        if (line == frame.end()) misunderstood("a frame without a line");
        Json request = Parser(string(frame.begin(), line)).value();
        Bytes blobs(line + 1, frame.end()), content;
        string json = answer(request, blobs, content) + "\n";
        content.insert(content.begin(), json.begin(), json.end());
        send(content);
    }
    end(0);
}

}  // namespace
