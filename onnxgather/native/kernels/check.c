/* Whether numbers are a gather that stays inside its three buffers, and which index is wrong. */
#include "tiles.h"

#include <inttypes.h>
#include <stdio.h>

const char *const gather_policy_names[GATHER_POLICIES] = {"clamp", "error", "zero", "directml"};

enum gather_policy gather_policy_of(const char *name) {
    enum gather_policy policy = 0;
    while (policy < GATHER_POLICIES && strcmp(name, gather_policy_names[policy])) policy++;
    return policy;
}

/* Whether the sizes are at least 1, and their product is at most 2^32. */
static int product(const uint64_t *sizes, uint32_t count, uint64_t *result) {
    *result = 1;
    for (uint32_t k = 0; k < count; k++) {
        if (sizes[k] < 1 || sizes[k] > GATHER_LARGEST / *result) return 0;
        *result *= sizes[k]; /* at most 2^32, by the line above */
    }
    return 1;
}

/* Add to an offset that of the last element along dimensions, whose sizes are at least 1. False if
   the sum is not below count, which is 1 to 2^32. */
static int reaches(const uint64_t *sizes, const uint64_t *strides, uint32_t dimensions,
                   uint64_t count, uint64_t *offset) {
    for (uint32_t k = 0; k < dimensions; k++) {
        if (strides[k] > GATHER_LARGEST)
            return 0; /* also along a size of 1, where it leads nowhere */
        if (strides[k] && sizes[k] - 1 > (count - 1) / strides[k]) return 0;
        /* So each product is below 2^32, and all sums of at most 16 of them fit. */
        *offset += (sizes[k] - 1) * strides[k];
    }
    return *offset < count;
}

/* Whether the loops reach every element of an output that has as many elements as they. They do if
   they are packed in some order, and then none overlap; no other loops do. */
static int fills(const struct gather *g) {
    for (uint64_t packed = 1; packed < g->output_count;) {
        uint32_t k = 0;
        while (k < g->loop_count && (g->sizes[k] == 1 || g->output_strides[k] != packed)) k++;
        if (k == g->loop_count) return 0;
        packed *= g->sizes[k]; /* it grows, so no loop is taken twice: at most their product */
    }
    return 1;
}

const char *gather_check(const struct gather *g) {
    const uint64_t counts[] = {g->data_count, g->index_count, g->output_count};
    const uint64_t tuple[] = {g->tuple_size};
    uint64_t elements, indices, last;
    if (g->element_size != 1 && g->element_size != 2 && g->element_size != 4 &&
        g->element_size != 8)
        return "element_size must be 1, 2, 4 or 8";
    if (g->index_type > GATHER_INT64) return "index_type must be a number below 4";
    if (g->policy >= GATHER_POLICIES) return "policy must be a number below 4";
    if (g->loop_count < 1 || g->loop_count > GATHER_MOST_LOOPS)
        return "sizes must be 1 to 8 numbers";
    if (g->tuple_size < 1 || g->tuple_size > GATHER_MOST_LOOPS)
        return "axis_sizes must be 1 to 8 numbers";
    if (g->indices_rank > GATHER_MOST_LOOPS) return "indices_sizes must be at most 8 numbers";
    for (size_t k = 0; k < 3; k++)
        if (counts[k] < 1 || counts[k] > GATHER_LARGEST) return "counts must be from 1 to 2^32";
    /* DirectML reaches every element of InputTensor, so all that indices in range lead to. */
    if (g->reachable_count < g->data_count || g->reachable_count > GATHER_LARGEST)
        return "reachable_count must be from the elements of InputTensor to 2^32";
    for (uint32_t k = 0; k < g->tuple_size; k++)
        if (g->axis_sizes[k] < 1 || g->axis_sizes[k] > GATHER_LARGEST)
            return "axis_sizes must be from 1 to 2^32";
    if (!product(g->sizes, g->loop_count, &elements))
        return "sizes must be 1 or more, and their product at most 2^32";
    /* So no more indices are looked through for a message than the loops read. */
    if (!product(g->indices_sizes, g->indices_rank, &indices) || indices > elements * g->tuple_size)
        return "indices_sizes must be 1 or more, and their product at most what the loops read";
    if (g->tuple_size > 1 && g->indices_rank &&
        g->indices_sizes[g->indices_rank - 1] != g->tuple_size)
        return "indices_sizes must end with the number of axis_sizes";

    last = 0;
    if (!reaches(g->axis_sizes, g->axis_strides, g->tuple_size, g->data_count, &last))
        return "axis_strides must lead to elements of InputTensor";
    if (!reaches(g->sizes, g->data_strides, g->loop_count, g->data_count, &last))
        return "data_strides must lead to elements of InputTensor";
    last = 0;
    if (!reaches(tuple, &g->tuple_stride, 1, g->index_count, &last))
        return "tuple_stride must lead to elements of IndicesTensor";
    if (!reaches(g->sizes, g->index_strides, g->loop_count, g->index_count, &last))
        return "index_strides must lead to elements of IndicesTensor";
    last = 0;
    if (!reaches(g->indices_sizes, g->indices_strides, g->indices_rank, g->index_count, &last))
        return "indices_strides must lead to elements of IndicesTensor";
    last = 0;
    if (!reaches(g->sizes, g->output_strides, g->loop_count, g->output_count, &last))
        return "output_strides must lead to elements of OutputTensor";
    /* With fewer steps than elements, steps may meet: gather_clear writes every element before. */
    if (elements > g->output_count || (elements == g->output_count && !fills(g)))
        return "output_strides must lead to different elements of OutputTensor";
    return NULL;
}

void gather_outside_sentence(const struct outside_index *index, char *message, size_t room) {
    const char *before = "[";
    size_t used = (size_t)snprintf(message, room, "IndicesTensor");
    for (size_t k = 0; k < index->rank && used < room; k++) {
        used += (size_t)snprintf(message + used, room - used, "%s%" PRIu64, before,
                                 index->place[k]);
        before = ",";
    }
    if (used >= room) return;
    message += used;
    room -= used;
    /* Case: the indices may be a scalar, which has no place. */
    const char *after = index->rank ? "]" : "";
    const uint64_t size = index->axis_size;
    if (!index->is_signed) {
        snprintf(message, room, "%s must be in [0, %" PRIu64 "), got %" PRIu64, after, size,
                 index->value);
        return;
    }
    /* Case: an axis of size 0 has no index, and zero has no sign. */
    const char *sign = size ? "-" : "";
    snprintf(message, room, "%s must be in [%s%" PRIu64 ", %" PRIu64 "), got %" PRId64, after, sign,
             size, size, (int64_t)index->value);
}

void gather_first_outside(const struct gather *g, const void *indices, char *message, size_t room) {
    uint64_t at[GATHER_MOST_LOOPS] = {0}, offset = 0;
    const int is_signed = g->index_type == GATHER_INT32 || g->index_type == GATHER_INT64;
    int k;
    do {
        const uint64_t axis =
            g->axis_sizes[g->tuple_size > 1 && g->indices_rank ? at[g->indices_rank - 1] : 0];
        const uint64_t value = value_at(indices, offset, (int)g->index_type);
        const uint64_t wrapped = is_signed && value >> 63 ? value + axis : value;
        if (wrapped >= axis) {
            const struct outside_index first = {at, g->indices_rank, axis, is_signed, value};
            gather_outside_sentence(&first, message, room);
            return;
        }
        for (k = (int)g->indices_rank - 1; k >= 0; k--) {
            offset += g->indices_strides[k];
            if (++at[k] < g->indices_sizes[k]) break;
            offset -= at[k] * g->indices_strides[k];
            at[k] = 0;
        }
    } while (k >= 0);
    snprintf(message, room, "IndicesTensor must have indices in range"); /* it has changed since */
}
