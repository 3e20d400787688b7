/* Runs a gather. Read this file first, then offsets.c, which turns indices into offsets of the
   data, and rows.c, which copies what lies there.

   A worked example. The data are 2 rows of 4 elements, each of which is its own offset; the indices
   are 1 and 9; axis 1 is gathered under "clamp":

       InputTensor   0 1 2 3      IndicesTensor   1 9      OutputTensor   1 3
                     4 5 6 7                                              5 7

   onnxgather/core/loops.py says this as two loops, with the elements that one step of them takes in
   each buffer, and as an axis of 4 elements that lie 1 apart:

       loop     size   data   index   output
       outer       2      4       0        2
       inner       2      0       1        1

   1. order_loops sorts them by their steps in the output. It would join the two if they lay packed
      in all three buffers, but in the data the outer step is 4, not 2 times 0.
   2. take_row looks for elements that lie together in the data and belong to one index. The inner
      loop has an index for each element, so a row is one element here.
   3. make_tile makes a tile of the inner loop: 2 rows.
   4. find_offsets reads the indices of the tile. Index 1 is in range, and its offset is 1. Index 9
      is not, it is clamped to 3, and its offset is 3.
   5. run_tiles copies the rows of the tile. The outer loop steps 0 indices, so both its turns use
      the offsets 1 and 3 again: the first turn copies the elements 0 + 1 and 0 + 3 to 0 and 1 of
      the output, the second one 4 + 1 and 4 + 3 to 2 and 3.

   Two threads would run it in two parts, each a turn of the outer loop: cut_loop chooses that loop,
   and the second part begins at 4 in the data and 2 in the output. If the data had only the first
   row, there would be no outer loop: the offsets would be used once, and copy_fused would copy
   both elements in the pass that reads their indices. */
#include "machine.h"
#include "tiles.h"

/* One of the loops may be split; copy_wrapped takes so many rows at once. */
enum { MOST_LOOPS = GATHER_MOST_LOOPS + 1, WRAPPED_ROWS = 256 };

/* A loop, and where a run stands: steps and offsets in elements of the three buffers. */
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
    uint64_t width;  /* elements of a row */
    int streams;     /* whether the output passes the caches by */
    int eights;      /* whether single elements are loaded eight at a time */
    size_t ahead;    /* rows between one that is fetched and one that is copied */
    int wide;        /* whether 32 bytes are moved at once */
    int count, tile; /* of all loops; the loops from `tile` on make a tile */
    struct loop loops[MOST_LOOPS];
    uint32_t rows;                                 /* of a tile */
    uint32_t offsets[TILE_ROWS + MOST_ROWS_AHEAD]; /* of the rows of a tile */
    uint32_t wrapped[WRAPPED_ROWS];                /* some, as DirectML counts them */
    uint8_t missing[TILE_ROWS];                    /* rows that are zero */
    enum gather_end end;                           /* how it ends if no more index is met */
};

static const size_t INDEX_BYTES[4] = {4, 8, 4, 8};

/* --- Loops ------------------------------------------------------------------------------------ */

/* Insert a loop before those with smaller steps in the output. */
static void insert(struct loop *loops, int count, struct loop loop) {
    int at = count;
    for (; at > 0 && loops[at - 1].output < loop.output; at--) loops[at] = loops[at - 1];
    loops[at] = loop;
}

/* Whether the steps of two nested loops are those of one, packed in all three buffers. */
static int is_packed(const struct loop *outer, const struct loop *inner) {
    return outer->data == inner->size * inner->data && outer->index == inner->size * inner->index &&
           outer->output == inner->size * inner->output;
}

/* Remove the loop at a place, and close the gap. */
static void remove_loop(struct run *run, int place) {
    struct loop *loop = &run->loops[place];
    run->count--;
    memmove(loop, loop + 1, (size_t)(run->count - place) * sizeof *loop);
}

/* The loops of a gather from the largest step of the output to the smallest; those that lie packed
   in all three buffers are one. */
static void order_loops(struct run *run, const struct gather *g) {
    struct loop *loops = run->loops;
    run->count = 0;
    for (uint32_t k = 0; k < g->loop_count; k++) {
        if (g->sizes[k] == 1) continue;
        insert(loops, run->count,
               (struct loop){g->sizes[k], g->data_strides[k], g->index_strides[k],
                             g->output_strides[k]});
        run->count++;
    }
    if (!run->count) {
        loops[0] = (struct loop){1, 0, 0, 0};
        run->count = 1;
    }
    for (int k = run->count - 2; k >= 0; k--)
        if (is_packed(&loops[k], &loops[k + 1])) {
            loops[k + 1].size *= loops[k].size;
            remove_loop(run, k);
        }
}

/* Move a position by some steps of a loop. */
static struct position moved(struct position at, const struct loop *loop, uint64_t steps) {
    at.data += steps * loop->data;
    at.index += steps * loop->index;
    at.output += steps * loop->output;
    return at;
}

/* Take the next step of nested loops, whose turns are counted. False after the last one. */
static int advance(struct position *at, const struct loop *loops, int count, uint64_t *turns) {
    for (int k = count - 1; k >= 0; k--) {
        const struct loop *loop = &loops[k];
        *at = moved(*at, loop, 1);
        if (++turns[k] < loop->size) return 1;
        *at = moved(*at, loop, 0 - loop->size); /* back to where the loop begins, modulo 2^64 */
        turns[k] = 0;
    }
    return 0;
}

/* --- Parts ------------------------------------------------------------------------------------ */

/* The loop that is cut into parts: the outermost with about equal ones, else the longest. */
static struct loop *cut_loop(struct run *run, uint64_t parts) {
    struct loop *longest = run->loops;
    for (int k = 0; k < run->count; k++) {
        struct loop *loop = &run->loops[k];
        if (loop->size % parts == 0 || loop->size >= MANY_STEPS * parts) return loop;
        if (loop->size > longest->size) longest = loop;
    }
    return longest;
}

/* Whether each step of a loop leads behind all that the loops inside it write. If not, steps of two
   loops may meet at one element, which two threads must not write. */
static int nests(const struct run *run) {
    uint64_t behind = 1;
    for (int k = run->count - 1; k >= 0; k--) {
        const struct loop *loop = &run->loops[k];
        if (loop->output < behind) return 0;
        behind += (loop->size - 1) * loop->output;
    }
    return 1;
}

static uint64_t bytes_written(const struct gather *gather) {
    uint64_t bytes = gather->element_size;
    for (uint32_t k = 0; k < gather->loop_count; k++) bytes *= gather->sizes[k];
    return bytes;
}

size_t gather_parts(const struct gather *gather, size_t most) {
    struct run run;
    uint64_t parts = bytes_written(gather) / LEAST_PART_BYTES;
    if (parts > most) parts = most;
    if (parts < 2) return 1;
    order_loops(&run, gather);
    if (!nests(&run)) return 1;
    const uint64_t size = cut_loop(&run, parts)->size;
    return (size_t)(size < parts ? size : parts);
}

void gather_clear(const struct gather *gather, void *output) {
    if (bytes_written(gather) < gather->output_count * gather->element_size)
        memset(output, 0, gather->output_count * gather->element_size);
}

/* Leave one part of a gather in its loops; where it begins is `at`. False if it has no step. */
static int take_part(struct run *run, size_t part, size_t parts, struct position *at) {
    if (parts == 1) return 1;
    struct loop *loop = cut_loop(run, parts);
    const uint64_t begin = loop->size * part / parts;
    loop->size = loop->size * (part + 1) / parts - begin;
    *at = moved(*at, loop, begin);
    return loop->size > 0;
}

/* --- Tiles ------------------------------------------------------------------------------------ */

/* Find how wide a row is. If the innermost loop takes no index and is packed in data and output, it
   is no loop any more: its steps are a row. */
static void take_row(struct run *run) {
    const struct loop *last = &run->loops[run->count - 1];
    run->width = 1;
    if (last->index || last->data != 1 || last->output != 1) return;
    run->width = last->size;
    if (run->count > 1) run->count--;
    else run->loops[0] = (struct loop){1, 0, 0, run->width};
}

/* Whether the innermost loop can be copied straight from its indices: it has short rows, packed
   indices and packed rows. */
static int innermost_fuses(const struct run *run) {
    const struct gather *g = run->gather;
    const struct loop *last = &run->loops[run->count - 1];
    if (run->width * g->element_size > SHORT_ROW_BYTES) return 0;
    if (last->output != run->width || last->index != g->tuple_size) return 0;
    if (g->tuple_size > 2) return 0;
    return g->tuple_size == 1 || (g->tuple_stride == 1 && !last->data);
}

/* Whether each loop around the innermost one has indices of its own at each step. */
static int repeats_none(const struct run *run) {
    for (int k = 0; k < run->count - 1; k++)
        if (!run->loops[k].index) return 0;
    return 1;
}

/* Make a tile of the innermost loops. If a loop is split for it, `rest` is what is left over of
   that loop, and the number of that loop is returned; else -1. */
static int make_tile(struct run *run, struct loop *rest) {
    uint64_t rows = 1;
    /* Case: in a tile of several loops, indices that are used once would take two passes. */
    const int is_line = repeats_none(run) && innermost_fuses(run);
    for (int k = run->count - 1; k >= 0; k--) {
        struct loop *loop = &run->loops[k];
        const uint64_t fits = TILE_ROWS / rows;
        const int is_innermost = k == run->count - 1;
        if (!is_innermost &&
            (is_line || rows >= FEW_TILE_ROWS || loop->output != loop[1].size * loop[1].output))
            break;
        rows *= loop->size < fits ? loop->size : fits;
        run->rows = (uint32_t)rows;
        run->tile = k;
        if (loop->size <= fits) continue;
        /* The loop becomes two: one over whole tiles, and one of as many steps as fit. */
        *rest = *loop;
        rest->size %= fits;
        memmove(loop + 1, loop, (size_t)(run->count - k) * sizeof *loop);
        run->count++;
        run->tile++;
        loop[1].size = fits;
        *loop = (struct loop){loop->size / fits, loop->data * fits, loop->index * fits,
                              loop->output * fits};
        return k;
    }
    return -1;
}

/* The indices along the innermost loop: coordinate k of each. */
static struct line line_of(const struct run *run, struct position at, uint32_t k) {
    const struct gather *g = run->gather;
    const struct loop *loop = &run->loops[run->count - 1];
    return (struct line){
        .indices = run->indices + (at.index + k * g->tuple_stride) * INDEX_BYTES[g->index_type],
        .count = loop->size,
        .index_step = loop->index,
        .data_step = k ? 0 : loop->data,
        .size = g->axis_sizes[k],
        .stride = g->axis_strides[k],
        .start = k ? 0 : (uint32_t)at.data,
        .first = k == 0,
    };
}

/* Find the offsets of a tile, from the place where it begins in the data. True if an index is out
   of range. */
static int find_offsets(struct run *run, uint64_t index) {
    const struct gather *g = run->gather;
    adder *const add = adder_of(g->index_type, g->policy);
    const struct loop *innermost = &run->loops[run->count - 1];
    uint64_t turns[MOST_LOOPS] = {0}, done = 0;
    struct position at = {0, index, 0};
    int outside = 0, first = run->tile; /* that with other indices at each turn */
    while (first < run->count - 1 && !run->loops[first].index) first++;
    do {
        for (uint32_t k = 0; k < g->tuple_size; k++) {
            const struct line line = line_of(run, at, k);
            outside |= add(&line, run->offsets + done, run->missing + done);
        }
        done += innermost->size;
    } while (advance(&at, run->loops + first, run->count - first - 1, turns));
    for (int k = first - 1; k >= run->tile; k--) { /* the same indices, elsewhere in the data */
        const uint64_t before = done;
        const uint32_t step = (uint32_t)run->loops[k].data;
        done *= run->loops[k].size;
        for (uint64_t j = before; j < done; j++) run->offsets[j] = run->offsets[j - before] + step;
        if (g->policy == GATHER_ZERO)
            for (uint64_t j = before; j < done; j++) run->missing[j] = run->missing[j - before];
    }
    const uint32_t last = run->offsets[done - 1];
    for (uint64_t k = 0; k < MOST_ROWS_AHEAD; k++) run->offsets[done + k] = last;
    return outside;
}

/* Move rows to a position. */
static void place_rows(struct rows *rows, const struct run *run, struct position at) {
    rows->data = run->data + at.data * rows->size;
    rows->output = run->output + at.output * rows->size;
    rows->left = (run->gather->data_count - at.data) * rows->size;
    rows->streams = run->streams && ((uintptr_t)rows->output | rows->step | rows->bytes) % 16 == 0;
}

static struct rows rows_of(const struct run *run, struct position at) {
    const struct gather *g = run->gather;
    const size_t size = g->element_size;
    const int is_single = run->width == 1 && g->tuple_size == 1;
    const int eights = is_single && run->eights;
    const int is_near = g->data_count * size <= (is_single ? NEAR_BYTES : NEAREST_BYTES);
    struct rows rows = {
        .size = size,
        .bytes = run->width * size,
        .step = run->loops[run->count - 1].output * size,
        .count = run->rows,
        .ahead = eights || is_near ? 0 : run->ahead,
        .eights = eights,
        .wide = run->wide,
    };
    place_rows(&rows, run, at);
    return rows;
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
            rows.count = run->rows - done < WRAPPED_ROWS ? run->rows - done : WRAPPED_ROWS;
            rows.output = output + element * rows.size + done * rows.step;
            for (size_t j = 0; j < rows.count; j++) {
                const uint32_t wrapped = run->offsets[done + j] + start + (uint32_t)element;
                const uint32_t offset = wrapped < last ? wrapped : last;
                run->missing[j] = offset >= g->data_count;
                run->wrapped[j] = run->missing[j] ? 0 : offset;
            }
            copy_rows(&rows, run->wrapped);
            clear_rows(&rows, run->missing);
        }
}

/* Copy the rows of a tile straight from their indices, which are clamped. True if an index is out
   of range. */
static int fuse_tile(const struct run *run, struct rows *rows, struct position at) {
    const struct gather *g = run->gather;
    struct line axes[2];
    for (uint32_t k = 0; k < g->tuple_size; k++) axes[k] = line_of(run, at, k);
    place_rows(rows, run, at);
    return copy_fused(axes, g->tuple_size, g->index_type, rows);
}

/* Whether tiles can be fused: rows whose offsets are used once, in one loop that can. */
static int fuses(const struct run *run, int repeats) {
    return !repeats && run->tile == run->count - 1 && innermost_fuses(run);
}

/* How many elements of the data the indices of one row can lead to, from the first to the last. */
static uint64_t extent_of(const struct gather *g) {
    uint64_t extent = 1;
    for (uint32_t k = 0; k < g->tuple_size; k++)
        extent += (g->axis_sizes[k] - 1) * g->axis_strides[k];
    return extent;
}

/* Read the data of a tile once from its beginning to its end: the processor sees that reads follow
   one another and brings what comes next into the cache, which it does not for the scattered reads
   of the indices. gather_check has seen that the data do not end before `data + extent`. */
static void read_ahead(const struct run *run, uint64_t data, uint64_t bytes) {
    const volatile char *first = run->data + data * run->gather->element_size;
    for (uint64_t k = 0; k < bytes; k += CACHE_LINE) (void)first[k];
}

/* Copy the rows of a tile again and again from other places of the data. If the data of such a
   place lie close together, they are read before it is copied from: those of the first place in
   order, and those of the next one by the fetches of rows of less than a cache line. */
static void run_repeated(struct run *run, struct rows *rows, struct position at,
                         const struct loop *repeated, int repeats, int outside) {
    const struct gather *g = run->gather;
    const uint64_t bytes = extent_of(g) * g->element_size;
    const int is_close = repeats && bytes <= NEAREST_BYTES && bytes / CACHE_LINE <= run->rows;
    uint64_t turns[MOST_LOOPS] = {0};
    int goes_on;
    if (is_close) {
        read_ahead(run, at.data, bytes);
        rows->next_step = (bytes + run->rows - 1) / run->rows;
    }
    do {
        const struct position here = at;
        goes_on = advance(&at, repeated, repeats, turns);
        if (outside && g->policy == GATHER_DIRECTML) {
            copy_wrapped(run, here);
            continue;
        }
        place_rows(rows, run, here);
        rows->next = is_close && goes_on ? run->data + at.data * g->element_size : NULL;
        copy_rows(rows, run->offsets);
        if (outside && g->policy == GATHER_ZERO) clear_rows(rows, run->missing);
    } while (goes_on);
}

/* Run tile after tile, from a position on, until an index is met that stops the gather. */
static void run_tiles(struct run *run, struct position outer) {
    const struct gather *g = run->gather;
    struct loop changing[MOST_LOOPS], repeated[MOST_LOOPS]; /* with an index step, and without */
    uint64_t turns[MOST_LOOPS] = {0};
    int changes = 0, repeats = 0;
    const enum gather_end outside_end = g->policy == GATHER_ERROR ? GATHER_STOPPED
                                                                  : GATHER_RAN_OUTSIDE;
    for (int k = 0; k < run->tile; k++)
        if (run->loops[k].index) changing[changes++] = run->loops[k];
        else repeated[repeats++] = run->loops[k];
    const int is_fused = fuses(run, repeats);
    struct rows rows = rows_of(run, outer);
    do {
        int outside = is_fused && fuse_tile(run, &rows, outer);
        /* A fused tile is right where all indices are in range, and under "clamp". */
        const int is_right = is_fused && (!outside || g->policy == GATHER_CLAMP);
        if (!is_right) outside = find_offsets(run, outer.index);
        if (outside) run->end = outside_end;
        if (run->end == GATHER_STOPPED) return;
        if (!is_right) run_repeated(run, &rows, outer, repeated, repeats, outside);
    } while (advance(&outer, changing, changes, turns));
}

/* --- The whole -------------------------------------------------------------------------------- */

/* Whether the output passes the caches by, as they cannot hold it beside what is read. The size of
   the last cache does not count: a machine that shares it with others tells the size of all. */
static int passes_by(const struct gather *g) {
    const uint64_t bytes = bytes_written(g), data = g->data_count * g->element_size;
    const uint64_t used = bytes + (data < bytes ? data : bytes);
    return STREAMS && used > STREAMED_BYTES;
}

/* Whether single elements are loaded eight at a time: where the processor does that well, and the
   data lie in its caches, but not in the nearest ones. */
static int loads_eights(const struct gather *g) {
    const uint64_t bytes = extent_of(g) * g->element_size;
    return bytes > NEAREST_BYTES && bytes <= NEAR_BYTES && machine_vectors() == LOADS_EIGHT;
}

enum gather_end gather_run(const struct gather *gather, const void *data, const void *indices,
                           void *output, size_t part, size_t parts) {
    struct run run;
    struct loop rest = {0, 0, 0, 0};
    struct position at = {0, 0, 0};
    run.gather = gather;
    run.data = data;
    run.indices = indices;
    run.output = output;
    run.end = GATHER_RAN;
    run.streams = passes_by(gather);
    run.eights = loads_eights(gather);
    const enum vectors vectors = machine_vectors();
    run.wide = vectors >= MOVES_32;
    run.ahead = vectors == LOADS_EIGHT ? WIDE_ELEMENTS_AHEAD : ELEMENTS_AHEAD;
    order_loops(&run, gather);
    if (!take_part(&run, part, parts, &at)) return run.end;
    take_row(&run);
    for (int split; (split = make_tile(&run, &rest)) >= 0;) {
        struct loop *loop = &run.loops[split];
        run_tiles(&run, at);
        if (run.end == GATHER_STOPPED || !rest.size) return run.end;
        /* What is left over of the loop that was split comes in its place. */
        at = moved(at, loop, loop->size);
        *loop = rest;
        remove_loop(&run, split + 1);
    }
    run_tiles(&run, at);
    return run.end;
}
