#include "net/zmq/attempt.h"

#include "base/clock.h"
#include "net/address/tcp_congestion.h"
#include "net/zmq/sockets.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

psr_err psr_attempt_begin(void *zmq_ctx, void *dealer, uint64_t number, psr_attempt *ret_attempt)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "inproc://psring.attempt.%" PRIu64, number);
    if (zmq_socket_monitor(dealer, endpoint, ZMQ_EVENT_CONNECTED) != 0)
        return psr_zmq_failed("zmq_socket_monitor");
    psr_attempt attempt = {
        .dealer = dealer, .monitor = zmq_socket(zmq_ctx, ZMQ_PAIR), .since_ms = psr_clock_ms()};
    if (attempt.monitor == NULL)
        return psr_zmq_failed("making a socket");
    psr_err err = psr_zmq_set(attempt.monitor, ZMQ_RCVHWM, 0, "ZMQ_RCVHWM");
    if (err == PSR_OK && zmq_connect(attempt.monitor, endpoint) != 0)
        err = psr_zmq_failed(endpoint);
    if (err != PSR_OK) {
        psr_attempt_done(&attempt);
        return err;
    }
    *ret_attempt = attempt;
    return PSR_OK;
}

bool psr_attempt_goes_on(psr_attempt *attempt)
{
    uint8_t event[8];
    if (attempt->monitor == NULL)
        return false;
    const int bytes = psr_zmq_receive(attempt->monitor, event, sizeof event);
    if (bytes < 0)
        return true;
    /* The event names libzmq's descriptor, the one place where it can be had. If that connection
     * has ended meanwhile, it may be another one of this process, for which the same is right. */
    uint32_t fd = 0;
    if (bytes >= (int)(sizeof(uint16_t) + sizeof fd)) {
        memcpy(&fd, event + sizeof(uint16_t), sizeof fd);
        (void)psr_tcp_leave_bbr((int)fd);
    }
    psr_attempt_done(attempt); /* CONNECTED is all that is told */
    return false;
}

void psr_attempt_done(psr_attempt *attempt)
{
    if (attempt->monitor == NULL)
        return;
    (void)zmq_socket_monitor(attempt->dealer, NULL, 0);
    zmq_close(attempt->monitor);
    *attempt = (psr_attempt){0};
}
