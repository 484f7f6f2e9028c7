/* How cuDNN would compute a graph on a device: the first of the engines that its heuristics name,
 * in their order, that gives the same bits in every call, needs no more workspace than allowed and
 * can be built. No clock takes part, so the choice is a function of cuDNN's version, the device,
 * and the graph.
 *
 * The device is told by its properties, so planning needs no device. */
#ifndef PSR_MODEL_CUDA_PLAN_H
#define PSR_MODEL_CUDA_PLAN_H

#include "model/cuda/graph.h"
#include "model/cuda/wall.h"

typedef struct psr_cuda_plan_limits {
    size_t workspace_bytes; /* the most that a graph may have */
    bool tf32;              /* products of float32 may be computed from 10 bits of each factor */
} psr_cuda_plan_limits;

typedef struct psr_cuda_plan psr_cuda_plan;

/* What was chosen, and how many were passed over before. */
typedef struct psr_cuda_plan_facts {
    int64_t engine;          /* cuDNN's number of it, among those of such graphs */
    size_t workspace_bytes;  /* at most the limit */
    uint32_t configurations; /* that heuristics named, up to the chosen one */
    uint32_t nondeterministic, too_large, reduced, not_built; /* passed over, by reason */
    bool tensor_cores, compiled_at_run_time, fallback;
} psr_cuda_plan_facts;

/* device: its properties as JSON, in cuDNN's form (CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION).
 * wall: its cuDNN is loaded; borrowed for the plan's life. The caller owns *ret_plan:
 * psr_cuda_plan_free. UNSUPPORTED: cuDNN refuses the graph, or no engine is left; the detail says
 * how many were passed over, and why. COMPUTE: cuDNN failed. FORMAT: the properties. One thread. */
PSR_MUST_CHECK psr_err psr_cuda_plan_new(const psr_cuda_wall *wall, const psr_cuda_graph *graph,
                                         const char *device, const psr_cuda_plan_limits *limits,
                                         psr_cuda_plan **ret_plan);
void psr_cuda_plan_free(psr_cuda_plan *plan);
psr_cuda_plan_facts psr_cuda_plan_read(const psr_cuda_plan *plan);

#endif
