#include "kernel.h"

#define LARGEST ((uint64_t)1 << 32) /* sizes, strides and counts of DirectML's tensors fit */

/* Whether the offset of the last element lies below count. */
static int reaches(const struct gather *gather, const uint64_t *strides, uint64_t offset,
                   uint64_t count) {
    for (uint32_t k = 0; k < gather->loop_count; k++) {
        uint64_t steps = gather->sizes[k] - 1;
        if (strides[k] && steps > LARGEST * 8 / strides[k]) return 0;
        offset += steps * strides[k];
        if (offset >= count) return 0;
    }
    return offset < count;
}

const char *gather_check(const struct gather *gather) {
    const struct gather *g = gather;
    uint64_t coordinates = 0, elements = 1;
    if (g->element_size != 1 && g->element_size != 2 && g->element_size != 4 && g->element_size != 8)
        return "elements must have 1, 2, 4 or 8 bytes";
    if (g->index_type > GATHER_INT64 || g->policy > GATHER_DIRECTML)
        return "the index type and the policy must be known";
    if (g->loop_count > GATHER_MOST_LOOPS) return "sizes must be at most 8";
    if (g->tuple_size < 1 || g->tuple_size > GATHER_MOST_LOOPS) return "axis_sizes must be 1 to 8";
    if (g->data_count > LARGEST || g->index_count > LARGEST || g->output_count > LARGEST ||
        g->reachable_count > LARGEST || g->tuple_stride > LARGEST || !g->data_count)
        return "counts must be at most 2^32";
    for (uint32_t k = 0; k < g->loop_count; k++) {
        if (g->sizes[k] < 1 || g->sizes[k] > LARGEST || g->data_strides[k] > LARGEST ||
            g->index_strides[k] > LARGEST || g->output_strides[k] > LARGEST)
            return "sizes must be 1 to 2^32, strides at most 2^32";
        if (elements > LARGEST / g->sizes[k]) return "the loops must be at most 2^32 elements";
        elements *= g->sizes[k];
    }
    for (uint32_t k = 0; k < g->tuple_size; k++) {
        if (g->axis_sizes[k] < 1 || g->axis_sizes[k] > LARGEST || g->axis_strides[k] > LARGEST)
            return "axis_sizes must be 1 to 2^32, axis_strides at most 2^32";
        if (g->axis_strides[k] && g->axis_sizes[k] - 1 > LARGEST / g->axis_strides[k])
            return "the axes must lie inside the data";
        coordinates += (g->axis_sizes[k] - 1) * g->axis_strides[k];
    }
    if (g->policy == GATHER_DIRECTML) {
        if (g->reachable_count < 1) return "reachable_count must be at least 1";
    } else if (!reaches(g, g->data_strides, coordinates, g->data_count)) {
        return "the loops must lie inside the data";
    }
    if (!reaches(g, g->index_strides, (g->tuple_size - 1) * g->tuple_stride, g->index_count))
        return "the loops must lie inside the indices";
    if (!reaches(g, g->output_strides, 0, g->output_count))
        return "the loops must lie inside the output";
    return NULL;
}
