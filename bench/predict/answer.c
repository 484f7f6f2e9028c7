#include "bench/predict/answer.h"

#include "bench/predict/emulate.h"
#include "bench/predict/one_link.h"

#include <math.h>
#include <stdlib.h>

#define NO_ROW UINT32_MAX
#define SHARDS_MAX 256u /* --shards */

static bool by_machines(const psr_predict_question *q, const psr_scenario *k)
{
    const uint32_t workers = k->hosts * k->workers_per_host;
    if (q->by == PSR_BY_AUTO)
        return workers <= PSR_EMULATED_WORKERS_MAX;
    return q->by == PSR_BY_MACHINES;
}

/* With the slices that training would take from the links. Borrows what q has. */
static psr_scenario trained(const psr_predict_question *q, const psr_choice *choice)
{
    psr_scenario k = q->scenario;
    if (!q->slices_given)
        psr_config_slices_for((uint64_t)k.bits_per_s,
                              choice->mode == PSR_MODE_PS ? k.hosts * k.workers_per_host : 0,
                              &k.config.slice_bytes, &k.config.window);
    return k;
}

static psr_err by_one_link(const psr_predict_question *q, const psr_choice *choice,
                           psr_prediction *ret_prediction)
{
    const psr_scenario k = trained(q, choice);
    return psr_one_link_predict(&k, choice, ret_prediction);
}

static psr_err predict(const psr_predict_question *q, const psr_choice *choice,
                       psr_prediction *ret_prediction)
{
    const psr_scenario k = trained(q, choice);
    return by_machines(q, &k) ? psr_emulate(&k, choice, 0, ret_prediction)
                              : psr_one_link_predict(&k, choice, ret_prediction);
}

static psr_err add_row(const psr_predict_question *q, psr_answer *a, const psr_choice *choice)
{
    psr_prediction *rows = realloc(a->rows, (a->row_count + 1) * sizeof *rows);
    if (rows == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a row");
    a->rows = rows;
    PSR_TRY(predict(q, choice, &rows[a->row_count]));
    psr_answer_hosts *at = &a->hosts[a->host_count - 1];
    const uint32_t row = a->row_count++;
    const double step_s = rows[row].step_s;
    at->count++;
    if (at->best == NO_ROW || step_s < rows[at->best].step_s)
        at->best = row;
    if (choice->mode == PSR_MODE_RING)
        at->ring = row;
    else if (at->best_ps == NO_ROW || step_s < rows[at->best_ps].step_s)
        at->best_ps = row;
    return PSR_OK;
}

/* A number of shards that these hosts and buckets can have. */
static bool has_place(const psr_predict_question *q, uint32_t shards, bool dedicated)
{
    return shards >= 1 && shards <= SHARDS_MAX && shards <= q->scenario.buckets.count &&
           (dedicated || shards <= q->scenario.hosts);
}

static psr_err add_shards(const psr_predict_question *q, psr_answer *a, uint32_t shards)
{
    if (q->beside && has_place(q, shards, false))
        PSR_TRY(add_row(q, a, &(psr_choice){PSR_MODE_PS, shards, false}));
    if (q->dedicated && has_place(q, shards, true))
        PSR_TRY(add_row(q, a, &(psr_choice){PSR_MODE_PS, shards, true}));
    return PSR_OK;
}

/* 1, 2, 4 .. and as many as there are hosts. */
static psr_err add_usual_shards(const psr_predict_question *q, psr_answer *a)
{
    uint32_t most = q->scenario.hosts < SHARDS_MAX ? q->scenario.hosts : SHARDS_MAX;
    if (most > q->scenario.buckets.count)
        most = q->scenario.buckets.count;
    for (uint32_t shards = 1; shards < most; shards *= 2)
        PSR_TRY(add_shards(q, a, shards));
    return add_shards(q, a, most);
}

static psr_err add_hosts(psr_predict_question *q, psr_answer *a, uint32_t hosts)
{
    q->scenario.hosts = hosts;
    a->hosts[a->host_count++] = (psr_answer_hosts){
        .hosts = hosts, .first = a->row_count, .best = NO_ROW, .best_ps = NO_ROW, .ring = NO_ROW};
    if (q->ring)
        PSR_TRY(add_row(q, a, &(psr_choice){.mode = PSR_MODE_RING}));
    if (q->ps && q->shard_count == 0)
        PSR_TRY(add_usual_shards(q, a));
    for (uint32_t i = 0; q->ps && i < q->shard_count; i++)
        PSR_TRY(add_shards(q, a, q->shards[i]));
    if (a->hosts[a->host_count - 1].count == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--shards: on %u hosts, and of %u buckets, there can be none of these",
                        hosts, q->scenario.buckets.count);
    return PSR_OK;
}

/* ---- how much each input matters ---- */

/* Of many workers by the one-link model, however they are predicted: the machines would take
 * minutes for each. */
static psr_err predict_effect(const psr_predict_question *q, const psr_choice *choice,
                              double *ret_step_s)
{
    const uint32_t workers = q->scenario.hosts * q->scenario.workers_per_host;
    psr_prediction p;
    PSR_TRY(workers > PSR_EMULATED_WORKERS_MAX ? by_one_link(q, choice, &p)
                                               : predict(q, choice, &p));
    *ret_step_s = p.step_s;
    return PSR_OK;
}

static psr_err add_effect(const psr_predict_question *q, psr_answer *a, const char *name,
                          double *value, double shown)
{
    const psr_prediction *best = &a->rows[a->hosts[a->host_count - 1].best];
    const double given = *value;
    double as_given_s, less_s, more_s;
    if (given == 0)
        return PSR_OK;
    PSR_TRY(predict_effect(q, &best->choice, &as_given_s));
    *value = given * 0.9;
    psr_err err = predict_effect(q, &best->choice, &less_s);
    *value = given * 1.1;
    if (err == PSR_OK)
        err = predict_effect(q, &best->choice, &more_s);
    *value = given;
    if (err == PSR_OK)
        a->effects[a->effect_count++] =
            (psr_input_effect){name, shown, less_s / as_given_s, more_s / as_given_s};
    return err;
}

static psr_err add_effects(psr_predict_question *q, psr_answer *a)
{
    psr_scenario *k = &q->scenario;
    psr_link_costs *c = &k->costs;
    PSR_TRY(add_effect(q, a, "compute", &k->compute_s, k->compute_s * 1e3));
    PSR_TRY(add_effect(q, a, "link", &k->bits_per_s, k->bits_per_s / 1e6));
    PSR_TRY(add_effect(q, a, "latency", &k->latency_s, k->latency_s * 1e6));
    PSR_TRY(add_effect(q, a, "loss", &k->loss, k->loss));
    PSR_TRY(add_effect(q, a, "message-us", &c->message_s, c->message_s * 1e6));
    PSR_TRY(add_effect(q, a, "copy-ns", &c->copy_s_per_byte, c->copy_s_per_byte * 1e9));
    PSR_TRY(add_effect(q, a, "seal-ns", &c->seal_s_per_byte, c->seal_s_per_byte * 1e9));
    PSR_TRY(add_effect(q, a, "fold-ns", &c->fold_s_per_byte, c->fold_s_per_byte * 1e9));
    return add_effect(q, a, "update-ns", &c->update_s_per_byte, c->update_s_per_byte * 1e9);
}

/* ---- where ring and PS are equally fast ---- */

static psr_err lead_of_ring(psr_predict_question *q, const psr_choice *ps, double bits_per_s,
                            double *ret_lead_s)
{
    const double given = q->scenario.bits_per_s;
    psr_prediction ring, other;
    q->scenario.bits_per_s = bits_per_s;
    psr_err err = by_one_link(q, &(psr_choice){.mode = PSR_MODE_RING}, &ring);
    if (err == PSR_OK)
        err = by_one_link(q, ps, &other);
    q->scenario.bits_per_s = given;
    if (err == PSR_OK)
        *ret_lead_s = other.step_s - ring.step_s;
    return err;
}

static psr_err find_crossing(psr_predict_question *q, psr_answer *a)
{
    const psr_answer_hosts *at = &a->hosts[a->host_count - 1];
    double low = q->scenario.bits_per_s / 100, high = q->scenario.bits_per_s * 100, below, above;
    if (at->best_ps == NO_ROW || at->ring == NO_ROW)
        return PSR_OK;
    const psr_choice ps = a->rows[at->best_ps].choice;
    PSR_TRY(lead_of_ring(q, &ps, low, &below));
    PSR_TRY(lead_of_ring(q, &ps, high, &above));
    if (below * above >= 0)
        return PSR_OK;
    while (high / low > 1.001) {
        const double middle = sqrt(low * high);
        double lead;
        PSR_TRY(lead_of_ring(q, &ps, middle, &lead));
        if (lead * below > 0)
            low = middle;
        else
            high = middle;
    }
    a->crossing_bits_per_s = low;
    a->ring_below = below > 0;
    return PSR_OK;
}

psr_err psr_answer_make(psr_predict_question *q, psr_answer *ret_answer)
{
    psr_answer a = {.rows = NULL};
    psr_err err = PSR_OK;
    for (uint32_t i = 0; i < q->host_count && err == PSR_OK; i++)
        err = add_hosts(q, &a, q->hosts[i]);
    if (err == PSR_OK)
        err = add_effects(q, &a);
    if (err == PSR_OK)
        err = find_crossing(q, &a);
    if (err == PSR_OK)
        *ret_answer = a;
    else
        psr_answer_done(&a);
    return err;
}

void psr_answer_done(psr_answer *answer)
{
    free(answer->rows);
    *answer = (psr_answer){.rows = NULL};
}
