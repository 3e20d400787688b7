/* What the kernels ask of the machine that they run on. */
#ifndef ONNXGATHER_MACHINE_H
#define ONNXGATHER_MACHINE_H

#include <stddef.h>

/* How many cores this process may run on, 1 or more. */
size_t machine_cores(void);

/* VECTORS: whether rows.c has loops for the vectors of this kind of processor. */
#if defined(__linux__) && defined(__x86_64__) && defined(__GNUC__)
#define VECTORS 1
#else
#define VECTORS 0
#endif

/* What the processor has, each with all that stands before it: no vectors that rows.c knows;
   AVX2, which moves 32 bytes at once; AVX-512, which loads eight elements from eight places. */
enum vectors { NO_VECTORS, MOVES_32, LOADS_EIGHT };
enum vectors machine_vectors(void);

#endif
