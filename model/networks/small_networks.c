/* The two small networks: an MLP and a ConvNet, as the first lessons of most frameworks have
 * them. */
#include "model/networks/network_build.h"

/* C*H*W - 512 - 512 - classes. */
void psr_build_mlp(psr_network_builder *builder)
{
    uint32_t x = psr_build_flatten(builder, 0);
    x = psr_build_linear(builder, x, "fc1", 512, PSR_INIT_UNIFORM_FAN_IN, PSR_INIT_UNIFORM_FAN_IN);
    x = psr_build_relu(builder, x, "relu1");
    x = psr_build_linear(builder, x, "fc2", 512, PSR_INIT_UNIFORM_FAN_IN, PSR_INIT_UNIFORM_FAN_IN);
    x = psr_build_relu(builder, x, "relu2");
    psr_build_linear(builder, x, "fc3", builder->net->classes, PSR_INIT_UNIFORM_FAN_IN,
                     PSR_INIT_UNIFORM_FAN_IN);
}

/* Two 5x5 convolutions and two linear layers; a 28 px image gives 320 values to flatten. */
void psr_build_convnet(psr_network_builder *builder)
{
    uint32_t x = psr_build_conv_bias(builder, 0, "conv1", 10, 5);
    x = psr_build_maxpool(builder, x, "pool1", 2, 2, 0);
    x = psr_build_relu(builder, x, "relu1");
    x = psr_build_conv_bias(builder, x, "conv2", 20, 5);
    x = psr_build_dropout(builder, x, "conv2_drop", PSR_OP_DROPOUT2D, 0.5);
    x = psr_build_maxpool(builder, x, "pool2", 2, 2, 0);
    x = psr_build_relu(builder, x, "relu2");
    x = psr_build_flatten(builder, x);
    x = psr_build_linear(builder, x, "fc1", 50, PSR_INIT_UNIFORM_FAN_IN, PSR_INIT_UNIFORM_FAN_IN);
    x = psr_build_relu(builder, x, "relu3");
    x = psr_build_dropout(builder, x, "fc1_drop", PSR_OP_DROPOUT, 0.5);
    psr_build_linear(builder, x, "fc2", builder->net->classes, PSR_INIT_UNIFORM_FAN_IN,
                     PSR_INIT_UNIFORM_FAN_IN);
}
