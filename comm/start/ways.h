/* The ways to start: a function each, in a file of its name. It fills what its variables say into a
 * start that psr_start_blank has made, and checks that they fit each other. NOT_FOUND: none of its
 * variables is there. USAGE: as psr_start_read. For comm/start's own files. */
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
psr_start_reader psr_start_by_hydra;     /* PMI_RANK, PMI_SIZE: MPICH's mpirun and its kin */
psr_start_reader psr_start_by_slurm;     /* SLURM_PROCID, SLURM_STEP_NUM_TASKS: srun */

/* A worker, of which nothing is told. */
psr_start psr_start_blank(void);

/* What every way has beside its own: PSRING_KEY_FILE and the others. And where a place is chosen
 * that the environment does not give: whatever the environment gives must agree with it, but for
 * PyTorch's variables, which the options beside them have been read with. USAGE. */
PSR_MUST_CHECK psr_err psr_start_complete(psr_start *start);

#endif
