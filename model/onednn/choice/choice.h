/* Which algorithm each convolution takes in each direction: text, so that it can be recorded and
 * handed to other ranks. Three letters per convolution in the network's order, for forward,
 * backward data, backward weights, separated by commas: "ddd,dwo,ddd". d: direct, by oneDNN or for
 * few channels by our own kernels (image_lanes.h); w: oneDNN's Winograd; o: our own (winograd.h).
 * Where there is no such one for a batch, direct is taken. */
#ifndef PSR_MODEL_ONEDNN_CHOICE_CHOICE_H
#define PSR_MODEL_ONEDNN_CHOICE_CHOICE_H

#include "model/networks/network.h"

typedef enum psr_onednn_direction {
    PSR_ONEDNN_FORWARD,
    PSR_ONEDNN_BACKWARD_DATA,
    PSR_ONEDNN_BACKWARD_WEIGHTS,
} psr_onednn_direction;

typedef enum psr_onednn_algorithm {
    PSR_ONEDNN_DIRECT,
    PSR_ONEDNN_WINOGRAD,
    PSR_ONEDNN_OWN_WINOGRAD,
    PSR_ONEDNN_ALGORITHMS,
} psr_onednn_algorithm;

/* Its letter. */
char psr_onednn_letter(psr_onednn_algorithm algorithm);

/* The algorithm of the index-th convolution. choices has been checked, or is "": all direct. */
psr_onednn_algorithm psr_onednn_choice(const char *choices, uint32_t index,
                                       psr_onednn_direction direction);

/* All direct, in full. The caller owns *ret_choices: free(). NOMEM. */
PSR_MUST_CHECK psr_err psr_onednn_choice_direct(const psr_network *net, char **ret_choices);

/* FORMAT when text is not a choice for net. */
PSR_MUST_CHECK psr_err psr_onednn_choice_check(const psr_network *net, const char *text);

#endif
