/* A gather of ONNX from the shapes of its two inputs. */
#ifndef ONNXGATHER_ONNX_NODE_H
#define ONNXGATHER_ONNX_NODE_H

#include "kernel.h"

/* No tensor of a node has more dimensions. */
#define MOST_RANK 32

enum onnx_operator { ONNX_GATHER, ONNX_GATHER_ELEMENTS, ONNX_GATHER_ND, ONNX_OPERATORS };
extern const char *const onnx_operator_names[ONNX_OPERATORS];

/* The shape of a tensor. */
struct shape {
    const int64_t *sizes;
    size_t rank;
};

/* Fill in the loops of a gather from an operator, its attribute `axis` or `batch_dims`, and the
   shapes of data and indices. Before, the gather has its policy, its types, and zeros.
   `ones_repeat`: whether every dimension of size 1 has the stride 0, as ONNX Runtime's DirectML
   provider has it where shapes are static. The shape of the output gets 2 * MOST_RANK sizes at
   most. NULL, or the rule that the shapes break. */
const char *onnx_node_gather(enum onnx_operator op, int64_t axis, struct shape data,
                             struct shape indices, int ones_repeat, struct gather *gather,
                             int64_t *output_sizes, size_t *output_rank);

#endif
