/* A gather on several threads, for the Python module: its library stays loaded, so threads may wait
   in it. ONNX Runtime has threads of its own. */
#ifndef ONNXGATHER_THREADS_H
#define ONNXGATHER_THREADS_H

#include "kernel.h"

#define MOST_THREADS 64

/* Run all parts of a gather on so many threads, the caller's among them. False if one stopped. */
int gather_run_on_threads(const struct gather *gather, const void *data, const void *indices,
                          void *output, size_t parts, size_t threads);

#endif
