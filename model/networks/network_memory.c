#include "model/networks/network_memory.h"

#include "model/optimizers/optimizer.h"

#define BASE_BYTES ((uint64_t)40 << 20)

static bool is_in_place(psr_op op)
{
    switch (op) {
    case PSR_OP_RELU:
    case PSR_OP_ADD:
    case PSR_OP_FLATTEN:
    case PSR_OP_DROPOUT:
    case PSR_OP_DROPOUT2D:
    case PSR_OP_SIGMOID:
    case PSR_OP_SCALE:
        return true;
    case PSR_OP_INPUT:
    case PSR_OP_CONV:
    case PSR_OP_BATCHNORM:
    case PSR_OP_MAXPOOL:
    case PSR_OP_AVGPOOL:
    case PSR_OP_SHORTCUT_A:
    case PSR_OP_LINEAR:
    case PSR_OP_GATE:
    case PSR_OP_GELU:
        return false;
    }
    return false;
}

/* Batches that a worker has loaded, beside the one that the network reads (worker/trainer.c). */
#define LOADED_BATCHES 5

psr_network_memory psr_network_memory_of(const psr_network *net, uint32_t states)
{
    uint64_t values = 0, largest = 0;
    for (uint32_t i = 0; i < net->node_count; i++) {
        const psr_network_node *node = &net->nodes[i];
        const uint64_t value = (uint64_t)node->channels * node->height * node->width;
        if (!is_in_place(node->op))
            values += value;
        largest = value > largest ? value : largest;
    }
    return (psr_network_memory){BASE_BYTES +
                                    (3 + states) * (uint64_t)net->params.length * sizeof(float),
                                (values + 2 * largest) * sizeof(float)};
}

psr_network_memory psr_network_memory_for(const psr_network *net, const psr_config *config,
                                          bool beside_shards)
{
    const bool ps = config->mode == PSR_MODE_PS && !psr_config_has_several_ways(config);
    const uint32_t states = ps && beside_shards ? 0 : psr_optimizer_slots_of(config);
    const psr_network_node *input = &net->nodes[0];
    const uint64_t image = (uint64_t)input->channels * input->height * input->width;
    const uint32_t accumulated = config->accumulate > 2 ? 2 : config->accumulate > 1,
                   of_ranks = config->mode == PSR_MODE_LOCAL ? config->workers + 1 : 0;
    psr_network_memory memory = psr_network_memory_of(net, states + accumulated + of_ranks);
    if (config->precision == PSR_PRECISION_BF16)
        memory.sample_bytes /= 2;
    memory.sample_bytes += LOADED_BATCHES * image * sizeof(float);
    return memory;
}
