#include "worker/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* A text that grows to the right. PSR_METRICS_LINE_MAX holds every field at its longest, as a test shows. */
typedef struct line_end {
    char *at;
    size_t room;
} line_end;

static void add(line_end *end, const char *format, ...) PSR_PRINTF(2, 3);

static void add(line_end *end, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(end->at, end->room, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= end->room)
        length = (int)end->room - 1;
    end->at += length;
    end->room -= (size_t)length;
}

static void add_real(line_end *end, const char *name, double value)
{
    if (isfinite(value))
        add(end, ", \"%s\": %.17g", name, value);
    else
        add(end, ", \"%s\": null", name);
}

static void add_seconds(line_end *end, const char *name, double value)
{
    add(end, ", \"%s\": %.9f", name, value);
}

void psr_metrics_print(const psr_metrics *m, char line[static PSR_METRICS_LINE_MAX])
{
    line_end end = {line, PSR_METRICS_LINE_MAX};
    add(&end, "{\"step\": %" PRIu64 ", \"rank\": %" PRIu32 ", \"epoch\": %" PRIu32, m->step, m->rank,
        m->epoch);
    add_real(&end, "loss", m->loss);
    add(&end, ", \"lr\": %.9g", (double)m->lr);
    add_real(&end, "images_per_s", m->images_per_s);
    add_seconds(&end, "compute_s", m->compute_s);
    add_seconds(&end, "exchange_s", m->exchange_s);
    add_seconds(&end, "wait_s", m->wait_s);
    add_seconds(&end, "load_wait_s", m->load_wait_s);
    add(&end, ", \"bytes_sent\": %" PRIu64 ", \"bytes_received\": %" PRIu64 ", \"staleness\": %" PRIu64,
        m->bytes_sent, m->bytes_received, m->staleness);
    if (m->has_hash)
        add(&end, ", \"hash\": \"%016" PRIx64 "\"", m->hash);
    if (m->has_test) {
        add_real(&end, "test_loss", m->test_loss);
        add_real(&end, "test_accuracy", m->test_accuracy);
    }
    add(&end, "}");
}

void psr_outcome_print(const psr_outcome *o, char line[static PSR_METRICS_LINE_MAX])
{
    line_end end = {line, PSR_METRICS_LINE_MAX};
    add(&end, "{\"steps\": %" PRIu64 ", \"images\": %" PRIu64, o->steps, o->images);
    add_seconds(&end, "seconds", o->seconds);
    add_real(&end, "images_per_s", o->seconds > 0 ? (double)o->images / o->seconds : 0);
    add_seconds(&end, "compute_s", o->compute_s);
    add_seconds(&end, "wait_s", o->wait_s);
    add_seconds(&end, "load_wait_s", o->load_wait_s);
    add_real(&end, "loss", o->loss);
    add_real(&end, "test_loss", o->test_loss);
    add_real(&end, "accuracy", o->accuracy);
    add(&end, ", \"test_count\": %" PRIu64 ", \"hash\": \"%016" PRIx64 "\", \"stopped\": %s}", o->test_count,
        o->hash, o->stopped ? "true" : "false");
}
