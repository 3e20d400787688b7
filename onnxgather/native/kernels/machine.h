/* What the kernels ask of the machine that they run on. */
#ifndef ONNXGATHER_MACHINE_H
#define ONNXGATHER_MACHINE_H

#include <stddef.h>

/* How many cores this process may run on, 1 or more. */
size_t machine_cores(void);

/* The bytes of the last cache. */
size_t machine_cache_bytes(void);

/* VECTORS: whether rows.c has loops for processors with AVX-512. */
#if defined(__linux__) && defined(__x86_64__) && defined(__GNUC__)
#define VECTORS 1
#else
#define VECTORS 0
#endif

/* Whether those loops are used: not where loading eight elements from eight places is slow. */
int machine_gathers(void);

#endif
