/* The scheduler while steps are taken: what members may report. A member is believed only about its
 * own steps, in their order, and about each thing once, so that no member can fill memory or disk
 * with what nobody asked for. */
#include "ps/scheduler/scheduler_private.h"

#include "base/text/json.h"
#include "base/text/printable.h"
#include "comm/trace/tracer.h"
#include "comm/wire/encoding.h"
#include "comm/wire/messages.h"
#include "net/violation.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>

#define METRICS_BYTES_MAX 4096
/* Of a step: more than a network of 10,000 tensors has. */
#define NORM_LINES_MAX 512

/* ---- checkpoints ---- */

static bool plays(const psr_scheduler *scheduler, psr_peer worker, uint64_t rank)
{
    return scheduler->roster.computes_all_ranks ? rank < scheduler->roster.ranks
                                                : rank == worker.rank;
}

/* All buckets that peer holds. */
static bool holds(const psr_plan *plan, psr_peer peer, psr_span run)
{
    for (uint32_t b = 0; b < plan->bucket_count; b++) {
        psr_span span = plan->buckets[b].span;
        bool apart = psr_span_end(span) <= run.offset || psr_span_end(run) <= span.offset;
        if (!apart && !psr_peer_equal(psr_plan_home(plan, b), peer))
            return false;
    }
    return true;
}

/* Who may send a run of a section: see net/message.h. After `step` steps, the view of the last of
 * these steps decides. */
static bool may_send(const psr_scheduler *scheduler, psr_peer peer, const psr_msg_piece *piece)
{
    const uint32_t section = piece->section;
    const psr_plan *plan =
        psr_scheduler_plan_at(scheduler, piece->steps > 0 ? piece->steps - 1 : 0);
    bool first_worker = peer.role == PSR_ROLE_WORKER && peer.rank == 0;
    if (section >= PSR_SECTION_EMA_RANK(0))
        return peer.role == PSR_ROLE_WORKER &&
               plays(scheduler, peer, section - PSR_SECTION_EMA_RANK(0));
    if (section >= PSR_SECTION_RESIDUAL(0))
        return peer.role == PSR_ROLE_WORKER &&
               plays(scheduler, peer, section - PSR_SECTION_RESIDUAL(0));
    if (section >= PSR_SECTION_RANK(0))
        return peer.role == PSR_ROLE_WORKER &&
               plays(scheduler, peer, section - PSR_SECTION_RANK(0));
    if (section >= PSR_SECTION_SLOT(0))
        return holds(plan, peer, piece->span);
    if (section == PSR_SECTION_WEIGHTS && scheduler->roster.shards > 0 &&
        strcmp(scheduler->config.compress_weights, "none") != 0)
        return peer.role == PSR_ROLE_SHARD || /* workers have rounded ones, and what is frozen */
               (first_worker && holds(plan, peer, piece->span));
    return first_worker && section <= PSR_SECTION_LOSS_SCALE;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The completed steps at which the first checkpoint after that of `step` is due: at every multiple,
 * at the end, and where the run stops. */
static uint64_t next_due(const psr_scheduler *scheduler, uint64_t step)
{
    const psr_config *config = &scheduler->config;
    uint64_t due = psr_scheduler_worker(scheduler, 0)->facts.total_steps;
    due = least(due, psr_pace_next_due(&config->pace, config->checkpoint_every, step));
    if (scheduler->stop_told && scheduler->stop_step + 1 > step)
        due = least(due, scheduler->stop_step + 1);
    return due;
}

static bool is_due(const psr_scheduler *scheduler, uint64_t step)
{
    const psr_config *config = &scheduler->config;
    const uint64_t total = psr_scheduler_worker(scheduler, 0)->facts.total_steps;
    return step <= total &&
           (psr_pace_due(&config->pace, config->checkpoint_every, step) || step == total ||
            (scheduler->stop_told && step == scheduler->stop_step + 1));
}

static bool is_in_place(const psr_scheduler *scheduler, uint64_t step)
{
    return step <= scheduler->first_step || step <= scheduler->last_checkpointed;
}

/* A worker begins the next checkpoint when it is told that its last one is in place. A shard is not
 * told. But before that no worker takes the steps up to the next checkpoint but one. So two of a
 * shard's checkpoints may be on their way, and its pieces come as its buckets do. */
static psr_err check_turn(const psr_scheduler *scheduler, psr_scheduler_member *member,
                          const psr_message *message, uint64_t step)
{
    uint64_t due = next_due(scheduler, member->saving);
    if (step == member->saving && step > scheduler->first_step)
        return PSR_OK;
    bool shard = member->peer.role == PSR_ROLE_SHARD;
    if (shard && step == member->saving_before && step > scheduler->first_step)
        return PSR_OK;
    /* A member that holds nothing for a while sends nothing. */
    const bool skips = scheduler->view_count > 1 && is_due(scheduler, step);
    if ((step != due && !skips) || step <= member->saving)
        return psr_violation(
            message, "no checkpoint of %" PRIu64 " steps is due; its next one is of %" PRIu64, step,
            due);
    if (!is_in_place(scheduler, shard ? member->saving_before : member->saving))
        return psr_violation(message, "its checkpoint of %" PRIu64 " steps is not in place",
                             shard ? member->saving_before : member->saving);
    member->saving_before = member->saving;
    member->saving = step;
    return PSR_OK;
}

psr_err psr_scheduler_take_checkpoint(psr_scheduler *scheduler, psr_scheduler_member *member,
                                      const psr_message *message)
{
    psr_msg_piece says;
    const float *values;
    PSR_TRY(psr_msg_piece_read(message, &says));
    if (!may_send(scheduler, message->from, &says))
        return psr_violation(message, "section %" PRIu32 " of a checkpoint is not its to send",
                             says.section);
    PSR_TRY(psr_decode_floats(message, PSR_ENCODING_FLOAT32, says.span.count, &values));
    PSR_TRY(check_turn(scheduler, member, message, says.steps));
    psr_err err = scheduler->events.checkpoint(scheduler->events.context, says.steps, says.section,
                                               values, says.span.offset, says.span.count);
    if (err == PSR_ERR_PROTOCOL) {
        char what[PSR_SCHEDULER_LINE_MAX];
        snprintf(what, sizeof what, "%s", psr_err_detail());
        return psr_violation(message, "%s", what);
    }
    PSR_TRY(err);
    /* Many pieces may come before its PROGRESS. */
    return psr_coordinator_alive(scheduler->coordinator, message->from);
}

/* ---- metrics ---- */

static bool read_count(const cJSON *object, const char *name, uint64_t *ret_count)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < 0x1p53) ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *ret_count = (uint64_t)item->valuedouble;
    return true;
}

/* All workers must have the same bits in every mode except mpi, where the MPI library decides
 * that. */
static bool have_equal_weights(const psr_scheduler *scheduler)
{
    const psr_route route = scheduler->roster.route;
    return route == PSR_ROUTE_RING ||
           (route == PSR_ROUTE_SHARD && scheduler->config.sync == PSR_SYNC_BSP);
}

psr_err psr_scheduler_compare_hash(psr_scheduler *scheduler, psr_peer worker, uint64_t steps,
                                   const cJSON *object)
{
    const char *digits = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "hash"));
    if (!psr_hash_is(digits) || !have_equal_weights(scheduler))
        return PSR_OK;
    const psr_hash_told *first = psr_hashes_differ(&scheduler->hashes, steps, worker.rank, digits);
    if (first == NULL)
        return PSR_OK;
    char name[PSR_MEMBER_NAME_MAX], name_of_first[PSR_MEMBER_NAME_MAX];
    psr_coordinator_name(scheduler->coordinator, worker, name);
    psr_coordinator_name(scheduler->coordinator, (psr_peer){PSR_ROLE_WORKER, first->rank},
                         name_of_first);
    return psr_fail(PSR_ERR_NUMERIC,
                    "after step %" PRIu64 " %s has other weights than %s (hash %s, not %s): one of "
                    "them computed or received wrong ones",
                    steps, name, name_of_first, digits, first->digits);
}

/* --seconds: the first worker that has trained for so long ends the run for all. */
static void see_time(psr_scheduler *scheduler, const cJSON *object)
{
    const double seconds = scheduler->config.seconds,
                 train_s = psr_json_number(object, "train_s", 0);
    if (seconds == 0 || !(train_s >= seconds) || scheduler->stopping)
        return;
    scheduler->time_is_up = true;
    psr_scheduler_stop(scheduler);
}

/* --target-accuracy: the workers have evaluated, and all wait after that step. */
static void see_accuracy(psr_scheduler *scheduler, uint64_t step, const cJSON *object)
{
    const bool averages = scheduler->config.ema.decay > 0;
    const double target = scheduler->config.target_accuracy,
                 accuracy =
                     psr_json_number(object, averages ? "ema_accuracy" : "test_accuracy", -1);
    if (target == 0 || !(accuracy >= target) || scheduler->target_met ||
        step >= psr_scheduler_worker(scheduler, 0)->facts.total_steps)
        return;
    scheduler->target_met = true;
    scheduler->accuracy = accuracy;
    scheduler->accuracy_step = step;
    char line[PSR_SCHEDULER_LINE_MAX];
    snprintf(line, sizeof line,
             "test accuracy %.4f %safter step %" PRIu64 " reaches the %g of --target-accuracy",
             accuracy, averages ? "of the average of the weights " : "", step, target);
    scheduler->events.say(scheduler->events.context, line);
    psr_scheduler_stop(scheduler);
}

/* Worker 0 tells the evaluation that an earlier run left out, before its first step. */
static psr_err take_made_up(psr_scheduler *scheduler, const psr_metrics_line *line)
{
    scheduler->evaluates_first = false;
    PSR_TRY(scheduler->events.made_up(scheduler->events.context, line));
    see_accuracy(scheduler, line->step, line->fields);
    return PSR_OK;
}

static psr_err take_norms(psr_scheduler *scheduler, const psr_message *message,
                          const psr_metrics_line *line)
{
    if (message->from.rank != 0 || line->rank != 0 ||
        !psr_config_norms_due(&scheduler->config, line->step) ||
        ++scheduler->norm_lines > NORM_LINES_MAX)
        return psr_violation(message, "no norms of step %" PRIu64 " are due from it", line->step);
    return scheduler->events.norms(scheduler->events.context, line);
}

static psr_err take_line(psr_scheduler *scheduler, const psr_message *message, const cJSON *object)
{
    uint64_t step = 0, rank = 0;
    if (!cJSON_IsObject(object) || !read_count(object, "step", &step) ||
        !read_count(object, "rank", &rank))
        return psr_violation(message, "its payload is no JSON object with step and rank");
    if (message->from.role != PSR_ROLE_WORKER || !plays(scheduler, message->from, rank))
        return psr_violation(message, "the metrics of rank %" PRIu64 " are not its to tell", rank);
    uint64_t *told = &scheduler->metrics_told[rank];
    psr_metrics_line line = {.worker = message->from.rank,
                             .rank = (uint32_t)rank,
                             .step = step,
                             .text = message->payload,
                             .size = message->payload_bytes,
                             .fields = object};
    if (scheduler->evaluates_first && message->from.rank == 0 && rank == 0 && step == *told &&
        step == scheduler->first_step)
        return take_made_up(scheduler, &line);
    if (step != *told + 1 || step > psr_scheduler_worker(scheduler, 0)->facts.total_steps)
        return psr_violation(message,
                             "it tells step %" PRIu64 " of rank %" PRIu64 " after step %" PRIu64,
                             step, rank, *told);
    if (cJSON_GetObjectItemCaseSensitive(object, "norms") != NULL)
        return take_norms(scheduler, message, &line);
    if (rank == 0)
        scheduler->norm_lines = 0;
    *told = step;
    PSR_TRY(psr_scheduler_compare_hash(scheduler, message->from, step, object));
    PSR_TRY(scheduler->events.metrics(scheduler->events.context, &line));
    see_time(scheduler, object);
    see_accuracy(scheduler, step, object);
    return PSR_OK;
}

psr_err psr_scheduler_take_metrics(psr_scheduler *scheduler, const psr_message *message)
{
    if (message->payload_bytes > METRICS_BYTES_MAX)
        return psr_violation(message, "its payload has %zu bytes, more than a line of metrics",
                             message->payload_bytes);
    if (!psr_is_printable(message->payload, message->payload_bytes))
        return psr_violation(message, "its payload holds control characters");
    const char *text = message->payload, *end = NULL;
    cJSON *object = cJSON_ParseWithLengthOpts(text, message->payload_bytes, &end, false);
    bool whole = object != NULL && end == text + message->payload_bytes;
    psr_err err = take_line(scheduler, message, whole ? object : NULL);
    cJSON_Delete(object);
    return err;
}

/* ---- traces ---- */

psr_err psr_scheduler_take_clock(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message)
{
    psr_msg_clock asked;
    PSR_TRY(psr_msg_clock_read(message, &asked));
    if (!scheduler->config.trace.on || member->clocks == 2 * PSR_TRACE_CLOCKS)
        return psr_violation(message, "it has no further trace, for which it would need the clock");
    member->clocks++;
    return psr_coordinator_send(scheduler->coordinator, message->from,
                                scheduler->events.clock(scheduler->events.context, &asked),
                                (psr_bytes){NULL, 0});
}

/* The first piece says how many events there are, and the others are what is left. */
psr_err psr_scheduler_take_trace(psr_scheduler *scheduler, psr_scheduler_member *member,
                                 const psr_message *message)
{
    psr_msg_trace says;
    size_t count = 0;
    PSR_TRY(psr_msg_trace_read(message, &says));
    PSR_TRY(psr_trace_events_in(message, &count));
    const bool first = !member->traced;
    const uint64_t due = first ? PSR_TRACE_EVENTS_MAX : member->trace_left;
    if (!scheduler->config.trace.on || count > due ||
        (first ? says.left > due - count : count == 0 || says.left != due - count))
        return psr_violation(message, "%zu events of a trace and %" PRIu64 " more are not due",
                             count, says.left);
    member->traced = true;
    member->trace_left = says.left;
    return scheduler->events.trace(scheduler->events.context, message, &says, first);
}
