/* Congestion control of one TCP connection. Any thread; no state. */
#ifndef PSR_NET_ADDRESS_TCP_CONGESTION_H
#define PSR_NET_ADDRESS_TCP_CONGESTION_H

#include <stdbool.h>

/* Takes CUBIC, or Reno where CUBIC is not allowed, instead of BBR for a connection to another host
 * that is near (a round trip below 5 ms). BBR keeps sending at the rate that it has found, so
 * where several send to one, as workers to a shard, the queue before that link drops a lot
 * (docs/measurements.md). Over long ways, with losses that have other causes, BBR is left. true: it
 * was changed. fd: any descriptor; one that is no such connection is left alone. */
bool psr_tcp_leave_bbr(int fd);

#endif
