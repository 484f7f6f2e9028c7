#include "model/optimizers/tensor_runs.h"

#include "model/optimizers/square_sum.h"

#include <stdlib.h>
#include <string.h>

static psr_span common(psr_span a, psr_span b)
{
    const size_t begin = a.offset > b.offset ? a.offset : b.offset;
    const size_t end = psr_span_end(a) < psr_span_end(b) ? psr_span_end(a) : psr_span_end(b);
    return (psr_span){begin, begin < end ? end - begin : 0};
}

/* Appends the runs of a bucket; counts them if runs has no items yet. */
static void add_bucket(const psr_layout *layout, psr_span bucket, uint32_t number,
                       psr_tensor_runs *runs)
{
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const psr_tensor *tensor = &layout->tensors[t];
        const psr_span span = common((psr_span){tensor->offset, tensor->count}, bucket);
        if (span.count == 0 || tensor->frozen)
            continue;
        if (runs->items != NULL)
            runs->items[runs->count] = (psr_tensor_run){(uint32_t)t, number, span};
        runs->count++;
    }
}

psr_err psr_tensor_runs_of(const psr_layout *layout, const psr_span *buckets, uint32_t bucket_count,
                           psr_tensor_runs *ret_runs)
{
    psr_tensor_runs runs = {.first = calloc((size_t)bucket_count + 1, sizeof *runs.first)};
    for (uint32_t b = 0; b < bucket_count; b++)
        add_bucket(layout, buckets[b], b, &runs);
    runs.items = calloc((size_t)runs.count + 1, sizeof *runs.items);
    runs.count = 0;
    if (runs.first == NULL || runs.items == NULL) {
        psr_tensor_runs_done(&runs);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the norms of tensors");
    }
    for (uint32_t b = 0; b < bucket_count; b++) {
        add_bucket(layout, buckets[b], b, &runs);
        runs.first[b + 1] = runs.count;
    }
    *ret_runs = runs;
    return PSR_OK;
}

void psr_tensor_runs_done(psr_tensor_runs *runs)
{
    free(runs->items);
    free(runs->first);
    *runs = (psr_tensor_runs){0};
}

double psr_tensor_run_squares(const psr_tensor_run *run, const float *arena)
{
    return psr_square_sum(arena + run->span.offset, run->span.count);
}

void psr_tensor_runs_add(const psr_tensor_runs *runs, const double *squares, size_t tensor_count,
                         double *ret_tensors)
{
    memset(ret_tensors, 0, tensor_count * sizeof *ret_tensors);
    for (uint32_t r = 0; r < runs->count; r++)
        ret_tensors[runs->items[r].tensor] += squares[r];
}
