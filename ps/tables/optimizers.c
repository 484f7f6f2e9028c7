#include "ps/tables/optimizers.h"

#include "base/arrays/finite.h"
#include "model/optimizers/optimizer.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ARGUMENTS_BYTES = 512 };

typedef struct parsed {
    struct parsed *next;
    char arguments[ARGUMENTS_BYTES];
    psr_config config;
} parsed;

/* The list grows only at its head, so a thread that applies an update can go on reading it. */
struct psr_table_optimizer {
    const char *name;
    _Atomic(parsed *) first;
};

static const char *const names[PSR_TABLE_OPTIMIZERS] = {"sgd", "adam", "adamw"};

const char *psr_table_optimizer_name(uint32_t index)
{
    return names[index];
}

psr_err psr_table_optimizer_new(const char *name, psr_table_optimizer **ret_optimizer)
{
    psr_table_optimizer *optimizer = calloc(1, sizeof *optimizer);
    if (optimizer == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an optimizer");
    optimizer->name = name;
    *ret_optimizer = optimizer;
    return PSR_OK;
}

void psr_table_optimizer_free(psr_table_optimizer *optimizer)
{
    if (optimizer == NULL)
        return;
    for (parsed *p = atomic_load(&optimizer->first), *next; p != NULL; p = next) {
        next = p->next;
        free(p);
    }
    free(optimizer);
}

/* ---- arguments ---- */

static psr_err set_argument(psr_config *config, const char *word, bool *has_rate)
{
    static const char *const known[] = {"lr",         "momentum",   "weight-decay", "nesterov",
                                        "adam-beta1", "adam-beta2", "adam-epsilon"};
    char name[ARGUMENTS_BYTES];
    const size_t length = strcspn(word, "=");
    memcpy(name, word, length);
    name[length] = '\0';
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(name, known[i]) != 0)
            continue;
        *has_rate = *has_rate || i == 0;
        const char *value = word[length] == '=' ? word + length + 1 : "true";
        psr_err err = psr_config_set(config, name, value);
        if (err == PSR_OK)
            return PSR_OK;
        return psr_fail(err, "argument \"%.64s\" cannot be \"%.64s\"", name, value);
    }
    return psr_fail(PSR_ERR_USAGE,
                    "there is no argument \"%.64s\", but lr, momentum, weight-decay, nesterov, "
                    "adam-beta1, adam-beta2, adam-epsilon",
                    name);
}

static psr_err parse(const char *optimizer, const char *arguments, psr_config *ret_config)
{
    char words[ARGUMENTS_BYTES], *rest = words;
    bool has_rate = false;
    psr_config config;
    psr_config_defaults(&config);
    config.momentum = config.weight_decay = 0;
    if (strlen(arguments) >= sizeof words)
        return psr_fail(PSR_ERR_USAGE, "its arguments are longer than %zu bytes", sizeof words - 1);
    strcpy(words, arguments);
    PSR_TRY(psr_config_set(&config, "optimizer", optimizer));
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL;)
        PSR_TRY(set_argument(&config, word, &has_rate));
    if (!has_rate)
        return psr_fail(PSR_ERR_USAGE, "its learning rate is missing: \"%s lr=0.1\"", optimizer);
    if (config.nesterov && config.momentum == 0)
        return psr_fail(PSR_ERR_USAGE, "nesterov needs a momentum above 0");
    PSR_TRY(psr_optimizer_check(&config));
    *ret_config = config;
    return PSR_OK;
}

static const parsed *find(const psr_table_optimizer *optimizer, const char *arguments)
{
    const parsed *p = atomic_load_explicit(&optimizer->first, memory_order_acquire);
    while (p != NULL && strcmp(p->arguments, arguments) != 0)
        p = p->next;
    return p;
}

psr_err psr_table_optimizer_check(psr_table_optimizer *optimizer, const char *arguments)
{
    psr_config config;
    PSR_TRY(parse(optimizer->name, arguments, &config));
    if (find(optimizer, arguments) != NULL)
        return PSR_OK;
    parsed *p = calloc(1, sizeof *p);
    if (p == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an optimizer");
    strcpy(p->arguments, arguments);
    p->config = config;
    p->next = atomic_load(&optimizer->first);
    atomic_store_explicit(&optimizer->first, p, memory_order_release);
    return PSR_OK;
}

psr_err psr_table_optimizer_apply(const psr_table_optimizer *optimizer, const char *arguments,
                                  float *values, const float *pushed, float *const *states,
                                  size_t count, uint64_t number)
{
    const parsed *p = find(optimizer, arguments);
    if (p == NULL)
        return psr_fail(PSR_ERR_USAGE, "the arguments \"%s\" were never checked", arguments);
    if (!psr_finite(pushed, count))
        return psr_fail(PSR_ERR_NUMERIC, "the pushed values are not finite");
    psr_optimizer_apply(&p->config, values, pushed, states, count, number);
    return PSR_OK;
}
