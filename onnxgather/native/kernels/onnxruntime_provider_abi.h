/* What the provider needs of ONNX Runtime's C API beside onnxruntime_abi.h, which says how and why
   these lines are written by hand. The first table here is that of OrtApi; the second is that of
   OrtEpApi, which OrtApi gives. */
#ifndef ONNXGATHER_ONNXRUNTIME_PROVIDER_ABI_H
#define ONNXGATHER_ONNXRUNTIME_PROVIDER_ABI_H

#include "onnxruntime_abi.h"

#include <stdbool.h>

typedef struct OrtEpApi {
    void(ORT_CALL *functions[42])(void);
} OrtEpApi;

typedef struct OrtEpDevice OrtEpDevice;
typedef struct OrtHardwareDevice OrtHardwareDevice;
typedef struct OrtKeyValuePairs OrtKeyValuePairs;
typedef struct OrtLogger OrtLogger;
typedef struct OrtGraph OrtGraph;
typedef struct OrtNode OrtNode;
typedef struct OrtValueInfo OrtValueInfo;
typedef struct OrtEpGraphSupportInfo OrtEpGraphSupportInfo;
typedef struct OrtKernelRegistry OrtKernelRegistry;
typedef struct OrtKernelDefBuilder OrtKernelDefBuilder;
typedef struct OrtKernelDef OrtKernelDef;
typedef struct OrtDataType OrtDataType;
typedef struct OrtEp OrtEp;
typedef struct OrtEpFactory OrtEpFactory;
typedef struct OrtKernelImpl OrtKernelImpl;

/* How ONNX Runtime writes the path of a file. */
#ifdef _WIN32
typedef wchar_t ort_path;
#define ORT_PATH(path) L##path
#else
typedef char ort_path;
#define ORT_PATH(path) path
#endif

#define ORT_WARNING 2 /* of OrtLoggingLevel */
#define ORT_CPU 0     /* of OrtHardwareDeviceType */

/* Types of elements beside those of DirectML. */
enum {
    ORT_BOOL = 9,
    ORT_BFLOAT16 = 16,
    ORT_FLOAT8E4M3FN = 17,
    ORT_FLOAT8E4M3FNUZ = 18,
    ORT_FLOAT8E5M2 = 19,
    ORT_FLOAT8E5M2FNUZ = 20,
};

ORT_FUNCTION(61, OrtStatus *, GetDimensionsCount, const OrtTensorInfo *info, size_t *count)
ORT_FUNCTION(62, OrtStatus *, GetDimensions, const OrtTensorInfo *info, int64_t *sizes,
             size_t count)
ORT_FUNCTION(233, OrtStatus *, KernelInfo_GetOutputName, const OrtKernelInfo *info, size_t index,
             char *name, size_t *size)
ORT_FUNCTION(238, OrtStatus *, GetSessionConfigEntry, const OrtSessionOptions *options,
             const char *key, char *value, size_t *size)
ORT_FUNCTION(247, OrtStatus *, Logger_LogMessage, const OrtLogger *logger, int level,
             const char *message, const ort_path *file, int line, const char *function)
ORT_FUNCTION(290, OrtStatus *, GetValueInfoTypeInfo, const OrtValueInfo *value,
             const OrtTypeInfo **type)
ORT_FUNCTION(295, void, CreateKeyValuePairs, OrtKeyValuePairs **made)
ORT_FUNCTION(300, void, ReleaseKeyValuePairs, OrtKeyValuePairs *pairs)
ORT_FUNCTION(307, int, HardwareDevice_Type, const OrtHardwareDevice *device)
ORT_FUNCTION(317, const OrtEpApi *, GetEpApi, void)
ORT_FUNCTION(323, OrtStatus *, ValueInfo_GetValueProducer, const OrtValueInfo *value,
             const OrtNode **node, size_t *index)
ORT_FUNCTION(333, OrtStatus *, Graph_GetName, const OrtGraph *graph, const char **name)
ORT_FUNCTION(344, OrtStatus *, Graph_GetNumNodes, const OrtGraph *graph, size_t *count)
ORT_FUNCTION(345, OrtStatus *, Graph_GetNodes, const OrtGraph *graph, const OrtNode **nodes,
             size_t count)
ORT_FUNCTION(346, OrtStatus *, Graph_GetParentNode, const OrtGraph *graph, const OrtNode **node)
ORT_FUNCTION(350, OrtStatus *, Node_GetOperatorType, const OrtNode *node, const char **type)
ORT_FUNCTION(351, OrtStatus *, Node_GetDomain, const OrtNode *node, const char **domain)
ORT_FUNCTION(353, OrtStatus *, Node_GetNumInputs, const OrtNode *node, size_t *count)
ORT_FUNCTION(354, OrtStatus *, Node_GetInputs, const OrtNode *node, const OrtValueInfo **values,
             size_t count)
ORT_FUNCTION(356, OrtStatus *, Node_GetOutputs, const OrtNode *node, const OrtValueInfo **values,
             size_t count)
ORT_FUNCTION(390, bool, TensorTypeAndShape_HasShape, const OrtTensorInfo *info)

/* A test defines this to see which functions of OrtEpApi it reaches. */
#ifndef ORT_EP_CALLED
#define ORT_EP_CALLED(number) ((void)0)
#endif

/* ORT_EP(api, Name)(arguments) calls a function of OrtEpApi. */
#define ORT_EP(api, name)                                                                          \
    (ORT_EP_CALLED(OrtEp##name), (OrtEp##name##Function)(api)->functions[OrtEp##name])
#define ORT_EP_FUNCTION(number, result, name, ...)                                                 \
    enum { OrtEp##name = number };                                                                 \
    typedef result(ORT_CALL *OrtEp##name##Function)(__VA_ARGS__);

ORT_EP_FUNCTION(0, OrtStatus *, CreateEpDevice, OrtEpFactory *factory,
                const OrtHardwareDevice *device, const OrtKeyValuePairs *metadata,
                const OrtKeyValuePairs *options, OrtEpDevice **made)
ORT_EP_FUNCTION(3, OrtStatus *, AddSingleNode, OrtEpGraphSupportInfo *info, const OrtNode *node)
ORT_EP_FUNCTION(18, OrtStatus *, CreateKernelRegistry, OrtKernelRegistry **made)
ORT_EP_FUNCTION(19, void, ReleaseKernelRegistry, OrtKernelRegistry *registry)
ORT_EP_FUNCTION(20, OrtStatus *, AddKernel, OrtKernelRegistry *registry,
                const OrtKernelDef *definition,
                OrtStatus *(ORT_CALL *create)(void *, const OrtKernelInfo *, OrtKernelImpl **),
                void *state)
ORT_EP_FUNCTION(21, OrtStatus *, CreateKernelDefBuilder, OrtKernelDefBuilder **made)
ORT_EP_FUNCTION(22, void, ReleaseKernelDefBuilder, OrtKernelDefBuilder *builder)
ORT_EP_FUNCTION(23, OrtStatus *, SetOperatorType, OrtKernelDefBuilder *builder, const char *type)
ORT_EP_FUNCTION(24, OrtStatus *, SetDomain, OrtKernelDefBuilder *builder, const char *domain)
ORT_EP_FUNCTION(25, OrtStatus *, SetSinceVersion, OrtKernelDefBuilder *builder, int first, int last)
ORT_EP_FUNCTION(26, OrtStatus *, SetExecutionProvider, OrtKernelDefBuilder *builder,
                const char *name)
ORT_EP_FUNCTION(29, OrtStatus *, AddTypeConstraint, OrtKernelDefBuilder *builder, const char *name,
                const OrtDataType *const *types, size_t count)
ORT_EP_FUNCTION(32, OrtStatus *, Build, OrtKernelDefBuilder *builder, OrtKernelDef **made)
ORT_EP_FUNCTION(33, void, ReleaseKernelDef, OrtKernelDef *definition)
ORT_EP_FUNCTION(40, OrtStatus *, GetTensorDataType, int type, const OrtDataType **made)
ORT_EP_FUNCTION(41, OrtStatus *, LookUpKernel, OrtEpGraphSupportInfo *info, const OrtNode *node,
                const OrtKernelDef **definition)

/* A kernel of a node; ONNX Runtime calls none of the functions that are unused. */
struct OrtKernelImpl {
    uint32_t version, flags;
    OrtStatus *(ORT_CALL *Compute)(OrtKernelImpl *self, OrtKernelContext *context);
    void(ORT_CALL *Release)(OrtKernelImpl *self);
    void(ORT_CALL *unused_weights[2])(void);
};

/* A provider of one session. */
struct OrtEp {
    uint32_t version;
    const char *(ORT_CALL *GetName)(const OrtEp *self);
    OrtStatus *(ORT_CALL *GetCapability)(OrtEp *self, const OrtGraph *graph,
                                         OrtEpGraphSupportInfo *info);
    void(ORT_CALL *unused_compiling[10])(void);
    OrtStatus *(ORT_CALL *GetKernelRegistry)(OrtEp *self, const OrtKernelRegistry **registry);
    void(ORT_CALL *unused_concurrency)(void); /* NULL: runs may be concurrent */
};

/* What makes providers. */
struct OrtEpFactory {
    uint32_t version;
    const char *(ORT_CALL *GetName)(const OrtEpFactory *self);
    const char *(ORT_CALL *GetVendor)(const OrtEpFactory *self);
    OrtStatus *(ORT_CALL *GetSupportedDevices)(OrtEpFactory *self,
                                               const OrtHardwareDevice *const *devices,
                                               size_t count, OrtEpDevice **made, size_t most,
                                               size_t *made_count);
    OrtStatus *(ORT_CALL *CreateEp)(OrtEpFactory *self, const OrtHardwareDevice *const *devices,
                                    const OrtKeyValuePairs *const *metadata, size_t count,
                                    const OrtSessionOptions *options, const OrtLogger *logger,
                                    OrtEp **made);
    void(ORT_CALL *ReleaseEp)(OrtEpFactory *self, OrtEp *provider);
    uint32_t(ORT_CALL *GetVendorId)(const OrtEpFactory *self);
    const char *(ORT_CALL *GetVersion)(const OrtEpFactory *self);
    void(ORT_CALL *unused_validation)(void);
    OrtStatus *(ORT_CALL *CreateAllocator)(OrtEpFactory *self, const void *info,
                                           const OrtKeyValuePairs *options, void **made);
    void(ORT_CALL *ReleaseAllocator)(OrtEpFactory *self, void *allocator);
    OrtStatus *(ORT_CALL *CreateDataTransfer)(OrtEpFactory *self, void **made);
    bool(ORT_CALL *IsStreamAware)(const OrtEpFactory *self);
    void(ORT_CALL *unused_streams[5])(void);
};

/* The structures as ONNX Runtime 1.24 has them. Each says that version, so a later one reads no
   more of it. */
_Static_assert(sizeof(OrtKernelImpl) == 8 + 4 * sizeof(void *), "the layout of OrtKernelImpl");
_Static_assert(offsetof(OrtEp, GetKernelRegistry) == 13 * sizeof(void *), "the layout of OrtEp");
_Static_assert(sizeof(OrtEp) == 15 * sizeof(void *), "the size of OrtEp");
_Static_assert(offsetof(OrtEpFactory, IsStreamAware) == 12 * sizeof(void *),
               "the layout of OrtEpFactory");
_Static_assert(sizeof(OrtEpFactory) == 18 * sizeof(void *), "the size of OrtEpFactory");

#endif
