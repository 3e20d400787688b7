/* How a gather runs. Its loops are cut into tiles. For a tile, the offsets of its rows are found
   first, each index brought into range in the load that reads it; then the rows are copied. Loops
   without indices of their own use the offsets of a tile again. Single elements whose offsets are
   used once are copied in the same pass. */
#include "kernel.h"

#include <stdio.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define STREAMS 1
#define FETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
#else
#define STREAMS 0
#if defined(__GNUC__)
#define FETCH(address) __builtin_prefetch((const void *)(address))
#else
#define FETCH(address) ((void)(address))
#endif
#endif

#if defined(__GNUC__)
#define INLINED static inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define INLINED static __forceinline
#else
#define INLINED static inline
#endif

#ifdef __STDC_NO_ATOMICS__
#define ATOMIC volatile
#else
#define ATOMIC _Atomic
#endif

enum {
    MOST_LOOPS = GATHER_MOST_LOOPS + 1, /* one of them may be split */
    TILE = 1024,                        /* offsets that the nearest cache holds beside rows */
    LONG_TILE = 8192,                   /* offsets, where they are used again */
    SHORT = 256,                        /* a tile takes in more loops while it is shorter */
    SHORT_ROW = 32,                     /* bytes of rows that are copied in one pass */
    AHEAD = 12,                         /* a row is fetched so many rows before it is copied */
    FURTHER = 64,                       /* a single element, so many elements */
    NEAR = 1 << 22,                     /* bytes of data whose single elements are not fetched */
    NEAR_ROWS = 1 << 18,                /* nor rows, nor what pairs of indices lead to */
    ROW = 1 << 18,                      /* bytes of data that may be read ahead for a tile */
    LEAST_PART = 1 << 16                /* bytes of output that are worth a thread */
};

static const size_t INDEX_BYTES[4] = {4, 8, 4, 8};

/* A loop, and where a run stands: steps in elements of the three buffers. */
struct loop {
    uint64_t size, data, index, output;
};
struct position {
    uint64_t data, index, output;
};

/* A gather while one part of it runs. */
struct run {
    const struct gather *gather;
    const char *data, *indices;
    char *output;
    uint64_t width;  /* elements of a row, which are copied for one index */
    int inside;      /* whether indices in range lead to elements that are there and reached */
    int streams;     /* whether the output passes the caches by */
    int count, tile; /* of all loops; the loops from `tile` on make a tile */
    struct loop loops[MOST_LOOPS];
    uint32_t rows;                         /* of a tile */
    uint32_t offsets[LONG_TILE + AHEAD];   /* of the rows of a tile */
    uint32_t wrapped[TILE + AHEAD];        /* the same, as DirectML counts them */
    uint8_t missing[LONG_TILE];            /* rows that are zero */
};

/* Indices. */

INLINED uint64_t value_at(const char *indices, size_t at, const int type) {
    if (type == GATHER_UINT32) return ((const uint32_t *)indices)[at];
    if (type == GATHER_INT32) return (uint64_t)((const int32_t *)indices)[at];
    return ((const uint64_t *)indices)[at];
}

/* An index counted from the front and brought into range; `outside` gets the bits that changed. */
INLINED uint64_t index_at(const char *indices, size_t at, const int type, const int is_signed,
                          uint64_t size, uint64_t *outside) {
    const uint64_t value = value_at(indices, at, type), last = size - 1;
    const uint64_t negative = is_signed ? 0 - (value >> 63) : 0;
    const uint64_t index = value + (size & negative);
    const uint64_t kept = index > last ? last & ~negative : index;
    *outside |= index ^ kept;
    return kept;
}

/* One coordinate of the indices of a line: a loop of a tile. */
struct line {
    const char *indices;
    uint64_t count, index_step, data_step, size, stride;
    uint32_t start;
    int first; /* of the coordinates of its tuple */
};

/* Add what one coordinate adds to the offsets. True if an index is out of range. */
INLINED int add(const struct line *at, uint32_t *restrict offsets, uint8_t *restrict missing,
                const int type, const int policy, const int first, const size_t index_step) {
    const int is_signed = type >= GATHER_INT32 || policy == GATHER_DIRECTML;
    const struct line line = *at;
    const uint32_t stride = (uint32_t)line.stride, data_step = (uint32_t)line.data_step;
    uint32_t start = line.start;
    uint64_t any = 0;
    for (size_t j = 0; j < line.count; j++, start += data_step) {
        uint64_t outside = 0, index = index_at(line.indices, j * index_step, type, is_signed,
                                               line.size, &outside);
        any |= outside;
        if (policy == GATHER_ZERO) missing[j] = (uint8_t)((!first && missing[j]) | (outside != 0));
        if (policy == GATHER_DIRECTML) index ^= outside; /* as it was; only modulo 2^32 */
        const uint32_t offset = (uint32_t)index * stride + start;
        offsets[j] = first ? offset : offsets[j] + offset;
    }
    return any != 0;
}

typedef int adder(const struct line *, uint32_t *, uint8_t *);

#define ADDER(type, policy)                                                                      \
    static int add_##type##_##policy(const struct line *line, uint32_t *offsets,                 \
                                     uint8_t *missing) {                                         \
        const size_t step = (size_t)line->index_step;                                            \
        if (!line->first)                                                                        \
            return add(line, offsets, missing, GATHER_##type, GATHER_##policy, 0, step);         \
        if (step == 1) return add(line, offsets, missing, GATHER_##type, GATHER_##policy, 1, 1); \
        return add(line, offsets, missing, GATHER_##type, GATHER_##policy, 1, step);             \
    }
#define ADDERS(type) ADDER(type, CLAMP) ADDER(type, ZERO) ADDER(type, DIRECTML)
#define NAMES(type) \
    {add_##type##_CLAMP, add_##type##_CLAMP, add_##type##_ZERO, add_##type##_DIRECTML}

ADDERS(UINT32) ADDERS(UINT64) ADDERS(INT32) ADDERS(INT64)
static adder *const ADD[4][4] = {NAMES(UINT32), NAMES(UINT64), NAMES(INT32), NAMES(INT64)};

/* Rows. */

struct rows {
    const char *data;
    char *output;
    size_t size, bytes, step; /* of an element, of a row, from row to row in the output */
    size_t count;
    int far, streams; /* whether rows are fetched early; whether they pass the caches by */
};

INLINED void copy_elements(const struct rows *at, const uint32_t *restrict offsets,
                           const size_t size) {
    const struct rows rows = *at;
    const char *restrict data = rows.data;
    char *restrict output = rows.output;
    for (size_t j = 0; j < rows.count; j++, output += rows.step)
        memcpy(output, data + offsets[j] * size, size);
}

/* Rows of one to two times `part` bytes: their beginnings and their ends, which may overlap. */
INLINED void copy_ends(const struct rows *at, const uint32_t *restrict offsets, const size_t part) {
    const struct rows rows = *at;
    const char *restrict data = rows.data;
    char *restrict output = rows.output;
    const size_t end = rows.bytes - part;
    for (size_t j = 0; j < rows.count; j++, output += rows.step) {
        const char *row = data + offsets[j] * rows.size;
        FETCH(data + offsets[j + AHEAD] * rows.size);
        memcpy(output, row, part);
        memcpy(output + end, row + end, part);
    }
}

/* Rows of more than 16 bytes. */
static void copy_rows(const struct rows *at, const uint32_t *restrict offsets) {
    const struct rows rows = *at;
    const char *restrict data = rows.data;
    char *restrict output = rows.output;
    const size_t end = rows.bytes - 16;
    for (size_t j = 0; j < rows.count; j++, output += rows.step) {
        const char *row = data + offsets[j] * rows.size;
        const char *later = data + offsets[j + AHEAD] * rows.size;
        for (size_t k = 0; k < end; k += 16) {
            if (k % 64 == 0) FETCH(later + k);
            memcpy(output + k, row + k, 16);
        }
        memcpy(output + end, row + end, 16);
    }
}

/* Copy bytes into memory without reading it into the caches first. */
static void stream(char *restrict output, const char *restrict input, size_t bytes) {
#if STREAMS
    size_t done = (0 - (uintptr_t)output) & 15;
    done = done < bytes ? done : bytes;
    memcpy(output, input, done);
    for (; done + 16 <= bytes; done += 16)
        _mm_stream_si128((__m128i *)(void *)(output + done),
                         _mm_loadu_si128((const __m128i *)(const void *)(input + done)));
    output += done, input += done, bytes -= done;
#endif
    memcpy(output, input, bytes);
}

static void copy_long_rows(const struct rows *rows, const uint32_t *offsets) {
    const size_t bytes = rows->bytes, early = bytes < 1024 ? 4 : 1;
    for (size_t j = 0; j < rows->count; j++) {
        const char *row = rows->data + offsets[j] * rows->size;
        const char *later = rows->data + offsets[j + early] * rows->size;
        for (size_t k = 0; k < bytes && k < 512; k += 64) FETCH(later + k);
        if (rows->streams) stream(rows->output + j * rows->step, row, bytes);
        else memcpy(rows->output + j * rows->step, row, bytes);
    }
}

static void copy(const struct rows *rows, const uint32_t *offsets) {
    const size_t bytes = rows->bytes;
    if (bytes >= (rows->streams ? 128 : 1024)) copy_long_rows(rows, offsets);
    else if (bytes > 32) copy_rows(rows, offsets);
    else if (bytes == rows->size && bytes == 1) copy_elements(rows, offsets, 1);
    else if (bytes == rows->size && bytes == 2) copy_elements(rows, offsets, 2);
    else if (bytes == rows->size && bytes == 4) copy_elements(rows, offsets, 4);
    else if (bytes == rows->size) copy_elements(rows, offsets, 8);
    else if (bytes <= 4) copy_ends(rows, offsets, 2);
    else if (bytes <= 8) copy_ends(rows, offsets, 4);
    else if (bytes <= 16) copy_ends(rows, offsets, 8);
    else copy_ends(rows, offsets, 16);
}

static void erase(const struct rows *rows, const uint8_t *missing) {
    for (size_t j = 0; j < rows->count; j++)
        if (missing[j]) memset(rows->output + j * rows->step, 0, rows->bytes);
}

/* The bytes of the last cache, which what is written may stay in. */
static size_t cache_bytes(void) {
    static ATOMIC size_t known;
    size_t bytes = known;
    if (bytes) return bytes;
#if defined(_WIN32)
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION found[256];
    DWORD room = sizeof found;
    if (GetLogicalProcessorInformation(found, &room))
        for (DWORD k = 0; k < room / sizeof *found; k++)
            if (found[k].Relationship == RelationCache && found[k].Cache.Size > bytes)
                bytes = found[k].Cache.Size;
#elif defined(__APPLE__)
    size_t room = sizeof bytes;
    if (sysctlbyname("hw.l3cachesize", &bytes, &room, NULL, 0) || !bytes)
        sysctlbyname("hw.perflevel0.l2cachesize", &bytes, &room, NULL, 0);
#elif defined(__linux__)
    unsigned long kibibytes = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    if (file && fscanf(file, "%luK", &kibibytes) == 1) bytes = kibibytes << 10;
    if (file) fclose(file);
#endif
    known = bytes = bytes ? bytes : (size_t)32 << 20;
    return bytes;
}

/* Short rows straight from their indices, which lie packed. */

/* Rows of `part` bytes (one element), or of one to two times as many. `checks`: whether anyone asks
   for indices out of range. `packed`: whether the last index counts elements. `fetches`: what an
   index further on leads to is fetched, in range or not, as that is a hint and reads nothing. */
INLINED uint64_t fuse_some(const struct line *axes, const struct rows *at, size_t from, size_t to,
                           const int type, const int tuple, const size_t part, const int whole,
                           const int checks, const int packed, const int fetches) {
    const struct rows rows = *at;
    const int is_signed = type >= GATHER_INT32;
    const char *indices = axes->indices;
    const size_t size = whole ? part : rows.size, end = rows.bytes - part;
    const uint64_t data_step = axes->data_step * size;
    const uint64_t size0 = axes[0].size, size1 = axes[tuple - 1].size;
    const uint64_t stride1 = packed ? part : axes[tuple - 1].stride * size;
    const uint64_t stride0 = tuple == 1 ? stride1 : axes[0].stride * size;
    const char *restrict data = rows.data + from * data_step;
    char *restrict output = rows.output + from * rows.bytes;
    uint64_t outside = 0, unused = 0;
    for (size_t j = from; j < to; j++) {
        const size_t index = j * (size_t)tuple, later = index + FURTHER * (size_t)tuple;
        if (fetches) {
            uint64_t next = value_at(indices, later, type) * stride0;
            if (tuple == 2) next += value_at(indices, later + 1, type) * stride1;
            FETCH((uintptr_t)data + next);
        }
        uint64_t *seen = checks ? &outside : &unused;
        const char *row = data + index_at(indices, index, type, is_signed, size0, seen) * stride0;
        if (tuple == 2)
            row += index_at(indices, index + 1, type, is_signed, size1, seen) * stride1;
        memcpy(output, row, part);
        if (!whole) memcpy(output + end, row + end, part);
        output += whole ? part : rows.bytes;
        if (tuple == 1) data += data_step;
    }
    return outside;
}

INLINED int fuse_all(const struct line *axes, const struct rows *rows, const int type,
                     const int tuple, const size_t part, const int whole, const int checks,
                     const int packed) {
    const size_t count = rows->count, far = rows->far && count > FURTHER ? count - FURTHER : 0;
    uint64_t outside = fuse_some(axes, rows, 0, far, type, tuple, part, whole, checks, packed, 1);
    outside |= fuse_some(axes, rows, far, count, type, tuple, part, whole, checks, packed, 0);
    return outside != 0;
}

/* True if an index is out of range; then it was clamped. */
INLINED int fuse(const struct line *axes, const struct rows *rows, int checks, const int type,
                 const int tuple, const size_t part, const int whole) {
    if (checks) return fuse_all(axes, rows, type, tuple, part, whole, 1, 0);
    if (whole && axes[tuple - 1].stride == 1)
        return fuse_all(axes, rows, type, tuple, part, whole, 0, 1);
    return fuse_all(axes, rows, type, tuple, part, whole, 0, 0);
}

#define FUSED(type, tuple)                                                                       \
    static int fuse_##type##_##tuple(const struct line *axes, const struct rows *rows,           \
                                     int checks) {                                               \
        const size_t bytes = rows->bytes;                                                        \
        if (bytes == rows->size) switch (bytes) {                                                \
            case 1: return fuse(axes, rows, checks, GATHER_##type, tuple, 1, 1);                 \
            case 2: return fuse(axes, rows, checks, GATHER_##type, tuple, 2, 1);                 \
            case 4: return fuse(axes, rows, checks, GATHER_##type, tuple, 4, 1);                 \
            default: return fuse(axes, rows, checks, GATHER_##type, tuple, 8, 1);                \
            }                                                                                    \
        if (bytes <= 4) return fuse(axes, rows, checks, GATHER_##type, tuple, 2, 0);             \
        if (bytes <= 8) return fuse(axes, rows, checks, GATHER_##type, tuple, 4, 0);             \
        if (bytes <= 16) return fuse(axes, rows, checks, GATHER_##type, tuple, 8, 0);            \
        return fuse(axes, rows, checks, GATHER_##type, tuple, 16, 0);                            \
    }
FUSED(UINT32, 1) FUSED(UINT64, 1) FUSED(INT32, 1) FUSED(INT64, 1)
FUSED(UINT32, 2) FUSED(UINT64, 2) FUSED(INT32, 2) FUSED(INT64, 2)

static int (*const FUSE[2][4])(const struct line *, const struct rows *, int) = {
    {fuse_UINT32_1, fuse_UINT64_1, fuse_INT32_1, fuse_INT64_1},
    {fuse_UINT32_2, fuse_UINT64_2, fuse_INT32_2, fuse_INT64_2},
};

/* Loops. */

/* The loops of a gather from the largest step of the output to the smallest; those that lie packed
   in all three buffers are one. */
static void order_loops(struct run *run, const struct gather *g) {
    struct loop *loops = run->loops;
    int count = 0;
    for (uint32_t k = 0; k < g->loop_count; k++) {
        const struct loop loop = {g->sizes[k], g->data_strides[k], g->index_strides[k],
                                  g->output_strides[k]};
        int at = count;
        if (loop.size == 1) continue;
        for (; at > 0 && loops[at - 1].output < loop.output; at--) loops[at] = loops[at - 1];
        loops[at] = loop, count++;
    }
    if (!count) loops[count++] = (struct loop){1, 0, 0, 0};
    for (int k = count - 2; k >= 0; k--) {
        struct loop *outer = &loops[k], *inner = &loops[k + 1];
        const uint64_t size = inner->size;
        if (outer->data != size * inner->data || outer->index != size * inner->index ||
            outer->output != size * inner->output)
            continue;
        inner->size *= outer->size;
        memmove(outer, inner, (size_t)(--count - k) * sizeof *loops);
    }
    run->count = count;
}

/* The loop that is cut into parts: the outermost with about equal ones, else the longest. */
static struct loop *cut_loop(struct run *run, uint64_t parts) {
    struct loop *longest = run->loops;
    for (int k = 0; k < run->count; k++) {
        struct loop *loop = &run->loops[k];
        if (loop->size % parts == 0 || loop->size >= 16 * parts) return loop;
        if (loop->size > longest->size) longest = loop;
    }
    return longest;
}

static uint64_t bytes_written(const struct gather *gather) {
    uint64_t bytes = gather->element_size;
    for (uint32_t k = 0; k < gather->loop_count; k++) bytes *= gather->sizes[k];
    return bytes;
}

size_t gather_parts(const struct gather *gather, size_t most) {
    struct run run;
    uint64_t parts = bytes_written(gather) / LEAST_PART;
    if (parts > most) parts = most;
    if (parts < 2) return 1;
    order_loops(&run, gather);
    const uint64_t size = cut_loop(&run, parts)->size;
    return (size_t)(size < parts ? size : parts);
}

void gather_clear(const struct gather *gather, void *output) {
    if (bytes_written(gather) < gather->output_count * gather->element_size)
        memset(output, 0, gather->output_count * gather->element_size);
}

/* Take the next step of nested loops. False after the last one. */
static int advance(struct position *at, const struct loop *loops, int count, uint64_t *turns) {
    for (int k = count - 1; k >= 0; k--) {
        const struct loop *loop = &loops[k];
        at->data += loop->data, at->index += loop->index, at->output += loop->output;
        if (++turns[k] < loop->size) return 1;
        at->data -= loop->size * loop->data, at->index -= loop->size * loop->index;
        at->output -= loop->size * loop->output, turns[k] = 0;
    }
    return 0;
}

/* Tiles. */

/* The coordinate k of the innermost loop. */
static struct line line_of(const struct run *run, struct position at, uint32_t k) {
    const struct gather *g = run->gather;
    const struct loop *loop = &run->loops[run->count - 1];
    return (struct line){
        .indices = run->indices + (at.index + k * g->tuple_stride) * INDEX_BYTES[g->index_type],
        .count = loop->size, .index_step = loop->index, .data_step = k ? 0 : loop->data,
        .size = g->axis_sizes[k], .stride = g->axis_strides[k],
        .start = k ? 0 : (uint32_t)at.data, .first = k == 0};
}

/* Find the offsets of a tile. True if an index is out of range. */
static int find_offsets(struct run *run, uint64_t index) {
    const struct gather *g = run->gather;
    uint64_t turns[MOST_LOOPS] = {0}, done = 0;
    struct position at = {0, index, 0};
    int outside = 0;
    do {
        struct line line;
        for (uint32_t k = 0; k < g->tuple_size; k++) {
            line = line_of(run, at, k);
            outside |= ADD[g->index_type][g->policy](&line, run->offsets + done,
                                                     run->missing + done);
        }
        done += line.count;
    } while (advance(&at, run->loops + run->tile, run->count - run->tile - 1, turns));
    for (int k = 0; k < AHEAD; k++) run->offsets[done + (uint64_t)k] = run->offsets[done - 1];
    return outside;
}

static struct rows rows_of(const struct run *run, struct position at) {
    const size_t size = run->gather->element_size;
    return (struct rows){
        .data = run->data + at.data * size, .output = run->output + at.output * size,
        .size = size, .bytes = run->width * size,
        .step = run->loops[run->count - 1].output * size, .count = run->rows,
        .far = run->gather->data_count * size >
               (run->width > 1 || run->gather->tuple_size > 1 ? NEAR_ROWS : NEAR),
        .streams = run->streams};
}

/* Copy the rows of a tile as DirectML does: element by element, each offset counted modulo 2^32
   and kept inside what it reaches; of that, what lies behind the data is zero. */
static void copy_wrapped(struct run *run, struct position at) {
    const struct gather *g = run->gather;
    const uint32_t last = (uint32_t)(g->reachable_count - 1), start = (uint32_t)at.data;
    struct rows rows = rows_of(run, (struct position){0, 0, at.output});
    char *output = rows.output;
    rows.bytes = rows.size;
    for (uint64_t element = 0; element < run->width; element++)
        for (size_t done = 0; done < run->rows; done += rows.count) {
            rows.count = run->rows - done < TILE ? run->rows - done : TILE;
            rows.output = output + element * rows.size + done * rows.step;
            for (size_t j = 0; j < rows.count; j++) {
                const uint32_t wrapped = run->offsets[done + j] + start + (uint32_t)element;
                const uint32_t offset = wrapped < last ? wrapped : last;
                run->missing[j] = offset >= g->data_count;
                run->wrapped[j] = run->missing[j] ? 0 : offset;
            }
            copy(&rows, run->wrapped);
            erase(&rows, run->missing);
        }
}

static void copy_tile(struct run *run, struct position at, int outside) {
    const struct rows rows = rows_of(run, at);
    copy(&rows, run->offsets);
    if (outside && run->gather->policy == GATHER_ZERO) erase(&rows, run->missing);
}

/* Copy the rows of a tile straight from their indices. False where that was not right. */
static int fuse_tile(struct run *run, struct position at) {
    const struct gather *g = run->gather;
    const int checks = g->policy != GATHER_CLAMP;
    const struct rows rows = rows_of(run, at);
    struct line axes[2];
    for (uint32_t k = 0; k < g->tuple_size; k++) axes[k] = line_of(run, at, k);
    return !FUSE[g->tuple_size - 1][g->index_type](axes, &rows, checks);
}

/* Make a tile of the innermost loops. Of a loop that is split for it, `rest` is what is left over;
   its number is returned, or -1. */
static int make_tile(struct run *run, uint64_t most, struct loop *rest) {
    uint64_t count = 1;
    for (int k = run->count - 1; k >= 0; k--) {
        struct loop *loop = &run->loops[k];
        const uint64_t fits = most / count;
        if (k < run->count - 1 &&
            (count >= SHORT || loop->output != loop[1].size * loop[1].output))
            break;
        run->tile = k, run->rows = (uint32_t)(count *= loop->size < fits ? loop->size : fits);
        if (loop->size <= fits) continue;
        *rest = *loop, rest->size %= fits;
        memmove(loop + 1, loop, (size_t)(run->count++ - run->tile++) * sizeof *loop);
        loop->size /= fits, loop->data *= fits, loop->index *= fits, loop->output *= fits;
        loop[1].size = fits;
        return k;
    }
    return -1;
}

/* Read the data of a tile once from its beginning to its end, if it lies close together: the
   processor then sees a line of memory and brings it into the cache, which it does not for the
   scattered reads of the indices, and less for explicit fetches. */
static void read_ahead(const struct run *run, uint64_t data, uint64_t extent) {
    const size_t size = run->gather->element_size;
    const uint64_t bytes = extent * size;
    if (!run->inside || bytes > ROW || bytes / 64 > run->rows ||
        data + extent > run->gather->data_count)
        return;
    const volatile char *row = run->data + data * size;
    for (uint64_t k = 0; k < bytes; k += 64) (void)row[k];
}

/* Run tile after tile, from a position on. False if the policy is "error" and an index is out of
   range. */
static int run_tiles(struct run *run, struct position outer) {
    const struct gather *g = run->gather;
    struct loop changing[MOST_LOOPS], repeated[MOST_LOOPS];
    uint64_t turns[MOST_LOOPS] = {0}, again[MOST_LOOPS] = {0}, extent = 1;
    int changes = 0, repeats = 0;
    for (int k = 0; k < run->tile; k++)
        if (run->loops[k].index) changing[changes++] = run->loops[k];
        else repeated[repeats++] = run->loops[k];
    for (uint32_t k = 0; k < g->tuple_size; k++)
        extent += (g->axis_sizes[k] - 1) * g->axis_strides[k];
    const struct loop *last = &run->loops[run->count - 1];
    /* Short rows whose offsets are used once, where all that is packed lies packed. */
    const int fuses = run->inside && run->width * g->element_size <= SHORT_ROW && !repeats &&
                      run->tile == run->count - 1 && last->output == run->width &&
                      last->index == g->tuple_size && g->tuple_size <= 2 &&
                      (g->tuple_size == 1 || (g->tuple_stride == 1 && !last->data));
    do {
        struct position at = outer;
        if (fuses && fuse_tile(run, at)) continue;
        const int outside = find_offsets(run, at.index);
        if (outside && g->policy == GATHER_ERROR) return 0;
        do {
            if (repeats) read_ahead(run, at.data, extent);
            if (g->policy == GATHER_DIRECTML && (outside || !run->inside)) copy_wrapped(run, at);
            else copy_tile(run, at, outside);
        } while (advance(&at, repeated, repeats, again));
    } while (advance(&outer, changing, changes, turns));
    return 1;
}

/* Whether indices in range lead to data that is there and that DirectML reaches. For the other
   policies gather_check has proved it. */
static int lies_inside(const struct gather *g) {
    uint64_t limit = g->data_count < g->reachable_count ? g->data_count : g->reachable_count;
    if (g->policy != GATHER_DIRECTML) return 1;
    for (uint32_t k = 0; k < g->loop_count + g->tuple_size; k++) {
        const uint32_t axis = k - g->loop_count;
        const int is_loop = k < g->loop_count;
        const uint64_t steps = (is_loop ? g->sizes[k] : g->axis_sizes[axis]) - 1;
        const uint64_t stride = is_loop ? g->data_strides[k] : g->axis_strides[axis];
        if (steps && stride > (limit - 1) / steps) return 0;
        limit -= steps * stride;
    }
    return 1;
}

int gather_run(const struct gather *gather, const void *data, const void *indices, void *output,
               size_t part, size_t parts) {
    struct run run;
    struct loop rest = {0, 0, 0, 0};
    struct position at = {0, 0, 0};
    run.gather = gather, run.data = data, run.indices = indices, run.output = output;
    run.width = 1, run.inside = lies_inside(gather);
    order_loops(&run, gather);
    if (parts > 1) {
        struct loop *loop = cut_loop(&run, parts);
        const uint64_t begin = loop->size * part / parts;
        loop->size = loop->size * (part + 1) / parts - begin;
        if (!loop->size) return 1;
        at.data = begin * loop->data, at.index = begin * loop->index;
        at.output = begin * loop->output;
    }
    const struct loop *last = &run.loops[run.count - 1];
    if (!last->index && last->data == 1 && last->output == 1) {
        run.width = last->size;
        if (!--run.count) run.loops[run.count++] = (struct loop){1, 0, 0, run.width};
    }
    const uint64_t bytes = bytes_written(gather);
    run.streams = STREAMS && bytes > LEAST_PART && bytes > cache_bytes();
    int is_long = run.width * gather->element_size <= SHORT_ROW;
    for (int k = 0; k < run.count - 1; k++) is_long |= !run.loops[k].index;
    for (int split; (split = make_tile(&run, is_long ? LONG_TILE : TILE, &rest)) >= 0;) {
        struct loop *loop = &run.loops[split];
        if (!run_tiles(&run, at)) return 0;
        if (!rest.size) return 1;
        at.data += loop->size * loop->data, at.index += loop->size * loop->index;
        at.output += loop->size * loop->output;
        *loop = rest;
        memmove(loop + 1, loop + 2, (size_t)(--run.count - split - 1) * sizeof *loop);
    }
    return run_tiles(&run, at);
}
