/* What the files of the launcher share: deploy/launch/machine/launch_machine.h decides, launch.c
 * does what it asks for, launch_loop.c tells it what happens. One thread. */
#ifndef PSR_DEPLOY_LAUNCH_PRIVATE_H
#define PSR_DEPLOY_LAUNCH_PRIVATE_H

#include "deploy/agent/host.h"
#include "deploy/launch/launch.h"
#include "deploy/launch/machine/launch_machine.h"
#include "net/trust/keys.h"
#include "net/address/socket_directory.h"

#include <poll.h>

typedef struct psr_launch_driver {
    const psr_launch_options *options;
    psr_config config;      /* threads resolved when the scheduler is started */
    char out[PSR_PATH_MAX]; /* the run directory, once the scheduler has made it */
    psr_launch_machine *machine;
    psr_host_link *hosts;
    size_t host_count; /* those that were started */
    psr_child scheduler;
    char sockets[PSR_SOCKET_DIRECTORY_BYTES]; /* of a run on ipc: agent and
                                                 scheduler make it; "": TCP */
    bool shares;                              /* over TCP: memory, within each host */
    psr_keys *keys;                           /* scheduler, shards, workers: each is
                                                 wiped when its process has it */
    size_t key_count;
    uint32_t shards; /* processes of that role: 0 but in mode ps */
    int signals;
    bool told_to_end; /* by a signal */
    psr_screen *screen;
    psr_show show;
    bool names_ranks[2]; /* of what they print on stdout and stderr, the person is told who does */
    struct pollfd *fds;  /* the signals', four for each host's agent, four for the scheduler */
    size_t polled_hosts; /* whose agents are in it now */
} psr_launch_driver;

/* Until the run is over and all have ended. */
void psr_launch_loop(psr_launch_driver *d);

#endif
