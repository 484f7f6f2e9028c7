/* The list of all networks that --model may name. base has the options --model and --shortcut, but
 * does not know the networks. So programs check these options, and print their help, with the
 * functions below. Constant data, any thread. */
#ifndef PSR_MODEL_NETWORK_LIST_H
#define PSR_MODEL_NETWORK_LIST_H

#include "base/config/config.h"

typedef enum psr_network_family {
    PSR_FAMILY_MLP,
    PSR_FAMILY_CONVNET,
    PSR_FAMILY_CIFAR,        /* ResNets of He et al. (2015), section 4.2 */
    PSR_FAMILY_PREACTIVATED, /* those of He et al. (2016) */
    PSR_FAMILY_RESNET9,      /* Page (2018) */
    PSR_FAMILY_AIRBENCH,     /* Jordan (2024) */
    PSR_FAMILY_IMAGENET,     /* torchvision's ResNets, wide ones and ResNeXts */
    PSR_FAMILY_PROFILE,      /* any that was recorded (docs/lab.md); can only be played */
} psr_network_family;

typedef struct psr_listed_network {
    const char *name;
    psr_network_family family;
    uint32_t depth;      /* layers with weights, of a ResNet; else 0 */
    uint32_t least_size; /* least side of an image in pixels, for which every window fits */
    uint32_t groups, group_width; /* of torchvision's bottlenecks (resnet.c); elsewhere 0 */
} psr_listed_network;

/* In the order of --help; a row without a name ends it. */
extern const psr_listed_network psr_networks[];

/* Of the list, or "profile", which is not in it. NULL: there is none of that name. */
const psr_listed_network *psr_network_find(const char *name);

/* "mlp, convnet, resnet20, ..": all of them. */
void psr_network_names(char *text, size_t size);

/* --model names a network, and --shortcut, --stem, --se, --zero-gamma, --bn-momentum and
 * --bn-epsilon fit it. USAGE; the message says what would be right. */
PSR_MUST_CHECK psr_err psr_network_check(const psr_config *config);

/* The help text of --model: the names, and where the networks come from. */
void psr_network_help(char *text, size_t size);

/* psr_network_help and psr_network_names need no more. */
#define PSR_NETWORK_TEXT_MAX 640

#endif
