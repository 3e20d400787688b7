#include "kernel.h"

#include <string.h>

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
