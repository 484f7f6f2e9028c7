/* Which algorithm each convolution takes in each direction: text, so that it can be recorded and handed
 * to other ranks. Three letters per convolution in the network's order, for forward, backward data, backward
 * weights, separated by commas: "ddd,dwd,ddd". d: direct; w: Winograd. "": all direct. */
#ifndef PSR_MODEL_ONEDNN_CHOICE_H
#define PSR_MODEL_ONEDNN_CHOICE_H

#include "model/net.h"
#include "model/onednn_compat.h"

typedef enum psr_onednn_direction {
    PSR_ONEDNN_FORWARD,
    PSR_ONEDNN_BACKWARD_DATA,
    PSR_ONEDNN_BACKWARD_WEIGHTS,
} psr_onednn_direction;

/* The algorithm of the index-th convolution. choices has been checked. */
dnnl_alg_kind_t psr_onednn_choice(const char *choices, uint32_t index, psr_onednn_direction direction);

/* FORMAT when text is not a choice for net. */
PSR_MUST_CHECK psr_err psr_onednn_choice_check(const psr_net *net, const char *text);

#endif
