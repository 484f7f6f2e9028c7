/* The hosts that a resource manager has given to this job: Slurm's, as SLURM_JOB_NODELIST and
 * SLURM_TASKS_PER_NODE name them in a script of sbatch and in the shell of salloc
 * (https://slurm.schedmd.com/sbatch.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES). For a program's
 * front door alone: it reads the environment. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_ALLOCATION_H
#define PSR_DEPLOY_LAUNCH_HOSTS_ALLOCATION_H

#include "deploy/launch/hosts/hostfile.h"

/* How hosts of an allocation are reached (deploy/agent/host.h). */
#define PSR_ALLOCATION_SSH "srun"

/* What a variable of this name says of each of Slurm's nodes, in order: "2(x3),1" is 2, 2, 2, 1.
 * FORMAT: it is something else, or not of so many nodes. */
PSR_MUST_CHECK psr_err psr_allocation_tasks(const char *name, const char *text, uint32_t *ret_tasks,
                                            size_t count);

/* This is a job of Slurm's, which sends what ends it to all of its processes: those that the
 * launcher starts leave that to it (PSR_CHILD_LEAVES_TERM). */
bool psr_allocation_is_there(void);

/* NOT_FOUND: this is no job of Slurm's. USAGE: srun has started several of this program; its
 * variables are not what they should be. ret owns. */
PSR_MUST_CHECK psr_err psr_allocation_read(psr_hosts *ret_hosts);

#endif
