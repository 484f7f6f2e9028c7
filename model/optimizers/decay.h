/* What is not the same for all elements of the arena: which ones weight decay spares (--no-decay),
 * and by what it and the learning rate are multiplied (--decay-factor, --lr-factor). Runs of
 * tensors that are alike, so that an update can be cut at their bounds. It knows tensors by their
 * names and ranks, which every process has, a shard too: "X.weight" of rank 1 is batch norm's
 * scale, and "X.bias" beside it its shift. Immutable after building; any thread. */
#ifndef PSR_MODEL_DECAY_H
#define PSR_MODEL_DECAY_H

#include "base/config/config.h"
#include "model/layout.h"

typedef struct psr_decay_run {
    size_t end; /* floats from the arena's start; it begins where the one before ends */
    double lr_factor;
    double decay_factor; /* 0 where decay spares them */
} psr_decay_run;

typedef struct psr_decay {
    psr_decay_run *runs; /* ascending; the last one ends with the arena */
    size_t count;
} psr_decay;

/* Whether a tensor of the layout is spared. kinds: the sum of PSR_SPARE_... */
bool psr_decay_spares(const psr_layout *layout, size_t tensor, uint32_t kinds);

/* NOMEM. The caller owns *ret_decay: psr_decay_done. */
PSR_MUST_CHECK psr_err psr_decay_init(const psr_layout *layout, const psr_config *config,
                                      psr_decay *ret_decay);
/* A zeroed one too. */
void psr_decay_done(psr_decay *decay);

/* The run in which this element of the arena lies. Borrowed. */
const psr_decay_run *psr_decay_at(const psr_decay *decay, size_t offset);

/* Of a run's elements: the learning rate, from that of the update, and the weight decay. */
static inline float psr_decay_run_lr(const psr_decay_run *run, float lr)
{
    return (float)((double)lr * run->lr_factor);
}

static inline double psr_decay_run_decay(const psr_decay_run *run, const psr_config *config)
{
    return config->weight_decay * run->decay_factor;
}

#endif
