#include "worker/snapshot.h"

#include "base/arrays/arena.h"
#include "base/log.h"
#include "comm/members/memory/shared_memory.h"
#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"
#include "model/checkpoint/start_weights.h"
#include "model/optimizers/ema.h"
#include "worker/evaluate.h"
#include "worker/whiten.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Whether every rank of this run has a residual (--compress). */
static bool has_residuals(psr_exchange *exchange)
{
    return psr_exchange_residual(exchange, 0) != NULL;
}

/* ---- out ---- */

static psr_err save(psr_trainer *t, uint64_t steps, uint32_t section, const float *arena,
                    const psr_layout *layout)
{
    return psr_session_checkpoint(t->session, steps, section, arena, (psr_span){0, layout->length});
}

/* Shards have what is trained; they never had the rest. */
static psr_err save_frozen(psr_trainer *t, uint64_t steps)
{
    for (uint32_t b = t->buckets->count; b-- > 0;) {
        const psr_bucket *bucket = &t->buckets->items[b];
        if (bucket->frozen)
            PSR_TRY(psr_session_checkpoint(t->session, steps, PSR_SECTION_WEIGHTS,
                                           psr_exchange_weights(t->exchange),
                                           (psr_span){bucket->offset, bucket->length}));
    }
    return PSR_OK;
}

static psr_err save_loss_scale(psr_trainer *t, uint64_t steps)
{
    float numbers[PSR_LOSS_SCALE_NUMBERS];
    if (!psr_loss_scale_is_saved(&t->loss_scale))
        return PSR_OK;
    psr_loss_scale_to_floats(&t->loss_scale, numbers);
    return psr_session_checkpoint(t->session, steps, PSR_SECTION_LOSS_SCALE, numbers,
                                  (psr_span){0, PSR_LOSS_SCALE_NUMBERS});
}

static psr_err save_first_workers(psr_trainer *t, uint64_t steps, const float *averaged)
{
    const float *weights = psr_exchange_saved_weights(t->exchange);
    if (weights != NULL)
        PSR_TRY(save(t, steps, PSR_SECTION_WEIGHTS, weights, &t->net->params));
    else
        PSR_TRY(save_frozen(t, steps));
    if (psr_exchange_pulls_differences(t->exchange))
        PSR_TRY(
            save(t, steps, PSR_SECTION_PULLED, psr_exchange_weights(t->exchange), &t->net->params));
    PSR_TRY(save_loss_scale(t, steps));
    return save(t, steps, PSR_SECTION_BUFFERS, averaged, &t->net->buffers);
}

/* --ema: the averages of the statistics. Those of the weights are a slot. scratch: an arena for the
 * buffers. */
static psr_err save_ema_statistics(psr_trainer *t, uint64_t steps, float *scratch)
{
    if (!psr_ema_is_on(t->config))
        return PSR_OK;
    PSR_TRY(psr_average_buffers(t, PSR_STATISTICS_EMA, scratch));
    if (psr_trainer_is_first(t))
        PSR_TRY(save(t, steps, PSR_SECTION_EMA_BUFFERS, scratch, &t->net->buffers));
    for (uint32_t r = 0; r < t->replica_count; r++)
        PSR_TRY(save(t, steps, PSR_SECTION_EMA_RANK(t->replicas[r].rank),
                     t->replicas[r].ema_buffers, &t->net->buffers));
    return PSR_OK;
}

/* The part of the optimizer's state that this worker has: all of it, or that of the buckets that it
 * holds. */
static psr_err save_slots(psr_trainer *t, uint64_t steps)
{
    for (uint32_t slot = 0; slot < psr_exchange_slot_count(t->exchange); slot++)
        for (uint32_t b = t->buckets->count; b-- > 0;) {
            const psr_span run = {t->buckets->items[b].offset, t->buckets->items[b].length};
            if (!t->buckets->items[b].frozen && psr_exchange_saves_state(t->exchange, b))
                PSR_TRY(psr_session_checkpoint(t->session, steps, PSR_SECTION_SLOT(slot),
                                               psr_exchange_slot(t->exchange, slot), run));
        }
    return PSR_OK;
}

size_t psr_snapshot_pieces(psr_exchange *exchange, const psr_layout *params,
                           const psr_buckets *buckets, bool first)
{
    const bool weights = first && psr_exchange_saved_weights(exchange) != NULL;
    size_t pieces = weights ? psr_kept_pieces(params->length) : 0;
    for (uint32_t b = 0; b < buckets->count; b++)
        if (!buckets->items[b].frozen && psr_exchange_saves_state(exchange, b))
            pieces += psr_exchange_slot_count(exchange) * psr_kept_pieces(buckets->items[b].length);
    return pieces;
}

psr_err psr_snapshot_prepare(psr_trainer *t)
{
    if (psr_duration_is_none(t->config->checkpoint_every))
        return PSR_OK;
    return psr_session_keep_pieces(
        t->session,
        psr_snapshot_pieces(t->exchange, &t->net->params, t->buckets, psr_trainer_is_first(t)));
}

psr_err psr_snapshot_save(psr_trainer *t, uint64_t steps)
{
    psr_session_progress(t->session, PSR_PHASE_CHECKPOINT);
    size_t length = t->net->buffers.length;
    float *averaged = NULL;
    PSR_TRY(psr_arena_new(length, &averaged));
    psr_err err = psr_average_buffers(t, PSR_STATISTICS_OWN, averaged);
    if (err == PSR_OK && psr_trainer_is_first(t))
        err = save_first_workers(t, steps, averaged);
    if (err == PSR_OK)
        err = save_slots(t, steps);
    for (uint32_t r = 0; r < t->replica_count && err == PSR_OK; r++)
        err = save(t, steps, PSR_SECTION_RANK(t->replicas[r].rank), t->replicas[r].buffers,
                   &t->net->buffers);
    for (uint32_t r = 0; r < t->replica_count && err == PSR_OK && has_residuals(t->exchange); r++)
        err = save(t, steps, PSR_SECTION_RESIDUAL(t->replicas[r].rank),
                   psr_exchange_residual(t->exchange, r), &t->net->params);
    if (err == PSR_OK)
        err = save_ema_statistics(t, steps, averaged);
    psr_arena_free(averaged, length);
    return err;
}

/* ---- in: what worker 0 holds until it has been passed on; another worker takes what it owes, and
 * no more ---- */

typedef struct snapshot {
    const psr_layout *params, *buffers;
    psr_layout trained;    /* owned: what residuals and the optimizer's state have of params */
    float *weights;        /* borrowed from the exchange */
    float *statistics;     /* owned: [workers, buffers->length] */
    float *ema_statistics; /* owned: their averages, as many; NULL: there are none */
    size_t statistics_count;
    float *pulled; /* owned: the weights that workers had; NULL: those that are installed */
    psr_optimizer *optimizer; /* owned: its state on the way to shards; NULL if there is none */
    psr_session *session;
    psr_exchange *exchange;
    uint32_t workers;
    uint32_t rank, plays; /* ranks that this process computes: `plays` of them, from rank on */
    bool first;           /* worker 0 */
    uint64_t missing;     /* elements that have not been restored yet */
} snapshot;

static uint32_t slot_count(const snapshot *s)
{
    return s->optimizer != NULL ? psr_optimizer_slot_count(s->optimizer)
                                : psr_exchange_slot_count(s->exchange);
}

static float *slot_arena(const snapshot *s, uint32_t slot)
{
    return s->optimizer != NULL ? psr_optimizer_slot(s->optimizer, slot)
                                : psr_exchange_slot(s->exchange, slot);
}

static float *rank_statistics(const snapshot *s, uint32_t rank)
{
    return s->statistics + rank * s->buffers->length;
}

static psr_err snapshot_init(const psr_trainer *t, snapshot *s)
{
    *s = (snapshot){.params = &t->net->params,
                    .buffers = &t->net->buffers,
                    .weights = psr_exchange_first_weights(t->exchange),
                    .session = t->session,
                    .exchange = t->exchange,
                    .workers = t->ranks,
                    .rank = t->rank,
                    .plays = t->replica_count,
                    .first = psr_trainer_is_first(t)};
    s->statistics_count = (size_t)s->workers * s->buffers->length;
    PSR_TRY(psr_layout_of_trained(s->params, &s->trained));
    PSR_TRY(psr_arena_new(s->statistics_count, &s->statistics));
    if (psr_ema_is_on(t->config) && t->first_step > 0)
        PSR_TRY(psr_arena_new(s->statistics_count, &s->ema_statistics));
    if (s->first && t->first_step > 0 && psr_exchange_pulls_differences(t->exchange))
        PSR_TRY(psr_arena_new(s->params->length, &s->pulled));
    if (psr_trainer_is_first(t) && t->first_step > 0 && !psr_exchange_updates_here(t->exchange))
        return psr_optimizer_new(t->config, s->params, &s->optimizer);
    return PSR_OK;
}

static void snapshot_done(snapshot *s)
{
    psr_arena_free(s->statistics, s->statistics_count);
    psr_arena_free(s->ema_statistics, s->statistics_count);
    psr_arena_free(s->pulled, s->params->length);
    psr_optimizer_free(s->optimizer);
    psr_layout_done(&s->trained);
}

/* ---- in: from the scheduler ---- */

/* The memory into which a section of the checkpoint is restored. NULL: for the averaged statistics,
 * which only other programs use. */
static psr_err find_section(const snapshot *s, uint32_t section, float **ret_to,
                            const psr_layout **ret_layout)
{
    uint32_t residual = section - PSR_SECTION_RESIDUAL(s->rank),
             slot = section - PSR_SECTION_SLOT(0), rank = section - PSR_SECTION_RANK(0),
             ema_rank = section - PSR_SECTION_EMA_RANK(0);
    *ret_layout = s->params;
    if (s->first && s->ema_statistics != NULL && section >= PSR_SECTION_EMA_RANK(0) &&
        ema_rank < s->workers) {
        *ret_layout = s->buffers;
        *ret_to = s->ema_statistics + ema_rank * s->buffers->length;
    } else if (section >= PSR_SECTION_RESIDUAL(s->rank) && residual < s->plays &&
               has_residuals(s->exchange)) {
        *ret_layout = &s->trained;
        *ret_to = psr_exchange_residual(s->exchange, residual);
    } else if (s->first && section == PSR_SECTION_WEIGHTS) {
        *ret_to = s->weights;
    } else if (section == PSR_SECTION_PULLED && s->pulled != NULL) {
        *ret_to = s->pulled;
    } else if (s->first && section >= PSR_SECTION_SLOT(0) && slot < slot_count(s)) {
        *ret_layout = &s->trained;
        *ret_to = slot_arena(s, slot);
    } else if (s->first && section >= PSR_SECTION_RANK(0) && rank < s->workers) {
        *ret_layout = s->buffers;
        *ret_to = rank_statistics(s, rank);
    } else if (s->first && (section == PSR_SECTION_BUFFERS || section == PSR_SECTION_EMA_BUFFERS)) {
        *ret_to = NULL;
    } else {
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the scheduler restored section %u, which this run does not have", section);
    }
    return PSR_OK;
}

static psr_err take_piece(snapshot *s, const psr_message *message)
{
    psr_msg_piece says;
    const float *values;
    const psr_layout *layout = NULL;
    float *to = NULL;
    PSR_TRY(psr_msg_piece_read(message, &says));
    PSR_TRY(find_section(s, says.section, &to, &layout));
    if (to == NULL)
        return PSR_OK;
    if (says.span.offset > layout->length || says.span.count > layout->length - says.span.offset)
        return psr_fail(PSR_ERR_PROTOCOL,
                        "the scheduler restored %zu floats at %zu of section %u, which has %zu",
                        says.span.count, says.span.offset, says.section, layout->length);
    PSR_TRY(psr_decode_floats(message, PSR_ENCODING_FLOAT32, says.span.count, &values));
    memcpy(to + says.span.offset, values, says.span.count * sizeof *to);
    uint64_t elements = psr_layout_elements_in(layout, says.span.offset, says.span.count);
    if (elements > s->missing)
        return psr_fail(PSR_ERR_PROTOCOL, "the scheduler restored section %u more than once",
                        says.section);
    s->missing -= elements;
    return PSR_OK;
}

static psr_err restore(snapshot *s)
{
    s->missing = has_residuals(s->exchange) ? s->plays * (uint64_t)s->trained.count : 0;
    if (s->first)
        s->missing += (1 + (uint64_t)(s->pulled != NULL)) * s->params->count +
                      (uint64_t)slot_count(s) * s->trained.count +
                      (1 + (uint64_t)(s->ema_statistics != NULL)) * s->workers * s->buffers->count;
    while (s->missing > 0) {
        psr_message *message = NULL;
        PSR_TRY(psr_session_restored(s->session, &message));
        psr_err err = take_piece(s, message);
        psr_message_free(&message);
        PSR_TRY(err);
        psr_session_progress(s->session, PSR_PHASE_START);
    }
    return PSR_OK;
}

/* ---- in: a fresh start ---- */

/* path is a file, or a checkpoint's directory. */
static psr_err load_init(const psr_trainer *t, snapshot *s, const char *path)
{
    char file[PSR_PATH_MAX + 32];
    struct stat status;
    bool directory = stat(path, &status) == 0 && S_ISDIR(status.st_mode);
    snprintf(file, sizeof file, "%s%s", path, directory ? "/model.safetensors" : "");
    psr_checkpoint *checkpoint = NULL;
    psr_err err = psr_checkpoint_open(file, &checkpoint);
    if (err != PSR_OK)
        return psr_fail_context(err, "--init");
    psr_start_told told;
    err = psr_start_weights(checkpoint, t->net, t->config->init_partial, s->weights,
                            rank_statistics(s, 0), &told);
    psr_checkpoint_close(checkpoint);
    if (err != PSR_OK)
        return psr_fail_context(err, "--init %s", path);
    for (uint32_t i = 0; i < told.count; i++)
        psr_log(PSR_LOG_WARN, "--init %s: %s", path, told.lines[i]);
    return PSR_OK;
}

static psr_err init_from_seed(const psr_trainer *t, snapshot *s)
{
    psr_network_init(t->net, t->config->seed, s->weights, s->statistics);
    PSR_TRY(psr_whiten(t, s->weights));
    if (t->config->init[0] != '\0')
        PSR_TRY(load_init(t, s, t->config->init));
    for (uint32_t rank = 1; rank < s->workers; rank++)
        memcpy(rank_statistics(s, rank), s->statistics, s->buffers->length * sizeof *s->statistics);
    return PSR_OK;
}

/* ---- in: to everybody ---- */

/* Every rank's statistics to its own replica. */
static psr_err pass_statistics_on(psr_trainer *t, const snapshot *s, float *statistics, bool ema)
{
    if (statistics == NULL || s->statistics_count == 0)
        return PSR_OK;
    const size_t length = s->buffers->length;
    PSR_TRY(
        psr_exchange_broadcast(t->exchange, statistics, s->statistics_count * sizeof *statistics));
    for (uint32_t r = 0; r < t->replica_count; r++) {
        psr_replica *replica = &t->replicas[r];
        memcpy(ema ? replica->ema_buffers : replica->buffers, statistics + replica->rank * length,
               length * sizeof *statistics);
    }
    return PSR_OK;
}

static psr_err pass_on(psr_trainer *t, snapshot *s)
{
    PSR_TRY(pass_statistics_on(t, s, s->statistics, false));
    PSR_TRY(pass_statistics_on(t, s, s->ema_statistics, true));
    PSR_TRY(psr_exchange_install(t->exchange, 0, s->weights));
    for (uint32_t slot = 0; slot < slot_count(s) && t->first_step > 0; slot++)
        PSR_TRY(psr_exchange_install(t->exchange, 1 + slot, slot_arena(s, slot)));
    if (t->first_step > 0 && psr_exchange_pulls_differences(t->exchange))
        PSR_TRY(psr_exchange_install_pulled(t->exchange, 1 + slot_count(s), s->pulled));
    return PSR_OK;
}

psr_err psr_snapshot_load(psr_trainer *t)
{
    snapshot s;
    psr_err err = snapshot_init(t, &s);
    if (err == PSR_OK && t->first_step > 0)
        err = restore(&s);
    else if (err == PSR_OK && s.first)
        err = init_from_seed(t, &s);
    if (err == PSR_OK)
        err = pass_on(t, &s);
    snapshot_done(&s);
    return err;
}
