/* What the files of the launcher share: deploy/launch/machine/launch_machine.h decides, launch.c
 * does what it asks for, launch_loop.c tells it what happens. One thread. */
#ifndef PSR_DEPLOY_LAUNCH_PRIVATE_H
#define PSR_DEPLOY_LAUNCH_PRIVATE_H

#include "deploy/agent/host.h"
#include "deploy/agent/link_rate.h"
#include "deploy/launch/launch.h"
#include "deploy/launch/machine/launch_machine.h"
#include "net/trust/keys/keys.h"
#include "net/address/socket_directory.h"

#include <poll.h>

typedef struct psr_launch_driver {
    const psr_launch_options *options;
    psr_config config;      /* its threads are resolved when the scheduler is started */
    char out[PSR_PATH_MAX]; /* the run directory, when the scheduler has made it */
    psr_launch_machine *machine;
    psr_host_link *hosts;
    size_t host_count; /* number of hosts whose agents were started */
    psr_child scheduler;
    /* for a run over ipc: made by agent and scheduler; "": TCP */
    char sockets[PSR_SOCKET_DIRECTORY_BYTES];
    char (*tokens)[PSR_LINK_TOKEN_BYTES + 1]; /* of each host's measurement; owned, or NULL */
    psr_order slowest;                        /* link; bits_per_s 0: not measured */
    bool shares;                              /* over TCP: memory is shared within each host */
    psr_keys *keys; /* for scheduler, shards, workers: each is wiped when its process has it */
    size_t key_count;
    uint32_t shards; /* number of processes of that role: 0 except in mode ps */
    int signals;
    bool told_to_end; /* a signal told this process to end */
    psr_screen *screen;
    psr_show show;
    bool names_ranks[2]; /* for stdout and stderr: the person is told which rank prints */
    struct pollfd *fds;  /* one for signals, four for each host's agent, four for the scheduler */
    size_t polled_hosts; /* number of hosts whose agents are in fds now */
} psr_launch_driver;

/* Runs until the run is over and all processes have ended. */
void psr_launch_loop(psr_launch_driver *d);

#endif
