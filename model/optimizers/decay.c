#include "model/optimizers/decay.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of the name without `ending`; 0: it ends otherwise. */
static size_t stem(const char *name, const char *ending)
{
    const size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcmp(name + length - tail, ending) == 0 ? length - tail : 0;
}

static bool is_norms(const psr_layout *layout, const psr_tensor *tensor)
{
    char name[PSR_TENSOR_NAME_MAX + sizeof ".weight"];
    if (tensor->rank != 1)
        return false;
    if (stem(tensor->name, ".weight") > 0)
        return true;
    const size_t length = stem(tensor->name, ".bias");
    if (length == 0)
        return false;
    snprintf(name, sizeof name, "%.*s.weight", (int)length, tensor->name);
    const psr_tensor *scale = psr_layout_find(layout, name);
    return scale != NULL && scale->rank == 1;
}

bool psr_decay_spares(const psr_layout *layout, size_t t, uint32_t kinds)
{
    const psr_tensor *tensor = &layout->tensors[t];
    return ((kinds & PSR_SPARE_NORMS) != 0 && is_norms(layout, tensor)) ||
           ((kinds & PSR_SPARE_BIASES) != 0 && stem(tensor->name, ".bias") > 0);
}

psr_err psr_decay_init(const psr_layout *layout, const psr_config *config, psr_decay *ret_decay)
{
    psr_decay decay = {.runs = calloc(layout->tensor_count + 1, sizeof *decay.runs)};
    if (decay.runs == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the decay of %zu tensors",
                        layout->tensor_count);
    for (size_t t = 0; t < layout->tensor_count; t++) {
        const bool last = t + 1 == layout->tensor_count;
        const size_t end = last ? layout->length : layout->tensors[t + 1].offset;
        const char *name = layout->tensors[t].name;
        const psr_decay_run run = {.lr_factor = psr_config_factor_of(config->lr_factor, name),
                                   .decay_factor =
                                       psr_decay_spares(layout, t, config->no_decay)
                                           ? 0
                                           : psr_config_factor_of(config->decay_factor, name)};
        const psr_decay_run *before = decay.count > 0 ? &decay.runs[decay.count - 1] : NULL;
        if (before == NULL || before->lr_factor != run.lr_factor ||
            before->decay_factor != run.decay_factor)
            decay.runs[decay.count++] = run;
        decay.runs[decay.count - 1].end = end;
    }
    *ret_decay = decay;
    return PSR_OK;
}

void psr_decay_done(psr_decay *decay)
{
    free(decay->runs);
    *decay = (psr_decay){0};
}

const psr_decay_run *psr_decay_at(const psr_decay *decay, size_t offset)
{
    size_t low = 0, high = decay->count;
    while (low < high) { /* the first run that ends behind it lies in [low, high] */
        const size_t middle = (low + high) / 2;
        if (decay->runs[middle].end > offset)
            high = middle;
        else
            low = middle + 1;
    }
    assert(low < decay->count);
    return &decay->runs[low];
}
