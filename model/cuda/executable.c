#include "model/cuda/executable.h"

#include "model/cuda/kernels/launch.h"
#include "model/cuda/segments.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct psr_cuda_planned {
    psr_cuda_graph graph;
    psr_cuda_plan *plan;
};

/* ---- plans ---- */

void psr_cuda_plans_done(psr_cuda_plans *plans)
{
    for (uint32_t i = 0; i < plans->count; i++)
        plans->api->plan_free(plans->items[i].plan);
    free(plans->items);
    plans->items = NULL;
    plans->count = plans->room = 0;
}

void psr_cuda_plans_engines(const psr_cuda_plans *plans, char *ret_text, size_t room)
{
    size_t used = 0;
    ret_text[0] = '\0';
    for (uint32_t i = 0; i < plans->count && used < room; i++)
        used += (size_t)snprintf(ret_text + used, room - used, "%s%" PRId64, i > 0 ? "," : "",
                                 plans->api->plan_engine(plans->items[i].plan));
    if (used >= room)
        ret_text[0] = '\0';
}

static psr_err add_plan(psr_cuda_plans *plans, const psr_cuda_graph *graph,
                        const psr_cuda_plan **ret_plan)
{
    if (plans->count == plans->room) {
        const uint32_t room = plans->room == 0 ? 64 : 2 * plans->room;
        psr_cuda_planned *items = realloc(plans->items, room * sizeof *items);
        if (items == NULL)
            return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for plans");
        plans->items = items;
        plans->room = room;
    }
    psr_cuda_planned *item = &plans->items[plans->count];
    PSR_TRY(plans->api->plan_new(plans->device, graph, &plans->limits, &item->plan));
    item->graph = *graph;
    plans->count++;
    const size_t bytes = plans->api->plan_workspace(item->plan);
    plans->workspace_bytes = bytes > plans->workspace_bytes ? bytes : plans->workspace_bytes;
    *ret_plan = item->plan;
    return PSR_OK;
}

static psr_err find_plan(psr_cuda_plans *plans, const psr_cuda_graph *graph,
                         const psr_cuda_plan **ret_plan)
{
    for (uint32_t i = 0; i < plans->count; i++) {
        if (memcmp(&plans->items[i].graph, graph, sizeof *graph) == 0) {
            *ret_plan = plans->items[i].plan;
            return PSR_OK;
        }
    }
    return add_plan(plans, graph, ret_plan);
}

/* ---- the executable ---- */

psr_err psr_cuda_executable_new(const psr_network *net, uint32_t batch, psr_cuda_type type,
                                bool training, psr_cuda_plans *plans,
                                psr_cuda_executable **ret_executable)
{
    psr_cuda_executable *e = calloc(1, sizeof *e);
    if (e == NULL)
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for an executable");
    psr_err err = psr_cuda_program_new(net, batch, type, training, &e->program);
    if (err == PSR_OK) {
        e->plans = calloc(e->program->graph_count + 1, sizeof(*e->plans));
        e->bound = calloc(e->program->step_count, sizeof *e->bound);
        if (e->plans == NULL || e->bound == NULL)
            err = psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for an executable");
    }
    for (uint32_t i = 0; err == PSR_OK && i < e->program->graph_count; i++)
        err = find_plan(plans, &e->program->graphs[i], &e->plans[i]);
    if (err != PSR_OK) {
        psr_cuda_executable_free(e);
        return err;
    }
    *ret_executable = e;
    return PSR_OK;
}

void psr_cuda_executable_free(psr_cuda_executable *executable)
{
    if (executable == NULL)
        return;
    psr_cuda_segments_free(executable->segments);
    psr_cuda_program_free(executable->program);
    free(executable->plans);
    free(executable->bound);
    free(executable);
}

void psr_cuda_executable_bind(psr_cuda_executable *executable,
                              void *const memory[PSR_CUDA_MEMORY_COUNT])
{
    const psr_cuda_program *program = executable->program;
    psr_cuda_segments_forget(executable->segments);
    for (uint32_t i = 0; i < program->step_count; i++) {
        const psr_cuda_step *step = &program->steps[i];
        psr_cuda_bound *bound = &executable->bound[i];
        if (step->graph != PSR_NONE)
            memcpy(bound->tensors.numbers, step->numbers, sizeof step->numbers);
        else
            bound->arguments = step->arguments;
        for (uint32_t k = 0; k < step->use_count; k++) {
            const psr_cuda_place *place = &program->places[step->uses[k].place];
            void *address = (char *)memory[place->memory] + place->offset;
            if (step->graph != PSR_NONE)
                bound->tensors.at[step->uses[k].at] = address;
            else
                memcpy((char *)&bound->arguments + step->uses[k].at, &address, sizeof address);
        }
    }
}

/* ---- a step ---- */

/* The arguments that are not the same in every pass. */
static void complete(psr_cuda_kernel kernel, const psr_cuda_pass *pass, psr_cuda_arguments *a)
{
    if (kernel == PSR_CUDA_KERNEL_dropout) {
        a->dropout.seed = pass->batch->seed;
        a->dropout.epoch = pass->batch->epoch;
    }
    if (kernel == PSR_CUDA_KERNEL_loss) {
        a->loss.scale = pass->loss_scale;
        a->loss.label_smoothing = pass->label_smoothing;
        if (pass->batch->second == NULL) {
            a->loss.second_labels = NULL;
            a->loss.shares = NULL;
        }
    }
}

/* Completes them for a pass in which nothing is 0, as it is in the program where it changes. */
bool psr_cuda_executable_changes(const psr_cuda_executable *executable, uint32_t i)
{
    const psr_cuda_step *step = &executable->program->steps[i];
    psr_cuda_arguments completed;
    psr_batch batch;
    psr_cuda_pass pass;
    if (step->graph != PSR_NONE)
        return false;
    memset(&batch, 1, sizeof batch);
    memset(&pass, 1, sizeof pass);
    batch.second = NULL;
    pass.batch = &batch;
    memcpy(&completed, &executable->bound[i].arguments, sizeof completed);
    complete(step->kernel, &pass, &completed);
    return memcmp(&completed, &executable->bound[i].arguments, sizeof completed) != 0;
}

psr_err psr_cuda_executable_step(const psr_cuda_executable *executable, uint32_t i,
                                 const psr_cuda_pass *pass, const psr_cuda_api *api,
                                 psr_cuda_stream *stream, void *workspace)
{
    const psr_cuda_step *step = &executable->program->steps[i];
    const psr_cuda_bound *bound = &executable->bound[i];
    if (step->graph != PSR_NONE)
        return api->plan_run(stream, executable->plans[step->graph], &bound->tensors, workspace);
    psr_cuda_arguments arguments = bound->arguments;
    complete(step->kernel, pass, &arguments);
    return psr_cuda_kernel_launch(api, stream, step->kernel, &arguments);
}
