/* Connections that never reach ZAP, from libzmq's monitor.
 *
 * An event is a frame of u16 event and u32 value, in the machine's order, and a frame of the
 * endpoint.
 *
 * Not every failure has an event of its own: what is no greeting at all just ends in DISCONNECTED,
 * as a member's connection does. The two are told apart by whether the owner knows this one, any is
 * still in its handshake, and this one is young enough to be. */
#include "net/trust/admission_private.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define DESCRIPTORS_MAX (1u << 24)
/* events of the monitor taken before it is checked that there are not too many connections */
#define EVENTS_MAX 16

static bool read_event(void *monitor, uint16_t *ret_event, uint32_t *ret_value)
{
    uint8_t event[6], endpoint;
    if (zmq_recv(monitor, event, sizeof event, ZMQ_DONTWAIT) != (int)sizeof event ||
        zmq_recv(monitor, &endpoint, sizeof endpoint, ZMQ_DONTWAIT) < 0)
        return false;
    memcpy(ret_event, event, 2);
    memcpy(ret_value, event + 2, 4);
    return true;
}

/* When descriptor fd was accepted; NULL: no memory, or not one. */
static int64_t *accepted_at(psr_admission *admission, uint32_t fd)
{
    if (fd >= admission->accepted_count) {
        size_t count = (size_t)fd + 64;
        int64_t *grown =
            fd < DESCRIPTORS_MAX ? realloc(admission->accepted_ms, count * sizeof *grown) : NULL;
        if (grown == NULL)
            return NULL;
        memset(grown + admission->accepted_count, 0,
               (count - admission->accepted_count) * sizeof *grown);
        admission->accepted_ms = grown;
        admission->accepted_count = count;
    }
    return &admission->accepted_ms[fd];
}

static bool may_be_in_handshake(psr_admission *admission, uint32_t fd)
{
    const int64_t *at = accepted_at(admission, fd);
    return admission->in_handshake > 0 && at != NULL && psr_clock_ms() - *at < 2 * PSR_HANDSHAKE_MS;
}

/* Where descriptors run out it goes at once, member or not: it comes again, and what files need is
 * not there twice. */
static void add_half_open(psr_admission *admission, int fd, uint64_t bytes_max)
{
    bool pressed = psr_reserve_is_touched(&admission->reserve, fd);
    psr_unknowns_accepted(&admission->unknowns, fd, bytes_max, pressed);
    if (pressed) {
        psr_admission_tell(admission, "",
                           "this process has no descriptors left for connections (ulimit -n)");
        admission->pressed = true;
    }
}

/* Whose it was the owner finds out. */
static void tell_end(psr_admission *admission)
{
    if (atomic_load(&admission->tells_ends) && !atomic_exchange(&admission->any_ended, true))
        (void)zmq_send(admission->lines, PSR_ADMISSION_END_MARK, sizeof PSR_ADMISSION_END_MARK - 1,
                       ZMQ_DONTWAIT);
}

/* bytes_max: of a connection that is accepted. */
static void take_event(psr_admission *admission, uint16_t event, uint32_t value, uint64_t bytes_max)
{
    int64_t *at;
    switch (event) {
    case ZMQ_EVENT_ACCEPTED:
        admission->in_handshake++;
        if ((at = accepted_at(admission, value)) != NULL)
            *at = psr_clock_ms();
        add_half_open(admission, (int)value, bytes_max);
        break;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        admission->in_handshake--;
        if (admission->in_between > 0)
            admission->in_between--;
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        psr_admission_refuse(admission, "", "what it sends is not our protocol");
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        if (atomic_load(&admission->members_look))
            psr_admission_count_handshake(admission);
        else
            psr_admission_refuse(admission, "", "it went away or fell silent in the handshake");
        break;
    case ZMQ_EVENT_DISCONNECTED:
        tell_end(admission);
        if (psr_unknowns_closed(&admission->unknowns, (int)value))
            break; /* of a member; another one may be in its handshake meanwhile */
        if (admission->refused_open > 0)
            admission->refused_open--;
        else if (may_be_in_handshake(admission, value)) {
            psr_admission_refuse(admission, "", "what it sends is not our protocol");
            admission->refused_open--;
        }
        break;
    }
}

/* Nobody is let in but by this thread, so while nobody is in between, what was not let in before
 * will not be. One that dies in between is forgotten when its handshake would have timed out. */
static void end_the_oldest(psr_admission *admission)
{
    if (admission->in_between > 0 && psr_clock_ms() - admission->told_ms > 2 * PSR_HANDSHAKE_MS)
        admission->in_between = 0;
    size_t most = admission->pressed ? 0 : admission->half_open_max;
    psr_unknowns_trim(&admission->unknowns, most, admission->in_between == 0);
    admission->pressed = false;
}

/* libzmq reports that it has accepted a connection before it asks about it: so all its events are
 * taken before a request is answered. */
void psr_admission_take_events(psr_admission *admission)
{
    uint16_t event;
    uint32_t value;
    void *const monitors[] = {admission->monitor, admission->sealed_monitor};
    unsigned taken = 0;
    for (size_t i = 0; i < 2 && monitors[i] != NULL; i++)
        while (read_event(monitors[i], &event, &value)) {
            take_event(admission, event, value, i == 1 ? PSR_HALF_OPEN_BYTES_MAX : 0);
            if (++taken % EVENTS_MAX == 0)
                end_the_oldest(admission);
        }
    end_the_oldest(admission);
}
