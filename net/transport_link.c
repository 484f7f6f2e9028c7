/* A transport whose messages take as long as on an emulated link. The one thread that uses the
 * transport moves them; a timer wakes it when the next one is due. */
#include "net/link.h"
#include "net/transport_private.h"

#include "base/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

psr_err psr_transport_emulate_link(psr_transport *transport, uint64_t rate_bits_per_s,
                                   double delay_s)
{
    const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (timer < 0)
        return psr_fail(PSR_ERR_IO, "a timer for a link: %s", strerror(errno));
    psr_err err = psr_link_new(rate_bits_per_s, delay_s, &transport->link);
    if (err != PSR_OK) {
        close(timer);
        return err;
    }
    transport->link_timer = timer;
    return PSR_OK;
}

/* Setting it takes back an expiry that has not been read. */
static void set_timer(const psr_transport *transport)
{
    const int64_t due_ns = psr_link_due_ns(transport->link);
    struct itimerspec when = {.it_value = {0, 0}}; /* it does not run */
    if (due_ns != INT64_MAX) {
        const int64_t now_ns = psr_clock_ns(), left_ns = due_ns > now_ns ? due_ns - now_ns : 1;
        when.it_value =
            (struct timespec){(time_t)(left_ns / 1000000000), (long)(left_ns % 1000000000)};
    }
    (void)timerfd_settime(transport->link_timer, 0, &when, NULL);
}

/* What goes to the scheduler and comes from it is a connection of its own on a real link, and does
 * not wait until all values have left. */
static bool goes_beside(psr_peer peer)
{
    return peer.role == PSR_ROLE_SCHEDULER;
}

static psr_err send_due(psr_transport *transport)
{
    psr_link_sent sent;
    while (psr_link_next_sent(transport->link, psr_clock_ns(), &sent)) {
        psr_err err = transport->ops->send(transport, sent.to, &sent.head,
                                           sent.has_payload ? &sent.payload : NULL);
        if (err != PSR_OK && err != PSR_ERR_NOT_FOUND) /* it may have gone meanwhile */
            return err;
    }
    return PSR_OK;
}

psr_err psr_transport_link_send(psr_transport *transport, psr_peer to, const psr_head *head,
                                const psr_payload *payload)
{
    if (goes_beside(to))
        return transport->ops->send(transport, to, head, payload);
    PSR_TRY(psr_link_send(transport->link, psr_clock_ns(), to, head, payload));
    set_timer(transport);
    return PSR_OK;
}

/* Takes all that has come. *ret_message: one that does not wait; it stays NULL if there is none. */
static psr_err receive_all(psr_transport *transport, psr_message **ret_message)
{
    for (;;) {
        psr_message *message = NULL;
        psr_err err = transport->ops->recv(transport, 0, &message);
        if (err == PSR_ERR_TIMEOUT)
            return PSR_OK;
        PSR_TRY(err);
        if (goes_beside(message->from)) {
            *ret_message = message;
            return PSR_OK;
        }
        PSR_TRY(psr_link_receive(transport->link, psr_clock_ns(), message));
    }
}

static psr_err move(psr_transport *transport, psr_message **ret_message)
{
    *ret_message = NULL;
    PSR_TRY(send_due(transport));
    psr_err err = receive_all(transport, ret_message);
    if (err == PSR_OK && *ret_message == NULL)
        *ret_message = psr_link_next_received(transport->link, psr_clock_ns());
    set_timer(transport);
    return err;
}

psr_err psr_transport_link_recv(psr_transport *transport, int timeout_ms, psr_message **ret_message)
{
    const int64_t end_ms = timeout_ms > 0 ? psr_clock_ms() + timeout_ms : 0;
    for (bool last = timeout_ms == 0;;) {
        PSR_TRY(move(transport, ret_message));
        if (*ret_message != NULL)
            return PSR_OK;
        if (last)
            return psr_fail(PSR_ERR_TIMEOUT, "no message within %d ms", timeout_ms);
        int64_t left_ms = timeout_ms < 0 ? -1 : end_ms - psr_clock_ms();
        if (timeout_ms >= 0 && left_ms <= 0) {
            left_ms = 0;
            last = true;
        }
        transport->ops->wait(transport, transport->link_timer, (int)left_ms);
    }
}

/* Any thread: the timer alone is looked at. Beside another descriptor it is rounded up to
 * milliseconds. */
void psr_transport_link_wait(psr_transport *transport, int fd, int timeout_ms)
{
    struct itimerspec left;
    if (fd < 0) {
        transport->ops->wait(transport, transport->link_timer, timeout_ms);
        return;
    }
    if (timerfd_gettime(transport->link_timer, &left) == 0 &&
        (left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0)) {
        const int64_t due_ms =
            (int64_t)left.it_value.tv_sec * 1000 + (left.it_value.tv_nsec + 999999) / 1000000;
        if (timeout_ms < 0 || due_ms < timeout_ms)
            timeout_ms = (int)due_ms;
    }
    transport->ops->wait(transport, fd, timeout_ms);
}

void psr_transport_link_end(psr_transport *transport, int linger_ms)
{
    if (transport->link == NULL)
        return;
    const int64_t end_ms = psr_clock_ms() + linger_ms;
    while (psr_link_has_unsent(transport->link) && send_due(transport) == PSR_OK) {
        struct pollfd timer = {.fd = transport->link_timer, .events = POLLIN};
        const int64_t left_ms = end_ms - psr_clock_ms();
        if (left_ms <= 0)
            break;
        set_timer(transport);
        if (psr_link_has_unsent(transport->link))
            (void)poll(&timer, 1, (int)left_ms);
    }
    psr_link_free(transport->link);
    transport->link = NULL;
    close(transport->link_timer);
}
