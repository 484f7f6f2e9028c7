#include "worker/metrics.h"

#include "base/text/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_real(psr_text_end *end, const char *name, double value)
{
    if (isfinite(value))
        psr_text_add(end, ", \"%s\": %.17g", name, value);
    else
        psr_text_add(end, ", \"%s\": null", name);
}

static void add_seconds(psr_text_end *end, const char *name, double value)
{
    psr_text_add(end, ", \"%s\": %.9f", name, value);
}

/* ema: of the average of the weights; NULL: there is none. */
static void add_test(psr_text_end *end, const psr_test_figures *test, const psr_test_figures *ema)
{
    add_real(end, "test_loss", test->loss);
    add_real(end, "test_accuracy", test->accuracy);
    add_real(end, "test_top5", test->top5);
    if (ema == NULL)
        return;
    add_real(end, "ema_loss", ema->loss);
    add_real(end, "ema_accuracy", ema->accuracy);
    add_real(end, "ema_top5", ema->top5);
}

void psr_metrics_print(const psr_metrics *m, char line[static PSR_METRICS_LINE_MAX])
{
    psr_text_end end = {line, PSR_METRICS_LINE_MAX}; /* holds every field at its
                                                        longest, as a test shows */
    psr_text_add(&end, "{\"step\": %" PRIu64 ", \"rank\": %" PRIu32 ", \"epoch\": %" PRIu32,
                 m->step, m->rank, m->epoch);
    psr_text_add(&end, ", \"unix_s\": %.6f", m->unix_s);
    add_seconds(&end, "train_s", m->train_s);
    add_real(&end, "loss", m->loss);
    add_real(&end, "train_accuracy", m->train_accuracy);
    psr_text_add(&end, ", \"lr\": %.9g", (double)m->lr);
    psr_text_add(&end, ", \"images\": %" PRIu32, m->images);
    add_real(&end, "images_per_s", m->images_per_s);
    add_seconds(&end, "compute_s", m->compute_s);
    add_seconds(&end, "exchange_s", m->exchange_s);
    add_seconds(&end, "wait_s", m->wait_s);
    if (m->sync_bn_wait_s > 0)
        add_seconds(&end, "sync_bn_wait_s", m->sync_bn_wait_s);
    add_seconds(&end, "hidden_s", m->hidden_s);
    add_seconds(&end, "exposed_s", m->exposed_s);
    if (m->drain_s > 0)
        add_seconds(&end, "drain_s", m->drain_s);
    add_seconds(&end, "load_wait_s", m->load_wait_s);
    if (m->pause_s > 0)
        add_seconds(&end, "pause_s", m->pause_s);
    psr_text_add(&end,
                 ", \"bytes_sent\": %" PRIu64 ", \"bytes_received\": %" PRIu64
                 ", \"bytes_lent\": %" PRIu64 ", \"gradient_bytes\": %" PRIu64
                 ", \"gradient_float32_bytes\": %" PRIu64 ", \"staleness\": %" PRIu64,
                 m->bytes_sent, m->bytes_received, m->bytes_lent, m->gradient_bytes,
                 m->gradient_float32_bytes, m->staleness);
    if (m->has_hash)
        psr_text_add(&end, ", \"hash\": \"%016" PRIx64 "\"", m->hash);
    if (m->has_norm)
        add_real(&end, "gradient_norm", m->norm);
    if (m->loss_scale > 0)
        psr_text_add(&end, ", \"loss_scale\": %" PRIu32 ", \"skipped\": %s", m->loss_scale,
                     m->skipped ? "true" : "false");
    if (m->has_test)
        add_test(&end, &m->test, m->has_ema ? &m->ema : NULL);
    psr_text_add(&end, "}");
}

void psr_metrics_print_evaluation(uint64_t step, const psr_test_figures *test,
                                  const psr_test_figures *ema,
                                  char line[static PSR_METRICS_LINE_MAX])
{
    psr_text_end end = {line, PSR_METRICS_LINE_MAX};
    psr_text_add(&end, "{\"step\": %" PRIu64 ", \"rank\": 0", step);
    add_test(&end, test, ema);
    psr_text_add(&end, "}");
}

psr_err psr_outcome_to_json(const psr_outcome *o, const char *links, char **ret_json)
{
    const size_t size = PSR_METRICS_LINE_MAX + strlen(links);
    char *json = malloc(size);
    if (json == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a worker's outcome");
    psr_text_end end = {json, size};
    psr_text_add(&end, "{\"steps\": %" PRIu64, o->steps);
    add_seconds(&end, "train_s", o->train_s);
    add_seconds(&end, "compute_s", o->compute_s);
    add_seconds(&end, "wait_s", o->wait_s);
    add_seconds(&end, "load_wait_s", o->load_wait_s);
    add_seconds(&end, "hidden_s", o->hidden_s);
    add_seconds(&end, "exposed_s", o->exposed_s);
    add_seconds(&end, "drain_s", o->drain_s);
    psr_text_add(&end, ", \"gradient_bytes\": %" PRIu64 ", \"gradient_float32_bytes\": %" PRIu64,
                 o->gradient_bytes, o->gradient_float32_bytes);
    add_real(&end, "loss", o->loss);
    add_test(&end, &o->test, o->has_ema ? &o->ema : NULL);
    add_real(&end, "train_accuracy", o->train_accuracy);
    if (o->loss_scale > 0)
        psr_text_add(&end, ", \"loss_scale\": %" PRIu32 ", \"skipped_steps\": %" PRIu64,
                     o->loss_scale, o->skipped_steps);
    psr_text_add(&end,
                 ", \"test_count\": %" PRIu64 ", \"hash\": \"%016" PRIx64
                 "\", \"stopped\": %s, \"links\": %s}",
                 o->test_count, o->hash, o->stopped ? "true" : "false", links);
    *ret_json = json;
    return PSR_OK;
}
