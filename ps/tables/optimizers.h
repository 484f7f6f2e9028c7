/* model's optimizers as updates of tables, by name and arguments: "lr=0.1 momentum=0.9 nesterov".
 * What is not said is 0, but Adam's own three, which are as usual; lr must be said. Arguments that
 * have been checked are kept. */
#ifndef PSR_PS_TABLES_OPTIMIZERS_H
#define PSR_PS_TABLES_OPTIMIZERS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct psr_table_optimizer psr_table_optimizer;

/* There are so many, each with a name and at most so many states. Any thread. */
enum { PSR_TABLE_OPTIMIZERS = 2, PSR_TABLE_OPTIMIZER_STATES = 2 };
/* name: "sgd", "adam". NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_table_optimizer_new(const char *name,
                                               psr_table_optimizer **ret_optimizer);
/* NULL allowed. */
void psr_table_optimizer_free(psr_table_optimizer *optimizer);
const char *psr_table_optimizer_name(uint32_t index);

/* USAGE: they are not its arguments; the detail says why. NOMEM. One thread at a time, beside those
 * that apply. */
PSR_MUST_CHECK psr_err psr_table_optimizer_check(psr_table_optimizer *optimizer,
                                                 const char *arguments);
/* One update of count values by arguments that were checked. number: of it, from 1. NUMERIC: what
 * is pushed is not finite. Any thread. */
PSR_MUST_CHECK psr_err psr_table_optimizer_apply(const psr_table_optimizer *optimizer,
                                                 const char *arguments, float *values,
                                                 const float *pushed, float *const *states,
                                                 size_t count, uint64_t number);

#endif
