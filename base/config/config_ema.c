/* --ema: reads and prints what model/optimizers/ema.c computes. */
#include "base/config/config_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A float has to tell 1 - DECAY from 0, and DECAY from 1. */
static bool read_fields(const char *text, psr_ema *ema)
{
    char decay[64];
    return psr_parse_counted(text, decay, sizeof decay, 1, &ema->every) &&
           psr_parse_double(decay, &ema->decay) && ema->decay > 0 && (float)ema->decay < 1;
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
