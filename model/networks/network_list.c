#include "model/networks/network_list.h"

#include "base/text/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const psr_listed_network psr_networks[] = {
    {"mlp", PSR_FAMILY_MLP, 0, 1},
    {"convnet", PSR_FAMILY_CONVNET, 0, 16},
    {"resnet20", PSR_FAMILY_CIFAR, 20, 1},
    {"resnet32", PSR_FAMILY_CIFAR, 32, 1},
    {"resnet44", PSR_FAMILY_CIFAR, 44, 1},
    {"resnet56", PSR_FAMILY_CIFAR, 56, 1},
    {"resnet110", PSR_FAMILY_CIFAR, 110, 1},
    {"resnet18", PSR_FAMILY_IMAGENET, 18, 1},
    {"resnet34", PSR_FAMILY_IMAGENET, 34, 1},
    {"resnet50", PSR_FAMILY_IMAGENET, 50, 1},
    {"resnet101", PSR_FAMILY_IMAGENET, 101, 1},
    {"resnet152", PSR_FAMILY_IMAGENET, 152, 1},
    {0},
};

static const struct {
    const char *source; /* behind the last name of the family */
    bool has_shortcuts; /* --shortcut is a choice */
} families[] = {
    [PSR_FAMILY_MLP] = {"", false},
    [PSR_FAMILY_CONVNET] = {"", false},
    [PSR_FAMILY_CIFAR] = {" (He et al. 2015, 4.2)", true},
    [PSR_FAMILY_IMAGENET] = {" (torchvision's)", false},
};

const psr_listed_network *psr_network_find(const char *name)
{
    for (const psr_listed_network *network = psr_networks; network->name != NULL; network++) {
        if (strcmp(network->name, name) == 0)
            return network;
    }
    return NULL;
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

psr_err psr_network_check(const psr_config *config)
{
    const psr_listed_network *listed = psr_network_find(config->model);
    if (listed == NULL)
        return refuse_name(config->model);
    if (config->shortcut == PSR_SHORTCUT_A || families[listed->family].has_shortcuts)
        return PSR_OK;
    char with[PSR_NETWORK_TEXT_MAX] = "";
    for (const psr_listed_network *network = psr_networks; network->name != NULL; network++) {
        if (families[network->family].has_shortcuts)
            append(with, sizeof with, ", ", network->name);
    }
    return psr_fail(
        PSR_ERR_USAGE,
        "--shortcut b does not go with --model %s: only %s have the choice; leave --shortcut out",
        config->model, with);
}
