#include "onnxruntime_calls.h"
#include "machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST_PARTS 64

OrtStatus *refuse(const OrtApi *api, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *message = length < 0 ? NULL : malloc((size_t)length + 1);
    if (!message) return ORT(api, CreateStatus)(ORT_INVALID_ARGUMENT, "no memory for a message");
    va_start(arguments, format);
    vsnprintf(message, (size_t)length + 1, format, arguments);
    va_end(arguments);
    OrtStatus *status = ORT(api, CreateStatus)(ORT_INVALID_ARGUMENT, message);
    free(message);
    return status;
}

int succeeds(const OrtApi *api, OrtStatus *status) {
    if (status) ORT(api, ReleaseStatus)(status);
    return !status;
}

size_t cores_for_parts(void) {
    const size_t cores = machine_cores();
    return cores < MOST_PARTS ? cores : MOST_PARTS;
}

size_t parts_on_cores(const struct gather *gather, size_t cores) {
    return cores > 1 ? gather_parts(gather, cores) : 1;
}

struct threaded_run {
    const struct run *run;
    size_t parts;
    unsigned char ends[MOST_PARTS]; /* one for each part, as no two threads may write the same */
};

static void run_part(void *state, size_t part) {
    struct threaded_run *threaded = state;
    const struct run *run = threaded->run;
    threaded->ends[part] = (unsigned char)gather_run(run->gather, run->data, run->indices,
                                                     run->output, part, threaded->parts);
}

OrtStatus *run_parts(const OrtApi *api, OrtKernelContext *context, const struct run *run,
                     size_t parts, enum gather_end *end) {
    struct threaded_run threaded = {.run = run, .parts = parts};
    if (parts == 1) run_part(&threaded, 0);
    else TRY(ORT(api, KernelContext_ParallelFor)(context, run_part, parts, 0, &threaded));
    *end = GATHER_RAN;
    for (size_t part = 0; part < parts; part++) {
        if (threaded.ends[part] == GATHER_RAN_OUTSIDE && *end == GATHER_RAN)
            *end = GATHER_RAN_OUTSIDE;
        if (threaded.ends[part] == GATHER_STOPPED) *end = GATHER_STOPPED;
    }
    return NULL;
}
