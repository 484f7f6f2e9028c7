/* How a host was reached, and from that the address on which processes there listen. Does no I/O;
 * any thread. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_REACHED_H
#define PSR_DEPLOY_LAUNCH_HOSTS_REACHED_H

#include <stdbool.h>

typedef struct psr_reached {
    bool here;                 /* this machine: no ssh */
    char address[64];          /* its address for ssh; "" if it is this machine */
    char launcher_address[64]; /* our address as it sees us; "" if it is this machine */
} psr_reached;

/* The interface that a process of a run must listen on. named: --interface, or NULL. at: its host;
 * NULL: it runs beside the launcher. elsewhere: the first of the run's hosts that is not this
 * machine, or NULL. Borrowed from them. */
const char *psr_reached_interface(const char *named, const psr_reached *at,
                                  const psr_reached *elsewhere);

#endif
