/* What a simulated cluster is held against: a network's layout, configurations, and a reference of
 * plain loops. */
#ifndef PSR_TESTS_CLUSTER_REFERENCE_H
#define PSR_TESTS_CLUSTER_REFERENCE_H

#include "tests/unit/cluster/cluster.h"

typedef struct reference_rule {
    const char *name;
    psr_optimizer_kind kind;
    double momentum;
    bool nesterov;
} reference_rule;

enum { REFERENCE_RULES = 5 };
extern const reference_rule reference_rules[REFERENCE_RULES];

/* Tensors of sizes that nothing divides. */
void reference_layout(psr_layout *layout);
psr_config reference_config(const reference_rule *rule, uint32_t workers);

/* The order of the sum; another one is a control. Reversed: as --fold reversed. */
typedef enum reference_order {
    REFERENCE_FOLD,
    REFERENCE_REVERSED,
    REFERENCE_ANOTHER
} reference_order;

/* Weights of the workers after each step, and last those of a checkpoint of the last step:
 * history[steps + 1][arena], to be freed. slots, when not NULL: the optimizer's at the end. */
float *reference_run(const psr_config *config, const psr_layout *layout, const psr_buckets *buckets,
                     uint64_t first_step, uint64_t steps, reference_order which, float **slots);

/* The same without the updates of some steps: bit s of left_out: of step s. */
float *reference_run_without(const psr_config *config, const psr_layout *layout,
                             const psr_buckets *buckets, uint64_t first_step, uint64_t steps,
                             reference_order which, uint64_t left_out, float **slots);

/* The same of a compressed run, which mode local plays as the config's mode rounds
 * (worker/exchange/exchange_local.h). residuals: [workers] arenas, what each owes: at the
 * beginning, and then at the end. */
float *reference_run_compressed(const psr_config *config, const psr_layout *layout,
                                const psr_buckets *buckets, uint64_t first_step, uint64_t steps,
                                float **residuals);

/* Padding of tensors is no parameter: LARS leaves it alone, others update it. */
bool reference_same(const psr_layout *layout, const float *a, const float *b);

/* Runs the cluster: all weights after all steps, and those of the last checkpoint, must be the
 * reference's. */
void reference_check(const cluster_options *options, const float *reference);

#endif
