#include "model/onednn/choice/trial.h"

#include "base/arrays/arena.h"
#include "base/clock.h"
#include "model/onednn/choice/pick.h"

#include <assert.h>

/* A primitive, or our own Winograd, to be timed, with its arguments one after the other in an arena
 * of its own. Zero: no candidate. */
typedef struct trial {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[6];
    int arg_count;
    psr_winograd winograd;
    psr_onednn_direction direction;
    float *arena;
    size_t length;
    double best_s;
} trial;

static void trial_done(trial *t)
{
    for (int i = 0; i < t->arg_count; i++)
        dnnl_memory_destroy(t->args[i].memory);
    if (t->primitive != NULL)
        dnnl_primitive_destroy(t->primitive);
    psr_arena_free(t->arena, t->length);
}

static const struct {
    dnnl_query_t query;
    int arg;
} memories[] = {
    {dnnl_query_src_md, DNNL_ARG_SRC},
    {dnnl_query_weights_md, DNNL_ARG_WEIGHTS},
    {dnnl_query_dst_md, DNNL_ARG_DST},
    {dnnl_query_diff_src_md, DNNL_ARG_DIFF_SRC},
    {dnnl_query_diff_weights_md, DNNL_ARG_DIFF_WEIGHTS},
    {dnnl_query_diff_dst_md, DNNL_ARG_DIFF_DST},
    {dnnl_query_scratchpad_md, DNNL_ARG_SCRATCHPAD},
};
enum { MEMORIES = sizeof memories / sizeof memories[0] };

static size_t whole_pages(size_t floats)
{
    const size_t page = 4096 / sizeof(float);
    return (floats + page - 1) / page * page;
}

static size_t floats_of(const_dnnl_primitive_desc_t pd, int memory)
{
    const_dnnl_memory_desc_t desc = dnnl_primitive_desc_query_md(pd, memories[memory].query, 0);
    return whole_pages(desc == NULL ? 0 : dnnl_memory_desc_get_size(desc) / sizeof(float));
}

/* The arena is fresh and therefore zero: what is timed does not depend on values. */
static psr_err init_primitive(trial *t, const psr_onednn_exec *exec, const_dnnl_primitive_desc_t pd)
{
    size_t length = 0;
    for (int i = 0; i < MEMORIES; i++)
        length += floats_of(pd, i);
    PSR_TRY(psr_arena_new(length, &t->arena));
    t->length = length;
    dnnl_status_t status = dnnl_primitive_create(&t->primitive, pd);
    float *at = t->arena;
    for (int i = 0; status == dnnl_success && i < MEMORIES; i++) {
        if (floats_of(pd, i) == 0)
            continue;
        assert((size_t)t->arg_count < sizeof t->args / sizeof t->args[0]);
        t->args[t->arg_count].arg = memories[i].arg;
        status = dnnl_memory_create(&t->args[t->arg_count].memory,
                                    dnnl_primitive_desc_query_md(pd, memories[i].query, 0),
                                    exec->context->engine, at);
        t->arg_count += status == dnnl_success;
        at += floats_of(pd, i);
    }
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "a trial", exec->net->name);
}

/* Floats of our own Winograd's arguments: the two values, the weights, the scratchpad. */
enum { WINOGRAD_X, WINOGRAD_Y, WINOGRAD_WEIGHTS, WINOGRAD_SCRATCH, WINOGRAD_ARGS };

static size_t winograd_floats(const psr_winograd *w, psr_onednn_direction direction, int arg)
{
    const size_t pixels = (size_t)w->images * w->height * w->width;
    switch (arg) {
    case WINOGRAD_X:
        return whole_pages(pixels * w->in);
    case WINOGRAD_Y:
        return whole_pages(pixels * w->out);
    case WINOGRAD_WEIGHTS:
        return whole_pages((size_t)w->out * w->in * 9);
    default:
        return direction == PSR_ONEDNN_BACKWARD_WEIGHTS ? psr_winograd_weights_scratch(w)
                                                        : psr_winograd_values_scratch(w);
    }
}

static psr_err init_winograd(trial *t)
{
    size_t length = 0;
    for (int i = 0; i < WINOGRAD_ARGS; i++)
        length += winograd_floats(&t->winograd, t->direction, i);
    PSR_TRY(psr_arena_new(length, &t->arena));
    t->length = length;
    return PSR_OK;
}

static void run_winograd(const trial *t)
{
    float *args[WINOGRAD_ARGS], *at = t->arena;
    for (int i = 0; i < WINOGRAD_ARGS; i++) {
        args[i] = at;
        at += winograd_floats(&t->winograd, t->direction, i);
    }
    if (t->direction == PSR_ONEDNN_FORWARD)
        psr_winograd_forward(&t->winograd, args[WINOGRAD_X], args[WINOGRAD_WEIGHTS],
                             args[WINOGRAD_Y], args[WINOGRAD_SCRATCH]);
    else if (t->direction == PSR_ONEDNN_BACKWARD_DATA)
        psr_winograd_source_gradient(&t->winograd, args[WINOGRAD_Y], args[WINOGRAD_WEIGHTS],
                                     args[WINOGRAD_X], args[WINOGRAD_SCRATCH]);
    else
        psr_winograd_weights_gradient(&t->winograd, args[WINOGRAD_X], args[WINOGRAD_Y],
                                      args[WINOGRAD_WEIGHTS], args[WINOGRAD_SCRATCH]);
}

/* Remains zero when the algorithm is no candidate. */
static psr_err trial_init(trial *t, const psr_onednn_exec *exec, const psr_onednn_step *step,
                          psr_onednn_direction direction, psr_onednn_algorithm algorithm)
{
    dnnl_primitive_desc_t pd;
    t->direction = direction;
    if (!psr_onednn_may_take(exec, step, direction, algorithm))
        return PSR_OK;
    if (algorithm == PSR_ONEDNN_OWN_WINOGRAD)
        return psr_onednn_conv_winograd(exec, step, &t->winograd) ? init_winograd(t) : PSR_OK;
    if (!psr_onednn_conv_create(exec, step, direction, algorithm, &pd))
        return PSR_OK;
    psr_err err = init_primitive(t, exec, pd);
    dnnl_primitive_desc_destroy(pd);
    return err;
}

static psr_err trial_run(trial *t, const psr_onednn_exec *exec, bool warm_up)
{
    dnnl_status_t status = dnnl_success;
    double began_s = psr_clock_s();
    if (t->primitive == NULL)
        run_winograd(t);
    else
        status = dnnl_primitive_execute(t->primitive, exec->context->stream, t->arg_count, t->args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(exec->context->stream);
    double took_s = psr_clock_s() - began_s;
    if (!warm_up && (t->best_s == 0 || took_s < t->best_s))
        t->best_s = took_s;
    return status == dnnl_success ? PSR_OK : psr_onednn_fail(status, "a trial", exec->net->name);
}

static psr_err race(trial trials[PSR_ONEDNN_ALGORITHMS], const psr_onednn_exec *exec,
                    unsigned rounds)
{
    for (unsigned round = 0; round <= rounds; round++)
        for (int i = 0; i < PSR_ONEDNN_ALGORITHMS; i++)
            if (trials[i].arena != NULL)
                PSR_TRY(trial_run(&trials[i], exec, round == 0));
    return PSR_OK;
}

psr_err psr_onednn_trial(const psr_onednn_exec *exec, const psr_onednn_step *step,
                         psr_onednn_direction direction, unsigned rounds,
                         double ret_s[PSR_ONEDNN_ALGORITHMS])
{
    trial trials[PSR_ONEDNN_ALGORITHMS] = {{0}};
    psr_err err = PSR_OK;
    for (int i = 0; err == PSR_OK && i < PSR_ONEDNN_ALGORITHMS; i++)
        err = trial_init(&trials[i], exec, step, direction, (psr_onednn_algorithm)i);
    if (err == PSR_OK)
        err = race(trials, exec, rounds);
    for (int i = 0; i < PSR_ONEDNN_ALGORITHMS; i++) {
        if (err == PSR_OK)
            ret_s[i] = trials[i].best_s;
        trial_done(&trials[i]);
    }
    return err;
}
