#include "bench/predict/answer.h"

#include "base/text/json_fields.h"

#include <stdio.h>
#include <stdlib.h>

static void rate_text(double bits_per_s, char *text, size_t size)
{
    if (bits_per_s >= 1e9)
        snprintf(text, size, "%.3g Gbit/s", bits_per_s / 1e9);
    else
        snprintf(text, size, "%.3g Mbit/s", bits_per_s / 1e6);
}

static void print_scenario(const psr_scenario *k)
{
    char rate[32];
    rate_text(k->bits_per_s, rate, sizeof rate);
    printf("%s, batch %u a worker, %.4g ms to compute; %.1f MB in %u buckets\n", k->config.model,
           k->config.batch_size, k->compute_s * 1e3, psr_scenario_bytes(k) / 1e6, k->buckets.count);
    printf("links of %s, %.3g us one way", rate, k->latency_s * 1e6);
    if (k->loss > 0)
        printf(", %.3g%% lost", k->loss * 100);
    printf("; %u worker%s a host\n", k->workers_per_host, k->workers_per_host == 1 ? "" : "s");
}

static void print_row(const psr_answer *a, const psr_answer_hosts *at, uint32_t row)
{
    const psr_prediction *p = &a->rows[row];
    char shards[16] = "-";
    if (p->choice.mode == PSR_MODE_PS)
        snprintf(shards, sizeof shards, "%u", p->choice.shards);
    printf("%5u %c%-4s %6s %-7s %9.4g %9.4g %5.2f %5.2f  %-14s %s\n", at->hosts,
           row == at->best ? '*' : ' ', p->choice.mode == PSR_MODE_PS ? "ps" : "ring", shards,
           p->choice.mode == PSR_MODE_PS ? p->choice.dedicated ? "apart" : "beside" : "-",
           p->step_s, p->images_per_s, p->efficiency, p->link_busy, psr_limit_name(p->limit),
           p->emulated ? "" : "1");
}

static void print_crossings(const psr_predict_question *q, const psr_answer *a)
{
    const psr_answer_hosts *last = &a->hosts[a->host_count - 1];
    bool any = false;
    for (uint32_t i = 1; i < a->host_count; i++) {
        const psr_mode before = a->rows[a->hosts[i - 1].best].choice.mode,
                       now = a->rows[a->hosts[i].best].choice.mode;
        if (before == now)
            continue;
        printf("from %u to %u hosts the fastest turns from %s to %s\n", a->hosts[i - 1].hosts,
               a->hosts[i].hosts, before == PSR_MODE_PS ? "ps" : "ring",
               now == PSR_MODE_PS ? "ps" : "ring");
        any = true;
    }
    if (a->crossing_bits_per_s > 0) {
        char rate[32];
        rate_text(a->crossing_bits_per_s, rate, sizeof rate);
        printf("on %u hosts the ring is faster with links %s %s (one-link model)\n", last->hosts,
               a->ring_below ? "below" : "above", rate);
    } else if (!any && last->ring != UINT32_MAX && last->best_ps != UINT32_MAX) {
        printf("ring and ps do not change places: not between %u and %u hosts, and not\n"
               "with links from a hundredth to a hundred times as fast\n",
               q->hosts[0], last->hosts);
    }
}

static void print_effects(const psr_answer *a)
{
    const psr_answer_hosts *last = &a->hosts[a->host_count - 1];
    char what[64];
    psr_choice_describe(&a->rows[last->best].choice, what, sizeof what);
    printf("\n%s, %u hosts: a step with 10%% less and more\n", what, last->hosts);
    for (uint32_t i = 0; i < a->effect_count; i++)
        printf("  --%-11s %10.4g %+8.1f%% %+8.1f%%\n", a->effects[i].name, a->effects[i].value,
               (a->effects[i].less - 1) * 100, (a->effects[i].more - 1) * 100);
}

void psr_answer_print(const psr_predict_question *q, const psr_answer *a)
{
    bool one_link = false;
    print_scenario(&q->scenario);
    printf("\n%5s  %-4s %6s %-7s %9s %9s %5s %5s  %s\n", "hosts", "mode", "shards", "placed",
           "step s", "images/s", "eff.", "link", "limited by");
    for (uint32_t i = 0; i < a->host_count; i++)
        for (uint32_t r = 0; r < a->hosts[i].count; r++) {
            print_row(a, &a->hosts[i], a->hosts[i].first + r);
            one_link = one_link || !a->rows[a->hosts[i].first + r].emulated;
        }
    printf("\n*: the fastest on these hosts. eff.: of what workers compute without exchange.\n"
           "link: share of a step in which the busiest link carries. apart: on hosts of\n"
           "their own, which are not counted.%s\n",
           one_link ? " 1: by the one-link model." : "");
    for (uint32_t i = 0; i < a->host_count; i++) {
        char what[64];
        const psr_prediction *p = &a->rows[a->hosts[i].best];
        psr_choice_describe(&p->choice, what, sizeof what);
        printf("%u hosts: %s: %.4g images/s\n", a->hosts[i].hosts, what, p->images_per_s);
    }
    print_crossings(q, a);
    print_effects(a);
}

/* ---- as JSON ---- */

static void put_double(psr_fields_writer *w, const char *name, double value)
{
    psr_fields_put_item(w, name, cJSON_CreateNumber(value));
}

static cJSON *object_of(psr_fields_writer *w)
{
    if (!w->failed)
        return w->object;
    cJSON_Delete(w->object);
    return NULL;
}

static cJSON *row_json(const psr_answer_hosts *at, const psr_prediction *p, bool best)
{
    psr_fields_writer w = psr_fields_begin();
    const bool ps = p->choice.mode == PSR_MODE_PS;
    psr_fields_put_number(&w, "hosts", at->hosts);
    psr_fields_put_number(&w, "workers", p->workers);
    psr_fields_put_text(&w, "mode", ps ? "ps" : "ring");
    if (ps) {
        psr_fields_put_number(&w, "shards", p->choice.shards);
        psr_fields_put_text(&w, "placement", p->choice.dedicated ? "dedicated" : "beside");
    }
    put_double(&w, "step_s", p->step_s);
    put_double(&w, "images_per_s", p->images_per_s);
    put_double(&w, "efficiency", p->efficiency);
    put_double(&w, "all_but_one_bucket_hidden_s", p->least_s);
    put_double(&w, "nothing_hidden_s", p->most_s);
    put_double(&w, "link_busy", p->link_busy);
    put_double(&w, "process_busy", p->process_busy);
    psr_fields_put_text(&w, "limited_by", psr_limit_name(p->limit));
    psr_fields_put_text(&w, "by", p->emulated ? "machines" : "one-link");
    psr_fields_put_item(&w, "best", cJSON_CreateBool(best));
    return object_of(&w);
}

static cJSON *effect_json(const psr_input_effect *effect)
{
    psr_fields_writer w = psr_fields_begin();
    psr_fields_put_text(&w, "option", effect->name);
    put_double(&w, "value", effect->value);
    put_double(&w, "step_at_90_percent", effect->less);
    put_double(&w, "step_at_110_percent", effect->more);
    return object_of(&w);
}

static void put_scenario(psr_fields_writer *w, const psr_scenario *k)
{
    psr_fields_put_text(w, "model", k->config.model);
    psr_fields_put_number(w, "batch_size", k->config.batch_size);
    psr_fields_put_number(w, "buckets", k->buckets.count);
    psr_fields_put_number(w, "workers_per_host", k->workers_per_host);
    put_double(w, "bytes", psr_scenario_bytes(k));
    put_double(w, "compute_s", k->compute_s);
    put_double(w, "link_bits_per_s", k->bits_per_s);
    put_double(w, "latency_s", k->latency_s);
    put_double(w, "loss", k->loss);
}

psr_err psr_answer_print_json(const psr_predict_question *q, const psr_answer *a)
{
    psr_fields_writer w = psr_fields_begin();
    cJSON *rows = cJSON_CreateArray(), *effects = cJSON_CreateArray();
    char *json = NULL;
    put_scenario(&w, &q->scenario);
    for (uint32_t i = 0; i < a->host_count; i++)
        for (uint32_t r = 0; r < a->hosts[i].count; r++) {
            const uint32_t row = a->hosts[i].first + r;
            cJSON_AddItemToArray(rows,
                                 row_json(&a->hosts[i], &a->rows[row], row == a->hosts[i].best));
        }
    for (uint32_t i = 0; i < a->effect_count; i++)
        cJSON_AddItemToArray(effects, effect_json(&a->effects[i]));
    psr_fields_put_item(&w, "predictions", rows);
    psr_fields_put_item(&w, "effects", effects);
    if (a->crossing_bits_per_s > 0) {
        put_double(&w, "crossing_link_bits_per_s", a->crossing_bits_per_s);
        psr_fields_put_text(&w, "faster_below_it", a->ring_below ? "ring" : "ps");
    }
    PSR_TRY(psr_fields_finish(&w, &json));
    printf("%s\n", json);
    free(json);
    return PSR_OK;
}
