/* How a host was reached, and from that the address on which processes there listen. Pure; any
 * thread. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_REACHED_H
#define PSR_DEPLOY_LAUNCH_HOSTS_REACHED_H

#include <stdbool.h>

typedef struct psr_reached {
    bool here;                 /* this machine: no ssh */
    char address[64];          /* as ssh reached it; "" when it is here */
    char launcher_address[64]; /* ours, as it sees us; "" when it is here */
} psr_reached;

/* What a process of a run is told to listen on. named: --interface, or NULL. at: its host; NULL:
 * beside the launcher. elsewhere: the first of the run's hosts that is not here, or NULL. Borrowed
 * from them. */
const char *psr_reached_interface(const char *named, const psr_reached *at,
                                  const psr_reached *elsewhere);

#endif
