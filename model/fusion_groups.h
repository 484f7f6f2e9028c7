/* A network's nodes, gathered into groups that one kernel computes together.
 *
 * Batch norm takes the addition and the ReLU behind it along where nobody else reads what lies
 * between:
 *   y = relu(norm(x) + r)   r: nothing, a value, or a second batch norm (a projection shortcut).
 * Every other node is a group by itself. Groups come in the order in which they can run, that of
 * their last nodes. Back ends that fuse take them (model/onednn, model/cuda). No compute library;
 * plain data; immutable after building. */
#ifndef PSR_MODEL_FUSION_GROUPS_H
#define PSR_MODEL_FUSION_GROUPS_H

#include "model/networks/network.h"

#define PSR_FUSION_GROUP_NODES 4

typedef struct psr_fusion_group {
    psr_op op;                              /* of its first node */
    uint32_t nodes[PSR_FUSION_GROUP_NODES]; /* in the network's order */
    uint32_t node_count;
    uint32_t output; /* the node whose value it gives: its last */
    uint32_t match;  /* convolution: a value whose layout its own has to have; PSR_NONE */
    /* Batch norm only; PSR_NONE when absent. */
    uint32_t norm, second_norm; /* second_norm: its value is added */
    uint32_t residual;          /* a value that is added */
    bool relu;
} psr_fusion_group;

typedef struct psr_fusion_groups {
    psr_fusion_group *items;
    uint32_t count;
    uint32_t *readers; /* [node_count]: how many nodes read each value */
} psr_fusion_groups;

/* The caller owns *ret_groups: psr_fusion_groups_done. NOMEM. */
PSR_MUST_CHECK psr_err psr_fusion_groups_init(const psr_network *net,
                                              psr_fusion_groups *ret_groups);
void psr_fusion_groups_done(psr_fusion_groups *groups);

#endif
