/* model's optimizers as updates of tables, by name and arguments: "lr=0.1 momentum=0.9 nesterov".
 * An argument that is not given is 0, except Adam's own three, which have their usual values; lr
 * must be given. */
#ifndef PSR_PS_TABLES_OPTIMIZERS_H
#define PSR_PS_TABLES_OPTIMIZERS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct psr_table_optimizer psr_table_optimizer;

/* The number of optimizers, and the most states that one has. The names: any thread. */
enum { PSR_TABLE_OPTIMIZERS = 3, PSR_TABLE_OPTIMIZER_STATES = 2 };
/* name: "sgd", "adam", "adamw". NOMEM. The caller owns *ret_optimizer. */
PSR_MUST_CHECK psr_err psr_table_optimizer_new(const char *name,
                                               psr_table_optimizer **ret_optimizer);
/* NULL allowed. */
void psr_table_optimizer_free(psr_table_optimizer *optimizer);
const char *psr_table_optimizer_name(uint32_t index);

/* USAGE: these are not arguments of it; the detail says why. Any thread. */
PSR_MUST_CHECK psr_err psr_table_optimizer_check(const psr_table_optimizer *optimizer,
                                                 const char *arguments);
/* One update of count values. number: that of the update, from 1. Arguments that it got lately are
 * not parsed again. NUMERIC: a pushed value is not finite. USAGE: as in check. One thread. */
PSR_MUST_CHECK psr_err psr_table_optimizer_apply(psr_table_optimizer *optimizer,
                                                 const char *arguments, float *values,
                                                 const float *pushed, float *const *states,
                                                 size_t count, uint64_t number);

#endif
