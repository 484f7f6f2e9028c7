#include "model/freeze.h"

#include "base/text/nearest.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

static bool fits_any(const char *pattern, const psr_layout *layout)
{
    for (size_t t = 0; t < layout->tensor_count; t++)
        if (psr_config_freeze_fits(pattern, layout->tensors[t].name))
            return true;
    return false;
}

/* The tensor, or the layer or block, whose name is most similar; "": none is similar. */
static void find_nearest(const char *pattern, const psr_layout *layout,
                         char ret_name[static PSR_TENSOR_NAME_MAX])
{
    size_t best = SIZE_MAX;
    ret_name[0] = '\0';
    for (size_t t = 0; t < layout->tensor_count; t++) {
        char name[PSR_TENSOR_NAME_MAX];
        snprintf(name, sizeof name, "%s", layout->tensors[t].name);
        for (char *dot = name; dot != NULL; dot = strrchr(name, '.')) {
            if (dot != name)
                *dot = '\0';
            const size_t distance = psr_edit_distance(pattern, name);
            if (psr_is_near(pattern, name) && distance < best) {
                best = distance;
                snprintf(ret_name, PSR_TENSOR_NAME_MAX, "%s", name);
            }
        }
    }
}

static psr_err check_patterns(const psr_config *config, const psr_layout *layout)
{
    char pattern[PSR_FREEZE_TEXT_MAX], nearest[PSR_TENSOR_NAME_MAX];
    for (uint32_t i = 0; psr_config_freeze_pattern(config, i, pattern); i++) {
        if (fits_any(pattern, layout))
            continue;
        find_nearest(pattern, layout, nearest);
        if (nearest[0] != '\0')
            return psr_fail(PSR_ERR_USAGE,
                            "--freeze: %s has no layer or tensor '%.100s'; did you mean %s?",
                            config->model, pattern, nearest);
        return psr_fail(PSR_ERR_USAGE,
                        "--freeze: %s has no layer or tensor '%.100s'; its first tensor is %s, its "
                        "last %s",
                        config->model, pattern, layout->tensors[0].name,
                        layout->tensors[layout->tensor_count - 1].name);
    }
    return PSR_OK;
}

/* ---- nodes ---- */

static bool is_trained(const psr_network *net, uint32_t tensor)
{
    return tensor != PSR_NONE && !net->params.tensors[tensor].frozen;
}

static bool is_fixed(const psr_network *net, uint32_t node)
{
    return node == PSR_NONE || net->nodes[node].fixed;
}

static psr_err mark_nodes(const psr_config *config, psr_network *net)
{
    bool any_held = false;
    for (uint32_t i = 0; i < net->node_count; i++) {
        psr_network_node *node = &net->nodes[i];
        const bool trained = is_trained(net, node->weight) || is_trained(net, node->bias);
        node->fixed = !trained && is_fixed(net, node->input[0]) && is_fixed(net, node->input[1]);
        node->held = node->op == PSR_OP_BATCHNORM && !trained && config->freeze_bn;
        any_held = any_held || node->held;
    }
    if (config->freeze_bn && !any_held)
        return psr_fail(PSR_ERR_USAGE,
                        "--freeze-bn: --freeze %s freezes no batch norm of %s, weight and bias; "
                        "leave --freeze-bn out",
                        config->freeze, config->model);
    return PSR_OK;
}

psr_err psr_freeze(const psr_config *config, psr_network *net)
{
    if (config->freeze[0] == '\0')
        return PSR_OK;
    PSR_TRY(check_patterns(config, &net->params));
    for (size_t t = 0; t < net->params.tensor_count; t++)
        net->params.tensors[t].frozen = psr_config_freezes(config, net->params.tensors[t].name);
    if (psr_layout_trained_count(&net->params) == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--freeze %s leaves nothing of %s to train; --eval-only evaluates it",
                        config->freeze, config->model);
    return mark_nodes(config, net);
}
