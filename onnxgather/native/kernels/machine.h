/* What the kernels ask of the machine that they run on. */
#ifndef ONNXGATHER_MACHINE_H
#define ONNXGATHER_MACHINE_H

#include <stddef.h>

/* How many cores this process may run on, 1 or more. */
size_t machine_cores(void);

/* The bytes of the last cache. */
size_t machine_cache_bytes(void);

#endif
