#include "ps/scheduler/late.h"

#include "base/clock.h"
#include "base/log.h"
#include "comm/launcher_line.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#define BURST 256 /* messages that are taken before anything else is done */

static bool awaits(const psr_late *late)
{
    return late->coordinator != NULL ? psr_coordinator_awaits_late(late->coordinator)
                                     : late->members > 0;
}

static bool take(void *context, psr_message *message)
{
    psr_late *late = context;
    char line[1024];
    if (late->coordinator != NULL) {
        psr_coordinator_message(late->coordinator, message, psr_clock_ms());
    } else if (message->head.type == PSR_MSG_JOIN) {
        snprintf(line, sizeof line, "the run has ended: %s", late->line);
        psr_transport_refuse(late->transport, message, PSR_ERR_PEER, line);
        late->members--;
    }
    psr_message_free(&message);
    return awaits(late);
}

/* The end of the orders is no order to stop: whoever started the scheduler closes them because the
 * run has ended. */
static bool told_to_stop(const psr_late *late)
{
    psr_order order;
    psr_launcher_heard heard = psr_launcher_take(late->launcher, &order);
    for (; heard != PSR_LAUNCHER_NOTHING; heard = psr_launcher_take(late->launcher, &order))
        if (heard == PSR_LAUNCHER_INTERRUPT ||
            (heard == PSR_LAUNCHER_ORDER && order.kind == PSR_ORDER_STOP))
            return true;
        else if (heard == PSR_LAUNCHER_GONE)
            return false;
    return false;
}

/* Whoever started this process has closed its orders and may be killed now; this is reported as an
 * interrupt. */
static bool starter_lives(const psr_late *late)
{
    return late->starter == 0 ||
           (prctl(PR_SET_PDEATHSIG, SIGINT) == 0 && getppid() == late->starter);
}

void psr_late_answer(psr_late *late)
{
    int64_t end_ms = psr_clock_ms() + PSR_LATE_MS;
    if (!starter_lives(late))
        return;
    if (awaits(late))
        psr_log(PSR_LOG_INFO,
                "for %d s, processes that have not joined yet are told why the run has ended",
                PSR_LATE_MS / 1000);
    for (int64_t left_ms = PSR_LATE_MS; left_ms > 0 && awaits(late);
         left_ms = end_ms - psr_clock_ms()) {
        bool empty;
        if (psr_transport_visit(late->transport, (int)left_ms, BURST, take, late, &empty) !=
                PSR_OK ||
            told_to_stop(late))
            return;
    }
}
