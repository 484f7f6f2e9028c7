#include "model/cuda/nvidia/plan.h"

#include "base/text/text.h"
#include "model/cuda/nvidia/cudnn_graph.h"
#include "model/cuda/nvidia/properties.h"
#include "model/cuda/plan_files.h"

#include <stdlib.h>
#include <string.h>

/* Of one list. Lists are in the order in which heuristics expect them to be fast, so what comes
 * later is never needed: the longest list seen had 60. */
#define CONFIGURATIONS_MAX 128

/* Of kept plans. Another number whenever the same graph could be given another engine: plans that
 * were kept by the rule before are not taken then. */
#define RULE 1

struct psr_cudnn_plan {
    psr_cudnn_graph graph;
    cudnnBackendDescriptor_t properties, plan;
    psr_cudnn_plan_facts facts;
    /* What is handed over with each call: cuDNN's name of the tensor is its index + 1. */
    int64_t names[PSR_CUDA_GRAPH_TENSORS];
    bool by_value[PSR_CUDA_GRAPH_TENSORS];
    uint32_t handed;
};

/* What is needed while engines are looked at; each descriptor is NULL until it is made. */
typedef struct search {
    const psr_cuda_wall *wall;
    const psr_cuda_plan_limits *limits;
    psr_cudnn_plan *plan;
    bool product; /* the graph is a convolution or a matrix product, and what follows it */
    bool float32; /* of float32 */
    bool failed;  /* an engine could not be built for another reason than that cuDNN has none */
    cudnnBackendDescriptor_t heuristics;
    cudnnBackendDescriptor_t configurations[CONFIGURATIONS_MAX];
} search;

/* ---- calls ---- */

static psr_err create(const psr_cuda_wall *wall, cudnnBackendDescriptorType_t type,
                      const char *what, cudnnBackendDescriptor_t *ret_descriptor)
{
    return psr_cudnn_check(wall, wall->cudnnBackendCreateDescriptor(type, ret_descriptor), what);
}

static void destroy(const psr_cuda_wall *wall, cudnnBackendDescriptor_t *descriptor)
{
    if (*descriptor != NULL)
        wall->cudnnBackendDestroyDescriptor(*descriptor);
    *descriptor = NULL;
}

static psr_err set_one(const psr_cuda_wall *wall, cudnnBackendDescriptor_t descriptor,
                       cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t value,
                       const char *what)
{
    return psr_cudnn_check(
        wall,
        wall->cudnnBackendSetAttribute(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value),
        what);
}

static psr_err finalize(const psr_cuda_wall *wall, cudnnBackendDescriptor_t descriptor,
                        const char *what)
{
    return psr_cudnn_check(wall, wall->cudnnBackendFinalize(descriptor), what);
}

/* ---- one configuration ---- */

/* The engine's notes of one kind, as bits. */
static psr_err read_notes(const search *s, cudnnBackendDescriptor_t engine,
                          cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          uint32_t *ret_notes)
{
    int values[32]; /* all of cuDNN's notes are enumerations, below 32 */
    int64_t count = 0;
    PSR_TRY(psr_cudnn_check(
        s->wall, s->wall->cudnnBackendGetAttribute(engine, name, type, 32, &count, values),
        "an engine's notes"));
    *ret_notes = 0;
    for (int64_t i = 0; i < count && i < 32; i++)
        if (values[i] >= 0 && values[i] < 32)
            *ret_notes |= UINT32_C(1) << values[i];
    return PSR_OK;
}

/* Whether an engine with these notes may compute the graph. If not, why is counted. */
static bool may_compute(search *s, uint32_t notes)
{
    psr_cudnn_plan_facts *f = &s->plan->facts;
    const uint32_t reduced = UINT32_C(1) << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS |
                             UINT32_C(1) << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    const uint32_t tensor_cores = UINT32_C(1) << CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    if (notes & UINT32_C(1) << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) {
        f->nondeterministic++;
        return false;
    }
    if (s->product && ((notes & reduced && !(s->float32 && s->limits->tf32)) ||
                       (s->float32 && !s->limits->tf32 && notes & tensor_cores))) {
        f->reduced++;
        return false;
    }
    f->tensor_cores = (notes & tensor_cores) != 0;
    return true;
}

static psr_err read_engine(search *s, cudnnBackendDescriptor_t configuration, bool *ret_may)
{
    cudnnBackendDescriptor_t engine = NULL;
    psr_cudnn_plan_facts *f = &s->plan->facts;
    uint32_t numbers = 0, behaviour = 0;
    int64_t count = 0;
    PSR_TRY(create(s->wall, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine", &engine));
    psr_err err = psr_cudnn_check(
        s->wall,
        s->wall->cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine),
        "an engine");
    if (err == PSR_OK)
        err = read_notes(s, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                         &numbers);
    if (err == PSR_OK)
        err = read_notes(s, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                         &behaviour);
    if (err == PSR_OK)
        err = psr_cudnn_check(
            s->wall,
            s->wall->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
                                              CUDNN_TYPE_INT64, 1, &count, &f->engine),
            "an engine's number");
    if (err == PSR_OK) {
        f->compiled_at_run_time =
            (behaviour & UINT32_C(1) << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) != 0;
        *ret_may = may_compute(s, numbers);
    }
    destroy(s->wall, &engine);
    return err;
}

static psr_err build(search *s, cudnnBackendDescriptor_t configuration,
                     cudnnBackendDescriptor_t *ret_plan)
{
    static const char what[] = "an execution plan";
    PSR_TRY(create(s->wall, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, what, ret_plan));
    PSR_TRY(
        set_one(s->wall, *ret_plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration, what));
    PSR_TRY(set_one(s->wall, *ret_plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, s->plan->properties,
                    what));
    return finalize(s->wall, *ret_plan, what);
}

static psr_err read_workspace(const search *s, cudnnBackendDescriptor_t plan, int64_t *ret_bytes)
{
    int64_t count = 0;
    return psr_cudnn_check(
        s->wall,
        s->wall->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                          CUDNN_TYPE_INT64, 1, &count, ret_bytes),
        "a plan's workspace");
}

/* An engine that cannot be built, which some of those that heuristics name cannot, is passed
 * over. */
static psr_err try_configuration(search *s, cudnnBackendDescriptor_t configuration, bool *ret_taken)
{
    psr_cudnn_plan_facts *f = &s->plan->facts;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t workspace = 0;
    bool may = false;
    f->configurations++;
    PSR_TRY(read_engine(s, configuration, &may));
    if (!may)
        return PSR_OK;
    const psr_err built = build(s, configuration, &plan);
    if (built != PSR_OK) {
        f->not_built++;
        s->failed |= built != PSR_ERR_UNSUPPORTED;
        destroy(s->wall, &plan);
        return PSR_OK;
    }
    psr_err err = read_workspace(s, plan, &workspace);
    if (err != PSR_OK || workspace < 0 || (uint64_t)workspace > s->limits->workspace_bytes) {
        f->too_large += err == PSR_OK;
        destroy(s->wall, &plan);
        return err;
    }
    f->workspace_bytes = (size_t)workspace;
    s->plan->plan = plan;
    *ret_taken = true;
    return PSR_OK;
}

/* ---- lists of configurations ---- */

static psr_err ask_heuristics(search *s, cudnnBackendHeurMode_t mode, int64_t *ret_count)
{
    static const char what[] = "heuristics";
    PSR_TRY(create(s->wall, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, what, &s->heuristics));
    PSR_TRY(set_one(s->wall, s->heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                    s->plan->graph.whole, what));
    PSR_TRY(
        psr_cudnn_check(s->wall,
                        s->wall->cudnnBackendSetAttribute(s->heuristics, CUDNN_ATTR_ENGINEHEUR_MODE,
                                                          CUDNN_TYPE_HEUR_MODE, 1, &mode),
                        what));
    PSR_TRY(set_one(s->wall, s->heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, s->plan->properties,
                    what));
    PSR_TRY(finalize(s->wall, s->heuristics, what));
    for (int i = 0; i < CONFIGURATIONS_MAX; i++)
        PSR_TRY(create(s->wall, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, what, &s->configurations[i]));
    return psr_cudnn_check(
        s->wall,
        s->wall->cudnnBackendGetAttribute(s->heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGURATIONS_MAX,
                                          ret_count, s->configurations),
        what);
}

/* A mode that has nothing for such graphs is no failure: another may. */
static psr_err search_mode(search *s, cudnnBackendHeurMode_t mode, bool *ret_taken)
{
    int64_t count = 0;
    psr_err err = ask_heuristics(s, mode, &count);
    for (int64_t i = 0; err == PSR_OK && !*ret_taken && i < count && i < CONFIGURATIONS_MAX; i++)
        err = try_configuration(s, s->configurations[i], ret_taken);
    for (int i = 0; i < CONFIGURATIONS_MAX; i++)
        destroy(s->wall, &s->configurations[i]);
    destroy(s->wall, &s->heuristics);
    return err == PSR_ERR_UNSUPPORTED ? PSR_OK : err;
}

static psr_err choose(search *s)
{
    const psr_cudnn_plan_facts *f = &s->plan->facts;
    bool taken = false;
    PSR_TRY(search_mode(s, CUDNN_HEUR_MODE_A, &taken));
    if (!taken) {
        s->plan->facts.fallback = true;
        PSR_TRY(search_mode(s, CUDNN_HEUR_MODE_FALLBACK, &taken));
    }
    if (taken)
        return PSR_OK;
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    "cuDNN has no engine for it: of %u configurations %u are not deterministic, %u "
                    "compute with fewer bits, %u need more workspace than %zu bytes, and %u cannot "
                    "be built",
                    f->configurations, f->nondeterministic, f->reduced, f->too_large,
                    s->limits->workspace_bytes, f->not_built);
}

/* ---- plans that were kept ---- */

/* The caller owns it. NULL: cuDNN has none, which is no failure: nothing is kept then. */
static char *read_text(const psr_cuda_wall *wall, cudnnBackendDescriptor_t descriptor,
                       cudnnBackendAttributeName_t name, size_t *ret_bytes)
{
    char detail[PSR_ERR_DETAIL_BYTES], *text = NULL;
    psr_err_detail_keep(detail);
    if (psr_cudnn_read_text(wall, descriptor, name, PSR_CUDA_PLAN_FILE_BYTES, "a plan to be kept",
                            &text, ret_bytes) != PSR_OK)
        psr_err_detail_restore(detail);
    return text;
}

/* All that the choice and the built engine depend on; the caller owns it. NULL: it cannot be told,
 * and nothing is kept. */
static char *key_of(const search *s, const psr_cuda_graph *graph,
                    const psr_cudnn_plan_target *target)
{
    enum { ROOM = 32768 };
    size_t bytes = 0;
    char *device =
        read_text(s->wall, s->plan->properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, &bytes);
    char *key = device != NULL ? malloc(ROOM) : NULL;
    if (key != NULL) {
        psr_text_end end = {key, ROOM};
        psr_text_add(&end, "psring %s, rule %d, facts %zu\ncudnn %zu, %s\n%s\nworkspace %zu%s\n",
                     PSR_VERSION, RULE, sizeof s->plan->facts, s->wall->cudnnGetVersion(),
                     target->versions != NULL ? target->versions : "", device,
                     s->limits->workspace_bytes, s->limits->tf32 ? " tf32" : "");
        psr_cuda_graph_spell(graph, end.at, end.room);
        if (strlen(key) + 1 == ROOM) { /* it may have been cut */
            free(key);
            key = NULL;
        }
    }
    free(device);
    return key;
}

static psr_err load(const search *s, const char *text, size_t bytes,
                    cudnnBackendDescriptor_t *ret_plan)
{
    static const char what[] = "a plan that was kept";
    PSR_TRY(create(s->wall, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, what, ret_plan));
    PSR_TRY(set_one(s->wall, *ret_plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, s->plan->properties,
                    what));
    PSR_TRY(psr_cudnn_check(
        s->wall,
        s->wall->cudnnBackendSetAttribute(*ret_plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                          CUDNN_TYPE_CHAR, (int64_t)bytes, text),
        what));
    return finalize(s->wall, *ret_plan, what);
}

/* value: the facts, and cuDNN's text of the plan. */
static bool take_value(search *s, const char *value, size_t bytes)
{
    psr_cudnn_plan_facts facts;
    cudnnBackendDescriptor_t plan = NULL;
    int64_t workspace = 0;
    if (bytes <= sizeof facts)
        return false;
    memcpy(&facts, value, sizeof facts);
    if (load(s, value + sizeof facts, bytes - sizeof facts, &plan) != PSR_OK ||
        read_workspace(s, plan, &workspace) != PSR_OK || workspace < 0 ||
        (size_t)workspace != facts.workspace_bytes) {
        destroy(s->wall, &plan);
        return false;
    }
    s->plan->facts = facts;
    s->plan->facts.from_file = true;
    s->plan->plan = plan;
    return true;
}

static bool take_kept(search *s, const psr_cuda_plan_files *files, const char *key)
{
    char detail[PSR_ERR_DETAIL_BYTES], *value = NULL;
    size_t bytes = 0;
    if (!psr_cuda_plan_files_get(files, key, &value, &bytes))
        return false;
    psr_err_detail_keep(detail);
    const bool taken = take_value(s, value, bytes);
    psr_err_detail_restore(detail);
    free(value);
    return taken;
}

/* Not all engines can be written: those that cannot are built at each start. Nor is one kept that
 * took the place of another that another time may be built. */
static void keep(const search *s, const psr_cuda_plan_files *files, const char *key)
{
    const psr_cudnn_plan_facts *facts = &s->plan->facts;
    size_t bytes = 0;
    char *text =
        read_text(s->wall, s->plan->plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, &bytes);
    char *value = text != NULL ? malloc(sizeof *facts + bytes) : NULL;
    if (value != NULL) {
        memcpy(value, facts, sizeof *facts);
        memcpy(value + sizeof *facts, text, bytes);
        psr_cuda_plan_files_put(files, key, value, sizeof *facts + bytes);
    }
    free(value);
    free(text);
}

static psr_err take_or_choose(search *s, const psr_cuda_graph *graph,
                              const psr_cudnn_plan_target *target)
{
    const psr_cuda_plan_files files = {s->limits->kept, PSR_CUDA_PLAN_FILES_MOST,
                                       PSR_CUDA_PLAN_FILES_BYTES};
    char *key = files.directory != NULL ? key_of(s, graph, target) : NULL;
    psr_err err = PSR_OK;
    if (key == NULL || !take_kept(s, &files, key)) {
        err = choose(s);
        if (err == PSR_OK && key != NULL && !s->failed)
            keep(s, &files, key);
    }
    free(key);
    return err;
}

/* Engines of operations on single values and of norms have the notes of their kernels' family,
 * tensor cores among them, though they multiply no matrices. */
static bool is_product(const psr_cuda_operation *o)
{
    return o->kind == PSR_CUDA_CONV || o->kind == PSR_CUDA_CONV_DATA ||
           o->kind == PSR_CUDA_CONV_WEIGHTS || o->kind == PSR_CUDA_MATMUL;
}

/* Inner tensors have no memory. */
static void find_handed(const psr_cuda_graph *graph, psr_cudnn_plan *plan)
{
    for (uint32_t i = 0; i < graph->tensor_count; i++) {
        if (graph->tensors[i].inner)
            continue;
        plan->by_value[plan->handed] = graph->tensors[i].by_value;
        plan->names[plan->handed++] = (int64_t)i + 1;
    }
}

psr_err psr_cudnn_plan_new(const psr_cuda_wall *wall, const psr_cuda_graph *graph,
                           const psr_cudnn_plan_target *target, const psr_cuda_plan_limits *limits,
                           psr_cudnn_plan **ret_plan)
{
    psr_cudnn_plan *plan = calloc(1, sizeof *plan);
    if (plan == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a plan");
    const psr_cuda_operation *first = &graph->operations[0];
    search s = {.wall = wall,
                .limits = limits,
                .plan = plan,
                .product = is_product(first),
                .float32 = graph->tensors[first->tensors[0]].type == PSR_CUDA_FLOAT32};
    psr_err err = psr_cudnn_graph_init(wall, graph, &plan->graph);
    find_handed(graph, plan);
    if (err == PSR_OK)
        err = psr_cudnn_properties_new(wall, target, &plan->properties);
    if (err == PSR_OK)
        err = take_or_choose(&s, graph, target);
    if (err == PSR_OK)
        *ret_plan = plan;
    else
        psr_cudnn_plan_free(plan);
    return err;
}

void psr_cudnn_plan_free(psr_cudnn_plan *plan)
{
    if (plan == NULL)
        return;
    destroy(plan->graph.wall, &plan->plan);
    destroy(plan->graph.wall, &plan->properties);
    psr_cudnn_graph_done(&plan->graph);
    free(plan);
}

psr_cudnn_plan_facts psr_cudnn_plan_read(const psr_cudnn_plan *plan)
{
    return plan->facts;
}

/* ---- running ---- */

static psr_err fill_pack(const psr_cudnn_plan *plan, cudnnBackendDescriptor_t pack,
                         const psr_cuda_plan_tensors *tensors, void *workspace)
{
    static const char what[] = "a plan's tensors";
    const psr_cuda_wall *wall = plan->graph.wall;
    const void *at[PSR_CUDA_GRAPH_TENSORS];
    for (uint32_t i = 0; i < plan->handed; i++) {
        const int64_t tensor = plan->names[i] - 1;
        at[i] = plan->by_value[i] ? (const void *)&tensors->numbers[tensor] : tensors->at[tensor];
    }
    PSR_TRY(
        psr_cudnn_check(wall,
                        wall->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                                       CUDNN_TYPE_INT64, plan->handed, plan->names),
                        what));
    PSR_TRY(
        psr_cudnn_check(wall,
                        wall->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                                       CUDNN_TYPE_VOID_PTR, plan->handed, at),
                        what));
    PSR_TRY(psr_cudnn_check(wall,
                            wall->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                                           CUDNN_TYPE_VOID_PTR, 1, &workspace),
                            what));
    return finalize(wall, pack, what);
}

psr_err psr_cudnn_plan_execute(const psr_cudnn_plan *plan, cudnnHandle_t handle,
                               const psr_cuda_plan_tensors *tensors, void *workspace)
{
    const psr_cuda_wall *wall = plan->graph.wall;
    cudnnBackendDescriptor_t pack = NULL;
    PSR_TRY(create(wall, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "a plan's tensors", &pack));
    psr_err err = fill_pack(plan, pack, tensors, workspace);
    if (err == PSR_OK)
        err = psr_cudnn_check(wall, wall->cudnnBackendExecute(handle, plan->plan, pack),
                              "cudnnBackendExecute");
    destroy(wall, &pack);
    return err;
}
