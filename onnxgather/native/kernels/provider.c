/* An execution provider of ONNX Runtime that runs nothing but gathers: those of ONNX, in any model,
   each with one rule for an index out of range, and with a report of what it met.

   ONNX Runtime makes a factory once, and a provider for each session. In `capability` a provider
   takes nodes of the session's graphs; `create_kernel` makes a kernel for each; `compute` runs it.
   The tensors lie in the memory of the CPU provider, so there is no allocator, and nothing is
   copied between the two. */
#include "onnx_node.h"
#include "onnxruntime_calls.h"
#include "onnxruntime_provider_abi.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "OnnxGatherExecutionProvider"
#define OPTION "ep.onnxgatherexecutionprovider." /* before the name of an option of a session */

struct factory {
    OrtEpFactory base; /* first, so that a pointer to it is one to the whole */
    const OrtApi *api;
    const OrtEpApi *ep_api;
};

/* What create_kernel is given. */
struct creator {
    const struct provider *provider;
    enum onnx_operator op;
};

struct provider {
    OrtEp base;
    const struct factory *factory;
    const OrtLogger *logger;
    OrtKernelRegistry *registry;
    struct creator creators[ONNX_OPERATORS];
    char *model; /* the name of the main graph */
    enum gather_policy policy;
    int warns;
};

struct kernel {
    OrtKernelImpl base;
    const struct provider *provider;
    const OrtApi *api;
    struct row *row;
    char *name;            /* of the node, or of its first output where the node has none */
    struct onnx_node node; /* without the shapes, which are those of a run */
    size_t cores;
};

/* --- Data types ------------------------------------------------------------------------------- */

/* The data types that the provider gathers, and the bytes of an element. */
static const struct type {
    int number;
    uint32_t size;
} types[] = {
    {ORT_FLOAT32, 4},        {ORT_UINT8, 1},        {ORT_INT8, 1},           {ORT_UINT16, 2},
    {ORT_INT16, 2},          {ORT_INT32, 4},        {ORT_INT64, 8},          {ORT_BOOL, 1},
    {ORT_FLOAT16, 2},        {ORT_FLOAT64, 8},      {ORT_UINT32, 4},         {ORT_UINT64, 8},
    {ORT_BFLOAT16, 2},       {ORT_FLOAT8E4M3FN, 1}, {ORT_FLOAT8E4M3FNUZ, 1}, {ORT_FLOAT8E5M2, 1},
    {ORT_FLOAT8E5M2FNUZ, 1},
};
#define TYPES (sizeof types / sizeof *types)

static uint32_t size_of(int number) {
    for (size_t k = 0; k < TYPES; k++)
        if (types[k].number == number) return types[k].size;
    return 0;
}

/* --- A run ------------------------------------------------------------------------------------ */

static OrtStatus *refuse_run(const struct kernel *kernel, const char *rule) {
    return refuse(kernel->api, "%s '%s': %s", onnx_operator_names[kernel->node.op], kernel->name,
                  rule);
}

static const char *attribute_of(enum onnx_operator op) {
    return op == ONNX_GATHER_ND ? "batch_dims" : "axis";
}

/* Write a shape, such as [2,3]. */
static void write_shape(struct shape shape, char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "[");
    for (size_t k = 0; k < shape.rank && used < room; k++) {
        const char *before = k ? "," : "";
        used += (size_t)snprintf(text + used, room - used, "%s%" PRId64, before, shape.sizes[k]);
    }
    if (used < room) snprintf(text + used, room - used, "]");
}

/* Refuse a run whose shapes break a rule. */
static OrtStatus *refuse_shapes(const struct kernel *kernel, const struct onnx_node *node,
                                const char *rule) {
    char data[ONNX_SENTENCE], indices[ONNX_SENTENCE], full[3 * ONNX_SENTENCE];
    write_shape(node->data, data, sizeof data);
    write_shape(node->indices, indices, sizeof indices);
    snprintf(full, sizeof full, "%s, got data %s, indices %s and %s %" PRId64, rule, data, indices,
             attribute_of(node->op), node->attribute);
    return refuse_run(kernel, full);
}

/* Write the sentence about the first index out of range into new memory; NULL without memory. */
static char *sentence_of(const struct kernel *kernel, const struct outside *outside) {
    char which[ONNX_SENTENCE];
    const char *op = onnx_operator_names[kernel->node.op];
    onnx_node_sentence(outside, which, sizeof which);
    const size_t room = strlen(op) + strlen(kernel->name) + strlen(which) + sizeof " '': ";
    char *sentence = malloc(room);
    if (sentence) snprintf(sentence, room, "%s '%s': %s", op, kernel->name, which);
    return sentence;
}

static void warn(const struct kernel *kernel, const char *sentence) {
    OrtStatus *status = ORT(kernel->api, Logger_LogMessage)(
        kernel->provider->logger, ORT_WARNING, sentence, ORT_PATH("provider.c"), __LINE__, "warn");
    succeeds(kernel->api, status);
}

/* Report a run, and its indices that are out of range. Under "error" the run fails if there are. */
static OrtStatus *report_indices(const struct kernel *kernel, const struct onnx_node *node,
                                 const struct run *run) {
    struct outside outside;
    onnx_node_outside(node, run->gather, run->indices, &outside);
    if (!outside.count) {
        report_run(kernel->row, run->gather->index_count);
        return NULL;
    }
    char *sentence = sentence_of(kernel, &outside);
    if (!sentence) return refuse(kernel->api, "no memory for a message");
    const int is_error = run->gather->policy == GATHER_ERROR;
    const int warns = kernel->provider->warns && !is_error;
    const int is_due = report_outside(kernel->row, run->gather->index_count, &outside, sentence,
                                      warns);
    OrtStatus *status = NULL;
    if (is_error) status = refuse(kernel->api, "%s", sentence);
    else if (is_due) warn(kernel, sentence);
    free(sentence);
    return status;
}

/* Run a gather that has no loops: no element is copied, but the indices may be out of range. */
static OrtStatus *run_empty(const struct kernel *kernel, const struct onnx_node *node,
                            const struct run *run) {
    /* Case: the data are empty, and the output is not. So each of its elements has an index out of
       range, and there is none to clamp it to. */
    const size_t bytes = run->gather->output_count * run->gather->element_size;
    if (bytes) memset(run->output, 0, bytes);
    return report_indices(kernel, node, run);
}

/* Run the loops of onnx_node.c, which stay inside the tensors. gather_check would take as long as a
   small gather; the sanitizers' harness asks it of random nodes (tests/native/fuzz_nodes.c). */
static OrtStatus *run_loops(const struct kernel *kernel, const struct onnx_node *node,
                            const struct run *run, OrtKernelContext *context) {
    enum gather_end end;
    const size_t parts = parts_on_cores(run->gather, kernel->cores);
    TRY(run_parts(kernel->api, context, run, parts, &end));
    if (end == GATHER_RAN) {
        report_run(kernel->row, run->gather->index_count);
        return NULL;
    }
    TRY(report_indices(kernel, node, run));
    /* Case: another thread has changed the indices meanwhile, so that none is out of range now. */
    if (end == GATHER_STOPPED) return refuse_run(kernel, "IndicesTensor must not change in a run");
    return NULL;
}

static OrtStatus *ORT_CALL compute(OrtKernelImpl *self, OrtKernelContext *context) {
    const struct kernel *kernel = (const struct kernel *)self;
    const OrtApi *api = kernel->api;
    const OrtValue *data, *indices;
    OrtValue *output;
    int type, index_type;
    struct onnx_node node = kernel->node;
    struct onnx_output shape;
    struct gather gather = {.policy = kernel->provider->policy};
    struct run run = {.gather = &gather};
    TRY(ORT(api, KernelContext_GetInput)(context, 0, &data));
    TRY(ORT(api, KernelContext_GetInput)(context, 1, &indices));
    TRY(ORT(api, GetTensorElementTypeAndShapeDataReference)(data, &type, &node.data.sizes,
                                                            &node.data.rank));
    TRY(ORT(api, GetTensorElementTypeAndShapeDataReference)(
        indices, &index_type, &node.indices.sizes, &node.indices.rank));
    gather.element_size = size_of(type);
    gather.index_type = index_type == ORT_INT32 ? GATHER_INT32 : GATHER_INT64;
    const char *broken = onnx_node_gather(&node, &gather, &shape);
    if (broken) return refuse_shapes(kernel, &node, broken);
    TRY(ORT(api, KernelContext_GetOutput)(context, 0, shape.sizes, shape.rank, &output));
    TRY(ORT(api, GetTensorMutableData)((OrtValue *)data, &run.data));
    TRY(ORT(api, GetTensorMutableData)((OrtValue *)indices, &run.indices));
    TRY(ORT(api, GetTensorMutableData)(output, &run.output));
    if (!gather.loop_count) return run_empty(kernel, &node, &run);
    return run_loops(kernel, &node, &run, context);
}

/* --- The kernel of a node --------------------------------------------------------------------- */

/* Read a name of a node, its own or that of its first output, with its end. Without a place for
   it only the bytes are counted. */
static OrtStatus *read_name(const OrtApi *api, const OrtKernelInfo *info, int is_output, char *name,
                            size_t *bytes) {
    if (is_output) return ORT(api, KernelInfo_GetOutputName)(info, 0, name, bytes);
    return ORT(api, KernelInfo_GetNodeName)(info, name, bytes);
}

/* Read a name into new memory. It is empty where there is none, and NULL without memory. */
static char *name_of(const OrtApi *api, const OrtKernelInfo *info, int is_output) {
    size_t bytes = 0;
    const int is_there = succeeds(api, read_name(api, info, is_output, NULL, &bytes));
    if (!is_there || !bytes) return calloc(1, 1);
    char *name = calloc(bytes, 1);
    if (name && !succeeds(api, read_name(api, info, is_output, name, &bytes))) *name = 0;
    return name;
}

/* The shape of a tensor as far as a model says it. */
struct known_shape {
    int has_rank, is_static;
    size_t rank;
    int64_t sizes[ONNX_MOST_RANK]; /* -1: open. Only where the rank is at most so much */
};

static OrtStatus *read_shape(const OrtApi *api, const OrtTypeInfo *type,
                             struct known_shape *shape) {
    const OrtTensorInfo *tensor;
    *shape = (struct known_shape){0};
    TRY(ORT(api, CastTypeInfoToTensorInfo)(type, &tensor));
    /* Case: a tensor of an unknown rank would seem to be a scalar. */
    if (!tensor || !ORT(api, TensorTypeAndShape_HasShape)(tensor)) return NULL;
    TRY(ORT(api, GetDimensionsCount)(tensor, &shape->rank));
    shape->has_rank = 1;
    if (shape->rank > ONNX_MOST_RANK) return NULL;
    TRY(ORT(api, GetDimensions)(tensor, shape->sizes, shape->rank));
    shape->is_static = 1;
    for (size_t k = 0; k < shape->rank; k++)
        if (shape->sizes[k] < 0) shape->is_static = 0;
    return NULL;
}

static int is_static(const OrtApi *api, const OrtKernelInfo *info, size_t index) {
    OrtTypeInfo *type;
    struct known_shape shape;
    if (!succeeds(api, ORT(api, KernelInfo_GetInputTypeInfo)(info, index, &type))) return 0;
    const int is_read = succeeds(api, read_shape(api, type, &shape));
    ORT(api, ReleaseTypeInfo)(type);
    return is_read && shape.is_static;
}

static void ORT_CALL release_kernel(OrtKernelImpl *self) {
    struct kernel *kernel = (struct kernel *)self;
    if (kernel->row) report_leave(kernel->row);
    free(kernel->name);
    free(kernel);
}

/* Find the row of a kernel, and the name that stands in it. */
static void name_kernel(struct kernel *kernel, const OrtKernelInfo *info) {
    const struct provider *provider = kernel->provider;
    char *output = name_of(kernel->api, info, 1);
    kernel->name = name_of(kernel->api, info, 0);
    if (output && kernel->name) {
        const struct row_names names = {
            .model = provider->model ? provider->model : "",
            .policy = gather_policy_names[provider->policy],
            .op = onnx_operator_names[kernel->node.op],
            .node = kernel->name,
            .output = output,
        };
        kernel->row = report_row(&names);
    }
    /* Case: the node has no name. */
    if (kernel->name && !*kernel->name) {
        free(kernel->name);
        kernel->name = output;
    } else {
        free(output);
    }
}

static OrtStatus *ORT_CALL create_kernel(void *state, const OrtKernelInfo *info,
                                         OrtKernelImpl **made) {
    const struct creator *creator = state;
    const struct provider *provider = creator->provider;
    const OrtApi *api = provider->factory->api;
    struct kernel *kernel = calloc(1, sizeof *kernel);
    if (!kernel) return refuse(api, "no memory for a gather");
    kernel->base.version = ORT_API_VERSION;
    kernel->base.Compute = compute;
    kernel->base.Release = release_kernel;
    kernel->provider = provider;
    kernel->api = api;
    kernel->cores = cores_for_parts();
    struct onnx_node *node = &kernel->node;
    node->op = creator->op;
    node->ones_repeat = is_static(api, info, 0) && is_static(api, info, 1);
    const char *attribute = attribute_of(node->op);
    /* Case: a node without the attribute has the default of ONNX. */
    if (!succeeds(api, ORT(api, KernelInfoGetAttribute_int64)(info, attribute, &node->attribute)))
        node->attribute = 0;
    name_kernel(kernel, info);
    if (!kernel->row) {
        release_kernel(&kernel->base);
        return refuse(api, "no memory for the report of a gather");
    }
    *made = &kernel->base;
    return NULL;
}

/* --- The kernels that there are --------------------------------------------------------------- */

static OrtStatus *describe_kernel(const OrtEpApi *api, enum onnx_operator op,
                                  OrtKernelDefBuilder *builder, OrtKernelDef **definition) {
    const OrtDataType *data_types[TYPES], *index_types[2];
    for (size_t k = 0; k < TYPES; k++)
        TRY(ORT_EP(api, GetTensorDataType)(types[k].number, &data_types[k]));
    TRY(ORT_EP(api, GetTensorDataType)(ORT_INT32, &index_types[0]));
    TRY(ORT_EP(api, GetTensorDataType)(ORT_INT64, &index_types[1]));
    TRY(ORT_EP(api, SetOperatorType)(builder, onnx_operator_names[op]));
    TRY(ORT_EP(api, SetDomain)(builder, ""));
    /* The versions of the operators: the last ones are those of opset 13, up to opset 28 at least.
       What a later one means is not known here. */
    TRY(ORT_EP(api, SetSinceVersion)(builder, 1, 13));
    TRY(ORT_EP(api, SetExecutionProvider)(builder, NAME));
    TRY(ORT_EP(api, AddTypeConstraint)(builder, "T", data_types, TYPES));
    /* The indices of GatherND are INT64 alone, without a name for their type. */
    if (op != ONNX_GATHER_ND) TRY(ORT_EP(api, AddTypeConstraint)(builder, "Tind", index_types, 2));
    return ORT_EP(api, Build)(builder, definition);
}

static OrtStatus *add_kernel(struct provider *provider, enum onnx_operator op) {
    const OrtEpApi *api = provider->factory->ep_api;
    struct creator *creator = &provider->creators[op];
    OrtKernelDefBuilder *builder;
    OrtKernelDef *definition = NULL;
    creator->provider = provider;
    creator->op = op;
    TRY(ORT_EP(api, CreateKernelDefBuilder)(&builder));
    OrtStatus *status = describe_kernel(api, op, builder, &definition);
    ORT_EP(api, ReleaseKernelDefBuilder)(builder);
    if (status) return status;
    status = ORT_EP(api, AddKernel)(provider->registry, definition, create_kernel, creator);
    ORT_EP(api, ReleaseKernelDef)(definition);
    return status;
}

/* --- The nodes that are taken ----------------------------------------------------------------- */

#define MOST_INPUTS 64  /* of a node that is followed */
#define MOST_VISITS 200 /* values that are followed for one node, as they may branch */

/* Whether a value comes from the shape of a tensor through operators that move its elements. What
   computes shapes stays on the CPU provider, as ONNX Runtime's DirectML provider leaves it there:
   an index into a shape is no index into data. */
static int comes_from_shape(const OrtApi *api, const OrtValueInfo *value, int *visits) {
    const OrtNode *node = NULL;
    const OrtValueInfo *inputs[MOST_INPUTS];
    const char *type;
    size_t output, count;
    if (!value || ++*visits > MOST_VISITS) return 0;
    if (!succeeds(api, ORT(api, ValueInfo_GetValueProducer)(value, &node, &output))) return 0;
    /* Case: an input or an initializer of a graph has no producer. */
    if (!node || !succeeds(api, ORT(api, Node_GetOperatorType)(node, &type))) return 0;
    if (!strcmp(type, "Shape")) return 1;
    const int joins = !strcmp(type, "Concat");
    const int moves = !strcmp(type, "Cast") || !strcmp(type, "Slice") || !strcmp(type, "Identity");
    if (!joins && !moves) return 0;
    if (!succeeds(api, ORT(api, Node_GetNumInputs)(node, &count)) || count > MOST_INPUTS) return 0;
    if (!succeeds(api, ORT(api, Node_GetInputs)(node, inputs, count))) return 0;
    if (moves && count > 1) count = 1; /* the other inputs of Slice say what it takes */
    for (size_t k = 0; k < count; k++)
        if (comes_from_shape(api, inputs[k], visits)) return 1;
    return 0;
}

static OrtStatus *read_value(const OrtApi *api, const OrtValueInfo *value,
                             struct known_shape *shape) {
    const OrtTypeInfo *type;
    TRY(ORT(api, GetValueInfoTypeInfo)(value, &type));
    return read_shape(api, type, shape);
}

/* Whether a tensor has more elements than the kernels count. */
static int is_too_large(const struct known_shape *known) {
    const struct shape shape = {known->sizes, known->rank};
    return known->is_static && onnx_node_elements(shape) > GATHER_LARGEST;
}

/* The most indices that a tuple of GatherND may have; 0 where no shape says it, so that it is seen
   in a run. */
static int64_t longest_tuple(const struct known_shape *data, const struct known_shape *indices) {
    const int64_t length = indices->rank ? indices->sizes[indices->rank - 1] : -1;
    /* Case: the length is open. A tuple has no more indices than the data have dimensions. */
    if (length < 0) return (int64_t)data->rank;
    return length;
}

/* Whether the kernels take a node of these shapes: data, indices and output. Shapes that ONNX
   forbids are taken, and refused with a sentence when the node runs. */
static int fits(enum onnx_operator op, const struct known_shape *shapes) {
    const struct known_shape *data = &shapes[0], *indices = &shapes[1];
    if (data->rank > ONNX_MOST_RANK || indices->rank > ONNX_MOST_RANK) return 0;
    for (size_t k = 0; k < 3; k++)
        if (is_too_large(&shapes[k])) return 0;
    /* Case: each dimension may be a loop. */
    if (op == ONNX_GATHER_ELEMENTS)
        return (data->has_rank && data->rank <= GATHER_MOST_LOOPS) ||
               (indices->has_rank && indices->rank <= GATHER_MOST_LOOPS);
    if (op == ONNX_GATHER_ND) return longest_tuple(data, indices) <= GATHER_MOST_LOOPS;
    return 1;
}

/* Take a node, if it is a gather for which there is a kernel. */
static OrtStatus *consider(const struct factory *factory, const OrtNode *node,
                           OrtEpGraphSupportInfo *info) {
    const OrtApi *api = factory->api;
    const char *type, *domain;
    const OrtKernelDef *definition = NULL;
    const OrtValueInfo *values[3];
    struct known_shape shapes[3];
    enum onnx_operator op = 0;
    size_t count;
    int visits = 0;
    TRY(ORT(api, Node_GetOperatorType)(node, &type));
    while (op < ONNX_OPERATORS && strcmp(type, onnx_operator_names[op])) op++;
    if (op == ONNX_OPERATORS) return NULL;
    TRY(ORT(api, Node_GetDomain)(node, &domain));
    if (*domain && strcmp(domain, "ai.onnx")) return NULL;
    TRY(ORT_EP(factory->ep_api, LookUpKernel)(info, node, &definition));
    if (!definition) return NULL;
    TRY(ORT(api, Node_GetNumInputs)(node, &count));
    if (count != 2) return NULL;
    TRY(ORT(api, Node_GetInputs)(node, values, 2));
    TRY(ORT(api, Node_GetOutputs)(node, values + 2, 1));
    for (size_t k = 0; k < 3; k++) TRY(read_value(api, values[k], &shapes[k]));
    if (!fits(op, shapes) || comes_from_shape(api, values[0], &visits)) return NULL;
    return ORT_EP(factory->ep_api, AddSingleNode)(info, node);
}

/* Keep the name of the main graph, which stands in the rows of all its graphs. */
static OrtStatus *keep_name(struct provider *provider, const OrtGraph *graph) {
    const OrtApi *api = provider->factory->api;
    const OrtNode *parent = NULL;
    const char *name;
    TRY(ORT(api, Graph_GetParentNode)(graph, &parent));
    if (parent) return NULL;
    TRY(ORT(api, Graph_GetName)(graph, &name));
    free(provider->model);
    provider->model = malloc(strlen(name) + 1);
    if (!provider->model) return refuse(api, "no memory for the name of a graph");
    strcpy(provider->model, name);
    return NULL;
}

static OrtStatus *ORT_CALL capability(OrtEp *self, const OrtGraph *graph,
                                      OrtEpGraphSupportInfo *info) {
    struct provider *provider = (struct provider *)self;
    const OrtApi *api = provider->factory->api;
    size_t count;
    TRY(keep_name(provider, graph));
    TRY(ORT(api, Graph_GetNumNodes)(graph, &count));
    if (!count) return NULL;
    const OrtNode **nodes = calloc(count, sizeof *nodes);
    if (!nodes) return refuse(api, "no memory for the nodes of a graph");
    OrtStatus *status = ORT(api, Graph_GetNodes)(graph, nodes, count);
    for (size_t k = 0; k < count && !status; k++)
        status = consider(provider->factory, nodes[k], info);
    free(nodes);
    return status;
}

/* --- The provider ----------------------------------------------------------------------------- */

static const char *ORT_CALL provider_name(const OrtEp *self) {
    (void)self;
    return NAME;
}

static OrtStatus *ORT_CALL registry_of(OrtEp *self, const OrtKernelRegistry **registry) {
    *registry = ((const struct provider *)self)->registry;
    return NULL;
}

static void ORT_CALL release_provider(OrtEpFactory *self, OrtEp *ep) {
    const struct factory *factory = (const struct factory *)self;
    struct provider *provider = (struct provider *)ep;
    if (!provider) return;
    if (provider->registry) ORT_EP(factory->ep_api, ReleaseKernelRegistry)(provider->registry);
    free(provider->model);
    free(provider);
}

/* Read an option of a session into new memory; `normal` where it is not there. */
static OrtStatus *read_option(const OrtApi *api, const OrtSessionOptions *options, const char *key,
                              const char *normal, char **value) {
    size_t size = 0;
    const int is_there = succeeds(api, ORT(api, GetSessionConfigEntry)(options, key, NULL, &size));
    if (!is_there) size = strlen(normal) + 1;
    *value = malloc(size);
    if (!*value) return refuse(api, "no memory for an option");
    if (is_there) return ORT(api, GetSessionConfigEntry)(options, key, *value, &size);
    strcpy(*value, normal);
    return NULL;
}

static OrtStatus *take_out_of_range(struct provider *provider, const char *value) {
    provider->policy = gather_policy_of(value);
    if (provider->policy < GATHER_POLICIES) return NULL;
    return refuse(provider->factory->api,
                  "out_of_range must be clamp, error, zero or directml, got '%s'", value);
}

static OrtStatus *take_report(struct provider *provider, const char *value) {
    provider->warns = !strcmp(value, "1");
    if (provider->warns || !strcmp(value, "0")) return NULL;
    return refuse(provider->factory->api, "report must be 0 or 1, got '%s'", value);
}

/* The options of the provider. */
static const struct option {
    const char *key, *normal;
    OrtStatus *(*take)(struct provider *provider, const char *value);
} provider_options[] = {
    {OPTION "out_of_range", "error", take_out_of_range},
    {OPTION "report", "0", take_report},
};
#define OPTIONS (sizeof provider_options / sizeof *provider_options)

static OrtStatus *read_options(struct provider *provider, const OrtSessionOptions *options) {
    for (const struct option *o = provider_options; o < provider_options + OPTIONS; o++) {
        char *value = NULL;
        OrtStatus *status = read_option(provider->factory->api, options, o->key, o->normal, &value);
        if (!status) status = o->take(provider, value);
        free(value);
        if (status) return status;
    }
    return NULL;
}

static OrtStatus *ORT_CALL create_provider(OrtEpFactory *self,
                                           const OrtHardwareDevice *const *devices,
                                           const OrtKeyValuePairs *const *metadata, size_t count,
                                           const OrtSessionOptions *options,
                                           const OrtLogger *logger, OrtEp **made) {
    const struct factory *factory = (const struct factory *)self;
    struct provider *provider = calloc(1, sizeof *provider);
    (void)devices;
    (void)metadata;
    (void)count;
    *made = NULL;
    if (!provider) return refuse(factory->api, "no memory for a provider");
    provider->base.version = ORT_API_VERSION;
    provider->base.GetName = provider_name;
    provider->base.GetCapability = capability;
    provider->base.GetKernelRegistry = registry_of;
    provider->factory = factory;
    provider->logger = logger;
    OrtStatus *status = read_options(provider, options);
    if (!status) status = ORT_EP(factory->ep_api, CreateKernelRegistry)(&provider->registry);
    for (enum onnx_operator op = 0; op < ONNX_OPERATORS && !status; op++)
        status = add_kernel(provider, op);
    if (status) {
        release_provider(self, &provider->base);
        return status;
    }
    *made = &provider->base;
    return NULL;
}

/* --- The factory ------------------------------------------------------------------------------ */

static const char *ORT_CALL factory_name(const OrtEpFactory *self) {
    (void)self;
    return NAME;
}
static const char *ORT_CALL factory_vendor(const OrtEpFactory *self) {
    (void)self;
    return "onnxgather";
}
static uint32_t ORT_CALL factory_vendor_id(const OrtEpFactory *self) {
    (void)self;
    return 0;
}
static const char *ORT_CALL factory_version(const OrtEpFactory *self) {
    (void)self;
    return "0.1.0";
}
/* The memory is that of the CPU provider. */
static OrtStatus *ORT_CALL no_allocator(OrtEpFactory *self, const void *info,
                                        const OrtKeyValuePairs *options, void **made) {
    (void)self;
    (void)info;
    (void)options;
    *made = NULL;
    return NULL;
}
static void ORT_CALL release_allocator(OrtEpFactory *self, void *allocator) {
    (void)self;
    (void)allocator;
}
static OrtStatus *ORT_CALL no_transfer(OrtEpFactory *self, void **made) {
    (void)self;
    *made = NULL;
    return NULL;
}
static bool ORT_CALL no_streams(const OrtEpFactory *self) {
    (void)self;
    return false;
}

static OrtStatus *ORT_CALL supported_devices(OrtEpFactory *self,
                                             const OrtHardwareDevice *const *devices, size_t count,
                                             OrtEpDevice **made, size_t most, size_t *made_count) {
    const struct factory *factory = (const struct factory *)self;
    *made_count = 0;
    for (size_t k = 0; k < count && *made_count < most; k++) {
        OrtKeyValuePairs *options;
        OrtStatus *status;
        if (ORT(factory->api, HardwareDevice_Type)(devices[k]) != ORT_CPU) continue;
        /* None, as ONNX Runtime warns of each option that a user sets in place of one here. */
        ORT(factory->api, CreateKeyValuePairs)(&options);
        status = ORT_EP(factory->ep_api, CreateEpDevice)(self, devices[k], NULL, options,
                                                         &made[*made_count]);
        ORT(factory->api, ReleaseKeyValuePairs)(options);
        if (status) return status;
        ++*made_count;
    }
    return NULL;
}

ORT_EXPORT OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base,
                                        const OrtLogger *logger, OrtEpFactory **factories,
                                        size_t most, size_t *count);
ORT_EXPORT OrtStatus *CreateEpFactories(const char *name, const OrtApiBase *base,
                                        const OrtLogger *logger, OrtEpFactory **factories,
                                        size_t most, size_t *count) {
    const OrtApi *api = base->GetApi(ORT_API_VERSION);
    (void)name;
    (void)logger;
    *count = 0;
    if (!api)
        return refuse(base->GetApi(1), "onnxgather's provider needs ONNX Runtime 1.%d, got %.50s",
                      ORT_API_VERSION, base->GetVersionString());
    if (most < 1) return refuse(api, "there must be room for onnxgather's provider");
    struct factory *factory = calloc(1, sizeof *factory);
    if (!factory) return refuse(api, "no memory for onnxgather's provider");
    factory->base = (OrtEpFactory){
        .version = ORT_API_VERSION,
        .GetName = factory_name,
        .GetVendor = factory_vendor,
        .GetSupportedDevices = supported_devices,
        .CreateEp = create_provider,
        .ReleaseEp = release_provider,
        .GetVendorId = factory_vendor_id,
        .GetVersion = factory_version,
        .CreateAllocator = no_allocator,
        .ReleaseAllocator = release_allocator,
        .CreateDataTransfer = no_transfer,
        .IsStreamAware = no_streams,
    };
    factory->api = api;
    factory->ep_api = ORT(api, GetEpApi)();
    factories[0] = &factory->base;
    *count = 1;
    return NULL;
}

ORT_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory);
ORT_EXPORT OrtStatus *ReleaseEpFactory(OrtEpFactory *factory) {
    free(factory);
    return NULL;
}
