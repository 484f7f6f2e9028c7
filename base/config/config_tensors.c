/* Options that choose tensors: --no-decay by kind, --freeze by name; and lists that say something
 * of tensors by pattern (--route, --lr-factor, --decay-factor). */
#include "base/config/config_table.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

/* ---- --no-decay ---- */

psr_err psr_config_read_no_decay(psr_config *config, const char *text)
{
    uint32_t spared = 0;
    for (const char *at = text; text[0] != '\0'; at++) {
        const size_t length = strcspn(at, ",");
        const uint32_t kind = length == 2 && strncmp(at, "bn", 2) == 0     ? PSR_SPARE_NORMS
                              : length == 4 && strncmp(at, "bias", 4) == 0 ? PSR_SPARE_BIASES
                                                                           : 0;
        if (kind == 0 || (spared & kind) != 0)
            return psr_fail(PSR_ERR_USAGE, "'%s' is no list of tensors; give bn, bias, or bn,bias",
                            text);
        spared |= kind;
        at += length;
        if (*at == '\0')
            break;
    }
    config->no_decay = spared;
    return PSR_OK;
}

void psr_config_print_no_decay(const psr_config *config, char *text, size_t size)
{
    static const char *const words[] = {"", "bn", "bias", "bn,bias"};
    snprintf(text, size, "%s", words[config->no_decay & 3]);
}

/* ---- --freeze ---- */

#define ALL_BUT "all-but:"

/* The text behind "all-but:", or the whole text. */
static const char *list_of(const char *text)
{
    const size_t length = strlen(ALL_BUT);
    return strncmp(text, ALL_BUT, length) == 0 ? text + length : text;
}

/* Copies the next pattern and moves *at behind it and its comma. false: there is none left. */
static bool next_pattern(const char **at, char pattern[static PSR_FREEZE_TEXT_MAX])
{
    const size_t length = strcspn(*at, ",");
    if (length == 0)
        return false;
    memcpy(pattern, *at, length);
    pattern[length] = '\0';
    *at += length + ((*at)[length] == ',');
    return true;
}

psr_err psr_config_judge_freeze(psr_config *config, const char *text)
{
    (void)config;
    const char *list = list_of(text);
    const size_t length = strlen(list);
    const bool sound = length > 0 && list[0] != ',' && list[length - 1] != ',' &&
                       strstr(list, ",,") == NULL && strpbrk(list, ":= ") == NULL;
    if (sound || text[0] == '\0')
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "'%s' is no list of layers; give their names or patterns with commas between "
                    "(conv1,bn1,layer1), or all-but: and those that are trained (all-but:fc)",
                    text);
}

bool psr_config_freeze_fits(const char *pattern, const char *tensor)
{
    const size_t length = strlen(pattern);
    const bool within =
        strncmp(pattern, tensor, length) == 0 && (tensor[length] == '\0' || tensor[length] == '.');
    return within || fnmatch(pattern, tensor, 0) == 0;
}

bool psr_config_freeze_pattern(const psr_config *config, uint32_t index,
                               char ret_pattern[static PSR_FREEZE_TEXT_MAX])
{
    const char *at = list_of(config->freeze);
    for (uint32_t i = 0; next_pattern(&at, ret_pattern); i++)
        if (i == index)
            return true;
    return false;
}

bool psr_config_freezes(const psr_config *config, const char *tensor)
{
    char pattern[PSR_FREEZE_TEXT_MAX];
    const char *list = list_of(config->freeze);
    const bool rest = list != config->freeze; /* those that match are trained */
    for (const char *at = list; next_pattern(&at, pattern);)
        if (psr_config_freeze_fits(pattern, tensor))
            return !rest;
    return rest;
}

/* ---- PATTERN=VALUE,.. ---- */

bool psr_config_next_entry(const char **at, char *pattern, size_t size, psr_config_entry *ret_entry,
                           bool *ret_ok)
{
    const char *begin = *at;
    *ret_ok = true;
    if (*begin == '\0')
        return false;
    const size_t length = strcspn(begin, ",");
    const char *equal = memchr(begin, '=', length);
    *at = begin[length] == ',' ? begin + length + 1 : begin + length;
    *ret_ok = equal != NULL && equal != begin && (size_t)(equal - begin) < size &&
              !(begin[length] == ',' && **at == '\0');
    if (!*ret_ok)
        return false;
    memcpy(pattern, begin, (size_t)(equal - begin));
    pattern[equal - begin] = '\0';
    *ret_entry = (psr_config_entry){equal + 1, length - (size_t)(equal + 1 - begin)};
    return true;
}
