#include "comm/psring/hosting.h"

#include "base/clock.h"
#include "base/thread.h"
#include "comm/node/coordinator.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BURST = 256,      /* messages between two looks at the time */
    LINGER_MS = 2000, /* for BYE, or the verdict, to leave */
    VERDICTS_KEPT = 64,
};

struct psr_hosting {
    psr_hosting_options options;
    psr_provision provision;
    psr_transport *transport;
    psr_node_coordinator *coordinator;
    pthread_t thread;
    bool runs;
    _Atomic bool quit, keeps;
    /* The thread's, and when that has ended its owner's: */
    psr_failure verdicts[VERDICTS_KEPT];
    size_t verdict_count;
};

static psr_err send_message(void *context, psr_peer to, const psr_head *head, const psr_payload *payload)
{
    psr_hosting *h = context;
    return psr_transport_send(h->transport, to, head, payload);
}

static size_t waiting(void *context, psr_peer to)
{
    return psr_transport_waiting(((psr_hosting *)context)->transport, to);
}

static psr_err connect_to(void *context, psr_peer peer, const char *endpoint)
{
    psr_hosting *h = context;
    return psr_transport_connect(h->transport, peer, endpoint, psr_keys_of(&h->provision.keys, peer));
}

static void refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    psr_hosting *h = context;
    psr_transport_refuse(h->transport, join, status, line);
}

static void cut(void *context, psr_peer peer)
{
    psr_hosting *h = context;
    psr_transport_disconnect(h->transport, peer);
}

static void retire(void *context, psr_peer peer)
{
    psr_hosting *h = context;
    psr_transport_retire(h->transport, peer);
}

/* What others do with a group that this rank has left is theirs. */
static void keep_verdict(void *context, const psr_msg_failure *verdict, const char *line)
{
    psr_hosting *h = context;
    if (!atomic_load(&h->keeps) || verdict->scope == PSR_SCOPE_GROUP || h->verdict_count == VERDICTS_KEPT)
        return;
    psr_failure *kept = &h->verdicts[h->verdict_count++];
    *kept = (psr_failure){.err = verdict->status,
                          .scope = verdict->scope,
                          .epoch = verdict->epoch,
                          .group = verdict->group,
                          .rank = verdict->rank,
                          .other = verdict->other,
                          .number = verdict->number};
    snprintf(kept->line, sizeof kept->line, "%s", line);
}

static bool take_message(void *context, psr_message *message)
{
    psr_hosting *h = context;
    psr_node_coordinator_message(h->coordinator, message, psr_clock_ms());
    psr_message_free(&message);
    return true;
}

/* Waits for the first at most timeout_ms. Returns true when the inbox is empty. */
static bool take_messages(psr_hosting *h, int timeout_ms)
{
    bool empty = true;
    psr_err err = psr_transport_visit(h->transport, timeout_ms, BURST, take_message, h, &empty);
    if (err != PSR_OK)
        psr_node_coordinator_fail(h->coordinator, err, PSR_RANK_ANY);
    return empty;
}

/* Nobody is called silent whose words lie unread, unless there is no end of them. */
static void *run(void *context)
{
    psr_hosting *h = context;
    int64_t ticked_ms = psr_clock_ms(), next_ms = ticked_ms;
    while (!atomic_load(&h->quit) && !psr_node_coordinator_over(h->coordinator)) {
        int64_t left_ms = next_ms - psr_clock_ms();
        bool empty = take_messages(h, left_ms <= 0 ? 0 : left_ms < INT_MAX ? (int)left_ms : INT_MAX);
        int64_t now_ms = psr_clock_ms();
        if (!empty && now_ms - ticked_ms < 2 * h->options.deadline_ms)
            continue;
        ticked_ms = now_ms;
        psr_node_coordinator_tick(h->coordinator, now_ms, &next_ms);
    }
    return NULL;
}

static psr_err open_all(psr_hosting *h)
{
    const psr_provision *p = &h->provision;
    psr_zmq_options zmq = psr_provision_zmq(p);
    const psr_node_coordinator_options coordinator = {.ranks = h->options.ranks,
                                                      .deadline_ms = h->options.deadline_ms,
                                                      .join_deadline_ms = h->options.join_deadline_ms,
                                                      .host = p->host,
                                                      .context = h,
                                                      .send = send_message,
                                                      .waiting = waiting,
                                                      .connect = connect_to,
                                                      .refuse = refuse,
                                                      .cut = cut,
                                                      .retire = retire,
                                                      .judged = keep_verdict};
    PSR_TRY(psr_transport_zmq_new(&zmq, &h->transport));
    PSR_TRY(psr_node_coordinator_new(&coordinator, psr_clock_ms(), &h->coordinator));
    PSR_TRY(psr_thread_start("psr-scheduler", run, h, &h->thread));
    h->runs = true;
    return PSR_OK;
}

psr_err psr_hosting_new(const psr_hosting_options *options, psr_provision *provision,
                        psr_hosting **ret_hosting)
{
    psr_hosting *h = calloc(1, sizeof *h);
    if (h == NULL) {
        psr_provision_done(provision);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a scheduler");
    }
    h->options = *options;
    h->provision = *provision;
    explicit_bzero(provision, sizeof *provision);
    psr_err err = open_all(h);
    if (err != PSR_OK) {
        psr_hosting_free(h, NULL);
        return err;
    }
    *ret_hosting = h;
    return PSR_OK;
}

/* Its thread has ended. */
static void tell_why(psr_hosting *h, const psr_failure *why)
{
    psr_err err = psr_fail(why->err, "%s", why->line);
    psr_node_coordinator_fail(h->coordinator, err, why->rank);
}

void psr_hosting_keep_verdicts(psr_hosting *hosting)
{
    if (hosting != NULL)
        atomic_store(&hosting->keeps, true);
}

void psr_hosting_await(psr_hosting *hosting)
{
    if (hosting->runs)
        pthread_join(hosting->thread, NULL);
    hosting->runs = false;
}

const psr_failure *psr_hosting_verdict(const psr_hosting *hosting, size_t index)
{
    return index < hosting->verdict_count ? &hosting->verdicts[index] : NULL;
}

void psr_hosting_free(psr_hosting *hosting, const psr_failure *why)
{
    if (hosting == NULL)
        return;
    if (hosting->runs) {
        if (why != NULL) {
            atomic_store(&hosting->quit, true);
            psr_transport_wake(hosting->transport);
        }
        pthread_join(hosting->thread, NULL);
        if (why != NULL)
            tell_why(hosting, why);
    }
    psr_transport_free(&hosting->transport, LINGER_MS);
    psr_node_coordinator_free(hosting->coordinator);
    psr_provision_done(&hosting->provision);
    free(hosting);
}
