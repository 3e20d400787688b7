/* What loops.c, offsets.c and rows.c share. A tile is the innermost loops of a gather, and has a
   few hundred or thousand rows. A row is the elements that lie together in InputTensor and are
   copied for one index; often it is a single element. */
#ifndef ONNXGATHER_TILES_H
#define ONNXGATHER_TILES_H

#include "kernel.h"
#include "thresholds.h"

#include <string.h>

#if defined(__GNUC__)
#define INLINED static inline __attribute__((always_inline))
#elif defined(_MSC_VER)
#define INLINED static __forceinline
#else
#define INLINED static inline
#endif

/* STREAMS: whether rows.c can write past the caches. */
#if defined(__SSE2__) || defined(_M_X64)
#define STREAMS 1
#else
#define STREAMS 0
#endif

enum {
    CACHE_LINE = 64, /* bytes that come into the caches together */
    /* A row that is copied line by line is fetched at most so many rows before, and a row of less
       than a cache line at most as many. */
    MOST_ROWS_AHEAD = FETCHED_BYTES / CACHE_LINE,
};

/* The indices along the innermost loop of a tile: one coordinate of each tuple of indices. They
   count along a dimension of InputTensor of `size` elements, which lie `stride` elements apart. The
   loop has `count` steps, and takes `index_step` elements of the indices and `data_step` elements
   of the data at each. */
struct line {
    const char *indices;
    uint64_t count, index_step, data_step, size, stride;
    uint32_t start; /* the offset where the loop begins in the data */
    int first;      /* whether it is the first coordinate of its tuple */
};

/* The rows of a tile. */
struct rows {
    const char *data;
    char *output;
    size_t size;  /* bytes of an element; offsets count elements */
    size_t bytes; /* of a row */
    size_t step;  /* bytes from row to row in the output */
    size_t count;
    size_t left;  /* bytes of the data from `data` on */
    size_t ahead; /* rows between one that is fetched and one that is copied; 0: none is fetched */
    const char *next; /* data that rows of less than a cache line fetch; NULL: none */
    size_t next_step; /* bytes of it for each row */
    int streams;      /* whether rows pass the caches by; then they begin at multiples of 16 */
    int eights;       /* whether elements are loaded eight at a time */
    int wide;         /* whether 32 bytes are moved at once */
};

/* An index as it is; those of a model may lie at any address. */
INLINED uint64_t value_at(const char *indices, size_t at, const int type) {
    uint64_t wide;
    uint32_t narrow;
    if (type % 2) {
        memcpy(&wide, indices + at * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, indices + at * sizeof narrow, sizeof narrow);
    return type == GATHER_INT32 ? (uint64_t)(int32_t)narrow : narrow;
}

/* An index, counted from the front and clamped to its axis. `outside` gets the bits that clamping
   changed: it stays 0 while all indices are in range. Each index is read once, so another thread
   that changes it meanwhile cannot lead outside the data. */
INLINED uint64_t index_at(const char *indices, size_t at, const int type, const int is_signed,
                          uint64_t size, uint64_t *outside) {
    const uint64_t value = value_at(indices, at, type), last = size - 1;
    const uint64_t negative = is_signed ? 0 - (value >> 63) : 0; /* all bits, or none */
    const uint64_t index = value + (size & negative);
    /* By bits, as a branch would be guessed wrongly where some indices are out of range. */
    const uint64_t beyond = 0 - (uint64_t)(index > last);
    const uint64_t changed = (index ^ (last & ~negative)) & beyond;
    *outside |= changed;
    return index ^ changed;
}

/* offsets.c: adds one coordinate of the indices to the offsets of a line; the first one sets them.
   Under "zero" it marks the rows that are missing. Returns whether an index is out of range. */
typedef int adder(const struct line *line, uint32_t *offsets, uint8_t *missing);
adder *adder_of(uint32_t index_type, uint32_t policy);

/* rows.c: copies the row at each offset. It fetches rows of several elements early, so behind the
   last offset of such rows there must be MOST_ROWS_AHEAD more that lead into the data. */
void copy_rows(const struct rows *rows, const uint32_t *offsets);

/* rows.c: writes zeros over the rows that are missing. */
void clear_rows(const struct rows *rows, const uint8_t *missing);

/* rows.c: copies rows of at most SHORT_ROW_BYTES straight from the indices of a line, which lie
   packed, as do the rows in the output; one or two coordinates. Indices out of range are clamped.
   Returns whether there was one. */
int copy_fused(const struct line *axes, uint32_t coordinates, uint32_t index_type,
               const struct rows *rows);

#endif
