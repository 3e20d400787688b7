/* Runs random nodes of ONNX, many of them hostile, through onnx_node.c and the kernels, in buffers
   of exactly their size, and compares each element with the formula of its operator, computed here
   in the plainest way. Built with sanitizers by scripts/sanitize.py.

     fuzz_nodes COUNT SEED */
#include "onnx_node.h"
#include "random_numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST_RUN 3000 /* elements of a tensor */
#define MOST_PARTS 64

/* A node that owns its shapes. */
struct case_of_node {
    struct onnx_node node;
    enum gather_policy policy;
    uint32_t element_size, index_type;
    int64_t data_sizes[ONNX_MOST_RANK + 1], index_sizes[ONNX_MOST_RANK + 1];
};

/* --- Random nodes ----------------------------------------------------------------------------- */

static int64_t random_size(void) {
    switch (below(40)) {
    case 0: return 0;
    case 1: return (int64_t)(hostile() >> 1);
    default: return 1 + (int64_t)below(5);
    }
}

static size_t random_rank(void) {
    switch (below(16)) {
    case 0: return below(ONNX_MOST_RANK + 2);
    case 1: return 7 + below(3);
    default: return below(5);
    }
}

static void fit_elements(struct case_of_node *c) {
    struct onnx_node *node = &c->node;
    node->indices.rank = node->data.rank;
    for (size_t k = 0; k < node->data.rank && k <= ONNX_MOST_RANK; k++)
        if (c->index_sizes[k] > c->data_sizes[k] && (int64_t)k != node->attribute)
            c->index_sizes[k] = c->data_sizes[k];
}

static void fit_nd(struct case_of_node *c) {
    struct onnx_node *node = &c->node;
    if (!node->indices.rank || node->indices.rank > ONNX_MOST_RANK) return;
    const int is_long = node->data.rank > GATHER_MOST_LOOPS;
    node->attribute = is_long ? 0 : (int64_t)below(3);
    for (int64_t k = 0; k < node->attribute; k++) c->index_sizes[k] = c->data_sizes[k];
    c->index_sizes[node->indices.rank - 1] = 1 + (int64_t)below(is_long ? 10 : 4);
}

static void draw_node(struct case_of_node *c) {
    struct onnx_node *node = &c->node;
    node->op = (enum onnx_operator)below(ONNX_OPERATORS);
    node->ones_repeat = (int)below(2);
    node->data = (struct shape){c->data_sizes, random_rank()};
    node->indices = (struct shape){c->index_sizes, random_rank()};
    for (size_t k = 0; k <= ONNX_MOST_RANK; k++) {
        c->data_sizes[k] = random_size();
        c->index_sizes[k] = random_size();
    }
    node->attribute = (int64_t)below(5) - (int64_t)below(3);
    if (!below(20)) node->attribute = (int64_t)hostile();
    if (node->op == ONNX_GATHER_ELEMENTS && below(8)) fit_elements(c);
    if (node->op == ONNX_GATHER_ND && below(8)) fit_nd(c);
    c->policy = (enum gather_policy)below(GATHER_POLICIES);
    c->element_size = 1u << below(4);
    c->index_type = below(2) ? GATHER_INT32 : GATHER_INT64;
}

/* --- The formulas ----------------------------------------------------------------------------- */

/* The elements of a tensor as a real number, which never overflows. */
static double count_of(struct shape shape) {
    double count = 1;
    for (size_t k = 0; k < shape.rank; k++)
        if (!shape.sizes[k]) return 0;
    for (size_t k = 0; k < shape.rank; k++) count *= (double)shape.sizes[k];
    return count;
}

/* The first dimension of the data that an index counts along, and how many there are. */
static int64_t first_axis(const struct onnx_node *node, int64_t *count) {
    *count = 1;
    if (node->op == ONNX_GATHER_ND) *count = node->indices.sizes[node->indices.rank - 1];
    const int is_behind = node->op != ONNX_GATHER_ND && node->attribute < 0;
    return node->attribute + (is_behind ? (int64_t)node->data.rank : 0);
}

/* Whether ONNX allows a node. */
static int is_allowed(const struct onnx_node *node) {
    const int64_t rank = (int64_t)node->data.rank, index_rank = (int64_t)node->indices.rank;
    int64_t count;
    if (rank > ONNX_MOST_RANK || index_rank > ONNX_MOST_RANK) return 0;
    if (node->op == ONNX_GATHER_ND) {
        if (node->attribute < 0 || node->attribute >= rank || node->attribute >= index_rank)
            return 0;
        const int64_t length = node->indices.sizes[index_rank - 1];
        if (length < 1 || length > rank - node->attribute) return 0;
        for (int64_t k = 0; k < node->attribute; k++)
            if (node->data.sizes[k] != node->indices.sizes[k]) return 0;
        return 1;
    }
    if (node->attribute < -rank || node->attribute >= rank) return 0;
    if (node->op == ONNX_GATHER) return 1;
    if (rank != index_rank) return 0;
    const int64_t axis = first_axis(node, &count);
    for (int64_t k = 0; k < rank; k++)
        if (k != axis && node->indices.sizes[k] > node->data.sizes[k]) return 0;
    return 1;
}

/* Where an element of the output stands in data and indices: by the coordinates of the output. The
   coordinates of data along an axis of the indices are not set. */
static void place(const struct onnx_node *node, const uint64_t *at, uint64_t *data,
                  uint64_t *indices) {
    int64_t count;
    const size_t axis = (size_t)first_axis(node, &count);
    const size_t rank = node->data.rank, index_rank = node->indices.rank;
    if (node->op == ONNX_GATHER) {
        for (size_t k = 0; k < axis; k++) data[k] = at[k];
        for (size_t k = 0; k < index_rank; k++) indices[k] = at[axis + k];
        for (size_t k = axis + 1; k < rank; k++) data[k] = at[index_rank + k - 1];
    } else if (node->op == ONNX_GATHER_ELEMENTS) {
        for (size_t k = 0; k < rank; k++) data[k] = indices[k] = at[k];
    } else {
        for (size_t k = 0; k < axis; k++) data[k] = at[k];
        for (size_t k = 0; k + 1 < index_rank; k++) indices[k] = at[k];
        indices[index_rank - 1] = 0;
        for (size_t k = axis + (size_t)count; k < rank; k++)
            data[k] = at[index_rank - 1 + k - axis - (size_t)count];
    }
}

/* The number of an element of a packed tensor, modulo 2^32. A dimension of size 1 may have the
   stride 0. */
static uint32_t number_of(struct shape shape, const uint64_t *at, int ones_repeat) {
    uint32_t number = 0, stride = 1;
    for (size_t k = shape.rank; k--;) {
        const int repeats = ones_repeat && shape.sizes[k] == 1;
        number += repeats ? 0 : (uint32_t)at[k] * stride;
        stride *= (uint32_t)shape.sizes[k];
    }
    return number;
}

/* What an element of the output is: an element of the data by its number, or a zero. */
#define ZERO UINT64_MAX

static uint64_t element(const struct case_of_node *c, const int64_t *indices, const uint64_t *at,
                        uint64_t data_count) {
    const struct onnx_node *node = &c->node;
    uint64_t data[2 * ONNX_MOST_RANK] = {0}, where[2 * ONNX_MOST_RANK] = {0};
    int64_t count;
    const int64_t axis = first_axis(node, &count);
    int is_zero = 0;
    place(node, at, data, where);
    const uint32_t first = number_of(node->indices, where, 0);
    for (int64_t k = 0; k < count; k++) {
        const int64_t size = node->data.sizes[axis + k];
        int64_t index = indices[first + (uint64_t)k];
        const int is_outside = index < -size || index >= size;
        /* Case: the sum does not overflow, as one of the two is negative. */
        if (index < 0) index += size;
        if (is_outside && c->policy == GATHER_ZERO) is_zero = 1;
        if (is_outside && c->policy == GATHER_CLAMP) index = index < 0 ? 0 : size - 1;
        data[axis + k] = (uint64_t)index;
    }
    if (is_zero || !data_count) return ZERO;
    const int is_directml = c->policy == GATHER_DIRECTML;
    const int ones_repeat = is_directml && (node->ones_repeat || node->op == ONNX_GATHER_ELEMENTS);
    uint64_t number = number_of(node->data, data, ones_repeat);
    const uint64_t bytes = (data_count * c->element_size + 3) / 4 * 4;
    const uint64_t reachable = bytes / c->element_size;
    if (is_directml && number >= reachable) number = reachable - 1;
    return number < data_count ? number : ZERO; /* the bytes behind the data are zeros */
}

/* --- A run ------------------------------------------------------------------------------------ */

static void fail(const struct case_of_node *c, const char *what) {
    const struct onnx_node *node = &c->node;
    fprintf(stderr, "%s of attribute %lld, policy %d, %u bytes: %s\n",
            onnx_operator_names[node->op], (long long)node->attribute, c->policy, c->element_size,
            what);
    for (size_t k = 0; k < node->data.rank; k++)
        fprintf(stderr, "%s%lld", k ? "," : "data ", (long long)node->data.sizes[k]);
    for (size_t k = 0; k < node->indices.rank; k++)
        fprintf(stderr, "%s%lld", k ? "," : " indices ", (long long)node->indices.sizes[k]);
    fputs("\n", stderr);
    abort();
}

/* Draw indices. They are the same as `values`, which are 64 bits wide. */
static unsigned char *draw_indices(const struct case_of_node *c, const struct gather *g,
                                   int64_t *values) {
    const size_t size = c->index_type == GATHER_INT32 ? 4 : 8;
    unsigned char *indices = malloc(g->index_count ? g->index_count * size : 1);
    const int wild = !below(3);
    if (!indices) abort();
    for (uint64_t k = 0; k < g->index_count; k++) {
        const uint64_t axis_size = g->axis_sizes[k % g->tuple_size];
        uint64_t value = index_near(axis_size);
        if (!wild && axis_size) value = below(axis_size);
        const int32_t narrow = (int32_t)value;
        values[k] = c->index_type == GATHER_INT32 ? narrow : (int64_t)value;
        if (size == 4) memcpy(indices + k * size, &narrow, size);
        else memcpy(indices + k * size, &value, size);
    }
    return indices;
}

/* Look at each index in the plainest way. */
static void compare_outside(const struct case_of_node *c, const struct gather *g,
                            const int64_t *values, const struct outside *outside) {
    uint64_t count = 0, number = 0;
    for (uint64_t k = 0; k < g->index_count; k++) {
        const int64_t size = (int64_t)g->axis_sizes[k % g->tuple_size];
        if (values[k] >= -size && values[k] < size) continue;
        if (!count++ && (values[k] != outside->index || size != (int64_t)outside->axis_size))
            fail(c, "another index is the first out of range");
        if (values[k] < outside->least || values[k] > outside->largest)
            fail(c, "an index is outside the least and the largest");
    }
    if (count != outside->count) fail(c, "another count of indices is out of range");
    if (!count) return;
    for (size_t k = 0; k < outside->rank; k++)
        number = number * (uint64_t)c->node.indices.sizes[k] + outside->place[k];
    if (values[number] != outside->index) fail(c, "the first place has another index");
    char sentence[ONNX_SENTENCE], cut[30];
    onnx_node_sentence(outside, sentence, sizeof sentence);
    onnx_node_sentence(outside, cut, sizeof cut);
    if (!strstr(sentence, ", got ") || strncmp(sentence, cut, sizeof cut - 1))
        fail(c, "the sentence is cut");
}

static void compare_output(const struct case_of_node *c, const struct onnx_output *shape,
                           const int64_t *values, const struct gather *g, const unsigned char *data,
                           const unsigned char *output) {
    uint64_t at[2 * ONNX_MOST_RANK] = {0};
    const unsigned char zeros[8] = {0};
    for (uint64_t k = 0; k < g->output_count; k++) {
        const uint64_t number = element(c, values, at, g->data_count);
        const unsigned char *expected = number == ZERO ? zeros : data + number * c->element_size;
        if (memcmp(output + k * c->element_size, expected, c->element_size))
            fail(c, "an element differs");
        for (size_t d = shape->rank; d--;) {
            if (++at[d] < (uint64_t)shape->sizes[d]) break;
            at[d] = 0;
        }
    }
}

static enum gather_end run_parts(const struct gather *g, const void *data, const void *indices,
                                 void *output) {
    const size_t parts = gather_parts(g, 1 + below(MOST_PARTS));
    enum gather_end all = GATHER_RAN;
    for (size_t part = 0; part < parts; part++) {
        const enum gather_end end = gather_run(g, data, indices, output, part, parts);
        if (end == GATHER_STOPPED || all == GATHER_RAN) all = end;
    }
    return all;
}

static void run(const struct case_of_node *c, const struct gather *g,
                const struct onnx_output *shape) {
    unsigned char *data = malloc(g->data_count * c->element_size + 1);
    unsigned char *output = malloc(g->output_count * c->element_size + 1);
    int64_t *values = malloc((g->index_count + 1) * sizeof *values);
    struct outside outside;
    if (!data || !output || !values) abort();
    /* The last byte is no one's, so that buffers of no bytes are there, too. */
    unsigned char *exact_data = data + 1, *exact_output = output + 1;
    for (uint64_t k = 0; k < g->data_count * c->element_size; k++)
        exact_data[k] = (unsigned char)(1 + below(255));
    unsigned char *indices = draw_indices(c, g, values);
    onnx_node_outside(&c->node, g, indices, &outside);
    compare_outside(c, g, values, &outside);
    if (!g->loop_count) {
        memset(exact_output, 0, g->output_count * c->element_size);
        if (g->output_count && !outside.count) fail(c, "data without elements have an index");
    } else {
        const enum gather_end end = run_parts(g, exact_data, indices, exact_output);
        const int is_outside = outside.count != 0;
        if (is_outside != (end != GATHER_RAN)) fail(c, "a run says another thing of its indices");
        if ((end == GATHER_STOPPED) != (is_outside && c->policy == GATHER_ERROR))
            fail(c, "a run stops where it must not, or goes on");
    }
    if (c->policy != GATHER_ERROR || !outside.count)
        compare_output(c, shape, values, g, exact_data, exact_output);
    free(data);
    free(output);
    free(values);
    free(indices);
}

int main(int count, char **arguments) {
    unsigned long long accepted = 0, ran = 0, empty = 0;
    if (count != 3) return 2;
    const unsigned long long wanted = strtoull(arguments[1], NULL, 10);
    seed(strtoull(arguments[2], NULL, 10));
    for (unsigned long long k = 0; k < wanted; k++) {
        struct case_of_node c;
        struct onnx_output shape;
        draw_node(&c);
        struct gather g = {
            .policy = c.policy, .element_size = c.element_size, .index_type = c.index_type};
        const char *broken = onnx_node_gather(&c.node, &g, &shape);
        const int is_large = count_of(c.node.data) > 4294967296.0 ||
                             count_of(c.node.indices) > 4294967296.0 ||
                             count_of((struct shape){shape.sizes, shape.rank}) > 4294967296.0;
        const int limits = broken && (is_large || strstr(broken, " at most 8"));
        if (!limits && is_allowed(&c.node) != !broken) fail(&c, broken ? broken : "is accepted");
        if (broken) continue;
        if (is_large) fail(&c, "is too large");
        accepted++;
        if (g.loop_count && gather_check(&g)) fail(&c, gather_check(&g));
        if (g.data_count > LARGEST_RUN || g.index_count > LARGEST_RUN ||
            g.output_count > LARGEST_RUN)
            continue;
        ran++;
        empty += !g.loop_count;
        run(&c, &g, &shape);
    }
    printf("%llu nodes, %llu accepted, %llu run, %llu of them empty\n", wanted, accepted, ran,
           empty);
    return 0;
}
