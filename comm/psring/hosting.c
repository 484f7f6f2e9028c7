#include "comm/psring/hosting.h"

#include "base/clock.h"
#include "base/system/thread.h"
#include "comm/members/scheduler_loop.h"
#include "comm/node/judge.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    VERDICTS_KEPT = 64,
};

struct psr_hosting {
    psr_hosting_options options;
    psr_provision provision;
    psr_scheduler_loop loop;
    psr_transport *transport; /* the loop's */
    psr_judge *judge;
    psr_coordinator *coordinator; /* the judge's */
    pthread_t thread;
    bool runs;
    _Atomic bool quit;
    /* The last ones. Used by the thread, and after it has ended by its owner: */
    psr_failure verdicts[VERDICTS_KEPT];
    size_t verdict_count;
};

/* What others do in a group that this rank has left does not concern it. */
static void keep_verdict(void *context, const psr_msg_failure *verdict, const char *line)
{
    psr_hosting *h = context;
    if (verdict->scope == PSR_SCOPE_GROUP)
        return;
    if (h->verdict_count == VERDICTS_KEPT)
        memmove(&h->verdicts[0], &h->verdicts[1], --h->verdict_count * sizeof h->verdicts[0]);
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

static void take_message(void *context, psr_message *message, int64_t now_ms)
{
    psr_hosting *h = context;
    psr_coordinator_message(h->coordinator, message, now_ms);
    psr_message_free(&message);
}

static void fail(void *context, psr_err err)
{
    psr_judge_fail(((psr_hosting *)context)->judge, err, PSR_RANK_ANY);
}

static void ended(void *context, psr_peer peer, int64_t now_ms)
{
    (void)now_ms;
    psr_judge_lost(((psr_hosting *)context)->judge, peer.rank, "its process has ended");
}

static void tick(void *context, int64_t now_ms)
{
    psr_coordinator_tick(((psr_hosting *)context)->coordinator, now_ms);
}

static int64_t next_ms(void *context)
{
    return psr_coordinator_next_tick(((psr_hosting *)context)->coordinator);
}

static bool is_over(void *context)
{
    psr_hosting *h = context;
    return atomic_load(&h->quit) || psr_coordinator_over(h->coordinator);
}

static void *run(void *context)
{
    psr_scheduler_loop_run(&((psr_hosting *)context)->loop);
    return NULL;
}

static psr_err open_all(psr_hosting *h)
{
    psr_zmq_options zmq = psr_provision_zmq(&h->provision);
    PSR_TRY(psr_transport_zmq_new(&zmq, &h->transport));
    h->loop = (psr_scheduler_loop){.transport = h->transport,
                                   .provision = &h->provision,
                                   .deadline_ms = h->options.deadline_ms,
                                   .context = h,
                                   .take = take_message,
                                   .failed = fail,
                                   .ended = ended,
                                   .host_rank = h->options.rank,
                                   .tick = tick,
                                   .next_ms = next_ms,
                                   .over = is_over};
    const psr_judge_options options = {.ranks = h->options.ranks,
                                       .deadline_ms = h->options.deadline_ms,
                                       .join_deadline_ms = h->options.join_deadline_ms,
                                       .host = h->provision.host,
                                       .ways = psr_scheduler_loop_ways(&h->loop),
                                       .judged = keep_verdict,
                                       .context = h};
    PSR_TRY(psr_judge_new(&options, psr_clock_ms(), &h->judge));
    h->coordinator = psr_judge_coordinator(h->judge);
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

/* Called after its thread has ended. */
static void tell_why(psr_hosting *h, const psr_failure *why)
{
    psr_err err = psr_fail(why->err, "%s", why->line);
    psr_judge_fail(h->judge, err, why->rank);
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
    psr_transport_free(&hosting->transport, PSR_SCHEDULER_LINGER_MS);
    psr_judge_free(hosting->judge);
    psr_provision_done(&hosting->provision);
    free(hosting);
}
