/* The variables that Open MPI's mpirun (4 and 5) gives each process: OMPI_COMM_WORLD_RANK,
 * OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_SIZE
 * (https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html), and what its daemon on
 * the host says of itself by PMIx: PMIX_NAMESPACE and PMIX_SERVER_URI2, which no other job has.
 * Version 4's namespace is a number of 32 bits that two jobs on two hosts may have at once; its
 * mpirun gives all of a job a random text beside it, OMPI_MCA_orte_precondition_transports. Version
 * 5's names host and process. */
#include "comm/start/variables.h"
#include "comm/start/ways/ways.h"

#include <stdio.h>

psr_err psr_start_by_openmpi(psr_start *s)
{
    if (psr_variable("OMPI_COMM_WORLD_RANK") == NULL &&
        psr_variable("OMPI_COMM_WORLD_SIZE") == NULL)
        return PSR_ERR_NOT_FOUND;
    s->way = "Open MPI's mpirun";
    s->level = PSR_START_MPI;
    s->by_launcher = true;
    s->mpi = "Open MPI";
    s->rank_variable = "OMPI_COMM_WORLD_RANK";
    s->ranks_variable = "OMPI_COMM_WORLD_SIZE";
    PSR_TRY(
        psr_variable_need("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK is: it says of how many"));
    PSR_TRY(psr_variable_need("OMPI_COMM_WORLD_RANK",
                              "OMPI_COMM_WORLD_SIZE is: it says which of them this process is"));
    PSR_TRY(psr_variable_u32("OMPI_COMM_WORLD_SIZE", 1, PSR_START_RANKS_MAX, &s->ranks));
    PSR_TRY(psr_variable_u32("OMPI_COMM_WORLD_RANK", 0, s->ranks - 1, &s->rank));
    PSR_TRY(psr_variable_u32("OMPI_COMM_WORLD_LOCAL_SIZE", 1, s->ranks, &s->local_ranks));
    PSR_TRY(psr_variable_u32("OMPI_COMM_WORLD_LOCAL_RANK", 0, s->ranks - 1, &s->local_rank));
    s->starts_scheduler = s->rank == 0;
    char namespace[128] = "", drawn[64] = "";
    PSR_TRY(psr_variable_copy("PMIX_NAMESPACE", namespace, sizeof namespace));
    PSR_TRY(psr_variable_copy("OMPI_MCA_orte_precondition_transports", drawn, sizeof drawn));
    PSR_TRY(psr_variable_copy("PMIX_SERVER_URI2", s->job_here, sizeof s->job_here));
    if (namespace[0] != '\0')
        snprintf(s->job, sizeof s->job, "openmpi %s %s", namespace, drawn);
    return PSR_OK;
}
