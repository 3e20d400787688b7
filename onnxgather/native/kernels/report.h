/* What the gathers of the provider have met, in rows that outlive their sessions. */
#ifndef ONNXGATHER_REPORT_H
#define ONNXGATHER_REPORT_H

#include "onnx_node.h"

/* The names of a gather. Those that have the same names share a row. */
struct row_names {
    const char *model, *policy, *op, *node, *output;
};
struct row;

/* Find or make the row of a gather, for one session more. NULL without memory. */
struct row *report_row(const struct row_names *names);

/* Give a row back, for one session less. */
void report_leave(struct row *row);

/* Count a run in range, and its indices. Threads never wait here. */
void report_run(struct row *row, uint64_t indices);

/* Count a run, its indices, and those of them that are out of range. The row keeps the sentence
   about its first one. Returns whether to warn: `warns` says whether the session does, and no other
   session has warned for the row since the last reset. */
int report_outside(struct row *row, uint64_t indices, const struct outside *outside,
                   const char *sentence, int warns);

#endif
