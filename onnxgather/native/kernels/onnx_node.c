/* Turns an ONNX node and the shapes of its inputs into the loops of a gather. */
#include "onnx_node.h"

const char *const onnx_operator_names[ONNX_OPERATORS] = {"Gather", "GatherElements", "GatherND"};

/* The product of some sizes: those from one dimension up to another one. */
static uint64_t product(const int64_t *sizes, size_t from, size_t to) {
    uint64_t result = 1;
    for (size_t k = from; k < to; k++) result *= (uint64_t)sizes[k];
    return result;
}

/* Add a loop. It joins the loop before it, where both lie packed in all three buffers. A ninth loop
   is counted, and not written. */
static void add_loop(struct gather *g, uint64_t size, uint64_t data, uint64_t index,
                     uint64_t output) {
    const uint32_t k = g->loop_count;
    if (size == 1 || k > GATHER_MOST_LOOPS) return;
    if (k && g->data_strides[k - 1] == size * data && g->index_strides[k - 1] == size * index &&
        g->output_strides[k - 1] == size * output) {
        g->sizes[k - 1] *= size;
        g->data_strides[k - 1] = data;
        g->index_strides[k - 1] = index;
        g->output_strides[k - 1] = output;
        return;
    }
    g->loop_count++;
    if (k == GATHER_MOST_LOOPS) return;
    g->sizes[k] = size;
    g->data_strides[k] = data;
    g->index_strides[k] = index;
    g->output_strides[k] = output;
}

static void add_axis(struct gather *g, uint64_t size, uint64_t stride) {
    g->axis_sizes[g->tuple_size] = size;
    g->axis_strides[g->tuple_size] = stride;
    g->tuple_size++;
}

static const char *gather_nd(int64_t batch_dims, struct shape data, struct shape indices,
                             int ones_repeat, struct gather *g, int64_t *output, size_t *rank) {
    const int64_t *d = data.sizes, *i = indices.sizes;
    const size_t b = (size_t)batch_dims, r = data.rank, q = indices.rank;
    if (batch_dims < 0 || b >= q || b >= r) return "batch_dims must be below both ranks";
    const size_t k = (size_t)i[q - 1];
    if (i[q - 1] < 1 || k > r - b)
        return "the last size of indices must be from 1 to the rank of data less batch_dims";
    if (k > GATHER_MOST_LOOPS) return "the last size of indices must be at most 8";
    for (size_t x = 0; x < b; x++)
        if (d[x] != i[x]) return "the sizes of batches must be those of data";
    size_t n = 0;
    for (size_t x = 0; x + 1 < q; x++) output[n++] = i[x];
    for (size_t x = b + k; x < r; x++) output[n++] = d[x];
    *rank = n;
    const uint64_t row = product(d, b + k, r), tuples = product(i, b, q - 1);
    add_loop(g, product(d, 0, b), product(d, b, r), tuples * k, tuples * row);
    add_loop(g, tuples, 0, k, row);
    add_loop(g, row, 1, 0, 1);
    for (size_t x = b; x < b + k; x++)
        add_axis(g, (uint64_t)d[x], ones_repeat && d[x] == 1 ? 0 : product(d, x + 1, r));
    g->tuple_stride = 1;
    return NULL;
}

static const char *gather(size_t axis, struct shape data, struct shape indices, int ones_repeat,
                          struct gather *g, int64_t *output, size_t *rank) {
    const int64_t *d = data.sizes, *i = indices.sizes;
    const size_t r = data.rank, q = indices.rank;
    const uint64_t row = product(d, axis + 1, r), count = product(i, 0, q);
    size_t n = 0;
    for (size_t x = 0; x < axis; x++) output[n++] = d[x];
    for (size_t x = 0; x < q; x++) output[n++] = i[x];
    for (size_t x = axis + 1; x < r; x++) output[n++] = d[x];
    *rank = n;
    add_loop(g, product(d, 0, axis), (uint64_t)d[axis] * row, 0, count * row);
    add_loop(g, count, 0, 1, row);
    add_loop(g, row, 1, 0, 1);
    add_axis(g, (uint64_t)d[axis], ones_repeat && d[axis] == 1 ? 0 : row);
    return NULL;
}

static const char *gather_elements(size_t axis, struct shape data, struct shape indices,
                                   struct gather *g, int64_t *output, size_t *rank) {
    const int64_t *d = data.sizes, *i = indices.sizes;
    const size_t r = data.rank;
    if (indices.rank != r) return "indices must have the rank of data";
    for (size_t x = 0; x < r; x++) {
        const uint64_t step = product(i, x + 1, r);
        if (x != axis && i[x] > d[x])
            return "indices must be no longer than data along other dimensions";
        output[x] = i[x];
        add_loop(g, (uint64_t)i[x], x == axis ? 0 : product(d, x + 1, r), step, step);
    }
    *rank = r;
    /* DirectML's stride of a dimension of size 1 is 0. */
    const int is_one = g->policy == GATHER_DIRECTML && d[axis] == 1;
    add_axis(g, (uint64_t)d[axis], is_one ? 0 : product(d, axis + 1, r));
    return NULL;
}

const char *onnx_node_gather(enum onnx_operator op, int64_t axis, struct shape data,
                             struct shape indices, int ones_repeat, struct gather *g,
                             int64_t *output_sizes, size_t *output_rank) {
    const char *broken;
    if (data.rank > MOST_RANK || indices.rank > MOST_RANK) return "a rank must be at most 32";
    if (op == ONNX_GATHER_ND) {
        broken = gather_nd(axis, data, indices, ones_repeat, g, output_sizes, output_rank);
    } else {
        if (axis < 0) axis += (int64_t)data.rank;
        if (axis < 0 || axis >= (int64_t)data.rank) return "axis must be a dimension of data";
        if (op == ONNX_GATHER)
            broken = gather((size_t)axis, data, indices, ones_repeat, g, output_sizes, output_rank);
        else broken = gather_elements((size_t)axis, data, indices, g, output_sizes, output_rank);
    }
    if (broken) return broken;
    if (g->loop_count > GATHER_MOST_LOOPS) return "it must have at most 8 loops";
    /* Case: every loop has one step. */
    if (!g->loop_count) {
        g->loop_count = 1;
        g->sizes[0] = 1;
    }
    g->data_count = product(data.sizes, 0, data.rank);
    g->index_count = product(indices.sizes, 0, indices.rank);
    g->output_count = product(output_sizes, 0, *output_rank);
    /* DirectML's buffers have whole words of 4 bytes. */
    const uint64_t bytes = (g->data_count * g->element_size + 3) / 4 * 4;
    g->reachable_count = (bytes + g->element_size - 1) / g->element_size;
    /* An index out of range is named by its place, where that has at most 8 numbers. */
    if (indices.rank > GATHER_MOST_LOOPS) return NULL;
    g->indices_rank = (uint32_t)indices.rank;
    for (size_t x = 0; x < indices.rank; x++) {
        g->indices_sizes[x] = (uint64_t)indices.sizes[x];
        g->indices_strides[x] = product(indices.sizes, x + 1, indices.rank);
    }
    return NULL;
}
