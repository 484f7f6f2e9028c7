#include "model/cuda/segments.h"

#include "model/cuda/layers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct segment {
    uint32_t first, count; /* steps */
    bool records;
    bool was_ordered;
    psr_cuda_recording *recording; /* NULL: there is none yet */
} segment;

struct psr_cuda_segments {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    psr_cuda_stream *stream;
    const psr_cuda_executable *executable;
    segment *items;
    uint32_t count, next; /* next: the one that comes next in a pass */
};

/* ---- where segments end ---- */

/* Whether a node of [from, to] has buckets. */
static bool have_buckets(const bool *has_buckets, uint32_t from, uint32_t to)
{
    for (uint32_t node = from; node <= to; node++)
        if (has_buckets[node])
            return true;
    return false;
}

/* Whether step i goes on with a segment of steps before it. Of a forward segment at is the last
 * node whose weights are there, of a backward one the last node whose gradients may be missing. */
static bool goes_on(const psr_cuda_program *program, const segment *s, uint32_t i,
                    const bool *has_buckets, uint32_t at)
{
    const psr_cuda_step *step = &program->steps[i];
    if (step->backward != program->steps[s->first].backward)
        return false;
    return step->backward ? !have_buckets(has_buckets, step->node + 1, at)
                          : !have_buckets(has_buckets, at + 1, step->node);
}

static uint32_t move_on(const psr_cuda_step *step, uint32_t at)
{
    const bool further = step->backward ? step->node < at : step->node > at;
    return further ? step->node : at;
}

/* Returns their number. items: room for one each step. */
static uint32_t find_segments(const psr_cuda_executable *e,
                              const psr_cuda_segments_options *options, segment *items)
{
    const psr_cuda_program *program = e->program;
    uint32_t count = 0;
    for (uint32_t i = 0; i < program->step_count; count++) {
        segment *s = &items[count];
        uint32_t at = program->steps[i].node;
        *s = (segment){.first = i++, .count = 1};
        if (psr_cuda_executable_changes(e, s->first))
            continue;
        for (; i < program->step_count && !psr_cuda_executable_changes(e, i) &&
               goes_on(program, s, i, options->has_buckets, at);
             i++, s->count++)
            at = move_on(&program->steps[i], at);
        s->records = s->count > 1 && !options->unrecorded; /* one step is one order already */
    }
    return count;
}

/* ---- the life ---- */

psr_err psr_cuda_segments_new(const psr_cuda_segments_options *options,
                              const psr_cuda_executable *executable,
                              psr_cuda_segments **ret_segments)
{
    psr_cuda_segments *s = calloc(1, sizeof *s);
    segment *items = calloc((size_t)executable->program->step_count + 1, sizeof *items);
    if (s == NULL || items == NULL) {
        free(s);
        free(items);
        return psr_fail(PSR_ERR_NOMEM, "cuda: out of memory for the segments of a pass");
    }
    *s = (psr_cuda_segments){.api = options->api,
                             .device = options->device,
                             .stream = options->stream,
                             .executable = executable,
                             .items = items};
    s->count = find_segments(executable, options, items);
    *ret_segments = s;
    return PSR_OK;
}

void psr_cuda_segments_forget(psr_cuda_segments *segments)
{
    for (uint32_t i = 0; segments != NULL && i < segments->count; i++) {
        if (segments->items[i].recording != NULL)
            segments->api->recording_free(segments->items[i].recording);
        segments->items[i].recording = NULL;
    }
}

void psr_cuda_segments_free(psr_cuda_segments *segments)
{
    if (segments == NULL)
        return;
    psr_cuda_segments_forget(segments);
    free(segments->items);
    free(segments);
}

/* ---- in a pass ---- */

static psr_err order(const psr_cuda_segments *s, const segment *of, const psr_cuda_pass *pass,
                     void *workspace)
{
    for (uint32_t i = of->first; i < of->first + of->count; i++) {
        if (pass->layers != NULL)
            PSR_TRY(psr_cuda_layers_step(pass->layers, &s->executable->program->steps[i]));
        PSR_TRY(psr_cuda_executable_step(s->executable, i, pass, s->api, s->stream, workspace));
    }
    return pass->layers != NULL ? psr_cuda_layers_pause(pass->layers) : PSR_OK;
}

/* What was begun is ended in any case: the stream records no more. */
static psr_err record(const psr_cuda_segments *s, segment *of, const psr_cuda_pass *pass,
                      void *workspace)
{
    psr_cuda_recording *recording = NULL;
    char detail[PSR_ERR_DETAIL_BYTES];
    PSR_TRY(s->api->record_begin(s->stream));
    const psr_err err = order(s, of, pass, workspace);
    psr_err_detail_keep(detail);
    const psr_err ended = s->api->record_end(s->stream, &recording);
    if (err == PSR_OK && ended == PSR_OK) {
        of->recording = recording;
        return PSR_OK;
    }
    if (ended == PSR_OK)
        s->api->recording_free(recording);
    if (err != PSR_OK)
        psr_err_detail_restore(detail);
    return err != PSR_OK ? err : ended;
}

/* A device that is well but cannot record it, because a library's engine asks for what may not be
 * recorded or there is no memory for it, is given its steps one by one in every pass. */
static psr_err try_to_record(const psr_cuda_segments *s, segment *of, const psr_cuda_pass *pass,
                             void *workspace)
{
    char detail[PSR_ERR_DETAIL_BYTES];
    psr_err_detail_keep(detail);
    if (record(s, of, pass, workspace) == PSR_OK)
        return PSR_OK;
    PSR_TRY(s->api->device_check(s->device));
    psr_err_detail_restore(detail);
    of->records = false;
    return PSR_OK;
}

psr_err psr_cuda_segments_run(psr_cuda_segments *segments, uint32_t first,
                              const psr_cuda_pass *pass, void *workspace, uint32_t *ret_next)
{
    psr_cuda_segments *s = segments;
    s->next = first == 0 ? 0 : s->next;
    segment *of = &s->items[s->next++];
    assert(of->first == first);
    *ret_next = first + of->count;
    const bool may_record = of->records && pass->layers == NULL;
    if (may_record && of->was_ordered && of->recording == NULL)
        PSR_TRY(try_to_record(s, of, pass, workspace));
    of->was_ordered = true;
    return may_record && of->recording != NULL ? s->api->recording_run(s->stream, of->recording)
                                               : order(s, of, pass, workspace);
}
