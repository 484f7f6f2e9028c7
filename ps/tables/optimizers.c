#include "ps/tables/optimizers.h"

#include "base/arrays/finite.h"
#include "model/optimizers/optimizer.h"

#include <stdlib.h>
#include <string.h>

enum {
    ARGUMENTS_BYTES = 512,
    /* An update comes in blocks, which should not parse its arguments again. Few tables have
     * different arguments at once. */
    KEPT = 16,
};

typedef struct parsed {
    char arguments[ARGUMENTS_BYTES]; /* "": none */
    psr_config config;
} parsed;

struct psr_table_optimizer {
    const char *name;
    parsed kept[KEPT]; /* those that were applied last */
    uint32_t next;     /* whose place the next ones get */
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

psr_err psr_table_optimizer_check(const psr_table_optimizer *optimizer, const char *arguments)
{
    psr_config config;
    return parse(optimizer->name, arguments, &config);
}

static psr_err find(psr_table_optimizer *optimizer, const char *arguments,
                    const parsed **ret_parsed)
{
    psr_config config;
    for (uint32_t i = 0; i < KEPT; i++) {
        if (arguments[0] != '\0' && strcmp(optimizer->kept[i].arguments, arguments) == 0) {
            *ret_parsed = &optimizer->kept[i];
            return PSR_OK;
        }
    }
    PSR_TRY(parse(optimizer->name, arguments, &config)); /* "" is refused: there is no lr */
    parsed *p = &optimizer->kept[optimizer->next];
    optimizer->next = (optimizer->next + 1) % KEPT;
    strcpy(p->arguments, arguments);
    p->config = config;
    *ret_parsed = p;
    return PSR_OK;
}

psr_err psr_table_optimizer_apply(psr_table_optimizer *optimizer, const char *arguments,
                                  float *values, const float *pushed, float *const *states,
                                  size_t count, uint64_t number)
{
    const parsed *p = NULL;
    PSR_TRY(find(optimizer, arguments, &p));
    if (!psr_finite(pushed, count))
        return psr_fail(PSR_ERR_NUMERIC, "the pushed values are not finite");
    psr_optimizer_apply(&p->config, values, pushed, states, count, number);
    return PSR_OK;
}
