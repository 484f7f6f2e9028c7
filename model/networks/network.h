/* The description of a network: a list of nodes in topological order, with the layouts of their
 * parameters and buffers. It is plain data, uses no compute library, and does not change after it
 * was built. A back end compiles it.
 *
 * Values: node i produces value i, of shape [N, channels, height, width] (linear outputs have
 * height = width = 1). Node 0 is the input; the last node gives the logits. The nodes of a residual
 * block come in this order: conv, batch norm, relu, .., conv, batch norm, [shortcut: one node, or
 * conv and batch norm], add, relu. input[0] of the add is the block's path, and input[1] its
 * identity. */
#ifndef PSR_MODEL_NETWORK_H
#define PSR_MODEL_NETWORK_H

#include "base/config/config.h"
#include "model/layout.h"

typedef enum psr_op {
    PSR_OP_INPUT,
    PSR_OP_CONV,      /* weight[O,I/groups,KH,KW], optional bias[O]; each of the groups gives
                         O/groups channels, in order, from I/groups */
    PSR_OP_BATCHNORM, /* weight[C], bias[C]; buffers running_mean[C], running_var[C] */
    PSR_OP_RELU,
    PSR_OP_MAXPOOL,
    PSR_OP_AVGPOOL,    /* global: [N,C,H,W] -> [N,C,1,1] (torchvision's AdaptiveAvgPool2d(1)) */
    PSR_OP_ADD,        /* two inputs of one shape */
    PSR_OP_SHORTCUT_A, /* He et al. option A: subsampling by stride;
                          new channels zero, half before, half after */
    PSR_OP_FLATTEN,    /* [N,C,H,W] -> [N,C*H*W,1,1], C major */
    PSR_OP_LINEAR,     /* weight[out,in] or [out,in,1,1] (of a 1x1 convolution of means),
                          optional bias[out] */
    PSR_OP_DROPOUT,    /* element-wise, inverted scaling */
    PSR_OP_DROPOUT2D,  /* whole channels */
    PSR_OP_SIGMOID,    /* 1 / (1 + exp(-x)) */
    PSR_OP_GATE,       /* two inputs, x[N,C,H,W] and s[N,C,1,1]: y[n,c,h,w] = x[n,c,h,w] s[n,c] */
    PSR_OP_SCALE,      /* y = factor x, a number that is no parameter */
    PSR_OP_GELU,       /* x Phi(x), Phi the standard normal distribution (torch.nn.GELU) */
} psr_op;

#define PSR_NONE UINT32_MAX

typedef struct psr_network_node {
    psr_op op;
    uint32_t input[2];                /* nodes; PSR_NONE when absent */
    uint32_t channels, height, width; /* of its value */
    uint32_t kernel, stride, pad;     /* conv, pools, shortcut A's stride */
    uint32_t groups;                  /* conv; elsewhere 0 */
    bool fixed; /* its value depends on no trained parameter, so nobody wants its gradient */
    bool held;  /* batch norm: by its running statistics, which stay, in training too */
    uint32_t weight, bias;          /* indices into params; PSR_NONE when absent */
    uint32_t mean, variance;        /* indices into buffers (batch norm) */
    double epsilon, momentum;       /* batch norm: 1e-5, 0.1 unless options say otherwise */
    double drop;                    /* dropout probability */
    double factor;                  /* scale */
    char name[PSR_TENSOR_NAME_MAX]; /* "layer1.0.conv1" */
} psr_network_node;

/* Initial distribution of a parameter tensor. */
typedef enum psr_init_kind {
    PSR_INIT_ZERO,
    PSR_INIT_ONE,
    PSR_INIT_KAIMING_NORMAL_FAN_OUT, /* torchvision's convs: std = sqrt(2 / (O*KH*KW)) */
    PSR_INIT_KAIMING_NORMAL_FAN_IN,  /* resnet20..: std = sqrt(2 / fan_in) */
    PSR_INIT_UNIFORM_FAN_IN,         /* PyTorch's default, weights and biases:
                                        U(-b, b), b = 1/sqrt(fan_in) */
    PSR_INIT_UNIFORM_DIRAC, /* the same, but the first I of the O channels of w[O,I,K,K] give what
                               they read: zero, and 1 at w[c,c,K/2,K/2] (torch.nn.init.dirac_) */
    PSR_INIT_WHITENING,     /* the same as UNIFORM_FAN_IN, for whom the training set is to whiten
                               (model/networks/whitening.h) */
} psr_init_kind;

typedef struct psr_init {
    psr_init_kind kind;
    uint32_t fan_in, fan_out;
} psr_init;

typedef struct psr_network {
    char name[32];
    uint32_t classes, channels, height, width; /* input's */
    psr_network_node *nodes;
    uint32_t node_count;
    psr_layout params;
    psr_init *inits;    /* one per tensor of params */
    psr_layout buffers; /* running_mean, running_var in torchvision's order */
} psr_network;

/* Builds the description that config asks for: its --model (a name of network_list.h), --shortcut,
 * --stem, --se, --zero-gamma, --bn-momentum and --bn-epsilon, which fit together
 * (psr_network_check), and --freeze (model/freeze.h). USAGE: the model is unknown, or the image is
 * too small for it; the message tells the least size; or the errors of psr_freeze. The caller owns
 * *ret_net: psr_network_free. */
PSR_MUST_CHECK psr_err psr_network_of(const psr_config *config, uint32_t classes, uint32_t channels,
                                      uint32_t height, uint32_t width, psr_network **ret_net);

/* The same of a model with all options but --shortcut at their defaults. */
PSR_MUST_CHECK psr_err psr_network_new(const char *model, uint32_t classes, uint32_t channels,
                                       uint32_t height, uint32_t width, psr_shortcut shortcut,
                                       psr_network **ret_net);
void psr_network_free(psr_network *net);

/* Fills the arena (params.length floats; padding becomes zero) with initial values from seed, and
 * the buffers with mean 0 and variance 1. */
void psr_network_init(const psr_network *net, uint64_t seed, float *arena, float *buffers);

/* Whether the backward pass needs the gradient of node's value: not of the images, and not of what
 * depends on no trained parameter (--freeze). */
static inline bool psr_network_wants_gradient(const psr_network *net, uint32_t node)
{
    return net->nodes[node].op != PSR_OP_INPUT && !net->nodes[node].fixed;
}

/* The fewest values of a channel that a sample gives to any batch norm, and that node's name, which
 * is borrowed: one sample must give two or more, or a batch two samples. UINT64_MAX: there is no
 * batch norm. */
uint64_t psr_network_norm_values(const psr_network *net, const char **ret_name);

#endif
