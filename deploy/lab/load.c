#include "deploy/lab/load.h"

#include "base/system/cpus.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ticks ---- */

static bool add_processor(const char *line, psr_lab_ticks *ticks)
{
    /* user nice system idle iowait irq softirq steal; guests are in the first two */
    uint64_t t[8];
    if (sscanf(line,
               "%*s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64,
               &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) != 8)
        return false;
    const uint64_t idle = t[3] + t[4];
    uint64_t all = 0;
    for (size_t i = 0; i < 8; i++)
        all += t[i];
    ticks->all += all;
    ticks->busy += all - idle;
    return true;
}

static const char *next_line(const char *at)
{
    const char *end = strchr(at, '\n');
    return end != NULL ? end + 1 : at + strlen(at);
}

psr_err psr_lab_ticks_parse(const char *stat, const char *softnet,
                            bool (*uses)(const void *context, unsigned processor),
                            const void *context, psr_lab_ticks *ret_ticks)
{
    psr_lab_ticks ticks = {0};
    for (const char *at = stat; *at != '\0'; at = next_line(at)) {
        unsigned processor;
        if (strncmp(at, "cpu ", 4) == 0 || sscanf(at, "cpu%u ", &processor) != 1)
            continue;
        if ((uses == NULL || uses(context, processor)) && !add_processor(at, &ticks))
            return psr_fail(PSR_ERR_FORMAT, "/proc/stat: a processor has fewer than 8 numbers");
    }
    if (ticks.all == 0)
        return psr_fail(PSR_ERR_FORMAT, "/proc/stat tells of no processor");
    for (const char *at = softnet; *at != '\0'; at = next_line(at)) {
        unsigned dropped;
        if (sscanf(at, "%*x %x", &dropped) == 1)
            ticks.input_drops += dropped;
    }
    *ret_ticks = ticks;
    return PSR_OK;
}

static bool is_allowed(const void *context, unsigned processor)
{
    return psr_cpus_has(context, processor);
}

/* Files of /proc have no size, so they are read to their end. The caller owns the text: free(). */
static psr_err read_proc(const char *path, char **ret_text)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;
    if (file == NULL)
        return psr_fail(PSR_ERR_IO, "%s: %s", path, strerror(errno));
    const ssize_t got = getdelim(&text, &size, '\0', file);
    fclose(file);
    if (got < 0) {
        free(text);
        return psr_fail(PSR_ERR_IO, "%s cannot be read", path);
    }
    *ret_text = text;
    return PSR_OK;
}

psr_err psr_lab_ticks_read(psr_lab_ticks *ret_ticks)
{
    char *stat = NULL, *softnet = NULL;
    const psr_cpus allowed = psr_cpus_allowed();
    psr_err err = read_proc("/proc/stat", &stat);
    if (!err)
        err = read_proc("/proc/net/softnet_stat", &softnet);
    if (!err)
        err = psr_lab_ticks_parse(stat, softnet, is_allowed, &allowed, ret_ticks);
    free(stat);
    free(softnet);
    return err;
}

/* ---- samples ---- */

psr_err psr_lab_load_add(psr_lab_load *load, const psr_lab_ticks *now, double unix_s)
{
    if (load->last.all == 0) {
        load->first = load->last = *now;
        return PSR_OK;
    }
    if (now->all == load->last.all)
        return PSR_OK;
    if ((load->count & (load->count + 1)) == 0) { /* room for 1, 3, 7 .. */
        psr_lab_sample *grown =
            realloc(load->samples, (2 * load->count + 1) * sizeof *load->samples);
        if (grown == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for samples of this machine's load");
        load->samples = grown;
    }
    load->samples[load->count++] = (psr_lab_sample){unix_s, (float)(now->busy - load->last.busy) /
                                                                (float)(now->all - load->last.all)};
    load->last = *now;
    return PSR_OK;
}

void psr_lab_load_done(psr_lab_load *load)
{
    free(load->samples);
    *load = (psr_lab_load){0};
}

static bool is_within(double unix_s, const psr_lab_span *spans, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (unix_s >= spans[i].from_s && unix_s <= spans[i].to_s)
            return true;
    return false;
}

void psr_lab_load_figures_of(const psr_lab_load *load, const psr_lab_span *spans, size_t count,
                             psr_lab_load_figures *ret_figures)
{
    psr_lab_load_figures f = {.input_drops = load->last.input_drops - load->first.input_drops};
    double busy = 0, saturated = 0;
    for (size_t i = 0; i < load->count; i++) {
        const psr_lab_sample *s = &load->samples[i];
        if (!is_within(s->unix_s, spans, count))
            continue;
        f.samples++;
        busy += s->busy;
        saturated += s->busy > PSR_LAB_SATURATED_BUSY;
    }
    f.seconds = (double)f.samples * PSR_LAB_SAMPLE_MS * 1e-3;
    if (f.samples > 0) {
        f.busy_share = busy / (double)f.samples;
        f.saturated_share = saturated / (double)f.samples;
    }
    *ret_figures = f;
}

bool psr_lab_is_valid(const psr_lab_load_figures *figures, uint64_t host_drops,
                      char why[PSR_LAB_WHY_BYTES])
{
    why[0] = '\0';
    if (host_drops > 0)
        snprintf(why, PSR_LAB_WHY_BYTES,
                 "the hosts' own ends of their links dropped %" PRIu64
                 " packets, which no network card does",
                 host_drops);
    else if (figures->input_drops > 0)
        snprintf(why, PSR_LAB_WHY_BYTES,
                 "this machine's kernel dropped %" PRIu64
                 " packets before a host saw them (net.core.netdev_max_backlog)",
                 figures->input_drops);
    else if (figures->samples < PSR_LAB_SAMPLES_LEAST)
        snprintf(why, PSR_LAB_WHY_BYTES,
                 "it took less than %.0f s, too short to tell how busy this machine was",
                 PSR_LAB_SAMPLES_LEAST * PSR_LAB_SAMPLE_MS * 1e-3);
    else if (figures->saturated_share >= PSR_LAB_SATURATED_MOST)
        snprintf(why, PSR_LAB_WHY_BYTES,
                 "this machine's processors were all busy for %.0f%% of it; take fewer hosts, "
                 "slower links, or --backend played:PROFILE",
                 100 * figures->saturated_share);
    return why[0] == '\0';
}
