/* How a gather runs: its loops are cut into tiles. For each tile the offsets of the elements are
   found first, each index brought into range in the load that reads it; then the rows are copied.
   Loops without indices of their own use the offsets of a tile again. */
#include "kernel.h"

#include <string.h>

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define FETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
#elif defined(__GNUC__)
#define FETCH(address) __builtin_prefetch((const void *)(address))
#else
#define FETCH(address) ((void)(address))
#endif

#if defined(__GNUC__)
#define INLINED static inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define INLINED static __forceinline
#else
#define INLINED static inline
#endif

enum {
    MOST_LOOPS = GATHER_MOST_LOOPS + 1, /* one may be split in two */
    TILE = 1024,                        /* offsets that the nearest cache holds beside the rows */
    LONG_TILE = 8192,                   /* offsets, where many rows use them again */
    SHORT_LINE = 256,                   /* below, loops around the innermost join its tile */
    FURTHER = 48,                       /* single elements that are fetched before */
    AHEAD = 12,                         /* rows that are fetched before they are copied */
    FAR = 1 << 19,                      /* bytes of data, above which its rows are fetched ahead */
    LEAST_PART = 65536                  /* bytes of output that are worth a thread */
};

/* A loop with its steps, in elements. */
struct loop {
    uint64_t size, data, index, output;
};

/* A gather while it runs. */
struct run {
    const struct gather *gather;
    const char *data;
    const char *indices;
    char *output;
    uint64_t width; /* elements of a row that are copied for one index */
    struct loop loops[MOST_LOOPS];
    int count, tile; /* the loops from `tile` on make a tile */
    uint32_t tile_count;
    int inside; /* whether indices in range need no further check */
    uint32_t offsets[LONG_TILE + AHEAD];
    uint32_t shifted[TILE + AHEAD]; /* the offsets of one row, under "directml" */
    uint8_t missing[LONG_TILE];
};

/* The rows of a tile. */
struct rows {
    const char *data;
    char *output;
    size_t size, bytes, step; /* of an element, of a row, from row to row of the output */
    uint32_t count;
    int far;
};

/* Offsets: from indices, for `count` elements whose offsets lie `step` apart. */

struct line {
    const char *indices;
    uint64_t index_step, size, stride, data_step, start;
    uint32_t count, step;
    int first; /* whether this coordinate is the first of its tuple */
};

INLINED uint64_t value_at(const char *restrict indices, size_t at, const int type) {
    if (type == GATHER_UINT32) return ((const uint32_t *)indices)[at];
    if (type == GATHER_INT32) return (uint64_t)((const int32_t *)indices)[at];
    return ((const uint64_t *)indices)[at];
}

/* An index as it counts from the front, and whether it is out of range, as a number's bits. */
INLINED uint64_t counted(const char *restrict indices, size_t at, uint64_t size, const int type,
                         const int is_signed, uint64_t *outside) {
    const uint64_t last = size - 1, value = value_at(indices, at, type);
    const uint64_t negative = is_signed ? 0 - (value >> 63) : 0;
    const uint64_t index = value + (size & negative), kept = index > last ? last & ~negative : index;
    *outside |= index ^ kept;
    return kept;
}

/* Add the steps of one coordinate to the offsets. Return whether an index is out of range. */
INLINED int add_coordinate(const struct line *line, uint32_t *restrict offsets,
                           uint8_t *restrict missing, const int type, const int policy,
                           const int first, const size_t index_step, const size_t step) {
    const int is_signed = type >= GATHER_INT32 || policy == GATHER_DIRECTML;
    const uint64_t size = line->size;
    const uint32_t stride = (uint32_t)line->stride, count = line->count;
    const uint32_t data_step = (uint32_t)line->data_step;
    const char *restrict indices = line->indices;
    uint32_t start = (uint32_t)line->start;
    uint64_t any = 0;
    for (size_t j = 0; j < count; j++, start += data_step) {
        uint64_t outside = 0;
        uint64_t index = counted(indices, j * index_step, size, type, is_signed, &outside);
        any |= outside;
        if (policy == GATHER_ZERO)
            missing[j * step] = (uint8_t)((first ? 0 : missing[j * step]) | (outside != 0));
        /* DirectML's arithmetic is modulo 2^32, and `outside` has the bits that differ. */
        if (policy == GATHER_DIRECTML) index ^= outside;
        uint32_t offset = (uint32_t)index * stride + start;
        offsets[j * step] = first ? offset : offset + offsets[j * step];
    }
    return any != 0;
}

/* The same, with what is usual as constants. */
INLINED int add(const struct line *line, uint32_t *restrict offsets, uint8_t *restrict missing,
                const int type, const int policy) {
    const size_t index_step = (size_t)line->index_step, step = line->step;
    if (!line->first)
        return add_coordinate(line, offsets, missing, type, policy, 0, index_step, step);
    if (index_step == 1 && step == 1)
        return add_coordinate(line, offsets, missing, type, policy, 1, 1, 1);
    return add_coordinate(line, offsets, missing, type, policy, 1, index_step, step);
}

typedef int adder(const struct line *, uint32_t *restrict, uint8_t *restrict);

#define ADDER(type, policy)                                                                       \
    static int add_##type##_##policy(const struct line *line, uint32_t *restrict offsets,         \
                                     uint8_t *restrict missing) {                                 \
        return add(line, offsets, missing, GATHER_##type, GATHER_##policy);                       \
    }
#define ADDERS(type) ADDER(type, CLAMP) ADDER(type, ZERO) ADDER(type, DIRECTML)
#define NAMES(type) {add_##type##_CLAMP, add_##type##_CLAMP, add_##type##_ZERO, add_##type##_DIRECTML}
ADDERS(UINT32)
ADDERS(UINT64)
ADDERS(INT32)
ADDERS(INT64)

static adder *const ADD[4][4] = {NAMES(UINT32), NAMES(UINT64), NAMES(INT32), NAMES(INT64)};

/* Single elements straight from their indices, where no offset is used again. What an index far
   ahead will read is fetched meanwhile, whether or not the index is in range: only a hint. */
INLINED uint64_t fuse_some(const struct line *lines, const struct rows *rows, const int type,
                           const int coordinates, const size_t size, const size_t from,
                           const size_t to, const int fetches) {
    const int is_signed = type >= GATHER_INT32;
    const struct line line = lines[0], second = lines[coordinates - 1];
    const char *restrict data = rows->data;
    const size_t step = rows->step, index_step = (size_t)line.index_step;
    char *restrict output = rows->output + from * step;
    uint64_t start = line.data_step * from, outside = 0;
    for (size_t j = from; j < to; j++, output += step, start += line.data_step) {
        if (fetches) {
            const size_t ahead = (j + FURTHER) * index_step;
            uint64_t next = start + line.stride * value_at(line.indices, ahead, type);
            if (coordinates == 2) next += second.stride * value_at(second.indices, ahead, type);
            FETCH((uintptr_t)data + next * size);
        }
        uint64_t offset = start + line.stride * counted(line.indices, j * index_step, line.size,
                                                        type, is_signed, &outside);
        if (coordinates == 2)
            offset += second.stride * counted(second.indices, j * index_step, second.size, type,
                                              is_signed, &outside);
        memcpy(output, data + offset * size, size);
    }
    return outside;
}

INLINED int fuse(const struct line *lines, const struct rows *rows, const int type,
                 const int coordinates, const size_t size) {
    const size_t count = lines->count, far = rows->far && count > FURTHER ? count - FURTHER : 0;
    uint64_t outside = fuse_some(lines, rows, type, coordinates, size, 0, far, 1);
    outside |= fuse_some(lines, rows, type, coordinates, size, far, count, 0);
    return outside != 0;
}

#define FUSED(type, coordinates)                                                                  \
    static int fused_##type##_##coordinates(const struct line *lines, const struct rows *rows) {  \
        switch (rows->size) {                                                                     \
        case 1: return fuse(lines, rows, GATHER_##type, coordinates, 1);                          \
        case 2: return fuse(lines, rows, GATHER_##type, coordinates, 2);                          \
        case 4: return fuse(lines, rows, GATHER_##type, coordinates, 4);                          \
        default: return fuse(lines, rows, GATHER_##type, coordinates, 8);                         \
        }                                                                                         \
    }
FUSED(UINT32, 1)
FUSED(UINT32, 2)
FUSED(UINT64, 1)
FUSED(UINT64, 2)
FUSED(INT32, 1)
FUSED(INT32, 2)
FUSED(INT64, 1)
FUSED(INT64, 2)

static int (*const FUSE[4][2])(const struct line *, const struct rows *) = {
    {fused_UINT32_1, fused_UINT32_2},
    {fused_UINT64_1, fused_UINT64_2},
    {fused_INT32_1, fused_INT32_2},
    {fused_INT64_1, fused_INT64_2},
};

/* Rows: copied from their offsets, `size` bytes per element, `bytes` per row. */


/* Rows of one element. */
INLINED void copy_elements(const struct rows *rows, const uint32_t *restrict offsets,
                           const size_t size) {
    const char *restrict data = rows->data;
    char *restrict output = rows->output;
    const size_t step = rows->step, count = rows->count;
    if (rows->far)
        for (size_t j = 0; j < count; j++, output += step) {
            FETCH(data + offsets[j + AHEAD] * size);
            memcpy(output, data + offsets[j] * size, size);
        }
    else
        for (size_t j = 0; j < count; j++, output += step)
            memcpy(output, data + offsets[j] * size, size);
}

/* Rows of one to two times so many bytes: the first and the last of them, which may overlap. */
INLINED void copy_ends(const struct rows *rows, const uint32_t *restrict offsets,
                       const size_t part) {
    const char *restrict data = rows->data;
    char *restrict output = rows->output;
    const size_t step = rows->step, size = rows->size, end = rows->bytes - part;
    const size_t count = rows->count;
    for (size_t j = 0; j < count; j++, output += step) {
        const char *row = data + offsets[j] * size;
        FETCH(data + offsets[j + AHEAD] * size);
        memcpy(output, row, part);
        memcpy(output + end, row + end, part);
    }
}

/* Rows of 32 bytes and more, by 16 bytes. */
static void copy_rows(const struct rows *rows, const uint32_t *restrict offsets) {
    const char *restrict data = rows->data;
    char *restrict output = rows->output;
    const size_t step = rows->step, size = rows->size, bytes = rows->bytes;
    const size_t count = rows->count;
    for (size_t j = 0; j < count; j++, output += step) {
        const char *row = data + offsets[j] * size, *next = data + offsets[j + AHEAD] * size;
        for (size_t k = 0; k + 16 < bytes; k += 16) {
            if (k % 64 == 0) FETCH(next + k);
            memcpy(output + k, row + k, 16);
        }
        memcpy(output + bytes - 16, row + bytes - 16, 16);
    }
}

static void copy_long_rows(const struct rows *rows, const uint32_t *restrict offsets) {
    const size_t size = rows->size, bytes = rows->bytes;
    for (uint32_t j = 0; j < rows->count; j++) {
        const char *next = rows->data + offsets[j + 1] * size;
        for (size_t k = 0; k < 512; k += 64) FETCH(next + k);
        memcpy(rows->output + j * rows->step, rows->data + offsets[j] * size, bytes);
    }
}

static void copy(const struct rows *rows, const uint32_t *restrict offsets) {
    const size_t bytes = rows->bytes;
    if (bytes == rows->size) {
        switch (bytes) {
        case 1: copy_elements(rows, offsets, 1); break;
        case 2: copy_elements(rows, offsets, 2); break;
        case 4: copy_elements(rows, offsets, 4); break;
        default: copy_elements(rows, offsets, 8); break;
        }
    } else if (bytes <= 4) copy_ends(rows, offsets, 2);
    else if (bytes <= 8) copy_ends(rows, offsets, 4);
    else if (bytes <= 16) copy_ends(rows, offsets, 8);
    else if (bytes <= 32) copy_ends(rows, offsets, 16);
    else if (bytes < 1024) copy_rows(rows, offsets);
    else copy_long_rows(rows, offsets);
}

/* The plan: which loops, in which order. */

/* The loops of a gather from the largest step of the output to the smallest, those that lie packed
   joined; a last one that copies rows becomes the width. */
static void order_loops(struct run *run, const struct gather *g) {
    struct loop *loops = run->loops;
    int count = 0;
    for (uint32_t k = 0; k < g->loop_count; k++) {
        struct loop loop = {g->sizes[k], g->data_strides[k], g->index_strides[k],
                            g->output_strides[k]};
        int at = count;
        if (loop.size == 1) continue;
        for (; at > 0 && loops[at - 1].output < loop.output; at--) loops[at] = loops[at - 1];
        loops[at] = loop;
        count++;
    }
    if (!count) loops[count++] = (struct loop){1, 0, 0, 0};
    for (int k = count - 2; k >= 0; k--) {
        struct loop *outer = &loops[k], *inner = &loops[k + 1];
        if (outer->data != inner->size * inner->data || outer->index != inner->size * inner->index ||
            outer->output != inner->size * inner->output)
            continue;
        inner->size *= outer->size;
        memmove(outer, inner, (size_t)(--count - k) * sizeof *loops);
    }
    run->count = count;
}

/* The loop that is cut for so many parts: the outermost that gives equal ones, else the longest. */
static struct loop *cut_loop(struct run *run, uint64_t parts) {
    struct loop *longest = run->loops;
    for (int k = 0; k < run->count; k++) {
        struct loop *loop = &run->loops[k];
        if (loop->size % parts == 0 || loop->size >= 16 * parts) return loop;
        if (loop->size > longest->size) longest = loop;
    }
    return longest;
}

static uint64_t output_bytes(const struct gather *gather) {
    uint64_t bytes = gather->element_size;
    for (uint32_t k = 0; k < gather->loop_count; k++) bytes *= gather->sizes[k];
    return bytes;
}

size_t gather_parts(const struct gather *gather, size_t most) {
    struct run run;
    uint64_t parts = output_bytes(gather) / LEAST_PART;
    if (parts > most) parts = most;
    if (parts < 2) return 1;
    order_loops(&run, gather);
    uint64_t size = cut_loop(&run, parts)->size;
    return (size_t)(size < parts ? size : parts);
}

void gather_clear(const struct gather *gather, void *output) {
    if (output_bytes(gather) < gather->output_count * gather->element_size)
        memset(output, 0, gather->output_count * gather->element_size);
}

/* Running. */

/* Where a run stands, in elements of the three buffers. */
struct position {
    uint64_t data, index, output;
};

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

static const size_t INDEX_BYTES[4] = {4, 8, 4, 8};

/* Find the offsets of a tile. Return whether an index is out of range. */
static int find_offsets(struct run *run, uint64_t index) {
    const struct gather *g = run->gather;
    const struct loop *tile = run->loops + run->tile;
    const int count = run->count - run->tile;
    struct loop others[MOST_LOOPS];
    uint64_t turns[MOST_LOOPS] = {0}, step = 1;
    struct position at = {0, index, 0};
    int longest = 0, outside = 0, left = 0;
    uint64_t data_step = 0;
    struct line line = {.count = 1, .step = 1};
    for (int k = 1; k < count; k++)
        if (tile[k].size > tile[longest].size) longest = k;
    for (int k = count - 1; k >= 0; step *= tile[k--].size) {
        if (k == longest) {
            line.index_step = tile[k].index, data_step = tile[k].data;
            line.count = (uint32_t)tile[k].size, line.step = (uint32_t)step;
        } else {
            others[left] = tile[k];
            others[left++].output = step;
        }
    }
    do {
        for (uint32_t k = 0; k < g->tuple_size; k++) {
            line.indices = run->indices + (at.index + k * g->tuple_stride) * INDEX_BYTES[g->index_type];
            line.size = g->axis_sizes[k], line.stride = g->axis_strides[k];
            line.first = k == 0;
            line.start = k ? 0 : at.data, line.data_step = k ? 0 : data_step;
            outside |= ADD[g->index_type][g->policy](&line, run->offsets + at.output,
                                                     run->missing + at.output);
        }
    } while (advance(&at, others, left, turns));
    return outside;
}

static struct rows tile_rows(const struct run *run, struct position at) {
    const size_t size = run->gather->element_size;
    return (struct rows){
        .data = run->data + at.data * size, .output = run->output + at.output * size,
        .size = size, .bytes = run->width * size,
        .step = run->loops[run->count - 1].output * size, .count = run->tile_count,
        .far = run->gather->data_count * size > FAR};
}

/* Write zeros over the rows that are missing. */
static void erase(const struct rows *rows, const uint8_t *missing) {
    for (uint32_t j = 0; j < rows->count; j++)
        if (missing[j]) memset(rows->output + j * rows->step, 0, rows->bytes);
}

/* Copy the rows of a tile as DirectML does: element by element, each offset counted modulo 2^32
   and kept inside what DirectML reaches; behind the elements that are there it reads zeros. */
static void copy_wrapped(struct run *run, struct rows rows, uint64_t start) {
    const struct gather *g = run->gather;
    const uint32_t all = rows.count, reachable = (uint32_t)(g->reachable_count - 1);
    char *output = rows.output;
    rows.bytes = rows.size;
    for (uint64_t element = 0; element < run->width; element++)
        for (uint32_t done = 0; done < all; done += rows.count) {
            rows.count = all - done < TILE ? all - done : TILE;
            for (uint32_t j = 0; j < rows.count; j++) {
                uint32_t offset = run->offsets[done + j] + (uint32_t)(start + element);
                offset = offset < reachable ? offset : reachable;
                run->missing[j] = offset >= g->data_count;
                run->shifted[j] = run->missing[j] ? 0 : offset;
            }
            rows.output = output + element * rows.size + done * rows.step;
            copy(&rows, run->shifted);
            erase(&rows, run->missing);
        }
}

/* Copy the rows of a tile from their offsets; `outside` where an index is out of range. */
static void copy_tile(struct run *run, struct position at, int outside) {
    const struct gather *g = run->gather;
    if (g->policy == GATHER_DIRECTML && (outside || !run->inside)) {
        copy_wrapped(run, tile_rows(run, (struct position){0, 0, at.output}), at.data);
        return;
    }
    struct rows rows = tile_rows(run, at);
    copy(&rows, run->offsets);
    if (outside && g->policy == GATHER_ZERO) erase(&rows, run->missing);
}

/* Copy the elements of a tile straight from their indices. False where that does not do. */
static int fuse_tile(struct run *run, struct position at) {
    const struct gather *g = run->gather;
    const struct loop *loop = &run->loops[run->count - 1];
    struct rows rows = tile_rows(run, at);
    struct line lines[2];
    for (uint32_t k = 0; k < g->tuple_size; k++)
        lines[k] = (struct line){
            .indices = run->indices + (at.index + k * g->tuple_stride) * INDEX_BYTES[g->index_type],
            .index_step = loop->index, .size = g->axis_sizes[k], .stride = g->axis_strides[k],
            .data_step = k ? 0 : loop->data, .count = (uint32_t)loop->size};
    return !FUSE[g->index_type][g->tuple_size - 1](lines, &rows) || g->policy == GATHER_CLAMP;
}

/* Run the loops from a position on. The innermost ones become a tile of bounded size; what is left
   over of the loop that is split for it runs afterwards. */
static int run_loops(struct run *run, struct position start) {
    struct run *r = run;
    const struct gather *g = r->gather;
    struct loop rest = {0, 0, 0, 0}, changing[MOST_LOOPS], repeated[MOST_LOOPS];
    uint64_t turns[MOST_LOOPS] = {0}, again[MOST_LOOPS] = {0}, count = 1, most = r->width == 1 ? LONG_TILE : TILE;
    int changes = 0, repeats = 0, split;
    for (int k = 0; k < r->count - 1; k++)
        if (!r->loops[k].index) most = LONG_TILE;
    r->tile = r->count;
    do {
        struct loop *loop = &r->loops[--r->tile];
        uint64_t fits = most / count;
        split = r->tile;
        if (loop->size > fits) {
            rest = *loop;
            rest.size = loop->size % fits;
            memmove(loop + 1, loop, (size_t)(r->count++ - r->tile) * sizeof *loop);
            loop->size /= fits, loop->data *= fits, loop->index *= fits, loop->output *= fits;
            (++loop)->size = fits;
            r->tile++;
            break;
        }
        count *= loop->size;
    } while (count < SHORT_LINE && r->tile > 0 &&
             r->loops[r->tile - 1].output == r->loops[r->tile].size * r->loops[r->tile].output);
    count = 1;
    for (int k = 0; k < r->count; k++) {
        if (k >= r->tile) count *= r->loops[k].size;
        else if (r->loops[k].index) changing[changes++] = r->loops[k];
        else repeated[repeats++] = r->loops[k];
    }
    r->tile_count = (uint32_t)count;
    const int fuses = r->width == 1 && !repeats && r->tile == r->count - 1 && g->tuple_size <= 2 &&
                      r->inside;
    struct position outer = start;
    do {
        struct position at = outer;
        if (fuses && fuse_tile(r, at)) continue;
        int outside = find_offsets(r, outer.index);
        if (outside && g->policy == GATHER_ERROR) return 0;
        for (int k = 0; k < AHEAD; k++) r->offsets[count + (uint32_t)k] = r->offsets[count - 1];
        do copy_tile(r, at, outside);
        while (advance(&at, repeated, repeats, again));
    } while (advance(&outer, changing, changes, turns));
    if (!rest.size) return 1;
    struct loop *loop = &r->loops[split];
    start.data += loop->size * loop->data, start.index += loop->size * loop->index;
    start.output += loop->size * loop->output;
    *loop = rest;
    memmove(loop + 1, loop + 2, (size_t)(--r->count - split - 1) * sizeof *loop);
    return run_loops(r, start);
}

/* Whether indices in range lead to data that is there and that DirectML reaches. gather_check has
   proved it for the other policies. */
static int lies_inside(const struct gather *g) {
    uint64_t limit = g->data_count < g->reachable_count ? g->data_count : g->reachable_count;
    uint64_t furthest = 0;
    if (g->policy != GATHER_DIRECTML) return 1;
    for (uint32_t k = 0; k < g->loop_count + g->tuple_size; k++) {
        uint32_t axis = k - g->loop_count;
        uint64_t steps = (k < g->loop_count ? g->sizes[k] : g->axis_sizes[axis]) - 1;
        uint64_t stride = k < g->loop_count ? g->data_strides[k] : g->axis_strides[axis];
        if (stride && steps > limit / stride) return 0;
        furthest += steps * stride;
    }
    return furthest < limit;
}

int gather_run(const struct gather *gather, const void *data, const void *indices, void *output,
               size_t part, size_t parts) {
    struct run run;
    struct position start = {0, 0, 0};
    run.gather = gather, run.data = data, run.indices = indices, run.output = output;
    order_loops(&run, gather);
    if (parts > 1) {
        struct loop *loop = cut_loop(&run, parts);
        uint64_t begin = loop->size * part / parts;
        loop->size = loop->size * (part + 1) / parts - begin;
        if (!loop->size) return 1;
        start.data = begin * loop->data, start.index = begin * loop->index;
        start.output = begin * loop->output;
    }
    struct loop *last = &run.loops[run.count - 1];
    run.width = 1, run.inside = lies_inside(gather);
    if (!last->index && last->data == 1 && last->output == 1)
        run.width = last->size, run.count--;
    if (!run.count) run.loops[run.count++] = (struct loop){1, 0, 0, run.width};
    return run_loops(&run, start);
}
