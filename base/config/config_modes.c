/* The stretches of a run, each with its mode (--mode), and the tensors with a way of their own
 * (--route). */
#include "base/config/config.h"

#include "base/config/config_table.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- --mode ---- */

#define STEP_MAX (UINT64_C(1) << 53) /* which a number of JSON holds */

/* One entry of --mode: WORD, or WORD@STEP. */
typedef struct entry {
    psr_mode mode;
    bool has_step;
    uint64_t step; /* as in the text: from 1 */
} entry;

static psr_err read_entry(const char *text, size_t size, entry *ret_entry)
{
    char word[64];
    int mode = 0;
    entry e = {0};
    if (size >= sizeof word)
        return psr_fail(PSR_ERR_USAGE, "'%.*s' is too long; give a mode, or MODE@STEP (ring@150)",
                        60, text);
    memcpy(word, text, size);
    word[size] = '\0';
    char *at = strchr(word, '@');
    if (at != NULL) {
        *at = '\0';
        e.has_step = true;
        if (!psr_parse_u64(at + 1, &e.step) || e.step == 0)
            return psr_fail(
                PSR_ERR_USAGE,
                "'%.*s' does not name a step; give MODE@STEP, from step 1 on (ring@150)", (int)size,
                text);
        if (e.step > STEP_MAX)
            return psr_fail(PSR_ERR_USAGE,
                            "'%.*s' begins later than any run can; give a step of at most %" PRIu64,
                            (int)size, text, STEP_MAX);
    }
    PSR_TRY(psr_option_find_word(psr_option_find("mode"), word, &mode));
    e.mode = (psr_mode)mode;
    *ret_entry = e;
    return PSR_OK;
}

/* Appends the stretch of an entry. */
static psr_err add_stretch(psr_config *config, const char *text, const entry *e)
{
    const bool first = config->stretch_count == 0;
    const psr_stretch last =
        first ? (psr_stretch){0} : config->stretches[config->stretch_count - 1];
    if (first && e->has_step && e->step != 1)
        return psr_fail(
            PSR_ERR_USAGE,
            "'%s' does not say in which mode step 1 is; begin with MODE@1 (ps@1,ring@150)", text);
    if (config->stretch_count == PSR_STRETCHES_MAX)
        return psr_fail(PSR_ERR_USAGE, "'%.60s..' has more than %d stretches; give fewer", text,
                        PSR_STRETCHES_MAX);
    if (!first && !e->has_step)
        return psr_fail(PSR_ERR_USAGE,
                        "'%s' does not say with which step each mode begins; give "
                        "MODE@STEP for each (ps@1,ring@150)",
                        text);
    if (!first && e->step <= last.first_step + 1)
        return psr_fail(
            PSR_ERR_USAGE,
            "'%s': the steps must ascend; give them in the order of the run (ps@1,ring@150)", text);
    if (!first && e->mode == last.mode)
        return psr_fail(PSR_ERR_USAGE,
                        "'%s' changes nothing at step %" PRIu64 "; leave that entry out", text,
                        e->step);
    config->stretches[config->stretch_count++] =
        (psr_stretch){e->mode, e->has_step ? e->step - 1 : 0};
    return PSR_OK;
}

psr_err psr_config_read_mode(psr_config *config, const char *text)
{
    psr_config read = {0};
    for (const char *at = text, *end; at != NULL; at = *end == ',' ? end + 1 : NULL) {
        entry e = {0};
        end = at + strcspn(at, ",");
        PSR_TRY(read_entry(at, (size_t)(end - at), &e));
        PSR_TRY(add_stretch(&read, text, &e));
        if (read.stretch_count == 1 && !e.has_step && *end == ',')
            return psr_fail(PSR_ERR_USAGE,
                            "'%s' does not say with which step each mode begins; give "
                            "MODE@STEP for each (ps@1,ring@150)",
                            text);
    }
    memcpy(config->stretches, read.stretches, sizeof config->stretches);
    config->stretch_count = read.stretch_count;
    config->mode = read.stretches[0].mode;
    return PSR_OK;
}

const char *psr_mode_name(psr_mode mode)
{
    return psr_option_find("mode")->words[mode];
}

void psr_config_print_mode(const psr_config *config, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s%s", psr_mode_name(config->mode),
                                   config->stretch_count > 1 ? "@1" : "");
    for (uint32_t i = 1; i < config->stretch_count && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, ",%s@%" PRIu64,
                                 psr_mode_name(config->stretches[i].mode),
                                 config->stretches[i].first_step + 1);
}

psr_mode psr_config_mode_at(const psr_config *config, uint64_t step)
{
    psr_mode mode = config->mode;
    for (uint32_t i = 1; i < config->stretch_count && config->stretches[i].first_step <= step; i++)
        mode = config->stretches[i].mode;
    return mode;
}

uint64_t psr_config_next_stretch(const psr_config *config, uint64_t step)
{
    for (uint32_t i = 1; i < config->stretch_count; i++)
        if (config->stretches[i].first_step > step)
            return config->stretches[i].first_step;
    return 0;
}

psr_err psr_config_change_mode(psr_config *config, uint64_t step, psr_mode mode)
{
    uint32_t keep = 1;
    while (keep < config->stretch_count && config->stretches[keep].first_step < step)
        keep++;
    const psr_mode before = keep > 1 ? config->stretches[keep - 1].mode : config->mode;
    const bool adds = step > 0 && before != mode;
    if (adds && keep == PSR_STRETCHES_MAX)
        return psr_fail(PSR_ERR_USAGE, "a run has at most %d stretches", PSR_STRETCHES_MAX);
    if (step == 0)
        config->mode = mode;
    config->stretches[0] = (psr_stretch){config->mode, 0};
    if (adds)
        config->stretches[keep++] = (psr_stretch){mode, step};
    memset(&config->stretches[keep], 0, (PSR_STRETCHES_MAX - keep) * sizeof config->stretches[0]);
    config->stretch_count = keep;
    return PSR_OK;
}

psr_config psr_config_in_mode(const psr_config *config, psr_mode mode)
{
    psr_config one = *config;
    memset(one.stretches, 0, sizeof one.stretches);
    one.stretches[0].mode = one.mode = mode;
    one.stretch_count = 1;
    return one;
}

bool psr_config_take_stretches(psr_config *config, const psr_config *other)
{
    const bool same = config->mode == other->mode &&
                      config->stretch_count == other->stretch_count &&
                      memcmp(config->stretches, other->stretches, sizeof config->stretches) == 0;
    config->mode = other->mode;
    config->stretch_count = other->stretch_count;
    memcpy(config->stretches, other->stretches, sizeof config->stretches);
    return !same;
}

bool psr_config_has_mode(const psr_config *config, psr_mode mode)
{
    bool has = config->mode == mode;
    for (uint32_t i = 1; i < config->stretch_count; i++)
        has = has || config->stretches[i].mode == mode;
    return has;
}

/* ---- --route ---- */

/* Reads the next entry, PATTERN=ps or PATTERN=ring, as psr_config_next_entry does. */
static bool next_route(const char **at, char pattern[static PSR_ROUTE_TEXT_MAX], psr_mode *ret_mode,
                       bool *ret_ok)
{
    psr_config_entry read;
    if (!psr_config_next_entry(at, pattern, PSR_ROUTE_TEXT_MAX, &read, ret_ok))
        return false;
    const bool ps = read.size == 2 && memcmp(read.value, "ps", 2) == 0;
    *ret_ok = ps || (read.size == 4 && memcmp(read.value, "ring", 4) == 0);
    *ret_mode = ps ? PSR_MODE_PS : PSR_MODE_RING;
    return *ret_ok;
}

psr_err psr_config_judge_route(psr_config *config, const char *text)
{
    char pattern[PSR_ROUTE_TEXT_MAX];
    psr_mode mode;
    bool ok = true;
    const char *at = text;
    (void)config;
    while (next_route(&at, pattern, &mode, &ok))
        ;
    if (ok)
        return PSR_OK;
    return psr_fail(PSR_ERR_USAGE,
                    "'%s' is no list of PATTERN=ps and PATTERN=ring; give one (layer4.*=ps,*=ring)",
                    text);
}

bool psr_config_route_of(const psr_config *config, const char *tensor, psr_mode *ret_mode)
{
    char pattern[PSR_ROUTE_TEXT_MAX];
    psr_mode mode;
    bool ok;
    for (const char *at = config->route; next_route(&at, pattern, &mode, &ok);)
        if (psr_config_route_fits(pattern, tensor)) {
            *ret_mode = mode;
            return true;
        }
    return false;
}

bool psr_config_route_pattern(const psr_config *config, uint32_t index,
                              char ret_pattern[static PSR_ROUTE_TEXT_MAX])
{
    psr_mode mode;
    bool ok;
    const char *at = config->route;
    for (uint32_t i = 0; next_route(&at, ret_pattern, &mode, &ok); i++)
        if (i == index)
            return true;
    return false;
}

bool psr_config_route_fits(const char *pattern, const char *tensor)
{
    return fnmatch(pattern, tensor, 0) == 0;
}

bool psr_config_routes_by(const psr_config *config, psr_mode way)
{
    char pattern[PSR_ROUTE_TEXT_MAX];
    psr_mode mode;
    bool ok;
    for (const char *at = config->route; next_route(&at, pattern, &mode, &ok);)
        if (mode == way)
            return true;
    return false;
}

/* ---- what follows of both ---- */

bool psr_config_needs_shards(const psr_config *config)
{
    return psr_config_has_mode(config, PSR_MODE_PS) || psr_config_routes_by(config, PSR_MODE_PS);
}

uint32_t psr_config_shards(const psr_config *config)
{
    if (config->mode != PSR_MODE_PS && config->mode != PSR_MODE_RING)
        return 0;
    return config->shards > 0 ? config->shards : psr_config_needs_shards(config);
}

void psr_config_resolve_shards(psr_config *config)
{
    config->shards = psr_config_shards(config);
}

bool psr_config_has_several_ways(const psr_config *config)
{
    return config->stretch_count > 1 || config->route[0] != '\0';
}
