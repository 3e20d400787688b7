/* An execution provider of ONNX Runtime that runs nothing but gathers: those of ONNX, in any model,
   each with one rule for an index out of range, and with a report of what it met. */
#include "kernel.h"
#include "machine.h"
#include "onnx_node.h"
#include "onnxruntime_provider_abi.h"
#include "report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "OnnxGatherExecutionProvider"
#define ROOM 1200 /* for a message */
#define MOST_PARTS 64
#define MOST_NAME 400 /* of a node, with its end */

/* Return from the function if a call of ONNX Runtime fails. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        OrtStatus *failed = (call);                                                                \
        if (failed) return failed;                                                                 \
    } while (0)

static const char *const policies[] = {"clamp", "error", "zero", "directml"};
#define POLICIES (sizeof policies / sizeof *policies)

/* What makes providers; ONNX Runtime has one. */
struct factory {
    OrtEpFactory base; /* first, so that a pointer to it is one to the whole */
    const OrtApi *api;
    const OrtEpApi *ep_api;
};

struct provider;
struct creator {
    struct provider *provider;
    enum onnx_operator op;
};

/* The provider of one session. */
struct provider {
    OrtEp base;
    const struct factory *factory;
    const OrtLogger *logger;
    OrtKernelRegistry *registry;
    struct creator creators[ONNX_OPERATORS];
    char *model; /* the name of the main graph */
    uint32_t policy;
    int warns;
};

/* The kernel of one node. */
struct node {
    OrtKernelImpl base;
    const OrtApi *api;
    const OrtLogger *logger;
    struct row *row;
    enum onnx_operator op;
    uint32_t policy;
    int warns, is_static;
    int64_t axis; /* or batch_dims */
    size_t cores;
    char name[MOST_NAME];
};

static OrtStatus *refuse(const OrtApi *api, const char *message) {
    return ORT(api, CreateStatus)(ORT_INVALID_ARGUMENT, message);
}

/* Whether a call of ONNX Runtime succeeded; if not, its message is dropped. */
static int succeeds(const OrtApi *api, OrtStatus *status) {
    if (status) ORT(api, ReleaseStatus)(status);
    return !status;
}

/* --- Data types ------------------------------------------------------------------------------- */

/* The data types that the provider gathers, by the bytes of an element. */
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

struct run {
    const struct gather *gather;
    void *data, *indices, *output;
    size_t parts;
    unsigned char ends[MOST_PARTS]; /* one for each part, as no two threads may write the same */
};

static void run_part(void *state, size_t part) {
    struct run *run = state;
    run->ends[part] = (unsigned char)gather_run(run->gather, run->data, run->indices, run->output,
                                                part, run->parts);
}

static OrtStatus *refuse_node(const struct node *node, const char *rule) {
    char message[ROOM];
    snprintf(message, sizeof message, "%s '%s': %s", onnx_operator_names[node->op], node->name,
             rule);
    return refuse(node->api, message);
}

/* Run all parts. */
static OrtStatus *run_parts(const struct node *node, struct run *run, OrtKernelContext *context) {
    run->parts = node->cores > 1 ? gather_parts(run->gather, node->cores) : 1;
    if (run->parts > 1)
        return ORT(node->api, KernelContext_ParallelFor)(context, run_part, run->parts, 0, run);
    run_part(run, 0);
    return NULL;
}

/* Count a run, and say what it met. */
static OrtStatus *report_run(const struct node *node, const struct run *run) {
    int outside = 0, stopped = 0;
    char sentence[ROOM];
    for (size_t part = 0; part < run->parts; part++) {
        outside |= run->ends[part] != GATHER_RAN;
        stopped |= run->ends[part] == GATHER_STOPPED;
    }
    const int is_new = report_count(node->row, run->gather, run->indices, outside, sentence, ROOM);
    if (stopped) return refuse(node->api, sentence);
    if (is_new && node->warns)
        succeeds(node->api,
                 ORT(node->api, Logger_LogMessage)(node->logger, ORT_WARNING, sentence,
                                                   "provider.c", __LINE__, "report_run"));
    return NULL;
}

static OrtStatus *ORT_CALL compute(OrtKernelImpl *self, OrtKernelContext *context) {
    const struct node *node = (const struct node *)self;
    const OrtApi *api = node->api;
    const OrtValue *data, *indices;
    OrtValue *output;
    int type, index_type;
    struct shape data_shape, indices_shape;
    int64_t output_sizes[2 * MOST_RANK];
    size_t output_rank;
    struct gather gather = {.policy = node->policy};
    struct run run = {.gather = &gather};
    const char *broken;
    TRY(ORT(api, KernelContext_GetInput)(context, 0, &data));
    TRY(ORT(api, KernelContext_GetInput)(context, 1, &indices));
    TRY(ORT(api, GetTensorElementTypeAndShapeDataReference)(data, &type, &data_shape.sizes,
                                                            &data_shape.rank));
    TRY(ORT(api, GetTensorElementTypeAndShapeDataReference)(
        indices, &index_type, &indices_shape.sizes, &indices_shape.rank));
    gather.element_size = size_of(type);
    gather.index_type = index_type == ORT_INT32 ? GATHER_INT32 : GATHER_INT64;
    const int ones_repeat = node->policy == GATHER_DIRECTML && node->is_static;
    broken = onnx_node_gather(node->op, node->axis, data_shape, indices_shape, ones_repeat, &gather,
                              output_sizes, &output_rank);
    if (broken) return refuse_node(node, broken);
    TRY(ORT(api, KernelContext_GetOutput)(context, 0, output_sizes, output_rank, &output));
    TRY(ORT(api, GetTensorMutableData)((OrtValue *)data, &run.data));
    TRY(ORT(api, GetTensorMutableData)((OrtValue *)indices, &run.indices));
    TRY(ORT(api, GetTensorMutableData)(output, &run.output));
    /* Case: nothing is gathered. */
    if (!gather.output_count) {
        run.parts = 1;
        run.ends[0] = GATHER_RAN;
        return report_run(node, &run);
    }
    if (!gather.data_count) return refuse_node(node, "data must have elements, as indices have");
    broken = gather_check(&gather);
    if (broken) return refuse_node(node, broken);
    TRY(run_parts(node, &run, context));
    return report_run(node, &run);
}

/* --- The kernel of a node --------------------------------------------------------------------- */

static void ORT_CALL release_node(OrtKernelImpl *self) {
    struct node *node = (struct node *)self;
    report_leave(node->row);
    free(node);
}

/* Whether the file says each size of an input. */
static int is_static(const OrtApi *api, const OrtKernelInfo *info, size_t index) {
    OrtTypeInfo *type;
    const OrtTensorInfo *tensor;
    int64_t sizes[MOST_RANK];
    size_t rank;
    int good = 0;
    if (!succeeds(api, ORT(api, KernelInfo_GetInputTypeInfo)(info, index, &type))) return 0;
    if (succeeds(api, ORT(api, CastTypeInfoToTensorInfo)(type, &tensor)) && tensor &&
        succeeds(api, ORT(api, GetDimensionsCount)(tensor, &rank)) && rank <= MOST_RANK &&
        succeeds(api, ORT(api, GetDimensions)(tensor, sizes, rank))) {
        good = 1;
        for (size_t k = 0; k < rank; k++) good &= sizes[k] >= 0;
    }
    ORT(api, ReleaseTypeInfo)(type);
    return good;
}

static OrtStatus *ORT_CALL create_node(void *state, const OrtKernelInfo *info,
                                       OrtKernelImpl **made) {
    const struct creator *creator = state;
    const struct provider *provider = creator->provider;
    const OrtApi *api = provider->factory->api;
    const size_t cores = machine_cores();
    struct node *node = calloc(1, sizeof *node);
    char output[MOST_NAME];
    size_t room = sizeof node->name, output_room = sizeof output;
    if (!node) return refuse(api, "no memory for a gather");
    node->base.version = ORT_API_VERSION;
    node->base.Compute = compute;
    node->base.Release = release_node;
    node->api = api;
    node->logger = provider->logger;
    node->op = creator->op;
    node->policy = provider->policy;
    node->warns = provider->warns;
    node->is_static = is_static(api, info, 0) && is_static(api, info, 1);
    node->cores = cores < MOST_PARTS ? cores : MOST_PARTS;
    if (!succeeds(api, ORT(api, KernelInfo_GetNodeName)(info, node->name, &room))) *node->name = 0;
    if (!succeeds(api, ORT(api, KernelInfo_GetOutputName)(info, 0, output, &output_room)))
        *output = 0;
    const char *attribute = node->op == ONNX_GATHER_ND ? "batch_dims" : "axis";
    if (!succeeds(api, ORT(api, KernelInfoGetAttribute_int64)(info, attribute, &node->axis)))
        node->axis = 0;
    const struct row_names names = {
        .model = provider->model ? provider->model : "",
        .policy = policies[node->policy],
        .type = onnx_operator_names[node->op],
        .node = node->name,
        .output = output,
    };
    node->row = report_row(names);
    if (!node->row) {
        free(node);
        return refuse(api, "no memory for the report of a gather");
    }
    *made = &node->base;
    return NULL;
}

static OrtStatus *add_kernel(struct provider *provider, enum onnx_operator op,
                             OrtKernelDefBuilder *builder) {
    const OrtEpApi *api = provider->factory->ep_api;
    const OrtDataType *data_types[TYPES], *index_types[2];
    OrtKernelDef *definition;
    OrtStatus *status;
    for (size_t k = 0; k < TYPES; k++)
        TRY(ORT(api, EpGetTensorDataType)(types[k].number, &data_types[k]));
    TRY(ORT(api, EpGetTensorDataType)(ORT_INT32, &index_types[0]));
    TRY(ORT(api, EpGetTensorDataType)(ORT_INT64, &index_types[1]));
    TRY(ORT(api, EpSetOperatorType)(builder, onnx_operator_names[op]));
    TRY(ORT(api, EpSetDomain)(builder, ""));
    TRY(ORT(api, EpSetSinceVersion)(builder, 1, 13));
    TRY(ORT(api, EpSetExecutionProvider)(builder, NAME));
    TRY(ORT(api, EpAddTypeConstraint)(builder, "T", data_types, TYPES));
    /* The indices of GatherND are INT64 alone, without a name for their type. */
    if (op != ONNX_GATHER_ND) TRY(ORT(api, EpAddTypeConstraint)(builder, "Tind", index_types, 2));
    TRY(ORT(api, EpBuild)(builder, &definition));
    status = ORT(api, EpAddKernel)(provider->registry, definition, create_node,
                                   &provider->creators[op]);
    ORT(api, EpReleaseKernelDef)(definition);
    return status;
}

static OrtStatus *register_operator(struct provider *provider, enum onnx_operator op) {
    const OrtEpApi *api = provider->factory->ep_api;
    OrtKernelDefBuilder *builder;
    provider->creators[op] = (struct creator){provider, op};
    TRY(ORT(api, EpCreateKernelDefBuilder)(&builder));
    OrtStatus *status = add_kernel(provider, op, builder);
    ORT(api, EpReleaseKernelDefBuilder)(builder);
    return status;
}

/* --- The nodes that are taken ----------------------------------------------------------------- */

/* Whether a value comes from the shape of a tensor: what computes shapes stays on the CPU provider,
   as DirectML's provider leaves it there. */
static int comes_from_shape(const OrtApi *api, const OrtValueInfo *value, int depth) {
    const OrtNode *node = NULL;
    const OrtValueInfo *inputs[16];
    const char *type;
    size_t index, count;
    if (!value || depth > 8) return 0;
    if (!succeeds(api, ORT(api, ValueInfo_GetValueProducer)(value, &node, &index)) || !node)
        return 0;
    if (!succeeds(api, ORT(api, Node_GetOperatorType)(node, &type))) return 0;
    if (!strcmp(type, "Shape")) return 1;
    if (strcmp(type, "Cast") && strcmp(type, "Slice") && strcmp(type, "Identity") &&
        strcmp(type, "Concat"))
        return 0;
    if (!succeeds(api, ORT(api, Node_GetNumInputs)(node, &count)) || count < 1 || count > 16)
        return 0;
    if (!succeeds(api, ORT(api, Node_GetInputs)(node, inputs, count))) return 0;
    const size_t looked_at = strcmp(type, "Concat") ? 1 : count;
    for (size_t k = 0; k < looked_at; k++)
        if (comes_from_shape(api, inputs[k], depth + 1)) return 1;
    return 0;
}

/* Take a node, if it is a gather for which there is a kernel. */
static OrtStatus *consider(const struct factory *factory, const OrtNode *node,
                           OrtEpGraphSupportInfo *info) {
    const OrtApi *api = factory->api;
    const char *type, *domain;
    const OrtKernelDef *definition = NULL;
    const OrtValueInfo *inputs[2];
    size_t count;
    TRY(ORT(api, Node_GetOperatorType)(node, &type));
    TRY(ORT(api, Node_GetDomain)(node, &domain));
    if (strncmp(type, "Gather", 6) || (*domain && strcmp(domain, "ai.onnx"))) return NULL;
    TRY(ORT(factory->ep_api, EpLookUpKernel)(info, node, &definition));
    if (!definition) return NULL;
    TRY(ORT(api, Node_GetNumInputs)(node, &count));
    if (count != 2) return NULL;
    TRY(ORT(api, Node_GetInputs)(node, inputs, 2));
    if (comes_from_shape(api, inputs[0], 0)) return NULL;
    return ORT(factory->ep_api, EpAddSingleNode)(info, node);
}

/* Keep the name of the main graph. */
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
    OrtStatus *status;
    size_t count;
    TRY(keep_name(provider, graph));
    TRY(ORT(api, Graph_GetNumNodes)(graph, &count));
    if (!count) return NULL;
    const OrtNode **nodes = calloc(count, sizeof *nodes);
    if (!nodes) return refuse(api, "no memory for the nodes of a graph");
    status = ORT(api, Graph_GetNodes)(graph, nodes, count);
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
    struct provider *provider = (struct provider *)ep;
    const struct factory *factory = (const struct factory *)self;
    if (!provider) return;
    if (provider->registry) ORT(factory->ep_api, EpReleaseKernelRegistry)(provider->registry);
    free(provider->model);
    free(provider);
}

/* Read an option of the session; empty where it is not there. */
static void read_option(const OrtApi *api, const OrtSessionOptions *options, const char *key,
                        char *value, size_t room) {
    if (!succeeds(api, ORT(api, GetSessionConfigEntry)(options, key, value, &room))) *value = 0;
}

/* Read the options of the provider. */
static OrtStatus *read_options(struct provider *provider, const OrtSessionOptions *options) {
    const OrtApi *api = provider->factory->api;
    char policy[32], report[32], message[ROOM];
    read_option(api, options, "ep.onnxgatherexecutionprovider.out_of_range", policy, sizeof policy);
    read_option(api, options, "ep.onnxgatherexecutionprovider.report", report, sizeof report);
    const char *name = *policy ? policy : "error";
    while (provider->policy < POLICIES && strcmp(name, policies[provider->policy]))
        provider->policy++;
    if (provider->policy == POLICIES) {
        snprintf(message, ROOM, "out_of_range must be clamp, error, zero or directml, got '%s'",
                 policy);
        return refuse(api, message);
    }
    if (*report && strcmp(report, "0") && strcmp(report, "1")) {
        snprintf(message, ROOM, "report must be 0 or 1, got '%s'", report);
        return refuse(api, message);
    }
    provider->warns = !strcmp(report, "1");
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
    if (!status) status = ORT(factory->ep_api, EpCreateKernelRegistry)(&provider->registry);
    for (enum onnx_operator op = 0; op < ONNX_OPERATORS && !status; op++)
        status = register_operator(provider, op);
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
        status = ORT(factory->ep_api, EpCreateEpDevice)(self, devices[k], NULL, options,
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
    char message[ROOM];
    (void)name;
    (void)logger;
    *count = 0;
    if (!api) {
        snprintf(message, ROOM, "onnxgather's provider needs ONNX Runtime 1.%d, got %.50s",
                 ORT_API_VERSION, base->GetVersionString());
        return refuse(base->GetApi(1), message);
    }
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
