/* The table's plans: of a device, and run on its streams. */
#include "model/cuda/nvidia/device.h"

#include <stdlib.h>

struct psr_cuda_plan {
    psr_cuda_device *device;
    psr_cudnn_plan *plan;
};

static void end_plan(psr_cuda_device *device, void *what)
{
    psr_cuda_plan *planned = what;
    (void)device;
    psr_cudnn_plan_free(planned->plan);
    free(planned);
}

/* Made here rather than by the first run, which may be recorded: making it takes memory. */
static psr_err make_handle(psr_cuda_device *device)
{
    PSR_TRY(psr_nvidia_enter(device));
    if (device->cudnn != NULL)
        return PSR_OK;
    return psr_cudnn_check(device->wall, device->wall->cudnnCreate(&device->cudnn), "cudnnCreate");
}

psr_err psr_nvidia_plan_new(psr_cuda_device *device, const psr_cuda_graph *graph,
                            const psr_cuda_plan_limits *limits, psr_cuda_plan **ret_plan)
{
    const psr_cudnn_plan_target target = {.index = device->index,
                                          .versions = device->facts.identity};
    psr_cudnn_plan *plan = NULL;
    if (limits->timed)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "--algorithms timed: on a GPU plans are chosen by heuristics alone");
    PSR_TRY(make_handle(device));
    psr_cuda_plan *planned = malloc(sizeof *planned);
    if (planned == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a plan");
    const psr_err err = psr_cudnn_plan_new(device->wall, graph, &target, limits, &plan);
    if (err != PSR_OK) {
        free(planned);
        return err;
    }
    *planned = (psr_cuda_plan){device, plan};
    PSR_TRY(psr_nvidia_own(device, planned, end_plan));
    *ret_plan = planned;
    return PSR_OK;
}

void psr_nvidia_plan_free(psr_cuda_plan *plan)
{
    if (plan != NULL)
        psr_nvidia_disown(plan->device, plan);
}

size_t psr_nvidia_plan_workspace(const psr_cuda_plan *plan)
{
    return psr_cudnn_plan_read(plan->plan).workspace_bytes;
}

int64_t psr_nvidia_plan_engine(const psr_cuda_plan *plan)
{
    return psr_cudnn_plan_read(plan->plan).engine;
}

psr_err psr_nvidia_plan_run(psr_cuda_stream *stream, const psr_cuda_plan *plan,
                            const psr_cuda_plan_tensors *tensors, void *workspace)
{
    psr_cuda_device *device = stream->device;
    PSR_TRY(psr_nvidia_enter(device));
    if (device->cudnn_stream != stream->stream) {
        PSR_TRY(psr_cudnn_check(device->wall,
                                device->wall->cudnnSetStream(device->cudnn, stream->stream),
                                "cudnnSetStream"));
        device->cudnn_stream = stream->stream;
    }
    return psr_cudnn_plan_execute(plan->plan, device->cudnn, tensors, workspace);
}
