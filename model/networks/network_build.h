/* Builds descriptions of networks: one call per node, in topological order. Private to model/'s
 * descriptions.
 *
 * The builder keeps the first failure. After a failure every call does nothing and returns node 0.
 * So the code of a network reads as a list of layers, and psr_network_new checks err once, at the
 * end. */
#ifndef PSR_MODEL_NETWORK_BUILD_H
#define PSR_MODEL_NETWORK_BUILD_H

#include "model/networks/network.h"
#include "model/networks/network_list.h"

typedef struct psr_network_builder {
    psr_network *net;
    uint32_t node_capacity;
    uint32_t init_capacity;
    double epsilon, momentum; /* of every batch norm that is built from now on */
    psr_err err;
} psr_network_builder;

/* Begins a network that has only its input, images[channels, height, width] of `classes` classes.
 * builder->net is the caller's: psr_network_free. NOMEM. */
PSR_MUST_CHECK psr_err psr_build_begin(psr_network_builder *builder, const char *name,
                                       uint32_t classes, uint32_t channels, uint32_t height,
                                       uint32_t width);

/* Each appends a node that reads `input` (a node) and returns its index. name is "conv1",
 * "layer1.0.bn2"; parameters are called name.weight, name.bias. */
uint32_t psr_build_conv(psr_network_builder *builder, uint32_t input, const char *name,
                        uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad,
                        psr_init_kind init);
/* The same in groups, which divide the channels of both sides. */
uint32_t psr_build_conv_grouped(psr_network_builder *builder, uint32_t input, const char *name,
                                uint32_t channels, uint32_t kernel, uint32_t stride, uint32_t pad,
                                uint32_t groups, psr_init_kind init);
/* As torch.nn.Conv2d by default: with bias, stride 1, no padding, uniform init. */
uint32_t psr_build_conv_bias(psr_network_builder *builder, uint32_t input, const char *name,
                             uint32_t channels, uint32_t kernel);
/* A convolution whose outputs are uncorrelated over the training set, and their negatives: twice as
 * many channels as its window has values, bias 0 at first (model/networks/whitening.h). */
uint32_t psr_build_conv_whitening(psr_network_builder *builder, uint32_t input, const char *name,
                                  uint32_t kernel);
/* Its weights start at 1 and its biases at 0; or, the second, the weights at scale. */
uint32_t psr_build_batchnorm(psr_network_builder *builder, uint32_t input, const char *name);
uint32_t psr_build_batchnorm_from(psr_network_builder *builder, uint32_t input, const char *name,
                                  psr_init_kind scale);
uint32_t psr_build_relu(psr_network_builder *builder, uint32_t input, const char *name);
uint32_t psr_build_gelu(psr_network_builder *builder, uint32_t input, const char *name);
uint32_t psr_build_maxpool(psr_network_builder *builder, uint32_t input, const char *name,
                           uint32_t kernel, uint32_t stride, uint32_t pad);
uint32_t psr_build_avgpool(psr_network_builder *builder, uint32_t input, const char *name);
/* path is the residual branch; identity is added to it. */
uint32_t psr_build_add(psr_network_builder *builder, uint32_t path, uint32_t identity,
                       const char *name);
uint32_t psr_build_shortcut_a(psr_network_builder *builder, uint32_t input, const char *name,
                              uint32_t channels, uint32_t stride);
uint32_t psr_build_flatten(psr_network_builder *builder, uint32_t input);
uint32_t psr_build_linear(psr_network_builder *builder, uint32_t input, const char *name,
                          uint32_t features, psr_init_kind weight_init, psr_init_kind bias_init);
/* Likewise without a bias. */
uint32_t psr_build_linear_bare(psr_network_builder *builder, uint32_t input, const char *name,
                               uint32_t features, psr_init_kind weight_init);
/* A 1x1 convolution with bias of a value of one pixel: a linear layer whose weights have a
 * convolution's shape. Uniform init, as torch.nn.Conv2d by default. */
uint32_t psr_build_linear_1x1(psr_network_builder *builder, uint32_t input, const char *name,
                              uint32_t channels);
uint32_t psr_build_sigmoid(psr_network_builder *builder, uint32_t input, const char *name);
/* Multiplies every channel of input by its number in gate. */
uint32_t psr_build_gate(psr_network_builder *builder, uint32_t input, uint32_t gate,
                        const char *name);
uint32_t psr_build_scale(psr_network_builder *builder, uint32_t input, const char *name,
                         double factor);
/* op: PSR_OP_DROPOUT or PSR_OP_DROPOUT2D. */
uint32_t psr_build_dropout(psr_network_builder *builder, uint32_t input, const char *name,
                           psr_op op, double drop);

/* A parameter of so many values, and nothing that is computed with it: in a network that is only
 * played. name is the parameter's. */
uint32_t psr_build_tensor(psr_network_builder *builder, uint32_t input, const char *name,
                          uint32_t count);

/* The descriptions, with the options of config that the family has. */
void psr_build_resnet_imagenet(psr_network_builder *builder, const psr_listed_network *network,
                               const psr_config *config);
void psr_build_resnet_cifar(psr_network_builder *builder, const psr_listed_network *network,
                            const psr_config *config);
void psr_build_resnet_preactivated(psr_network_builder *builder, const psr_listed_network *network,
                                   const psr_config *config);
void psr_build_resnet9(psr_network_builder *builder);
void psr_build_airbench94(psr_network_builder *builder);
void psr_build_mlp(psr_network_builder *builder);
void psr_build_convnet(psr_network_builder *builder);
/* The tensors of a profile (model/played/profile.h), one behind another. */
void psr_build_profile(psr_network_builder *builder, const char *path);

#endif
