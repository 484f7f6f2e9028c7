/* The launcher's part of a run. It starts an agent on every host, the scheduler beside itself and,
 * through the agents, the shards and workers, and stays until all have ended. States: agents say
 * hello -> scheduler listens -> processes are started -> the run -> ending. Whatever happens,
 * nothing that it started outlives it. One thread. */
#ifndef PSR_DEPLOY_LAUNCH_H
#define PSR_DEPLOY_LAUNCH_H

#include "base/config/config.h"
#include "deploy/agent/program.h"
#include "deploy/launch/hosts/binding.h"
#include "deploy/launch/hosts/placement.h"
#include "base/show/show.h"

typedef struct psr_launch_options {
    const psr_config *config; /* checked; threads may be 0 and are resolved here */
    const psr_placement *placement;
    /* for `psring run`: of config only workers, deadline and transport are used; NULL: training */
    const psr_program *program;
    const char *command; /* what the person typed, for run.json; NULL: nothing to tell */
    psr_bind_to bind_to;
    /* slices and window are to follow what the links between hosts carry; false: they are given */
    bool measures_links;
    bool report_bindings; /* the person is told the processors of each process */
    /* NAME=VALUE.., NULL: for workers and shards; NULL: none. A program has its own */
    const char *const *variables;
    /* --interface, or NULL: none or loopback if all hosts are this one, else the one by which ssh
     * came */
    const char *interface;
    const char *ssh;            /* --ssh CMD (deploy/agent/host.h); NULL: "ssh" */
    psr_show_kind progress;     /* --progress */
    const char *remote_program; /* --remote-psring PATH; NULL: this program's
                                     own path, else psring from the remote PATH */
} psr_launch_options;

/* Does all of it. Returns the exit status. Prints to stdout what a person should see, and on
 * failure one line on stderr. */
int psr_launch(const psr_launch_options *options);

#endif
