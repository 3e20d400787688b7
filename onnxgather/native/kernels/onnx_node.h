/* A gather of ONNX, as loops: from a node and the shapes of its two inputs. */
#ifndef ONNXGATHER_ONNX_NODE_H
#define ONNXGATHER_ONNX_NODE_H

#include "kernel.h"

/* Of data and of indices; the rank of the output may be nearly twice that. */
#define ONNX_MOST_RANK 32

enum onnx_operator { ONNX_GATHER, ONNX_GATHER_ELEMENTS, ONNX_GATHER_ND, ONNX_OPERATORS };
extern const char *const onnx_operator_names[ONNX_OPERATORS];

struct shape {
    const int64_t *sizes; /* 0 or more */
    size_t rank;
};

/* The elements of a tensor; one more than GATHER_LARGEST where there are more. */
uint64_t onnx_node_elements(struct shape shape);

/* A node of an operator, and the shapes of a run. */
struct onnx_node {
    enum onnx_operator op;
    int64_t attribute; /* axis, or batch_dims of GatherND */
    int ones_repeat;   /* whether under "directml" each dimension of size 1 has the stride 0 */
    struct shape data, indices;
};

struct onnx_output {
    int64_t sizes[2 * ONNX_MOST_RANK];
    size_t rank;
};

/* Fill in the loops, the axes and the counts of a gather, which has its policy, its types and
   otherwise zeros before; and the shape of the output. Returns NULL, or the rule that the shapes
   break. Where the output is empty, or the data are, no element is copied, and there are no loops;
   the axes are there, as the indices still have to be in range. */
const char *onnx_node_gather(const struct onnx_node *node, struct gather *gather,
                             struct onnx_output *output);

/* The indices of a run that are out of range. */
struct outside {
    uint64_t count;
    int64_t least, largest;
    int64_t index;      /* the first of them */
    uint64_t axis_size; /* of the axis that it counts along */
    size_t rank;
    uint64_t place[ONNX_MOST_RANK]; /* where it stands in the indices */
};

/* Look at each index of a run. */
void onnx_node_outside(const struct onnx_node *node, const struct gather *gather,
                       const void *indices, struct outside *outside);

/* Write the sentence that names the first index out of range; there must be one. */
void onnx_node_sentence(const struct outside *outside, char *sentence, size_t room);

#define ONNX_SENTENCE 800 /* bytes of the longest sentence: 32 sizes, and three numbers */

#endif
