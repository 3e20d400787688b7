/* Gathers as nested loops, in C11: what the ONNX operator and the Python module run. */
#ifndef ONNXGATHER_KERNEL_H
#define ONNXGATHER_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#define GATHER_MOST_LOOPS 8
#define GATHER_LARGEST ((uint64_t)1 << 32) /* no number of a DirectML tensor is larger */

enum gather_policy {
    GATHER_CLAMP,
    GATHER_ERROR,
    GATHER_ZERO,
    GATHER_DIRECTML,
    GATHER_POLICIES,
};
extern const char *const gather_policy_names[GATHER_POLICIES];

/* The policy of a name, or GATHER_POLICIES. */
enum gather_policy gather_policy_of(const char *name);

enum gather_index_type { GATHER_UINT32, GATHER_UINT64, GATHER_INT32, GATHER_INT64 };

/* A gather: onnxgather/core/loops.py makes these numbers and says what they mean. They may come
   from a hostile file, so gather_check must have accepted a gather before it is run, or onnx_node.c
   must have made it. Loops are numbered from the outermost; strides and counts are in elements. */
struct gather {
    uint32_t element_size; /* 1, 2, 4 or 8 bytes */
    uint32_t index_type;
    uint32_t policy;
    uint32_t loop_count;
    uint32_t tuple_size;
    uint64_t sizes[GATHER_MOST_LOOPS];
    uint64_t data_strides[GATHER_MOST_LOOPS];
    uint64_t index_strides[GATHER_MOST_LOOPS];
    uint64_t output_strides[GATHER_MOST_LOOPS];
    uint64_t tuple_stride;                  /* from one coordinate of a tuple to the next */
    uint64_t axis_sizes[GATHER_MOST_LOOPS]; /* per coordinate of a tuple */
    uint64_t axis_strides[GATHER_MOST_LOOPS];
    uint64_t data_count, index_count, output_count; /* elements of the three buffers */
    uint64_t reachable_count; /* under "directml": elements of the data, padding included */
    uint32_t indices_rank;    /* of IndicesTensor, to name an index that is out of range; else 0 */
    uint64_t indices_sizes[GATHER_MOST_LOOPS];
    uint64_t indices_strides[GATHER_MOST_LOOPS];
};

/* NULL, or the rule that the numbers break; it starts with the name of the number. */
const char *gather_check(const struct gather *gather);

/* An index of IndicesTensor that is out of range. */
struct outside_index {
    const uint64_t *place; /* where it stands */
    size_t rank;           /* of IndicesTensor */
    uint64_t axis_size;    /* of the axis that it counts along */
    int is_signed;
    uint64_t value; /* its bits */
};

/* Write the sentence that names such an index. */
void gather_outside_sentence(const struct outside_index *index, char *message, size_t room);

/* Write the sentence that names the first index of IndicesTensor that is out of range. */
void gather_first_outside(const struct gather *gather, const void *indices, char *message,
                          size_t room);

/* How many parts a gather may be cut into that threads can run at the same time, 1 or more. It is 1
   where two steps of the loops may write one element. */
size_t gather_parts(const struct gather *gather, size_t most);

/* Write zeros where the parts leave gaps in the output; to be called before they are run. */
void gather_clear(const struct gather *gather, void *output);

/* How a part of a gather ended. It stops if the policy is "error" and an index is out of range;
   under the other policies it says whether one was, to which the policy gave a meaning. */
enum gather_end { GATHER_STOPPED, GATHER_RAN, GATHER_RAN_OUTSIDE };

/* Run one part of a gather. */
enum gather_end gather_run(const struct gather *gather, const void *data, const void *indices,
                           void *output, size_t part, size_t parts);

#endif
