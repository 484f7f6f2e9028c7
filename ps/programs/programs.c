#include "ps/programs/programs.h"

#include "base/clock.h"
#include "base/log.h"
#include "comm/launcher_line.h"
#include "comm/members/coordinator.h"
#include "comm/members/provision.h"
#include "comm/members/scheduler_loop.h"
#include "comm/node/judge.h"
#include "net/address/socket_directory.h"
#include "net/transport.h"
#include "ps/scheduler/launcher/orders.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MAX 1024
#define DEADLINE_S_MAX 1e6
typedef struct driver {
    uint32_t ranks; /* the program's ranks, and after them the shards */
    /* processes of psring-ps serve: they join when the program does, and the run does not wait for
     * their end */
    uint32_t shards;
    int64_t deadline_ms;
    const psr_provision *provision;
    psr_scheduler_loop loop;
    psr_transport *transport; /* the loop's */
    psr_launcher *launcher;
    psr_orders orders;
    /* The judge of the ranks that have called psring_init since all ranks had last left. NULL: no
     * rank has called it yet. */
    psr_judge *judge;
    psr_coordinator *coordinator; /* the judge's */
    /* [ranks]: a JOIN that waits: of a rank that left while others had not, or of a shard; owned */
    psr_message **early;
    bool *gone;          /* [ranks]: the process of this rank has ended well */
    uint32_t gone_count; /* how many, without shards */
    bool ended;
    psr_err status;
    char line[1024];
} driver;

/* ---- the end ---- */

/* The first failure. Ranks that have joined are told: their calls fail with that line, which says
 * which rank is to blame. */
static void end_by(driver *d, uint32_t rank, psr_err status, const char *line)
{
    if (d->ended)
        return;
    d->ended = true;
    d->status = status;
    snprintf(d->line, sizeof d->line, "%s", line);
    if (status != PSR_OK && d->coordinator != NULL)
        psr_judge_fail(d->judge, psr_fail(PSR_ERR_PEER, "%s", d->line), rank);
    psr_launcher_ended(d->launcher, status, d->line, NULL, NULL);
}

static void end(driver *d, psr_err status, const char *line)
{
    end_by(d, PSR_RANK_ANY, status, line);
}

static void end_by_detail(driver *d, psr_err status)
{
    char line[sizeof d->line];
    snprintf(line, sizeof line, "%s", psr_err_detail());
    end(d, status, line);
}

/* ---- what is said to the person ---- */

static void on_say(void *context, const char *line)
{
    driver *d = context;
    psr_launcher_say(d->launcher, PSR_LOG_OF_RUN, PSR_LOG_WARN, line);
}

static void on_stranger(void *context, const char *line)
{
    driver *d = context;
    psr_launcher_say(d->launcher, PSR_LOG_OF_STRANGER, PSR_LOG_WARN, line);
}

/* ---- how processes end ---- */

static psr_peer rank_peer(uint32_t rank)
{
    return (psr_peer){PSR_ROLE_WORKER, rank};
}

static bool is_rank(const driver *d, psr_peer peer)
{
    return peer.role == PSR_ROLE_WORKER && peer.rank < d->ranks;
}

static bool is_shard(const driver *d, uint32_t rank)
{
    return rank >= d->ranks - d->shards;
}

/* If the judge had failed the calls of all ranks before, that is the reason why this process
 * ended. */
static void lose(driver *d, const psr_order *order)
{
    char line[sizeof d->line];
    const char *verdict = NULL;
    psr_err why = d->coordinator != NULL ? psr_judge_verdict(d->judge, &verdict) : PSR_OK;
    if (!is_rank(d, order->peer))
        return;
    snprintf(line, sizeof line, "rank %" PRIu32 " on %.200s: %.700s", order->peer.rank, order->host,
             order->how);
    if (why != PSR_OK)
        end(d, why, verdict);
    else
        end_by(d, order->peer.rank, PSR_ERR_PEER, line);
}

/* A rank that others wait for may not exit without leaving. */
static void check_missed(driver *d, uint32_t rank)
{
    char line[200];
    if (d->coordinator == NULL || !d->gone[rank] ||
        !psr_coordinator_misses(d->coordinator, rank_peer(rank)))
        return;
    snprintf(line, sizeof line,
             "rank %" PRIu32
             " exited (status 0) without psring_%s, and others, which have called psring_init, "
             "wait for it",
             rank, psr_coordinator_has_joined(d->coordinator, rank_peer(rank)) ? "close" : "init");
    end_by(d, rank, PSR_ERR_PEER, line);
}

/* Ends the run when the program's ranks have left. While a shard is still starting it goes on:
 * otherwise the shard would find no scheduler, and report that. */
static void end_when_all_have(driver *d)
{
    char line[64];
    bool all = d->gone_count == d->ranks - d->shards;
    for (uint32_t s = d->ranks - d->shards; s < d->ranks && d->coordinator == NULL; s++)
        all = all && (d->gone[s] || d->early[s] != NULL);
    snprintf(line, sizeof line, "all %" PRIu32 " ranks have ended", d->ranks - d->shards);
    if (all)
        end(d, PSR_OK, line);
}

static void leave(driver *d, const psr_order *order)
{
    if (!is_rank(d, order->peer) || d->gone[order->peer.rank])
        return;
    d->gone[order->peer.rank] = true;
    d->gone_count += !is_shard(d, order->peer.rank);
    check_missed(d, order->peer.rank);
    end_when_all_have(d);
}

/* ---- orders ---- */

static void lose_agent(driver *d, const psr_order *order)
{
    char line[sizeof d->line];
    snprintf(line, sizeof line, "agent on %.200s: %.700s", order->host, order->how);
    end(d, PSR_ERR_TIMEOUT, line);
}

/* The output of programs goes to the person. */
static void obey(void *context, const psr_order *order, int64_t now_ms)
{
    (void)now_ms;
    if (order->kind == PSR_ORDER_LOST)
        lose(context, order);
    else if (order->kind == PSR_ORDER_LEFT)
        leave(context, order);
    else if (order->kind == PSR_ORDER_AGENT)
        lose_agent(context, order);
}

static void stop(void *context)
{
    end(context, PSR_ERR_CANCELLED, "interrupted");
}

static void lose_launcher(void *context, int64_t now_ms)
{
    (void)now_ms;
    end(context, PSR_ERR_PEER, "the launcher has ended without a message");
}

static void say_bad_order(void *context)
{
    on_say(context, psr_err_detail());
}

static void check_launcher(driver *d, int64_t now_ms)
{
    const int64_t silent_ms = psr_orders_silent_ms(&d->orders, now_ms);
    char line[96];
    if (silent_ms <= d->deadline_ms)
        return;
    snprintf(line, sizeof line, "the launcher gave no sign of life for %.1f s",
             (double)silent_ms / 1000);
    end(d, PSR_ERR_TIMEOUT, line);
}

/* ---- messages ---- */

/* A judge that nobody has joined. Its deadline for joining begins with the first rank that
 * joins. */
static psr_err open_coordinator(driver *d, int64_t now_ms)
{
    const psr_judge_options options = {
        .ranks = d->ranks,
        .deadline_ms = d->deadline_ms,
        .join_deadline_ms = d->deadline_ms > PSR_COME_UP_MS ? d->deadline_ms : PSR_COME_UP_MS,
        .host = d->provision->host,
        .ways = psr_scheduler_loop_ways(&d->loop),
        .say = on_say,
        .context = d};
    psr_judge *judge = NULL;
    PSR_TRY(psr_judge_new(&options, now_ms, &judge));
    psr_judge_free(d->judge);
    d->judge = judge;
    d->coordinator = psr_judge_coordinator(judge);
    return PSR_OK;
}

/* No rank is left: the next rank that joins begins anew. */
static bool is_over(const driver *d)
{
    return d->coordinator == NULL || psr_coordinator_over(d->coordinator);
}

static bool has_left(const driver *d, uint32_t rank)
{
    return psr_coordinator_has_left(d->coordinator, rank_peer(rank));
}

/* Takes message. */
static void take_message(driver *d, psr_message *message, int64_t now_ms)
{
    bool joins = message->head.type == PSR_MSG_JOIN, named = is_rank(d, message->from);
    bool over = is_over(d);
    if (joins && named &&
        (over ? is_shard(d, message->from.rank) : has_left(d, message->from.rank))) {
        psr_message_free(&d->early[message->from.rank]);
        d->early[message->from.rank] = message;
        end_when_all_have(d);
        return;
    }
    if (joins && over && open_coordinator(d, now_ms) != PSR_OK)
        end_by_detail(d, PSR_ERR_NOMEM);
    else if (d->coordinator != NULL)
        psr_coordinator_message(d->coordinator, message, now_ms);
    if (named && d->coordinator != NULL && has_left(d, message->from.rank))
        psr_transport_retire(d->transport, message->from); /* it may come again */
    psr_message_free(&message);
    for (uint32_t rank = 0; rank < d->ranks; rank++)
        check_missed(d, rank);
}

/* Takes the JOINs that waited: of ranks, when all have left; of shards, when a rank of the program
 * has joined. */
static void take_early(driver *d, int64_t now_ms)
{
    for (uint32_t rank = 0; rank < d->ranks && !d->ended; rank++) {
        psr_message *message = d->early[rank];
        bool over = is_over(d);
        if (message == NULL || (over ? is_shard(d, rank) : has_left(d, rank)))
            continue;
        d->early[rank] = NULL;
        take_message(d, message, now_ms);
    }
}

/* ---- the loop ---- */

static void on_message(void *context, psr_message *message, int64_t now_ms)
{
    take_message(context, message, now_ms);
    take_early(context, now_ms);
}

static void on_failed(void *context, psr_err err)
{
    end_by_detail(context, err);
}

static bool between(void *context, int64_t now_ms)
{
    driver *d = context;
    const bool more = psr_orders_take(&d->orders, now_ms);
    psr_orders_say_alive(&d->orders, now_ms);
    return more;
}

static void tick(void *context, int64_t now_ms)
{
    driver *d = context;
    check_launcher(d, now_ms);
    if (!is_over(d))
        psr_coordinator_tick(d->coordinator, now_ms);
}

static int64_t next_ms(void *context)
{
    const driver *d = context;
    const int64_t tick_ms = is_over(d) ? INT64_MAX : psr_coordinator_next_tick(d->coordinator);
    return tick_ms < d->orders.say_alive_ms ? tick_ms : d->orders.say_alive_ms;
}

static bool has_ended(void *context)
{
    return ((const driver *)context)->ended;
}

/* ---- life ---- */

static psr_err set_up(driver *d)
{
    psr_zmq_options zmq = psr_provision_zmq(d->provision);
    zmq.self = (psr_peer){PSR_ROLE_SCHEDULER, 0};
    zmq.log_stranger = on_stranger;
    zmq.log_context = d;
    d->gone = calloc(d->ranks, sizeof *d->gone);
    d->early = calloc(d->ranks, sizeof *d->early);
    if (d->gone == NULL || d->early == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %" PRIu32 " ranks", d->ranks);
    PSR_TRY(psr_transport_zmq_new(&zmq, &d->transport));
    d->loop = (psr_scheduler_loop){.transport = d->transport,
                                   .provision = d->provision,
                                   .deadline_ms = d->deadline_ms,
                                   .context = d,
                                   .take = on_message,
                                   .failed = on_failed,
                                   .between = between,
                                   .tick = tick,
                                   .next_ms = next_ms,
                                   .over = has_ended};
    PSR_TRY(psr_launcher_new(PSR_LAUNCHER_WHOLE, NULL, psr_scheduler_loop_wake, &d->loop,
                             &d->launcher));
    d->orders = (psr_orders){.launcher = d->launcher,
                             .deadline_ms = d->deadline_ms,
                             .context = d,
                             .obey = obey,
                             .stop = stop,
                             .gone = lose_launcher,
                             .bad = say_bad_order};
    psr_orders_begin(&d->orders, psr_clock_ms());
    psr_launcher_listening(d->launcher, psr_transport_endpoint(d->transport));
    return PSR_OK;
}

static psr_err drive(driver *d)
{
    psr_err err = set_up(d);
    if (err == PSR_OK) {
        psr_scheduler_loop_run(&d->loop);
        err = d->status;
    } else if (d->launcher != NULL) {
        psr_launcher_ended(d->launcher, err, psr_err_detail(), NULL, NULL);
    } else {
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    }
    psr_launcher_free(d->launcher); /* its thread wakes the transport */
    psr_transport_free(&d->transport,
                       err == PSR_OK ? PSR_SCHEDULER_LINGER_MS : PSR_SCHEDULER_ABORT_LINGER_MS);
    psr_judge_free(d->judge);
    for (uint32_t rank = 0; d->early != NULL && rank < d->ranks; rank++)
        psr_message_free(&d->early[rank]);
    free(d->early);
    free(d->gone);
    return err;
}

static psr_err read_arguments(int argc, char **argv, driver *d)
{
    char *end_of_ranks = NULL, *end_of_deadline = NULL, *end_of_shards = NULL;
    unsigned long ranks = argc == 4 ? strtoul(argv[1], &end_of_ranks, 10) : 0;
    double deadline_s = argc == 4 ? strtod(argv[2], &end_of_deadline) : 0;
    unsigned long shards = argc == 4 ? strtoul(argv[3], &end_of_shards, 10) : 0;
    if (ranks < 1 || ranks > RANKS_MAX || *end_of_ranks != '\0' || !(deadline_s > 0) ||
        deadline_s > DEADLINE_S_MAX || *end_of_deadline != '\0' || shards >= ranks ||
        *end_of_shards != '\0')
        return psr_fail(PSR_ERR_USAGE, "'programs' is psring run's own; use that");
    d->ranks = (uint32_t)ranks;
    d->shards = (uint32_t)shards;
    d->deadline_ms = (int64_t)(deadline_s * 1000);
    return PSR_OK;
}

int psr_programs_main(int argc, char **argv)
{
    driver d = {0};
    psr_provision provision = {0};
    psr_socket_directory sockets = PSR_SOCKET_DIRECTORY_NONE;
    psr_err err = read_arguments(argc, argv, &d);
    if (err == PSR_OK)
        err = psr_provision_from_fd(STDIN_FILENO, &provision);
    if (err == PSR_OK && provision.directory[0] != '\0')
        err = psr_socket_directory_enter(provision.directory, &sockets);
    d.provision = &provision;
    if (err != PSR_OK)
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    else
        err = drive(&d);
    psr_socket_directory_remove(&sockets);
    psr_provision_done(&provision);
    return psr_err_exit_status(err);
}
