#include "model/optimizers/whole_tensors.h"

#include <stdlib.h>

/* A part overlaps a run of tensors, and a tensor overlaps a run of parts: first and count of that
 * run, and how many of it are missing in this step. */
typedef struct overlap {
    uint32_t first, count, missing;
} overlap;

struct psr_whole_tensors {
    psr_whole_tensors_events events;
    overlap *parts;   /* [part]: its tensors; missing: how many are not updated yet */
    overlap *tensors; /* [tensor]: its parts; missing: how many are not summed yet */
};

static size_t tensor_end(const psr_tensor *tensor)
{
    return tensor->offset +
           (tensor->count + PSR_TENSOR_ALIGN - 1) / PSR_TENSOR_ALIGN * PSR_TENSOR_ALIGN;
}

/* The floats of a tensor's room that lie in a part. */
static size_t common(const psr_tensor *tensor, const psr_span *part)
{
    size_t begin = tensor->offset > part->offset ? tensor->offset : part->offset;
    size_t part_end = psr_span_end(*part);
    size_t end = tensor_end(tensor) < part_end ? tensor_end(tensor) : part_end;
    return end > begin ? end - begin : 0;
}

psr_err psr_whole_tensors_new(const psr_layout *layout, const psr_span *parts, uint32_t count,
                              const psr_whole_tensors_events *events,
                              psr_whole_tensors **ret_tensors)
{
    psr_err err = PSR_OK;
    psr_whole_tensors *whole = calloc(1, sizeof *whole);
    size_t *covered = calloc(layout->tensor_count + 1, sizeof *covered);
    if (whole != NULL) {
        whole->events = *events;
        whole->parts = calloc((size_t)count + 1, sizeof *whole->parts);
        whole->tensors = calloc(layout->tensor_count + 1, sizeof *whole->tensors);
    }
    if (whole == NULL || covered == NULL || whole->parts == NULL || whole->tensors == NULL) {
        err = psr_fail(PSR_ERR_NOMEM, "no memory to follow %zu tensors in %u parts",
                       layout->tensor_count, count);
        goto out;
    }

    size_t t = 0;
    for (uint32_t p = 0; p < count; p++) {
        while (t < layout->tensor_count && tensor_end(&layout->tensors[t]) <= parts[p].offset)
            t++;
        whole->parts[p].first = (uint32_t)t;
        for (size_t u = t; u < layout->tensor_count && common(&layout->tensors[u], &parts[p]) > 0;
             u++) {
            whole->parts[p].count++;
            if (whole->tensors[u].count++ == 0)
                whole->tensors[u].first = p;
            covered[u] += common(&layout->tensors[u], &parts[p]);
        }
        whole->parts[p].missing = whole->parts[p].count;
    }
    for (size_t u = 0; u < layout->tensor_count; u++) {
        const psr_tensor *tensor = &layout->tensors[u];
        whole->tensors[u].missing = whole->tensors[u].count;
        if (covered[u] > 0 && covered[u] != tensor_end(tensor) - tensor->offset) {
            err =
                psr_fail(PSR_ERR_USAGE,
                         "tensor %s lies only in part in these buckets: its update needs all of it",
                         tensor->name);
            goto out;
        }
    }
    *ret_tensors = whole;
    whole = NULL;
out:
    psr_whole_tensors_free(whole);
    free(covered);
    return err;
}

void psr_whole_tensors_free(psr_whole_tensors *tensors)
{
    if (tensors == NULL)
        return;
    free(tensors->parts);
    free(tensors->tensors);
    free(tensors);
}

/* The count is set up for the next step at once, before any part can be summed again. */
static bool count_down(overlap *o)
{
    if (--o->missing > 0)
        return false;
    o->missing = o->count;
    return true;
}

psr_err psr_whole_tensors_summed(psr_whole_tensors *whole, uint32_t part)
{
    overlap of_part = whole->parts[part];
    for (uint32_t t = of_part.first; t < of_part.first + of_part.count; t++) {
        if (!count_down(&whole->tensors[t]))
            continue;
        whole->events.complete(whole->events.context, t);
        for (uint32_t p = whole->tensors[t].first;
             p < whole->tensors[t].first + whole->tensors[t].count; p++)
            if (count_down(&whole->parts[p]))
                PSR_TRY(whole->events.updated(whole->events.context, p));
    }
    return PSR_OK;
}
