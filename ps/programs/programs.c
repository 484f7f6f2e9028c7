#include "ps/programs/programs.h"

#include "base/clock.h"
#include "base/log.h"
#include "comm/comm.h"
#include "net/socket_directory.h"
#include "net/transport.h"
#include "ps/scheduler/launcher.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MAX 1024
#define DEADLINE_S_MAX 1e6
#define BURST 256      /* messages, and orders, between two looks at everything else */
#define LINGER_MS 2000 /* for BYE to leave */
/* For ABORT: a rank that is gone takes none, and nobody should wait for that. */
#define ABORT_LINGER_MS 300
#define ALIVE_MS 1000
/* For ranks to come after the first, where the deadline is shorter: that counts from what a rank does, and these start. */
#define COME_UP_MS 5000

typedef struct driver {
    uint32_t ranks;  /* the program's, and behind them shards */
    uint32_t shards; /* psring-ps serve: they join when the program does, and nobody waits for their end */
    int64_t deadline_ms;
    const psr_provision *provision;
    psr_transport *transport;
    psr_launcher *launcher;
    /* Of those who have called psring_init since all had left the last time. NULL: nobody ever has. */
    psr_node_coordinator *coordinator;
    psr_message **early; /* [ranks]: JOIN of one that has left, while others have not, or of a shard; owned */
    bool *gone;          /* [ranks]: their processes have ended well */
    uint32_t gone_count; /* but of shards */
    psr_presence_clock presence;
    int64_t launcher_heard_ms; /* by that clock */
    int64_t say_alive_ms, tick_ms, ticked_ms;
    bool ended;
    psr_err status;
    char line[1024];
} driver;

/* ---- the end ---- */

/* The first time. Who has joined is told: its calls fail with that line, and say which rank is to blame. */
static void end_by(driver *d, uint32_t rank, psr_err status, const char *line)
{
    if (d->ended)
        return;
    d->ended = true;
    d->status = status;
    snprintf(d->line, sizeof d->line, "%s", line);
    if (status != PSR_OK && d->coordinator != NULL)
        psr_node_coordinator_fail(d->coordinator, psr_fail(PSR_ERR_PEER, "%s", d->line), rank);
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

static void wake(void *context)
{
    driver *d = context;
    psr_transport_wake(d->transport);
}

/* ---- how processes end ---- */

static bool is_rank(const driver *d, psr_peer peer)
{
    return peer.role == PSR_ROLE_WORKER && peer.rank < d->ranks;
}

static bool is_shard(const driver *d, uint32_t rank)
{
    return rank >= d->ranks - d->shards;
}

/* Where all who have joined had failed before, that is why this one ends. */
static void lose(driver *d, const psr_order *order)
{
    char line[sizeof d->line];
    const char *verdict = NULL;
    psr_err why = d->coordinator != NULL ? psr_node_coordinator_verdict(d->coordinator, &verdict) : PSR_OK;
    if (!is_rank(d, order->peer))
        return;
    snprintf(line, sizeof line, "rank %" PRIu32 " on %.200s: %.700s", order->peer.rank, order->host,
             order->how);
    if (why != PSR_OK)
        end(d, why, verdict);
    else
        end_by(d, order->peer.rank, PSR_ERR_PEER, line);
}

/* One for whom others would wait cannot go without a word. */
static void check_missed(driver *d, uint32_t rank)
{
    char line[200];
    if (d->coordinator == NULL || !d->gone[rank] || !psr_node_coordinator_misses(d->coordinator, rank))
        return;
    snprintf(line, sizeof line,
             "rank %" PRIu32
             " exited (status 0) without psring_%s, and others, which have called psring_init, "
             "wait for it",
             rank, psr_node_coordinator_has_joined(d->coordinator, rank) ? "close" : "init");
    end_by(d, rank, PSR_ERR_PEER, line);
}

/* When the program's ranks have, and no shard is still coming up: it would find nobody, and say so. */
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

static void obey(driver *d, const psr_order *order)
{
    switch (order->kind) {
    case PSR_ORDER_LOST:
        lose(d, order);
        return;
    case PSR_ORDER_LEFT:
        leave(d, order);
        return;
    case PSR_ORDER_AGENT:
        lose_agent(d, order);
        return;
    case PSR_ORDER_STOP:
        end(d, PSR_ERR_CANCELLED, "interrupted");
        return;
    case PSR_ORDER_PAUSE:
        psr_clock_stop();
        psr_launcher_paused(d->launcher);
        return;
    case PSR_ORDER_GO_ON:
        psr_clock_go_on();
        return;
    case PSR_ORDER_LOG: /* lines of programs go to the person */
    case PSR_ORDER_CLOSED:
    case PSR_ORDER_ALIVE:
        return;
    }
}

/* true: there may be more. */
static bool take_orders(driver *d, int64_t now_ms)
{
    for (int i = 0; i < BURST && !d->ended; i++) {
        psr_order order;
        psr_launcher_heard heard = psr_launcher_take(d->launcher, &order);
        if (heard == PSR_LAUNCHER_NOTHING)
            return false;
        d->launcher_heard_ms = psr_presence_clock_ms(&d->presence, now_ms);
        if (heard == PSR_LAUNCHER_ORDER)
            obey(d, &order);
        else if (heard == PSR_LAUNCHER_INTERRUPT)
            end(d, PSR_ERR_CANCELLED, "interrupted");
        else if (heard == PSR_LAUNCHER_BAD)
            on_say(d, psr_err_detail());
        else {
            psr_clock_go_on(); /* it may have died while all were stopped */
            end(d, PSR_ERR_PEER, "the launcher is gone without a word");
        }
    }
    return true;
}

static void check_launcher(driver *d, int64_t now_ms)
{
    int64_t silent_ms = psr_presence_clock_ms(&d->presence, now_ms) - d->launcher_heard_ms;
    char line[96];
    if (silent_ms <= d->deadline_ms)
        return;
    snprintf(line, sizeof line, "the launcher gave no sign of life for %.1f s", (double)silent_ms / 1000);
    end(d, PSR_ERR_TIMEOUT, line);
}

/* ---- messages ---- */

static psr_err on_send(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    driver *d = context;
    return psr_transport_send(d->transport, to, head, payload);
}

static size_t on_waiting(void *context, psr_peer to)
{
    return psr_transport_waiting(((driver *)context)->transport, to);
}

/* It may have been here before. */
static psr_err on_connect(void *context, psr_peer peer, const char *endpoint)
{
    driver *d = context;
    psr_transport_disconnect(d->transport, peer);
    return psr_transport_connect(d->transport, peer, endpoint, psr_keys_of(&d->provision->keys, peer));
}

static void on_refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    driver *d = context;
    psr_transport_refuse(d->transport, join, status, line);
}

static void on_cut(void *context, psr_peer peer)
{
    driver *d = context;
    psr_transport_disconnect(d->transport, peer);
}

static void on_retire(void *context, psr_peer peer)
{
    driver *d = context;
    psr_transport_retire(d->transport, peer);
}

/* One that nobody has joined. Its deadline for joining begins: with the first who does. */
static psr_err open_coordinator(driver *d, int64_t now_ms)
{
    const psr_node_coordinator_options options = {
        .ranks = d->ranks,
        .deadline_ms = d->deadline_ms,
        .join_deadline_ms = d->deadline_ms > COME_UP_MS ? d->deadline_ms : COME_UP_MS,
        .host = d->provision->host,
        .context = d,
        .send = on_send,
        .waiting = on_waiting,
        .connect = on_connect,
        .refuse = on_refuse,
        .cut = on_cut,
        .retire = on_retire};
    psr_node_coordinator *coordinator = NULL;
    PSR_TRY(psr_node_coordinator_new(&options, now_ms, &coordinator));
    psr_node_coordinator_free(d->coordinator);
    d->coordinator = coordinator;
    return PSR_OK;
}

static bool has_left(const driver *d, uint32_t rank)
{
    return psr_node_coordinator_has_left(d->coordinator, rank);
}

/* Takes message. */
static void take_message(driver *d, psr_message *message, int64_t now_ms)
{
    bool joins = message->head.type == PSR_MSG_JOIN, named = is_rank(d, message->from);
    bool over = d->coordinator == NULL || psr_node_coordinator_over(d->coordinator);
    if (joins && named && (over ? is_shard(d, message->from.rank) : has_left(d, message->from.rank))) {
        psr_message_free(&d->early[message->from.rank]);
        d->early[message->from.rank] = message;
        end_when_all_have(d);
        return;
    }
    if (joins && over && open_coordinator(d, now_ms) != PSR_OK)
        end_by_detail(d, PSR_ERR_NOMEM);
    else if (d->coordinator != NULL)
        psr_node_coordinator_message(d->coordinator, message, now_ms);
    if (named && d->coordinator != NULL && has_left(d, message->from.rank))
        psr_transport_retire(d->transport, message->from); /* it may come again */
    psr_message_free(&message);
    for (uint32_t rank = 0; rank < d->ranks; rank++)
        check_missed(d, rank);
}

/* Who wants to join again, when all have left; a shard, when one of the program has joined. */
static void take_early(driver *d, int64_t now_ms)
{
    for (uint32_t rank = 0; rank < d->ranks && !d->ended; rank++) {
        psr_message *message = d->early[rank];
        bool over = d->coordinator == NULL || psr_node_coordinator_over(d->coordinator);
        if (message == NULL || (over ? is_shard(d, rank) : has_left(d, rank)))
            continue;
        d->early[rank] = NULL;
        take_message(d, message, now_ms);
    }
}

static bool take_next(void *context, psr_message *message)
{
    driver *d = context;
    take_message(d, message, psr_clock_ms());
    take_early(d, psr_clock_ms());
    return !d->ended;
}

/* Waits for the first at most timeout_ms. Returns true when the inbox is empty. */
static bool take_messages(driver *d, int timeout_ms)
{
    bool empty = true;
    psr_err err = psr_transport_visit(d->transport, timeout_ms, BURST, take_next, d, &empty);
    if (err != PSR_OK)
        end_by_detail(d, err);
    return empty;
}

/* ---- the loop ---- */

static void say_alive(driver *d, int64_t now_ms)
{
    if (now_ms < d->say_alive_ms)
        return;
    d->say_alive_ms = now_ms + (d->deadline_ms / 4 < ALIVE_MS ? d->deadline_ms / 4 : ALIVE_MS);
    psr_launcher_alive(d->launcher);
    psr_launcher_flush(d->launcher);
}

static int timeout_ms(const driver *d, int64_t now_ms)
{
    int64_t next_ms = d->say_alive_ms < d->tick_ms ? d->say_alive_ms : d->tick_ms;
    return next_ms <= now_ms ? 0 : (int)(next_ms - now_ms);
}

/* Nobody is called silent whose words lie unread, unless there is no end of them. */
static void tick(driver *d, bool inbox_is_empty, int64_t now_ms)
{
    if (!inbox_is_empty && now_ms - d->ticked_ms < 2 * d->deadline_ms)
        return;
    d->ticked_ms = now_ms;
    d->tick_ms = INT64_MAX;
    check_launcher(d, now_ms);
    if (d->coordinator != NULL && !psr_node_coordinator_over(d->coordinator))
        psr_node_coordinator_tick(d->coordinator, now_ms, &d->tick_ms);
}

static void run_loop(driver *d)
{
    bool more_orders = false;
    while (!d->ended) {
        bool empty = take_messages(d, more_orders ? 0 : timeout_ms(d, psr_clock_ms()));
        int64_t now_ms = psr_clock_ms();
        more_orders = take_orders(d, now_ms);
        say_alive(d, now_ms);
        tick(d, empty, now_ms);
    }
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
    PSR_TRY(psr_launcher_new(PSR_LAUNCHER_WHOLE, NULL, wake, d, &d->launcher));
    int64_t now_ms = psr_clock_ms();
    d->say_alive_ms = d->ticked_ms = now_ms;
    d->tick_ms = INT64_MAX;
    d->presence = psr_presence_clock_for(now_ms, d->deadline_ms);
    d->launcher_heard_ms = psr_presence_clock_ms(&d->presence, now_ms);
    psr_launcher_listening(d->launcher, psr_transport_endpoint(d->transport));
    return PSR_OK;
}

static psr_err drive(driver *d)
{
    psr_err err = set_up(d);
    if (err == PSR_OK) {
        run_loop(d);
        err = d->status;
    } else if (d->launcher != NULL) {
        psr_launcher_ended(d->launcher, err, psr_err_detail(), NULL, NULL);
    } else {
        psr_log(PSR_LOG_ERROR, "%s", psr_err_detail());
    }
    psr_launcher_free(d->launcher); /* its thread wakes the transport */
    psr_transport_free(&d->transport, err == PSR_OK ? LINGER_MS : ABORT_LINGER_MS);
    psr_node_coordinator_free(d->coordinator);
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
        deadline_s > DEADLINE_S_MAX || *end_of_deadline != '\0' || shards >= ranks || *end_of_shards != '\0')
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
