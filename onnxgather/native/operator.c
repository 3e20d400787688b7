/* The custom operators of ONNX Runtime. */
#include <stddef.h>

#ifdef _WIN32
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif

EXPORTED void *RegisterCustomOps(void *options, const void *base);
EXPORTED void *RegisterCustomOps(void *options, const void *base) {
    (void)options, (void)base;
    return NULL;
}
