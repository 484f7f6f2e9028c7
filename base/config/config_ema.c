/* --ema: reads and prints what model/optimizers/ema.c computes. */
#include "base/config/config_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define EVERY_MAX 1000000

static bool read_every(const char *text, uint32_t *ret_every)
{
    uint64_t every;
    if (!psr_parse_u64(text, &every) || every == 0 || every > EVERY_MAX)
        return false;
    *ret_every = (uint32_t)every;
    return true;
}

/* A float has to tell 1 - DECAY from 0, and DECAY from 1. */
static bool read_fields(const char *text, psr_ema *ema)
{
    char decay[64];
    const char *colon = strchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    if (length >= sizeof decay)
        return false;
    memcpy(decay, text, length);
    decay[length] = '\0';
    return psr_parse_double(decay, &ema->decay) && ema->decay > 0 && (float)ema->decay < 1 &&
           (colon == NULL || read_every(colon + 1, &ema->every));
}

psr_err psr_config_read_ema(psr_config *config, const char *text)
{
    psr_ema ema;
    memset(&ema, 0, sizeof ema); /* the gaps too: configurations are compared as bytes */
    ema.every = 1;
    if (strcmp(text, "none") != 0 && !read_fields(text, &ema))
        return psr_fail(PSR_ERR_USAGE,
                        "'%.64s' is no average of the weights; give DECAY, above 0 and below 1 "
                        "(0.9999), DECAY:EVERY with EVERY in updates (0.9999:32), or none",
                        text);
    memcpy(&config->ema, &ema, sizeof ema);
    return PSR_OK;
}

void psr_config_print_ema(const psr_config *config, char *text, size_t size)
{
    char decay[32];
    psr_print_double(config->ema.decay, decay, sizeof decay);
    if (config->ema.decay == 0)
        snprintf(text, size, "none");
    else if (config->ema.every == 1)
        snprintf(text, size, "%s", decay);
    else
        snprintf(text, size, "%s:%" PRIu32, decay, config->ema.every);
}
