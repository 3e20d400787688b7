/* Turns a node of ONNX and the shapes of its inputs into the loops of a gather.

   The tensors of a node lie packed, so all strides follow from the shapes. The sizes may come from
   a hostile model: no product of them is used before it is at most GATHER_LARGEST. */
#include "onnx_node.h"
#include "tiles.h"

const char *const onnx_operator_names[ONNX_OPERATORS] = {"Gather", "GatherElements", "GatherND"};

/* The elements along the dimensions from `first` to before `end`; one more than GATHER_LARGEST
   where there are more. Without a division, which takes longer than a small gather. */
static uint64_t elements(struct shape shape, size_t first, size_t end) {
    uint64_t count = 1;
    int is_large = 0;
    for (size_t k = first; k < end; k++) {
        const uint64_t size = (uint64_t)shape.sizes[k];
        /* Case: a dimension is empty, so all are, however long the others are. */
        if (!size) return 0;
        /* Case: the product may not fit 64 bits; below, both are at most 2^32, and not both 2^32.
         */
        if (count > 1 && size >= GATHER_LARGEST) is_large = 1;
        else count *= size;
        if (count <= GATHER_LARGEST) continue;
        is_large = 1;
        count = 1;
    }
    return is_large ? GATHER_LARGEST + 1 : count;
}

uint64_t onnx_node_elements(struct shape shape) {
    return elements(shape, 0, shape.rank);
}

static void append(struct onnx_output *output, struct shape shape, size_t first, size_t end) {
    for (size_t k = first; k < end; k++) output->sizes[output->rank++] = shape.sizes[k];
}

/* --- The rules, and the shape of the output --------------------------------------------------- */

/* Take the axis of a node, counted from the front. */
static const char *take_axis(const struct onnx_node *node, size_t *axis) {
    const int64_t rank = (int64_t)node->data.rank;
    if (node->attribute < -rank || node->attribute >= rank)
        return "axis must be a dimension of data";
    *axis = (size_t)(node->attribute < 0 ? node->attribute + rank : node->attribute);
    return NULL;
}

static const char *output_of_gather(const struct onnx_node *node, struct onnx_output *output) {
    size_t axis;
    const char *broken = take_axis(node, &axis);
    if (broken) return broken;
    append(output, node->data, 0, axis);
    append(output, node->indices, 0, node->indices.rank);
    append(output, node->data, axis + 1, node->data.rank);
    return NULL;
}

static const char *output_of_elements(const struct onnx_node *node, struct onnx_output *output) {
    const struct shape data = node->data, indices = node->indices;
    size_t axis;
    const char *broken = take_axis(node, &axis);
    if (broken) return broken;
    if (indices.rank != data.rank) return "indices must have the rank of data";
    for (size_t k = 0; k < data.rank; k++)
        if (k != axis && indices.sizes[k] > data.sizes[k])
            return "no size of indices but that at axis may exceed data's";
    append(output, indices, 0, indices.rank);
    return NULL;
}

static const char *output_of_nd(const struct onnx_node *node, struct onnx_output *output) {
    const struct shape data = node->data, indices = node->indices;
    const int64_t batches = node->attribute;
    if (batches < 0 || batches >= (int64_t)data.rank || batches >= (int64_t)indices.rank)
        return "batch_dims must be at least 0 and less than both ranks";
    const int64_t longest = (int64_t)data.rank - batches;
    const int64_t length = indices.sizes[indices.rank - 1];
    if (length < 1 || length > longest)
        return "the last size of indices must be 1 to rank(data) - batch_dims";
    if (length > GATHER_MOST_LOOPS) return "the last size of indices must be at most 8";
    for (int64_t k = 0; k < batches; k++)
        if (indices.sizes[k] != data.sizes[k])
            return "the first batch_dims sizes of indices must be those of data";
    append(output, indices, 0, indices.rank - 1);
    append(output, data, (size_t)(batches + length), data.rank);
    return NULL;
}

/* --- The axes and the loops ------------------------------------------------------------------- */

/* Add a dimension of the data that indices count along. */
static void add_axis(const struct onnx_node *node, struct gather *g, size_t dimension) {
    const uint64_t size = (uint64_t)node->data.sizes[dimension];
    uint64_t stride = elements(node->data, dimension + 1, node->data.rank);
    /* Case: DirectML's GATHER_ELEMENTS gives a dimension of size 1 the stride 0, and ONNX Runtime's
       DirectML provider does so for every operator of a graph whose shapes are static. */
    const int repeats = node->ones_repeat || node->op == ONNX_GATHER_ELEMENTS;
    if (g->policy == GATHER_DIRECTML && size == 1 && repeats) stride = 0;
    g->axis_sizes[g->tuple_size] = size;
    g->axis_strides[g->tuple_size] = stride;
    g->tuple_size++;
}

static void add_axes(const struct onnx_node *node, struct gather *g) {
    size_t first = 0, count = 1;
    if (node->op == ONNX_GATHER_ND) {
        first = (size_t)node->attribute;
        count = (size_t)node->indices.sizes[node->indices.rank - 1];
    } else {
        take_axis(node, &first);
    }
    for (size_t k = 0; k < count; k++) add_axis(node, g, first + k);
}

/* Add a loop inside those that are there; with one that lies packed around it, it is one loop. A
   ninth loop is counted and not written. */
static void add_loop(struct gather *g, uint64_t size, uint64_t data, uint64_t index,
                     uint64_t output) {
    uint32_t k = g->loop_count;
    if (size == 1 || k > GATHER_MOST_LOOPS) return;
    const int is_packed = k && g->data_strides[k - 1] == size * data &&
                          g->index_strides[k - 1] == size * index &&
                          g->output_strides[k - 1] == size * output;
    if (is_packed) {
        k--;
        size *= g->sizes[k];
    } else {
        g->loop_count++;
    }
    if (k == GATHER_MOST_LOOPS) return;
    g->sizes[k] = size;
    g->data_strides[k] = data;
    g->index_strides[k] = index;
    g->output_strides[k] = output;
}

/* output[a..., i..., b...] = data[a..., indices[i...], b...] */
static void add_loops_of_gather(const struct onnx_node *node, struct gather *g) {
    const size_t rank = node->data.rank;
    size_t axis = 0;
    take_axis(node, &axis);
    const uint64_t row = elements(node->data, axis + 1, rank);
    add_loop(g, elements(node->data, 0, axis), elements(node->data, axis, rank), 0,
             g->index_count * row);
    add_loop(g, g->index_count, 0, 1, row);
    add_loop(g, row, 1, 0, 1);
}

/* output[a..., i, b...] = data[a..., indices[a..., i, b...], b...] */
static void add_loops_of_elements(const struct onnx_node *node, struct gather *g) {
    const size_t rank = node->data.rank;
    size_t axis = 0;
    take_axis(node, &axis);
    for (size_t k = 0; k < rank; k++) {
        const uint64_t step = elements(node->indices, k + 1, rank);
        const uint64_t data = k == axis ? 0 : elements(node->data, k + 1, rank);
        add_loop(g, (uint64_t)node->indices.sizes[k], data, step, step);
    }
}

/* output[n..., i..., s...] = data[n..., indices[n..., i..., :]..., s...] */
static void add_loops_of_nd(const struct onnx_node *node, struct gather *g) {
    const size_t batches = (size_t)node->attribute, rank = node->data.rank;
    const size_t last = node->indices.rank - 1;
    const uint64_t row = elements(node->data, batches + g->tuple_size, rank);
    const uint64_t tuples = elements(node->indices, batches, last);
    add_loop(g, elements(node->data, 0, batches), elements(node->data, batches, rank),
             tuples * g->tuple_size, tuples * row);
    add_loop(g, tuples, 0, g->tuple_size, row);
    add_loop(g, row, 1, 0, 1);
    g->tuple_stride = 1;
}

static const char *add_loops(const struct onnx_node *node, struct gather *g) {
    if (node->op == ONNX_GATHER) add_loops_of_gather(node, g);
    else if (node->op == ONNX_GATHER_ELEMENTS) add_loops_of_elements(node, g);
    else add_loops_of_nd(node, g);
    if (g->loop_count > GATHER_MOST_LOOPS) return "indices must have at most 8 dimensions";
    /* Case: each loop has one step, and a gather has a loop. */
    if (!g->loop_count) {
        g->loop_count = 1;
        g->sizes[0] = 1;
    }
    return NULL;
}

const char *onnx_node_gather(const struct onnx_node *node, struct gather *g,
                             struct onnx_output *output) {
    const char *broken;
    output->rank = 0;
    if (node->data.rank > ONNX_MOST_RANK || node->indices.rank > ONNX_MOST_RANK)
        return "data and indices must have at most 32 dimensions";
    if (node->op == ONNX_GATHER) broken = output_of_gather(node, output);
    else if (node->op == ONNX_GATHER_ELEMENTS) broken = output_of_elements(node, output);
    else broken = output_of_nd(node, output);
    if (broken) return broken;
    const struct shape made = {output->sizes, output->rank};
    g->data_count = onnx_node_elements(node->data);
    g->index_count = onnx_node_elements(node->indices);
    g->output_count = onnx_node_elements(made);
    if (g->data_count > GATHER_LARGEST) return "data must have at most 2^32 elements";
    if (g->index_count > GATHER_LARGEST) return "indices must have at most 2^32 elements";
    if (g->output_count > GATHER_LARGEST) return "the output must have at most 2^32 elements";
    add_axes(node, g);
    /* DirectML's buffers are whole words of 4 bytes. */
    const uint64_t words = (g->data_count * g->element_size + 3) / 4;
    g->reachable_count = words * 4 / g->element_size;
    if (!g->data_count || !g->output_count) return NULL;
    return add_loops(node, g);
}

/* --- Indices out of range --------------------------------------------------------------------- */

/* Note where an index stands that is the first out of range; `number` counts the indices. */
static void note_first(struct outside *outside, struct shape indices, uint64_t number) {
    outside->rank = indices.rank;
    for (size_t k = indices.rank; k--;) {
        const uint64_t size = (uint64_t)indices.sizes[k];
        outside->place[k] = number % size;
        number /= size;
    }
}

void onnx_node_outside(const struct onnx_node *node, const struct gather *g, const void *indices,
                       struct outside *outside) {
    *outside = (struct outside){.least = INT64_MAX, .largest = INT64_MIN};
    for (uint64_t number = 0; number < g->index_count; number++) {
        const int64_t index = (int64_t)value_at(indices, number, (int)g->index_type);
        const uint64_t axis_size = g->axis_sizes[number % g->tuple_size];
        const int64_t size = (int64_t)axis_size;
        if (index >= -size && index < size) continue;
        if (!outside->count) {
            outside->index = index;
            outside->axis_size = axis_size;
            note_first(outside, node->indices, number);
        }
        outside->count++;
        if (index < outside->least) outside->least = index;
        if (index > outside->largest) outside->largest = index;
    }
}

void onnx_node_sentence(const struct outside *outside, char *sentence, size_t room) {
    const struct outside_index first = {outside->place, outside->rank, outside->axis_size, 1,
                                        (uint64_t)outside->index};
    gather_outside_sentence(&first, sentence, room);
}
