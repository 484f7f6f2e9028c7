/* A program (program.h) that is ready to run: its graphs are planned, and each step knows the
 * addresses that it reads and writes. */
#ifndef PSR_MODEL_CUDA_EXECUTABLE_H
#define PSR_MODEL_CUDA_EXECUTABLE_H

#include "model/backend.h"
#include "model/cuda/api.h"
#include "model/cuda/program.h"

typedef struct psr_cuda_planned psr_cuda_planned;
typedef struct psr_cuda_segments psr_cuda_segments; /* segments.h */
typedef struct psr_cuda_layers psr_cuda_layers;     /* layers.h */

/* Plans of one device, each graph once. The device is borrowed. */
typedef struct psr_cuda_plans {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    psr_cuda_plan_limits limits;
    psr_cuda_planned *items;
    uint32_t count, room;
    size_t workspace_bytes; /* the most that one needs */
} psr_cuda_plans;

void psr_cuda_plans_done(psr_cuda_plans *plans);
/* Their engines' numbers, in the order in which they were planned: "28,4,28". "" where room bytes
 * do not hold them and the final zero. */
void psr_cuda_plans_engines(const psr_cuda_plans *plans, char *ret_text, size_t room);

/* A step with addresses. */
typedef union psr_cuda_bound {
    psr_cuda_plan_tensors tensors;
    psr_cuda_arguments arguments;
} psr_cuda_bound;

typedef struct psr_cuda_executable {
    psr_cuda_program *program;
    const psr_cuda_plan **plans; /* [graph_count]; borrowed */
    psr_cuda_bound *bound;       /* [step_count] */
    psr_cuda_segments *segments; /* owned; NULL until its user makes them */
} psr_cuda_executable;

/* What changes with each pass. */
typedef struct psr_cuda_pass {
    const psr_batch *batch;
    float loss_scale;
    double label_smoothing;
    psr_cuda_layers *layers; /* take the times of its layers; NULL: nobody asks for them */
} psr_cuda_pass;

/* plans is borrowed for life. The caller owns *ret_executable: psr_cuda_executable_free. NOMEM;
 * UNSUPPORTED: a graph has no plan, or what psr_cuda_program_new says. */
PSR_MUST_CHECK psr_err psr_cuda_executable_new(const psr_network *net, uint32_t batch,
                                               psr_cuda_type type, bool training,
                                               psr_cuda_plans *plans,
                                               psr_cuda_executable **ret_executable);
void psr_cuda_executable_free(psr_cuda_executable *executable); /* NULL allowed */

/* memory: where each kind begins. To be called before the first step, and when one has moved. */
void psr_cuda_executable_bind(psr_cuda_executable *executable,
                              void *const memory[PSR_CUDA_MEMORY_COUNT]);

/* Whether step number i is given other arguments in each pass. To be asked once bound. */
bool psr_cuda_executable_changes(const psr_cuda_executable *executable, uint32_t i);

/* Orders step number i on stream. COMPUTE. */
PSR_MUST_CHECK psr_err psr_cuda_executable_step(const psr_cuda_executable *executable, uint32_t i,
                                                const psr_cuda_pass *pass, const psr_cuda_api *api,
                                                psr_cuda_stream *stream, void *workspace);

#endif
