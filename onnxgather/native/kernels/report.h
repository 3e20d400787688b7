/* What the gathers of a provider have met, by model, policy and node. */
#ifndef ONNXGATHER_REPORT_H
#define ONNXGATHER_REPORT_H

#include "onnx_node.h"

/* The gathers with these names share a row. */
struct row_names {
    const char *model, *policy, *type, *node, *output;
};
struct row;

/* Find or make the row of a node, which counts one session more. NULL without memory. */
struct row *report_row(struct row_names names);
/* Count one session less; the row stays until the report is reset. */
void report_leave(struct row *row);

/* Count a run. `outside`: whether it met an index out of range. Writes the sentence on the first
   one of them; empty if there is none. True if the row has met none before. */
int report_count(struct row *row, const struct gather *gather, const void *indices, int outside,
                 char *sentence, size_t room);

#endif
