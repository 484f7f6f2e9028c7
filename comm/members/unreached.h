/* Describes addresses that others cannot reach: whose they are, from where they were tried, why it
 * failed, and what to change. No state; any thread. */
#ifndef PSR_COMM_UNREACHED_H
#define PSR_COMM_UNREACHED_H

#include "net/transport.h"

/* How long to wait for a connection before the address counts as unreached: half the deadline, but
 * two seconds at least and ten at most. */
int64_t psr_unreached_patience_ms(int64_t deadline_ms);

/* Writes a line such as "worker 1 on b listens at tcp://192.168.7.2:4000, which cannot be reached
 * from 10.0.0.1 (Connection refused); it has connected from 10.0.0.2: choose .. by --interface".
 * who: "worker 1 on b". */
void psr_unreached_describe(const psr_unreached *unreached, const char *who, char *line,
                            size_t size);

/* Writes what may explain a scheduler that never answered: its address cannot be reached, or
 * perhaps this process's own. Asks the network, which takes up to a second. Leaves *line as it is
 * if the addresses are not TCP. */
void psr_unanswered_describe(const char *scheduler, const char *own_endpoint, char *line,
                             size_t size);

#endif
