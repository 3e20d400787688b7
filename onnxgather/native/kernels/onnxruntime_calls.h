/* What the operators and the provider do with ONNX Runtime alike. */
#ifndef ONNXGATHER_ONNXRUNTIME_CALLS_H
#define ONNXGATHER_ONNXRUNTIME_CALLS_H

#include "kernel.h"
#include "onnxruntime_abi.h"

/* Return from the function if a call of ONNX Runtime fails. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        OrtStatus *failed = (call);                                                                \
        if (failed) return failed;                                                                 \
    } while (0)

#if defined(__GNUC__)
#define LIKE_PRINTF __attribute__((format(printf, 2, 3)))
#else
#define LIKE_PRINTF
#endif

/* A status with a message, as printf writes it. */
OrtStatus *refuse(const OrtApi *api, const char *format, ...) LIKE_PRINTF;

/* Whether a call of ONNX Runtime succeeded; if not, its message is dropped for one of ours. */
int succeeds(const OrtApi *api, OrtStatus *status);

/* As many parts as cores: ONNX Runtime does not say how many threads a session has, and what a part
   finds out of its indices is lost for the next. */
size_t parts_on_cores(const struct gather *gather, size_t cores);

/* The cores that count for parts_on_cores. */
size_t cores_for_parts(void);

/* A gather that may be run, as kernel.h says, and its three buffers. */
struct run {
    const struct gather *gather;
    void *data, *indices, *output;
};

/* Run all parts of a gather on the threads of a session, and say how they ended together: stopped
   if one stopped, else outside if one was. */
OrtStatus *run_parts(const OrtApi *api, OrtKernelContext *context, const struct run *run,
                     size_t parts, enum gather_end *end);

#endif
