#include "model/optimizers/optimizer.h"

#include "base/arrays/arena.h"
#include "model/optimizers/decay.h"
#include "model/optimizers/ema.h"
#include "model/optimizers/optimizer_rule.h"

#include <assert.h>
#include <stdlib.h>

enum { SLOTS_MAX = PSR_OPTIMIZER_SLOTS_MAX + 1 }; /* the rule's, and the average */

struct psr_optimizer {
    const psr_optimizer_rule *rule;
    psr_config config;
    const psr_layout *layout;
    psr_decay decay;
    uint32_t slot_count;
    uint32_t rule_slots; /* those of the rule; the average is after them */
    const char *slot_names[SLOTS_MAX];
    float *slots[SLOTS_MAX]; /* arenas of layout->length floats */
};

static const psr_optimizer_rule *rule_of(psr_optimizer_kind kind)
{
    switch (kind) {
    case PSR_OPTIMIZER_SGD:
        return &psr_rule_sgd;
    case PSR_OPTIMIZER_ADAM:
        return &psr_rule_adam;
    case PSR_OPTIMIZER_LARS:
        return &psr_rule_lars;
    case PSR_OPTIMIZER_ADAMW:
        return &psr_rule_adamw;
    case PSR_OPTIMIZER_LAMB:
        return &psr_rule_lamb;
    case PSR_OPTIMIZER_RMSPROP:
        return &psr_rule_rmsprop;
    }
    return NULL;
}

uint32_t psr_optimizer_slots_of(const psr_config *config)
{
    const char *names[PSR_OPTIMIZER_SLOTS_MAX];
    const psr_optimizer_rule *rule = rule_of(config->optimizer);
    return (rule != NULL ? rule->slots(config, names) : 0) + psr_ema_is_on(config);
}

static psr_err find_rule(const psr_config *config, const psr_optimizer_rule **ret_rule)
{
    const psr_optimizer_rule *rule = rule_of(config->optimizer);
    if (rule == NULL)
        return psr_fail(PSR_ERR_USAGE, "optimizer %d is unknown", (int)config->optimizer);
    if (!(config->weight_decay >= 0))
        return psr_fail(PSR_ERR_USAGE, "--weight-decay: %g is below 0", config->weight_decay);
    PSR_TRY(rule->check(config));
    *ret_rule = rule;
    return PSR_OK;
}

psr_err psr_optimizer_check(const psr_config *config)
{
    const psr_optimizer_rule *rule = NULL;
    PSR_TRY(find_rule(config, &rule));
    if (rule == NULL || rule->whole_tensors)
        return psr_fail(PSR_ERR_USAGE, "it needs whole tensors");
    return PSR_OK;
}

void psr_optimizer_apply(const psr_config *config, float *weights, const float *gradient,
                         float *const *slots, size_t count, uint64_t number)
{
    const psr_optimizer_rule *rule = rule_of(config->optimizer);
    if (rule == NULL)
        return; /* psr_optimizer_check has refused it */
    psr_update update = {.weights = weights,
                         .gradients = gradient,
                         .count = count,
                         .lr = (float)config->lr,
                         .decay = config->weight_decay,
                         .number = number};
    const char *names[PSR_OPTIMIZER_SLOTS_MAX];
    const uint32_t slot_count = rule->slots(config, names);
    for (uint32_t i = 0; i < slot_count; i++)
        update.slots[i] = slots[i];
    rule->apply(config, &update);
}

psr_err psr_optimizer_new(const psr_config *config, const psr_layout *layout,
                          psr_optimizer **ret_optimizer)
{
    const psr_optimizer_rule *rule = NULL;
    PSR_TRY(find_rule(config, &rule));
    psr_optimizer *optimizer = calloc(1, sizeof *optimizer);
    if (optimizer == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an optimizer");
    *optimizer = (psr_optimizer){.rule = rule, .config = *config, .layout = layout};
    optimizer->rule_slots = rule->slots(config, optimizer->slot_names);
    optimizer->slot_count = optimizer->rule_slots;
    if (psr_ema_is_on(config))
        optimizer->slot_names[optimizer->slot_count++] = PSR_EMA_SLOT;
    psr_err err = psr_decay_init(layout, config, &optimizer->decay);
    for (uint32_t i = 0; err == PSR_OK && i < optimizer->slot_count; i++)
        err = psr_arena_new(layout->length, &optimizer->slots[i]);
    if (err != PSR_OK) {
        psr_optimizer_free(optimizer);
        return err;
    }
    *ret_optimizer = optimizer;
    return PSR_OK;
}

void psr_optimizer_free(psr_optimizer *optimizer)
{
    if (optimizer == NULL)
        return;
    for (uint32_t i = 0; i < optimizer->slot_count; i++)
        psr_arena_free(optimizer->slots[i], optimizer->layout->length);
    psr_decay_done(&optimizer->decay);
    free(optimizer);
}

bool psr_optimizer_whole_tensors(const psr_optimizer *optimizer)
{
    return optimizer->rule->whole_tensors;
}

/* All elements are of one run of the decay. */
static void apply(psr_optimizer *optimizer, float *weights, const float *gradient, size_t offset,
                  size_t count, uint32_t rank, float lr, uint64_t number)
{
    const psr_decay_run *run = psr_decay_at(&optimizer->decay, offset);
    psr_update update = {.weights = weights + offset,
                         .gradients = gradient,
                         .count = count,
                         .rank = rank,
                         .lr = psr_decay_run_lr(run, lr),
                         .decay = psr_decay_run_decay(run, &optimizer->config),
                         .number = number};
    for (uint32_t i = 0; i < optimizer->rule_slots; i++)
        update.slots[i] = optimizer->slots[i] + offset;
    optimizer->rule->apply(&optimizer->config, &update);
    if (optimizer->slot_count > optimizer->rule_slots)
        psr_ema_follow(&optimizer->config, number, update.weights,
                       optimizer->slots[optimizer->rule_slots] + offset, count);
}

void psr_optimizer_update(psr_optimizer *optimizer, float *weights, const float *gradients,
                          size_t offset, size_t length, float lr, uint64_t update)
{
    psr_optimizer_update_run(optimizer, weights, gradients + offset, offset, length, lr, update);
}

void psr_optimizer_update_run(psr_optimizer *optimizer, float *weights, const float *gradient,
                              size_t offset, size_t length, float lr, uint64_t update)
{
    assert(!optimizer->rule->whole_tensors);
    assert(offset <= optimizer->layout->length && length <= optimizer->layout->length - offset);
    for (size_t at = offset, end; at < offset + length; at = end) {
        end = psr_decay_at(&optimizer->decay, at)->end;
        end = end < offset + length ? end : offset + length;
        apply(optimizer, weights, gradient + (at - offset), at, end - at, 0, lr, update);
    }
}

void psr_optimizer_update_tensor(psr_optimizer *optimizer, float *weights, const float *gradients,
                                 size_t tensor, float lr, uint64_t update)
{
    assert(tensor < optimizer->layout->tensor_count);
    const psr_tensor *t = &optimizer->layout->tensors[tensor];
    apply(optimizer, weights, gradients + t->offset, t->offset, t->count, t->rank, lr, update);
}

uint32_t psr_optimizer_slot_count(const psr_optimizer *optimizer)
{
    return optimizer->slot_count;
}

const char *psr_optimizer_slot_name(const psr_optimizer *optimizer, uint32_t slot)
{
    assert(slot < optimizer->slot_count);
    return optimizer->slot_names[slot];
}

float *psr_optimizer_slot(psr_optimizer *optimizer, uint32_t slot)
{
    assert(slot < optimizer->slot_count);
    return optimizer->slots[slot];
}

bool psr_optimizer_ema_slot(const psr_config *config, uint32_t *ret_slot)
{
    const psr_optimizer_rule *rule = rule_of(config->optimizer);
    const char *names[PSR_OPTIMIZER_SLOTS_MAX];
    if (rule == NULL || !psr_ema_is_on(config))
        return false;
    *ret_slot = rule->slots(config, names);
    return true;
}
