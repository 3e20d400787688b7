#include "kernel.h"

#include <string.h>

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

size_t gather_parts(const struct gather *gather, size_t most) {
    (void)gather, (void)most;
    return 1;
}

void gather_clear(const struct gather *gather, void *output) {
    uint64_t elements = 1;
    for (uint32_t k = 0; k < gather->loop_count; k++) elements *= gather->sizes[k];
    if (elements < gather->output_count)
        memset(output, 0, gather->output_count * gather->element_size);
}

/* The offset of an index's element in the data; data_count stands for a zero. */
static uint64_t find(const struct gather *g, uint64_t passed, const void *indices, uint64_t index,
                     int *fine) {
    uint64_t offset = passed;
    for (uint32_t k = 0; k < g->tuple_size; k++, index += g->tuple_stride) {
        uint64_t n = g->axis_sizes[k], value, wrapped;
        int negative = 0;
        switch (g->index_type) {
        case GATHER_UINT32: value = ((const uint32_t *)indices)[index]; break;
        case GATHER_UINT64: value = ((const uint64_t *)indices)[index]; break;
        case GATHER_INT32: value = (uint64_t)(int64_t)((const int32_t *)indices)[index]; break;
        default: value = ((const uint64_t *)indices)[index]; break;
        }
        if (g->index_type >= GATHER_INT32 || g->policy == GATHER_DIRECTML)
            negative = (int64_t)value < 0;
        wrapped = negative ? value + n : value;
        if (g->policy == GATHER_DIRECTML) {
            offset += (uint32_t)wrapped * g->axis_strides[k];
            continue;
        }
        if (wrapped >= n) {
            if (g->policy != GATHER_CLAMP) {
                *fine = 0;
                return g->data_count;
            }
            wrapped = negative ? 0 : n - 1;
        }
        offset += wrapped * g->axis_strides[k];
    }
    if (g->policy == GATHER_DIRECTML) {
        offset = (uint32_t)offset;
        if (offset > g->reachable_count - 1) offset = g->reachable_count - 1;
    }
    return offset;
}

int gather_run(const struct gather *gather, const void *data, const void *indices, void *output,
               size_t part, size_t parts) {
    const struct gather *g = gather;
    uint64_t at[GATHER_MOST_LOOPS] = {0}, passed = 0, index = 0, out = 0;
    int fine = 1;
    size_t size = g->element_size;
    (void)part, (void)parts;
    for (;;) {
        uint64_t offset = find(g, passed, indices, index, &fine);
        if (!fine && g->policy == GATHER_ERROR) return 0;
        if (offset < g->data_count)
            memcpy((char *)output + out * size, (const char *)data + offset * size, size);
        else
            memset((char *)output + out * size, 0, size);
        int k = (int)g->loop_count - 1;
        for (; k >= 0; k--) {
            passed += g->data_strides[k], index += g->index_strides[k], out += g->output_strides[k];
            if (++at[k] < g->sizes[k]) break;
            passed -= at[k] * g->data_strides[k], index -= at[k] * g->index_strides[k];
            out -= at[k] * g->output_strides[k], at[k] = 0;
        }
        if (k < 0) return 1;
    }
}
