/* What the operator needs of ONNX Runtime's C API, declared by hand.

   Why not Microsoft's onnxruntime_c_api.h: no wheel has it, so it would have to be copied here,
   with the headers that it includes. Its licence (MIT) allows that. But it declares more than 400
   functions where the operator calls 26, a copy is of one version while the library serves every
   version from 1.24 on, and the compiler cannot see that a copy and the runtime agree. What keeps
   these lines right is a test that calls each of the 26 functions in a real runtime
   (tests/native/test_operator.py, TestABI). A copy is the better choice once the operator needs
   many more of them.

   ONNX Runtime gives its functions as a table, to which each version only adds. So a function is
   known by its number there, which never changes. All functions below return NULL, or a status that
   must be released; ReleaseX return nothing. */
#ifndef ONNXGATHER_ONNXRUNTIME_ABI_H
#define ONNXGATHER_ONNXRUNTIME_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef _WIN32
#define ORT_CALL __stdcall
#define ORT_EXPORT __declspec(dllexport)
#else
#define ORT_CALL
#define ORT_EXPORT __attribute__((visibility("default")))
#endif

#define ORT_API_VERSION 24 /* of ONNX Runtime 1.24, the first with all of these functions */
#define ORT_INVALID_ARGUMENT 2
#define ORT_OP_ATTR_INTS 2

typedef struct OrtStatus OrtStatus;
typedef struct OrtValue OrtValue;
typedef struct OrtTypeInfo OrtTypeInfo;
typedef struct OrtTensorInfo OrtTensorInfo; /* there OrtTensorTypeAndShapeInfo */
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtInference OrtInference; /* there OrtShapeInferContext */
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtCustomOp OrtCustomOp;

typedef struct OrtApi {
    void(ORT_CALL *functions[415])(void);
} OrtApi;

typedef struct OrtApiBase {
    const OrtApi *(ORT_CALL *GetApi)(uint32_t version); /* NULL if the runtime is older */
    const char *(ORT_CALL *GetVersionString)(void);
} OrtApiBase;

/* ONNXTensorElementDataType, in the order of ONNX's TensorProto.DataType. */
enum {
    ORT_FLOAT32 = 1,
    ORT_UINT8 = 2,
    ORT_INT8 = 3,
    ORT_UINT16 = 4,
    ORT_INT16 = 5,
    ORT_INT32 = 6,
    ORT_INT64 = 7,
    ORT_FLOAT16 = 10,
    ORT_FLOAT64 = 11,
    ORT_UINT32 = 12,
    ORT_UINT64 = 13,
};

/* A test defines this to see which functions it reaches. */
#ifndef ORT_CALLED
#define ORT_CALLED(number) ((void)0)
#endif

/* ORT(api, Name)(arguments) calls a function. */
#define ORT(api, name) (ORT_CALLED(Ort##name), (Ort##name##Function)(api)->functions[Ort##name])
#define ORT_FUNCTION(number, result, name, ...)                                                    \
    enum { Ort##name = number };                                                                   \
    typedef result(ORT_CALL *Ort##name##Function)(__VA_ARGS__);

ORT_FUNCTION(0, OrtStatus *, CreateStatus, int code, const char *message)
ORT_FUNCTION(26, OrtStatus *, CreateCustomOpDomain, const char *name, OrtCustomOpDomain **made)
ORT_FUNCTION(27, OrtStatus *, CustomOpDomain_Add, OrtCustomOpDomain *domain, const OrtCustomOp *op)
ORT_FUNCTION(28, OrtStatus *, AddCustomOpDomain, OrtSessionOptions *options,
             OrtCustomOpDomain *domain)
ORT_FUNCTION(51, OrtStatus *, GetTensorMutableData, OrtValue *value, void **data)
ORT_FUNCTION(55, OrtStatus *, CastTypeInfoToTensorInfo, const OrtTypeInfo *type,
             const OrtTensorInfo **tensor)
ORT_FUNCTION(57, OrtStatus *, CreateTensorTypeAndShapeInfo, OrtTensorInfo **made)
ORT_FUNCTION(58, OrtStatus *, SetTensorElementType, OrtTensorInfo *info, int type)
ORT_FUNCTION(59, OrtStatus *, SetDimensions, OrtTensorInfo *info, const int64_t *shape, size_t rank)
ORT_FUNCTION(60, OrtStatus *, GetTensorElementType, const OrtTensorInfo *info, int *type)
ORT_FUNCTION(86, OrtStatus *, KernelInfoGetAttribute_int64, const OrtKernelInfo *info,
             const char *name, int64_t *value)
ORT_FUNCTION(87, OrtStatus *, KernelInfoGetAttribute_string, const OrtKernelInfo *info,
             const char *name, char *value, size_t *size)
ORT_FUNCTION(90, OrtStatus *, KernelContext_GetInput, const OrtKernelContext *context, size_t index,
             const OrtValue **value)
ORT_FUNCTION(91, OrtStatus *, KernelContext_GetOutput, OrtKernelContext *context, size_t index,
             const int64_t *shape, size_t rank, OrtValue **value)
ORT_FUNCTION(93, void, ReleaseStatus, OrtStatus *status)
ORT_FUNCTION(98, void, ReleaseTypeInfo, OrtTypeInfo *type)
ORT_FUNCTION(99, void, ReleaseTensorTypeAndShapeInfo, OrtTensorInfo *info)
ORT_FUNCTION(163, OrtStatus *, KernelInfoGetAttributeArray_int64, const OrtKernelInfo *info,
             const char *name, int64_t *values, size_t *size)
ORT_FUNCTION(234, OrtStatus *, KernelInfo_GetInputTypeInfo, const OrtKernelInfo *info, size_t index,
             OrtTypeInfo **type)
ORT_FUNCTION(244, OrtStatus *, KernelInfo_GetNodeName, const OrtKernelInfo *info, char *name,
             size_t *size)
ORT_FUNCTION(268, OrtStatus *, ShapeInferContext_GetInputTypeShape, const OrtInference *context,
             size_t index, OrtTensorInfo **info)
ORT_FUNCTION(269, OrtStatus *, ShapeInferContext_GetAttribute, const OrtInference *context,
             const char *name, const OrtOpAttr **attribute)
ORT_FUNCTION(270, OrtStatus *, ShapeInferContext_SetOutputTypeShape, const OrtInference *context,
             size_t index, const OrtTensorInfo *info)
ORT_FUNCTION(272, OrtStatus *, ReadOpAttr, const OrtOpAttr *attribute, int type, void *values,
             size_t room, size_t *size)
ORT_FUNCTION(274, OrtStatus *, KernelContext_ParallelFor, const OrtKernelContext *context,
             void (*run)(void *, size_t), size_t total, size_t batches, void *state)
ORT_FUNCTION(414, OrtStatus *, GetTensorElementTypeAndShapeDataReference, const OrtValue *value,
             int *type, const int64_t **shape, size_t *rank)

/* What an operator tells of itself. ONNX Runtime calls none of the functions that are unused. */
struct OrtCustomOp {
    uint32_t version; /* of the API */
    void(ORT_CALL *unused_CreateKernel)(void);
    const char *(ORT_CALL *GetName)(const OrtCustomOp *op);
    const char *(ORT_CALL *GetExecutionProviderType)(const OrtCustomOp *op);
    int(ORT_CALL *GetInputType)(const OrtCustomOp *op, size_t index);
    size_t(ORT_CALL *GetInputTypeCount)(const OrtCustomOp *op);
    int(ORT_CALL *GetOutputType)(const OrtCustomOp *op, size_t index);
    size_t(ORT_CALL *GetOutputTypeCount)(const OrtCustomOp *op);
    void(ORT_CALL *unused_KernelCompute)(void);
    void(ORT_CALL *KernelDestroy)(void *kernel);
    int(ORT_CALL *GetInputCharacteristic)(const OrtCustomOp *op, size_t index);
    int(ORT_CALL *GetOutputCharacteristic)(const OrtCustomOp *op, size_t index);
    int(ORT_CALL *GetInputMemoryType)(const OrtCustomOp *op, size_t index);
    void(ORT_CALL *unused_variadic[4])(void);
    OrtStatus *(ORT_CALL *CreateKernelV2)(const OrtCustomOp *op, const OrtApi *api,
                                          const OrtKernelInfo *info, void **kernel);
    OrtStatus *(ORT_CALL *KernelComputeV2)(void *kernel, OrtKernelContext *context);
    OrtStatus *(ORT_CALL *InferOutputShapeFn)(const OrtCustomOp *op, OrtInference *context);
    int(ORT_CALL *GetStartVersion)(const OrtCustomOp *op);
    int(ORT_CALL *GetEndVersion)(const OrtCustomOp *op);
    void(ORT_CALL *unused_aliases[4])(void);
};

_Static_assert(sizeof(OrtCustomOp) == 26 * sizeof(void *), "the layout of OrtCustomOp");

#endif
