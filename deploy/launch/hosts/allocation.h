/* The hosts that a resource manager has given to this job: Slurm's, from SLURM_JOB_NODELIST and
 * SLURM_TASKS_PER_NODE in a script of sbatch and in the shell of salloc
 * (https://slurm.schedmd.com/sbatch.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES). Only for main,
 * since it reads the environment. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_ALLOCATION_H
#define PSR_DEPLOY_LAUNCH_HOSTS_ALLOCATION_H

#include "deploy/launch/hosts/hostfile.h"

/* How hosts of an allocation are reached (deploy/agent/host.h). */
#define PSR_ALLOCATION_SSH "srun"

/* Whether this is a Slurm job. Slurm sends signals that end a job to all of its processes, so those
 * that the launcher starts ignore them (PSR_CHILD_LEAVES_TERM). */
bool psr_allocation_is_there(void);

/* NOT_FOUND: this is no Slurm job. USAGE: srun has started several copies of this program; or
 * Slurm's variables are wrong. The caller owns *ret_hosts. */
PSR_MUST_CHECK psr_err psr_allocation_read(psr_hosts *ret_hosts);

#endif
