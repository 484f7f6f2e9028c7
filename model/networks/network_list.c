#include "model/networks/network_list.h"

#include "base/text/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const psr_listed_network psr_networks[] = {
    {"mlp", PSR_FAMILY_MLP, 0, 1, 0, 0},
    {"convnet", PSR_FAMILY_CONVNET, 0, 16, 0, 0},
    {"resnet20", PSR_FAMILY_CIFAR, 20, 1, 0, 0},
    {"resnet32", PSR_FAMILY_CIFAR, 32, 1, 0, 0},
    {"resnet44", PSR_FAMILY_CIFAR, 44, 1, 0, 0},
    {"resnet56", PSR_FAMILY_CIFAR, 56, 1, 0, 0},
    {"resnet110", PSR_FAMILY_CIFAR, 110, 1, 0, 0},
    {"preresnet20", PSR_FAMILY_PREACTIVATED, 20, 1, 0, 0},
    {"preresnet32", PSR_FAMILY_PREACTIVATED, 32, 1, 0, 0},
    {"preresnet44", PSR_FAMILY_PREACTIVATED, 44, 1, 0, 0},
    {"preresnet56", PSR_FAMILY_PREACTIVATED, 56, 1, 0, 0},
    {"preresnet110", PSR_FAMILY_PREACTIVATED, 110, 1, 0, 0},
    {"preresnet164", PSR_FAMILY_PREACTIVATED, 164, 1, 0, 0},
    {"resnet9", PSR_FAMILY_RESNET9, 9, 32, 0, 0},
    {"airbench94", PSR_FAMILY_AIRBENCH, 8, 31, 0, 0},
    {"resnet18", PSR_FAMILY_IMAGENET, 18, 1, 1, 64},
    {"resnet34", PSR_FAMILY_IMAGENET, 34, 1, 1, 64},
    {"resnet50", PSR_FAMILY_IMAGENET, 50, 1, 1, 64},
    {"resnet101", PSR_FAMILY_IMAGENET, 101, 1, 1, 64},
    {"resnet152", PSR_FAMILY_IMAGENET, 152, 1, 1, 64},
    {"wide_resnet50_2", PSR_FAMILY_IMAGENET, 50, 1, 1, 128},
    {"wide_resnet101_2", PSR_FAMILY_IMAGENET, 101, 1, 1, 128},
    {"resnext50_32x4d", PSR_FAMILY_IMAGENET, 50, 1, 32, 4},
    {"resnext101_32x8d", PSR_FAMILY_IMAGENET, 101, 1, 32, 8},
    {"resnext101_64x4d", PSR_FAMILY_IMAGENET, 101, 1, 64, 4},
    {0},
};

static const struct {
    const char *source; /* behind the last name of the family */
    /* What is a choice: --stem; --se; --zero-gamma, where blocks end in a batch norm; --bn-momentum
     * and --bn-epsilon. --shortcut: has_shortcuts. */
    bool stem, se, zero_gamma, norm;
} families[] = {
    [PSR_FAMILY_MLP] = {"", false, false, false, false},
    [PSR_FAMILY_CONVNET] = {"", false, false, false, false},
    [PSR_FAMILY_CIFAR] = {" (He et al. 2015, 4.2)", false, true, true, true},
    [PSR_FAMILY_PREACTIVATED] = {" (He et al. 2016)", false, true, false, true},
    [PSR_FAMILY_RESNET9] = {" (Page 2018)", false, false, false, true},
    [PSR_FAMILY_AIRBENCH] = {" (Jordan 2024)", false, false, false, true},
    [PSR_FAMILY_IMAGENET] = {" (torchvision's)", true, true, true, true},
    [PSR_FAMILY_PROFILE] = {"", false, false, false, false},
};

static const psr_listed_network of_profile = {"profile", PSR_FAMILY_PROFILE, 0, 1, 0, 0};

/* The basic blocks of small networks have it; bottlenecks project. */
static bool has_shortcuts(const psr_listed_network *network)
{
    return network->family == PSR_FAMILY_CIFAR ||
           (network->family == PSR_FAMILY_PREACTIVATED && network->depth != 164);
}

static bool has_stem(const psr_listed_network *network)
{
    return families[network->family].stem;
}

static bool has_se(const psr_listed_network *network)
{
    return families[network->family].se;
}

static bool has_zero_gamma(const psr_listed_network *network)
{
    return families[network->family].zero_gamma;
}

static bool has_norm(const psr_listed_network *network)
{
    return families[network->family].norm;
}

const psr_listed_network *psr_network_find(const char *name)
{
    for (const psr_listed_network *network = psr_networks; network->name != NULL; network++) {
        if (strcmp(network->name, name) == 0)
            return network;
    }
    return strcmp(name, of_profile.name) == 0 ? &of_profile : NULL;
}

static void append(char *text, size_t size, const char *separator, const char *word)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s%s", used > 0 ? separator : "", word);
}

void psr_network_names(char *text, size_t size)
{
    text[0] = '\0';
    for (const psr_listed_network *network = psr_networks; network->name != NULL; network++)
        append(text, size, ", ", network->name);
}

void psr_network_help(char *text, size_t size)
{
    text[0] = '\0';
    for (const psr_listed_network *network = psr_networks; network->name != NULL; network++) {
        append(text, size, ", ", network->name);
        if (network[1].name == NULL || network[1].family != network->family)
            append(text, size, "", families[network->family].source);
    }
    append(text, size, "; ", "profile: the one that --backend played:PROFILE was recorded of");
}

static psr_err refuse_name(const char *name)
{
    const char *nearest = NULL;
    for (const psr_listed_network *network = psr_networks; network->name != NULL; network++)
        nearest = psr_nearer(name, nearest, network->name);
    char names[PSR_NETWORK_TEXT_MAX];
    psr_network_names(names, sizeof names);
    if (nearest != NULL)
        return psr_fail(PSR_ERR_USAGE, "--model: '%s' is not known (%s?); give one of %s", name,
                        nearest, names);
    return psr_fail(PSR_ERR_USAGE, "--model: '%s' is not known; give one of %s", name, names);
}

/* Options of networks: some value is asked for that only networks that have() can follow. */
typedef struct network_option {
    const char *name; /* of the table; the default fits every network */
    bool (*have)(const psr_listed_network *network);
} network_option;

static const network_option network_options[] = {
    {"shortcut", has_shortcuts},    {"stem", has_stem},        {"se", has_se},
    {"zero-gamma", has_zero_gamma}, {"bn-momentum", has_norm}, {"bn-epsilon", has_norm},
    {"sync-bn", has_norm},
};

static psr_err refuse_option(const psr_config *config, const network_option *option,
                             const char *value)
{
    char with[PSR_NETWORK_TEXT_MAX] = "";
    for (const psr_listed_network *network = psr_networks; network->name != NULL; network++) {
        if (option->have(network))
            append(with, sizeof with, ", ", network->name);
    }
    return psr_fail(PSR_ERR_USAGE,
                    "--%s%s%s does not go with --model %s: only %s have the choice; leave --%s out",
                    option->name, strcmp(value, "true") == 0 ? "" : " ",
                    strcmp(value, "true") == 0 ? "" : value, config->model, with, option->name);
}

psr_err psr_network_check(const psr_config *config)
{
    const psr_listed_network *listed = psr_network_find(config->model);
    if (listed == NULL)
        return refuse_name(config->model);
    if (listed == &of_profile && config->profile[0] == '\0')
        return psr_fail(PSR_ERR_USAGE, "--model profile is the network that a profile was recorded "
                                       "of: give the profile too (--backend played:PROFILE; psring "
                                       "predict --profile PROFILE)");
    psr_config defaults;
    psr_config_defaults(&defaults);
    for (size_t i = 0; i < sizeof network_options / sizeof network_options[0]; i++) {
        const network_option *option = &network_options[i];
        char value[PSR_OPTION_TEXT_MAX], usual[PSR_OPTION_TEXT_MAX];
        PSR_TRY(psr_config_get(config, option->name, value, sizeof value));
        PSR_TRY(psr_config_get(&defaults, option->name, usual, sizeof usual));
        if (strcmp(value, usual) != 0 && !option->have(listed))
            return refuse_option(config, option, value);
    }
    return PSR_OK;
}
