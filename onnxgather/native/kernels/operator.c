/* The gathers as custom operators of ONNX Runtime: a library that any session can register.

   All names run the same kernel; docs/native.md says why there are several. The attributes of a
   node are the numbers of onnxgather/core/loops.py. They may come from a hostile model, so they are
   checked when the kernel is made, and the tensors before each run. */
#include "onnxruntime_calls.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 600 /* for a message */

struct kernel {
    const OrtApi *api;
    struct gather gather;
    int types[2]; /* of InputTensor, which is OutputTensor's too, and IndicesTensor */
    int64_t output_shape[GATHER_MOST_LOOPS];
    size_t output_rank;
    size_t parts;
};

/* --- The attributes ------------------------------------------------------------------------- */

/* Lists of one group have as many numbers as the first of them. */
enum group { LOOPS, AXES, INDICES, SHAPE, COUNTS, ONE, GROUPS };

static const struct attribute {
    const char *name;
    enum group group;
    size_t offset; /* in struct kernel */
} attributes[] = {
#define NUMBERS(group, name) {#name, group, offsetof(struct kernel, gather.name)}
    NUMBERS(LOOPS, sizes),
    NUMBERS(LOOPS, data_strides),
    NUMBERS(LOOPS, index_strides),
    NUMBERS(LOOPS, output_strides),
    NUMBERS(AXES, axis_sizes),
    NUMBERS(AXES, axis_strides),
    NUMBERS(INDICES, indices_sizes),
    NUMBERS(INDICES, indices_strides),
    NUMBERS(ONE, tuple_stride),
    NUMBERS(ONE, reachable_count),
    {"counts", COUNTS, offsetof(struct kernel, gather.data_count)},
    {"output_shape", SHAPE, offsetof(struct kernel, output_shape)},
};
#define ATTRIBUTES (sizeof attributes / sizeof *attributes)
_Static_assert(offsetof(struct gather, output_count) ==
                   offsetof(struct gather, data_count) + 2 * sizeof(int64_t),
               "the three counts follow one another");

/* Write the end of the sentence about an attribute that breaks a rule: what it holds. */
static void show(const char *rule, const int64_t *values, size_t count, char *why) {
    size_t used = (size_t)snprintf(why, ROOM, "%s, got", rule);
    for (size_t k = 0; k < count && used < ROOM; k++)
        used += (size_t)snprintf(why + used, ROOM - used, k ? ", %" PRId64 : " %" PRId64,
                                 values[k]);
}

/* The rule that the shape of the output breaks, or NULL. */
static const char *check_shape(const struct kernel *kernel) {
    uint64_t left = kernel->gather.output_count;
    for (size_t k = 0; k < kernel->output_rank; k++) {
        const uint64_t size = (uint64_t)kernel->output_shape[k];
        left = size && left % size == 0 ? left / size : 0;
    }
    return left == 1 ? NULL : "output_shape must hold as many elements as counts says";
}

/* Read the attributes. False if they are no gather; then why says which rule they break. */
static int read_attributes(const OrtApi *api, const OrtKernelInfo *info, struct kernel *kernel,
                           char *why) {
    struct gather *gather = &kernel->gather;
    size_t lengths[GROUPS] = {[COUNTS] = 3, [ONE] = 1};
    int64_t values[GATHER_MOST_LOOPS];
    char policy[16] = "";
    size_t count = sizeof policy;
    const char *broken;

    if (!succeeds(api, ORT(api, KernelInfoGetAttribute_string)(info, "policy", policy, &count)))
        *policy = 0;
    gather->policy = gather_policy_of(policy);
    if (gather->policy == GATHER_POLICIES) {
        snprintf(why, ROOM, "policy must be clamp, error, zero or directml, got '%s'", policy);
        return 0;
    }
    for (const struct attribute *a = attributes; a < attributes + ATTRIBUTES; a++) {
        size_t *length = &lengths[a->group];
        int there;
        count = a->group == ONE ? 1 : GATHER_MOST_LOOPS;
        if (a->group == ONE)
            there = succeeds(api, ORT(api, KernelInfoGetAttribute_int64)(info, a->name, values));
        else /* which fails if there are more than count */
            there = succeeds(
                api, ORT(api, KernelInfoGetAttributeArray_int64)(info, a->name, values, &count));
        if (!there || !count || (*length && count != *length)) {
            if (*length)
                snprintf(why, ROOM, "%s must be %zu integer%s", a->name, *length,
                         *length > 1 ? "s" : "");
            else snprintf(why, ROOM, "%s must be 1 to %d integers", a->name, GATHER_MOST_LOOPS);
            return 0;
        }
        *length = count;
        memcpy((char *)kernel + a->offset, values, count * sizeof *values);
    }
    gather->loop_count = (uint32_t)lengths[LOOPS];
    gather->tuple_size = (uint32_t)lengths[AXES];
    gather->indices_rank = (uint32_t)lengths[INDICES];
    kernel->output_rank = lengths[SHAPE];

    broken = gather_check(gather);
    if (!broken) broken = check_shape(kernel);
    if (!broken) return 1;
    for (const struct attribute *a = attributes; a < attributes + ATTRIBUTES; a++)
        if (!strncmp(broken, a->name, strlen(a->name)) && broken[strlen(a->name)] == ' ') {
            memcpy(values, (char *)kernel + a->offset, lengths[a->group] * sizeof *values);
            show(broken, values, lengths[a->group], why);
        }
    return 0;
}

/* --- The kernel ----------------------------------------------------------------------------- */

/* The data types of DirectML, by their numbers in ONNX Runtime. */
static const struct type {
    const char *name;
    uint32_t size;
} types[] = {
    [ORT_FLOAT32] = {"FLOAT32", 4}, [ORT_UINT8] = {"UINT8", 1},     [ORT_INT8] = {"INT8", 1},
    [ORT_UINT16] = {"UINT16", 2},   [ORT_INT16] = {"INT16", 2},     [ORT_INT32] = {"INT32", 4},
    [ORT_INT64] = {"INT64", 8},     [ORT_FLOAT16] = {"FLOAT16", 2}, [ORT_FLOAT64] = {"FLOAT64", 8},
    [ORT_UINT32] = {"UINT32", 4},   [ORT_UINT64] = {"UINT64", 8},
};
#define TYPES ((int)(sizeof types / sizeof *types))

/* The type of a number; one without a size if it is none of DirectML's. */
static struct type type_of(int number) {
    if (number > 0 && number < TYPES && types[number].name) return types[number];
    return (struct type){"another type", 0};
}

/* The types of indices, in the order of enum gather_index_type. */
static const int index_types[] = {ORT_UINT32, ORT_UINT64, ORT_INT32, ORT_INT64};
#define INDEX_TYPES (sizeof index_types / sizeof *index_types)

static OrtStatus *input_type(const OrtApi *api, const OrtKernelInfo *info, size_t index,
                             int *type) {
    OrtTypeInfo *owned;
    const OrtTensorInfo *tensor;
    OrtStatus *status;
    *type = 0;
    TRY(ORT(api, KernelInfo_GetInputTypeInfo)(info, index, &owned));
    status = ORT(api, CastTypeInfoToTensorInfo)(owned, &tensor);
    if (!status && tensor) status = ORT(api, GetTensorElementType)(tensor, type);
    ORT(api, ReleaseTypeInfo)(owned);
    return status;
}

static OrtStatus *ORT_CALL create_kernel(const OrtCustomOp *op, const OrtApi *api,
                                         const OrtKernelInfo *info, void **made) {
    struct kernel kernel = {.api = api};
    char name[100] = "", why[ROOM];
    size_t room = sizeof name;
    uint32_t type = 0;
    TRY(input_type(api, info, 0, &kernel.types[0]));
    TRY(input_type(api, info, 1, &kernel.types[1]));
    kernel.gather.element_size = type_of(kernel.types[0]).size;
    while (type < INDEX_TYPES && index_types[type] != kernel.types[1]) type++;
    kernel.gather.index_type = type;
    if (!kernel.gather.element_size)
        snprintf(why, ROOM, "InputTensor must have a data type of DirectML");
    else if (type == INDEX_TYPES)
        snprintf(why, ROOM, "IndicesTensor must be UINT32, UINT64, INT32 or INT64");
    else if (read_attributes(api, info, &kernel, why)) {
        kernel.parts = parts_on_cores(&kernel.gather, cores_for_parts());
        *made = malloc(sizeof kernel);
        if (!*made) return refuse(api, "no memory for a gather");
        memcpy(*made, &kernel, sizeof kernel);
        return NULL;
    }
    if (!succeeds(api, ORT(api, KernelInfo_GetNodeName)(info, name, &room))) *name = 0;
    return refuse(api, "%s '%s': %s", op->GetName(op), name, why);
}

static void ORT_CALL destroy_kernel(void *kernel) {
    free(kernel);
}

/* Find the memory of a tensor, which must have this type and so many elements. */
static OrtStatus *memory_of(const OrtApi *api, const OrtValue *value, const char *name, int type,
                            uint64_t count, void **data) {
    const int64_t *shape;
    uint64_t elements = 1;
    size_t rank;
    int found;
    if (!value) return refuse(api, "a gather must have two tensors");
    TRY(ORT(api, GetTensorElementTypeAndShapeDataReference)(value, &found, &shape, &rank));
    for (size_t k = 0; k < rank; k++) elements *= (uint64_t)shape[k]; /* of a tensor in memory */
    if (found == type && elements == count)
        return ORT(api, GetTensorMutableData)((OrtValue *)value, data);
    return refuse(api, "%s must have %" PRIu64 " elements of %s, got %" PRIu64 " of %s", name,
                  count, type_of(type).name, elements, type_of(found).name);
}

static OrtStatus *ORT_CALL compute(void *state, OrtKernelContext *context) {
    const struct kernel *kernel = state;
    const struct gather *gather = &kernel->gather;
    const OrtApi *api = kernel->api;
    struct run run = {.gather = gather};
    enum gather_end end;
    const OrtValue *data, *indices;
    OrtValue *output;
    TRY(ORT(api, KernelContext_GetInput)(context, 0, &data));
    TRY(ORT(api, KernelContext_GetInput)(context, 1, &indices));
    TRY(memory_of(api, data, "InputTensor", kernel->types[0], gather->data_count, &run.data));
    TRY(memory_of(api, indices, "IndicesTensor", kernel->types[1], gather->index_count,
                  &run.indices));
    TRY(ORT(api, KernelContext_GetOutput)(context, 0, kernel->output_shape, kernel->output_rank,
                                          &output));
    TRY(memory_of(api, output, "OutputTensor", kernel->types[0], gather->output_count,
                  &run.output));
    gather_clear(gather, run.output);
    TRY(run_parts(api, context, &run, kernel->parts, &end));
    if (end != GATHER_STOPPED) return NULL;
    char first[ROOM];
    gather_first_outside(gather, run.indices, first, ROOM);
    return refuse(api, "%s", first);
}

/* --- The operators -------------------------------------------------------------------------- */

static _Atomic(const OrtApi *) shared_api; /* of the one ONNX Runtime that this library serves */

/* The output has the type of InputTensor and the shape that the node says. Whatever is wrong is
   refused when the kernel is made, as ONNX Runtime ignores what is returned here. */
static OrtStatus *ORT_CALL infer(const OrtCustomOp *op, OrtInference *context) {
    const OrtApi *api = atomic_load(&shared_api);
    const OrtOpAttr *attribute;
    OrtTensorInfo *input, *output;
    int64_t shape[GATHER_MOST_LOOPS];
    size_t size = 0, rank;
    int type;
    (void)op;
    if (!succeeds(api, ORT(api, ShapeInferContext_GetInputTypeShape)(context, 0, &input)) ||
        !succeeds(api, ORT(api, GetTensorElementType)(input, &type)) ||
        !succeeds(api, ORT(api, CreateTensorTypeAndShapeInfo)(&output)))
        return NULL;
    if (!succeeds(api,
                  ORT(api, ShapeInferContext_GetAttribute)(context, "output_shape", &attribute)) ||
        !succeeds(api,
                  ORT(api, ReadOpAttr)(attribute, ORT_OP_ATTR_INTS, shape, sizeof shape, &size)))
        size = 0; /* on failure it may be the room that is needed */
    rank = size / sizeof *shape;
    for (size_t k = 0; k < rank; k++)
        if (shape[k] < 1) rank = 0;
    if (succeeds(api, ORT(api, SetTensorElementType)(output, type)) &&
        succeeds(api, ORT(api, SetDimensions)(output, shape, rank)))
        succeeds(api, ORT(api, ShapeInferContext_SetOutputTypeShape)(context, 0, output));
    ORT(api, ReleaseTensorTypeAndShapeInfo)(output);
    return NULL;
}

struct operator {
    OrtCustomOp definition; /* first, so that a pointer to it is one to the whole */
    const char *name;
};

static const char *ORT_CALL name_of(const OrtCustomOp *op) {
    return ((const struct operator *)op)->name;
}
static const char *ORT_CALL provider_name(const OrtCustomOp *op) {
    (void)op;
    return "CPUExecutionProvider";
}
static size_t ORT_CALL input_count(const OrtCustomOp *op) {
    (void)op;
    return 2;
}
static size_t ORT_CALL output_count(const OrtCustomOp *op) {
    (void)op;
    return 1;
}
/* Of an input or output: 0 leaves its type open, says that it must be there, and that it lies in
   the memory of the provider. */
static int ORT_CALL zero(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return 0;
}
static int ORT_CALL operator_version(const OrtCustomOp *op) {
    (void)op;
    return 1;
}

#define OPERATOR(called)                                                                           \
    {{                                                                                             \
         .version = ORT_API_VERSION,                                                               \
         .GetName = name_of,                                                                       \
         .GetExecutionProviderType = provider_name,                                                \
         .GetInputType = zero,                                                                     \
         .GetInputTypeCount = input_count,                                                         \
         .GetOutputType = zero,                                                                    \
         .GetOutputTypeCount = output_count,                                                       \
         .KernelDestroy = destroy_kernel,                                                          \
         .GetInputCharacteristic = zero,                                                           \
         .GetOutputCharacteristic = zero,                                                          \
         .GetInputMemoryType = zero,                                                               \
         .CreateKernelV2 = create_kernel,                                                          \
         .KernelComputeV2 = compute,                                                               \
         .InferOutputShapeFn = infer,                                                              \
         .GetStartVersion = operator_version,                                                      \
         .GetEndVersion = operator_version,                                                        \
     },                                                                                            \
     called}
#define OPERATORS(name)                                                                            \
    OPERATOR(name), OPERATOR(name "_2"), OPERATOR(name "_3"), OPERATOR(name "_4"),                 \
        OPERATOR(name "_5"), OPERATOR(name "_6"), OPERATOR(name "_7"), OPERATOR(name "_8")

static const struct operator operators[] = {OPERATORS("GATHER"), OPERATORS("GATHER_ELEMENTS"),
                                            OPERATORS("GATHER_ND"), OPERATORS("GATHER_ND1")};

/* What ONNX Runtime calls for SessionOptions.register_custom_ops_library. */
ORT_EXPORT OrtStatus *ORT_CALL RegisterCustomOps(OrtSessionOptions *options,
                                                 const OrtApiBase *base);
ORT_EXPORT OrtStatus *ORT_CALL RegisterCustomOps(OrtSessionOptions *options,
                                                 const OrtApiBase *base) {
    static _Atomic(OrtCustomOpDomain *) shared; /* sessions use it as long as the process runs */
    const OrtApi *api = base->GetApi(ORT_API_VERSION), *first = NULL;
    OrtCustomOpDomain *domain = atomic_load(&shared), *none = NULL;
    if (!api)
        return refuse(base->GetApi(1),
                      "the operators of onnxgather need ONNX Runtime 1.%d, got %.50s",
                      ORT_API_VERSION, base->GetVersionString());
    if (!atomic_compare_exchange_strong(&shared_api, &first, api) && first != api)
        return refuse(api, "another ONNX Runtime of this process has onnxgather's operators");
    if (!domain) {
        TRY(ORT(api, CreateCustomOpDomain)("org.onnxgather", &domain));
        for (size_t k = 0; k < sizeof operators / sizeof *operators; k++)
            TRY(ORT(api, CustomOpDomain_Add)(domain, &operators[k].definition));
        /* One that another thread made at the same time is as good; then this one is not used. */
        if (!atomic_compare_exchange_strong(&shared, &none, domain)) domain = none;
    }
    return ORT(api, AddCustomOpDomain)(options, domain);
}
