#include "base/config/config.h"

#include "base/config/config_table.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void psr_config_defaults(psr_config *config)
{
    memset(config, 0, sizeof *config);
    for (size_t i = 0; i < psr_options_count; i++) {
        psr_err err = psr_option_read(&psr_options[i], config, psr_options[i].initial);
        assert(err == PSR_OK); /* the table's own defaults */
        (void)err;
    }
}

static psr_err refuse_name(const char *name)
{
    const char *nearest = psr_option_nearest(name);
    if (nearest != NULL)
        return psr_fail(PSR_ERR_USAGE, "--%.64s: there is no such option; --%s is the nearest",
                        name, nearest);
    return psr_fail(PSR_ERR_USAGE, "--%.64s: there is no such option; --help lists them", name);
}

psr_err psr_config_set(psr_config *config, const char *name, const char *text)
{
    const psr_option *option = psr_option_find(name);
    if (option == NULL)
        return refuse_name(name);
    return psr_option_read(option, config, text);
}

psr_err psr_config_get(const psr_config *config, const char *name, char *text, size_t size)
{
    const psr_option *option = psr_option_find(name);
    if (option == NULL)
        return refuse_name(name);
    if (!psr_option_print(option, config, text, size))
        return psr_fail(PSR_ERR_USAGE, "--%s: its value does not fit into %zu bytes", name, size);
    return PSR_OK;
}

bool psr_config_option(size_t i, psr_option_info *ret_info)
{
    if (i >= psr_options_count)
        return false;
    const psr_option *option = &psr_options[i];
    *ret_info = (psr_option_info){
        .name = option->name,
        .argument = option->argument,
        .implied = option->implied,
        .words = option->words,
        .unlisted = option->unlisted,
        .help = option->help,
        .group = option->group,
        .aloud = option->aloud,
        .hidden = option->hidden,
        .negatable = option->negatable,
    };
    return true;
}

/* Whether the option has a value that the user must be told of. Puts the value into text. */
static bool is_aloud(const psr_option *option, const psr_config *config,
                     char text[static PSR_OPTION_TEXT_MAX])
{
    psr_config defaults;
    char initial[PSR_OPTION_TEXT_MAX];
    if (option->aloud == NULL || !psr_option_print(option, config, text, PSR_OPTION_TEXT_MAX))
        return false;
    if (option->aloud_at != NULL)
        return strncmp(text, option->aloud_at, strlen(option->aloud_at)) == 0;
    psr_config_defaults(&defaults);
    return psr_option_print(option, &defaults, initial, sizeof initial) &&
           strcmp(text, initial) != 0;
}

bool psr_config_aloud(const psr_config *config, size_t *at, char *line, size_t size)
{
    for (; *at < psr_options_count; ++*at) {
        const psr_option *option = &psr_options[*at];
        char text[PSR_OPTION_TEXT_MAX] = "";
        if (!is_aloud(option, config, text))
            continue;
        if (option->argument == NULL)
            snprintf(line, size, "--%s%s: %s", strcmp(text, "true") == 0 ? "" : "no-", option->name,
                     option->aloud);
        else
            snprintf(line, size, "--%s %.200s: %s", option->name, text, option->aloud);
        ++*at;
        return true;
    }
    return false;
}

void psr_config_protect(psr_config *config)
{
    for (size_t i = 0; i < psr_options_count; i++) {
        if (!psr_options[i].protects)
            continue;
        psr_err err = psr_option_read(&psr_options[i], config, psr_options[i].initial);
        assert(err == PSR_OK); /* the table's own defaults */
        (void)err;
    }
}

void psr_config_left_out(const psr_config *file, const psr_config *config, char *words, size_t size)
{
    size_t used = 0;
    words[0] = '\0';
    for (size_t i = 0; i < psr_options_count && used < size; i++) {
        const psr_option *option = &psr_options[i];
        char of_file[PSR_OPTION_TEXT_MAX], now[PSR_OPTION_TEXT_MAX];
        if (option->protects && psr_option_print(option, file, of_file, sizeof of_file) &&
            psr_option_print(option, config, now, sizeof now) &&
            strcmp(of_file, option->initial) != 0 && strcmp(now, option->initial) == 0)
            used += (size_t)snprintf(words + used, size - used, "%s--%s %s", used > 0 ? ", " : "",
                                     option->name, of_file);
    }
}

static bool is_among(const char *name, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

bool psr_config_difference(const psr_config *one, const psr_config *other, const char *const *apart,
                           psr_option_difference *ret_difference)
{
    psr_option_difference d;
    for (size_t i = 0; i < psr_options_count; i++) {
        d.name = psr_options[i].name;
        if (is_among(d.name, apart) ||
            !psr_option_print(&psr_options[i], one, d.one, sizeof d.one) ||
            !psr_option_print(&psr_options[i], other, d.other, sizeof d.other) ||
            strcmp(d.one, d.other) == 0)
            continue;
        *ret_difference = d;
        return true;
    }
    return false;
}

/* Of powers of two the one that takes closest to 1.25 ms, in proportion: a rate that was measured a
 * little too low changes nothing at usual rates (16K at 100 Mbit/s, 128K at 1 Gbit/s). */
#define SLICE_S 0.00177
#define SLICE_LEAST ((uint64_t)4 << 10)
#define SLICE_MOST ((uint64_t)512 << 10)
#define FLIGHT ((uint64_t)1 << 20) /* bytes of a connection, at most if that is 4 slices */
#define WINDOW_LEAST 4
#define WINDOW_MOST 8
/* What all workers together have under way to a shard: a switch's queue holds it, of 256K too at
 * 100 Mbit/s. */
#define QUEUED_S 0.0125
#define PUSHED_WINDOW_LEAST 2

static uint32_t within(uint64_t value, uint32_t least, uint32_t most)
{
    return value < least ? least : value > most ? most : (uint32_t)value;
}

void psr_config_slices_for(uint64_t rate_bits_per_s, uint32_t pushers, uint64_t *ret_slice_bytes,
                           uint32_t *ret_window)
{
    const double bytes_per_s = (double)rate_bits_per_s / 8,
                 each = pushers > 1 ? bytes_per_s * QUEUED_S / pushers : INFINITY,
                 most = fmin(bytes_per_s * SLICE_S, each / WINDOW_LEAST);
    uint64_t slice = SLICE_LEAST;
    while (2 * slice <= SLICE_MOST && (double)(2 * slice) <= most)
        slice *= 2;
    *ret_slice_bytes = slice;
    *ret_window = pushers > 1
                      ? within((uint64_t)(each / (double)slice), PUSHED_WINDOW_LEAST, WINDOW_LEAST)
                      : within(FLIGHT / slice, WINDOW_LEAST, WINDOW_MOST);
}

uint32_t psr_config_pushers(const psr_config *config)
{
    return psr_config_needs_shards(config) ? config->workers : 0;
}

bool psr_config_has_link(const psr_config *config)
{
    return config->link_rate_bits_per_s > 0 || config->link_delay_ns > 0;
}

bool psr_config_shares_memory(const psr_config *config)
{
    return config->transport == PSR_TRANSPORT_SHM ||
           (config->transport == PSR_TRANSPORT_AUTO && !psr_config_has_link(config));
}

uint32_t psr_config_step_samples(const psr_config *config)
{
    return config->batch_size * config->accumulate;
}

bool psr_config_updates_whole_tensors(const psr_config *config)
{
    return config->optimizer == PSR_OPTIMIZER_LARS || config->optimizer == PSR_OPTIMIZER_LAMB;
}

bool psr_config_scales_loss(const psr_config *config)
{
    return config->precision == PSR_PRECISION_FP16;
}

bool psr_config_updates_together(const psr_config *config)
{
    return config->clip_norm > 0 || psr_config_scales_loss(config);
}

bool psr_config_uses_gpu(const psr_config *config, uint32_t *ret_index)
{
    uint64_t index = UINT32_MAX;
    if (strncmp(config->device, "cuda", 4) != 0)
        return false;
    if (config->device[4] == ':')
        (void)psr_parse_u64(config->device + 5, &index);
    if (ret_index != NULL)
        *ret_index = (uint32_t)index;
    return true;
}

bool psr_config_updates_on_device(const psr_config *config)
{
    return config->update_on == PSR_UPDATE_ON_DEVICE;
}

psr_backend_kind psr_config_backend(const psr_config *config)
{
    return psr_config_uses_gpu(config, NULL) ? PSR_BACKEND_CUDA : config->backend;
}

bool psr_config_evaluates(const psr_config *config)
{
    return config->eval && config->backend != PSR_BACKEND_PLAYED;
}

double psr_config_slow_factor(const psr_config *config, uint32_t rank)
{
    for (uint32_t i = 0; i < config->slowed_count; i++)
        if (config->slowed[i].rank == rank)
            return config->slowed[i].factor;
    return 1;
}

#define NAMED_STRETCHES_MAX 3 /* in the name of a run's directory */

void psr_config_name_out(psr_config *config)
{
    char stamp[32], mode[32] = "";
    time_t now = time(NULL);
    struct tm local;
    strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", localtime_r(&now, &local));
    for (uint32_t i = 0; i < config->stretch_count || i == 0; i++) {
        const size_t used = strlen(mode);
        const char *name = psr_mode_name(i == 0 ? config->mode : config->stretches[i].mode);
        if (i == NAMED_STRETCHES_MAX)
            break;
        snprintf(mode + used, sizeof mode - used, "%s%s", i > 0 ? "-" : "", name);
    }
    snprintf(config->out, sizeof config->out, "psring-runs/%s-%s-%s", stamp, config->model, mode);
    size_t stem = strlen(config->out);
    for (int i = 2; access(config->out, F_OK) == 0 && i < 1000; i++)
        snprintf(config->out + stem, sizeof config->out - stem, "-%d", i);
}
