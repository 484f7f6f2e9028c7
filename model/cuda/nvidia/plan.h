/* How cuDNN would compute a graph on a device: the first of the engines that its heuristics name,
 * in their order, that gives the same bits in every call, needs no more workspace than allowed and
 * can be built. No clock takes part, so the choice is a function of cuDNN's version, the device,
 * and the graph.
 *
 * Building an engine takes long where cuDNN compiles it. So what was built can be kept in a file,
 * and is read from there if device, versions, graph and limits are the same to the last letter. A
 * file that cuDNN refuses is written anew. The choice is the same with files and without.
 *
 * The device is told by its properties, so planning needs no device; running does. */
#ifndef PSR_MODEL_CUDA_PLAN_H
#define PSR_MODEL_CUDA_PLAN_H

#include "model/cuda/api.h"
#include "model/cuda/nvidia/wall.h"

typedef struct psr_cudnn_plan psr_cudnn_plan;

/* What was chosen, and how many were passed over before. */
typedef struct psr_cudnn_plan_facts {
    int64_t engine;          /* cuDNN's number of it, among those of such graphs */
    size_t workspace_bytes;  /* at most the limit */
    uint32_t configurations; /* that heuristics named, up to the chosen one */
    uint32_t nondeterministic, too_large, reduced, not_built; /* passed over, by reason */
    bool tensor_cores, compiled_at_run_time, fallback;
    bool from_file; /* an earlier one was chosen so, and kept */
} psr_cudnn_plan_facts;

/* For which device is planned. */
typedef struct psr_cudnn_plan_target {
    /* its properties, in cuDNN's form (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION); NULL: those of
     * this machine's device `index` */
    const char *json;
    int32_t index;
    /* Versions that a kept plan depends on, beside cuDNN's: "cuda 13.0". NULL: none. */
    const char *versions;
} psr_cudnn_plan_target;

/* wall: its cuDNN is loaded; borrowed for the plan's life. The caller owns *ret_plan:
 * psr_cudnn_plan_free. UNSUPPORTED: cuDNN refuses the graph, or no engine is left; the detail says
 * how many were passed over, and why. COMPUTE: cuDNN failed. FORMAT: the properties. One thread. */
PSR_MUST_CHECK psr_err psr_cudnn_plan_new(const psr_cuda_wall *wall, const psr_cuda_graph *graph,
                                          const psr_cudnn_plan_target *target,
                                          const psr_cuda_plan_limits *limits,
                                          psr_cudnn_plan **ret_plan);
void psr_cudnn_plan_free(psr_cudnn_plan *plan);
psr_cudnn_plan_facts psr_cudnn_plan_read(const psr_cudnn_plan *plan);

/* Orders the plan on the stream that handle has. tensors, workspace: as in api.h. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cudnn_plan_execute(const psr_cudnn_plan *plan, cudnnHandle_t handle,
                                              const psr_cuda_plan_tensors *tensors,
                                              void *workspace);

#endif
