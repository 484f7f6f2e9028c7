#include "comm/members/scheduler_loop.h"

#include "base/clock.h"

#include <limits.h>

/* ---- how a coordinator reaches members ---- */

static psr_err send_message(void *context, psr_peer to, const psr_head *head,
                            const psr_payload *payload)
{
    return psr_transport_send(((psr_scheduler_loop *)context)->transport, to, head, payload);
}

static size_t waiting(void *context, psr_peer to)
{
    return psr_transport_waiting(((psr_scheduler_loop *)context)->transport, to);
}

/* A process of the same name may have been here before. */
static psr_err connect_to(void *context, psr_peer peer, const char *endpoint)
{
    const psr_scheduler_loop *loop = context;
    psr_transport_disconnect(loop->transport, peer);
    return psr_transport_connect(loop->transport, peer, endpoint,
                                 psr_keys_of(&loop->provision->keys, peer));
}

static void refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    psr_transport_refuse(((psr_scheduler_loop *)context)->transport, join, status, line);
}

static void cut(void *context, psr_peer peer)
{
    psr_transport_disconnect(((psr_scheduler_loop *)context)->transport, peer);
}

static void retire(void *context, psr_peer peer)
{
    psr_transport_retire(((psr_scheduler_loop *)context)->transport, peer);
}

psr_coordinator_ways psr_scheduler_loop_ways(psr_scheduler_loop *loop)
{
    return (psr_coordinator_ways){.context = loop,
                                  .send = send_message,
                                  .waiting = waiting,
                                  .connect = connect_to,
                                  .refuse = refuse,
                                  .cut = cut,
                                  .retire = retire};
}

/* ---- the loop ---- */

static bool take(void *context, psr_message *message)
{
    psr_scheduler_loop *loop = context;
    loop->take(loop->context, message, psr_clock_ms());
    return !loop->over(loop->context);
}

static int timeout_ms(const psr_scheduler_loop *loop)
{
    const int64_t left_ms = loop->next_ms(loop->context) - psr_clock_ms();
    return left_ms <= 0 ? 0 : left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

/* A message in which a member says why it ends may still be on its way. */
static void take_ends(const psr_scheduler_loop *loop, int64_t now_ms)
{
    psr_peer peer;
    while (loop->ended != NULL && psr_transport_ended(loop->transport, &peer))
        loop->ended(loop->context, peer, now_ms);
}

void psr_scheduler_loop_run(psr_scheduler_loop *loop)
{
    bool more = false;
    loop->ticked_ms = psr_clock_ms();
    if (loop->ended != NULL)
        psr_transport_watch_members(loop->transport, loop->host_rank);
    while (!loop->over(loop->context)) {
        bool empty = true;
        psr_err err = psr_transport_visit(loop->transport, more ? 0 : timeout_ms(loop),
                                          PSR_SCHEDULER_BURST, take, loop, &empty);
        if (err != PSR_OK)
            loop->failed(loop->context, err);
        const int64_t now_ms = psr_clock_ms();
        if (empty)
            take_ends(loop, now_ms);
        more = loop->between != NULL && loop->between(loop->context, now_ms);
        if (loop->over(loop->context) ||
            (!empty && now_ms - loop->ticked_ms < 2 * loop->deadline_ms))
            continue;
        loop->ticked_ms = now_ms;
        loop->tick(loop->context, now_ms);
    }
}

void psr_scheduler_loop_wake(void *loop)
{
    psr_transport_wake(((psr_scheduler_loop *)loop)->transport);
}
