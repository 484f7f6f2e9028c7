/* The launchers: a function for each, in a file of its name. It fills what its variables say into a
 * start that psr_start_blank has made, and checks that they agree. NOT_FOUND: none of its variables
 * is set. USAGE: see psr_start_read. For comm/start's own files. */
#ifndef PSR_COMM_START_WAYS_H
#define PSR_COMM_START_WAYS_H

#include "comm/start/start.h"

typedef psr_err psr_start_reader(psr_start *start);

psr_start_reader psr_start_by_psring;    /* PSRING_RANK, PSRING_RANKS: psring run, or by hand */
psr_start_reader psr_start_by_torch;     /* RANK, WORLD_SIZE: torchrun,
                                            torch.distributed.launch, a shell loop */
psr_start_reader psr_start_by_mxnet;     /* DMLC_ROLE: MXNet, ps-lite */
psr_start_reader psr_start_by_mindspore; /* MS_ROLE: MindSpore */
psr_start_reader psr_start_by_openmpi;   /* OMPI_COMM_WORLD_RANK, _SIZE: Open MPI's mpirun */
psr_start_reader psr_start_by_hydra;     /* PMI_RANK, PMI_SIZE: MPICH's mpirun and its relatives */
psr_start_reader psr_start_by_slurm;     /* SLURM_PROCID, SLURM_STEP_NUM_TASKS: srun */

/* A worker of which nothing is known. */
psr_start psr_start_blank(void);

/* Reads what every launcher may have: PSRING_KEY_FILE and the others. If the place was not found in
 * the environment, what the environment says must agree with it; except PyTorch's variables, with
 * which the options were read already. USAGE. */
PSR_MUST_CHECK psr_err psr_start_complete(psr_start *start);

#endif
