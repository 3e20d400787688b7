/* Turns indices into offsets of the data, for one line of a tile after the other.

   The offset of a row is the sum of where its line begins, of the steps of the line's loop, and for
   each coordinate of the index, of that coordinate times the stride of its axis. Offsets are 32-bit
   and wrap, as DirectML's do; under the other policies gather_check has seen that they fit. */
#include "tiles.h"

/* Inlined as a loop of its own for each type, policy and `first`, and for an `index_step` of 1. */
INLINED int add(const struct line *at, uint32_t *restrict offsets, uint8_t *restrict missing,
                const int type, const int policy, const int first, const size_t index_step) {
    /* DirectML reads UINT64 as INT64. */
    const int is_signed = type >= GATHER_INT32 || policy == GATHER_DIRECTML;
    const struct line line = *at;
    const uint32_t stride = (uint32_t)line.stride, data_step = (uint32_t)line.data_step;
    uint32_t start = line.start;
    uint64_t any = 0;
    for (size_t j = 0; j < line.count; j++, start += data_step) {
        uint64_t outside = 0, index = index_at(line.indices, j * index_step, type, is_signed,
                                               line.size, &outside);
        any |= outside;
        if (policy == GATHER_ZERO) missing[j] = (uint8_t)((!first && missing[j]) | (outside != 0));
        if (policy == GATHER_DIRECTML) index ^= outside; /* as it was; only modulo 2^32 */
        const uint32_t offset = (uint32_t)index * stride + start;
        offsets[j] = first ? offset : offsets[j] + offset;
    }
    return any != 0;
}

#define ADDER(type, policy)                                                                        \
    static int add_##type##_##policy(const struct line *line, uint32_t *offsets,                   \
                                     uint8_t *missing) {                                           \
        const size_t step = (size_t)line->index_step;                                              \
        if (!line->first)                                                                          \
            return add(line, offsets, missing, GATHER_##type, GATHER_##policy, 0, step);           \
        if (step == 1) return add(line, offsets, missing, GATHER_##type, GATHER_##policy, 1, 1);   \
        return add(line, offsets, missing, GATHER_##type, GATHER_##policy, 1, step);               \
    }
#define ADDERS(type) ADDER(type, CLAMP) ADDER(type, ZERO) ADDER(type, DIRECTML)
/* In the order of enum gather_policy; "error" clamps too, and its caller gives up. */
#define NAMES(type)                                                                                \
    {add_##type##_CLAMP, add_##type##_CLAMP, add_##type##_ZERO, add_##type##_DIRECTML}

ADDERS(UINT32)
ADDERS(UINT64)
ADDERS(INT32)
ADDERS(INT64)

adder *adder_of(uint32_t index_type, uint32_t policy) {
    static adder *const adders[4][4] = {NAMES(UINT32), NAMES(UINT64), NAMES(INT32), NAMES(INT64)};
    return adders[index_type][policy];
}
