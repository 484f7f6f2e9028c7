/* The variables that MPICH's launcher Hydra gives each process, and those of its kin (Intel MPI, MVAPICH): PMI_RANK, PMI_SIZE, MPI_LOCALRANKID,
 * MPI_LOCALNRANKS and PMI_FD, a socket to Hydra's proxy on the host (https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md).
 *
 * No variable names the job. The proxy does: one has been started on this host for this job, and the kernel knows who made the socket. Its
 * number alone may be another's later, so the time at which it began counts too. Nothing is read from the socket or written to it: that is
 * the MPI library's to do. */
#include "comm/start/variables.h"
#include "comm/start/ways.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The 22nd field of /proc/PID/stat, in ticks since the machine began; the second, in brackets, may hold anything. false: there is none. */
static bool began_at(pid_t pid, unsigned long long *ret_ticks)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at, "%llu", ret_ticks) == 1;
}

/* Leaves the job empty where PMI_FD is no socket of a process on this host: a proxy of another kind. */
static psr_err name_job(psr_start *s)
{
    int64_t fd = -1;
    struct ucred proxy;
    socklen_t size = sizeof proxy;
    unsigned long long ticks = 0;
    PSR_TRY(psr_variable_number("PMI_FD", 0, INT_MAX, &fd));
    if (fd >= 0 && getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &proxy, &size) == 0 && proxy.pid > 0 &&
        began_at(proxy.pid, &ticks))
        snprintf(s->job, sizeof s->job, "hydra %d %llu", (int)proxy.pid, ticks);
    return PSR_OK;
}

psr_err psr_start_by_hydra(psr_start *s)
{
    if (psr_variable("PMI_RANK") == NULL && psr_variable("PMI_SIZE") == NULL)
        return PSR_ERR_NOT_FOUND;
    if (psr_variable("MPI_LOCALNRANKS") == NULL && psr_variable("SLURM_STEP_NODELIST") != NULL)
        return PSR_ERR_NOT_FOUND; /* srun --mpi=pmi2 plays Hydra's part for a library; its own variables say more */
    s->way = "MPICH's Hydra";
    s->level = PSR_START_MPI;
    s->by_launcher = true;
    s->rank_variable = "PMI_RANK";
    s->ranks_variable = "PMI_SIZE";
    PSR_TRY(psr_variable_need("PMI_SIZE", "PMI_RANK is: it says of how many"));
    PSR_TRY(psr_variable_need("PMI_RANK", "PMI_SIZE is: it says which of them this process is"));
    PSR_TRY(psr_variable_u32("PMI_SIZE", 1, PSR_START_RANKS_MAX, &s->ranks));
    PSR_TRY(psr_variable_u32("PMI_RANK", 0, s->ranks - 1, &s->rank));
    PSR_TRY(psr_variable_u32("MPI_LOCALNRANKS", 1, s->ranks, &s->local_ranks));
    PSR_TRY(psr_variable_u32("MPI_LOCALRANKID", 0, s->ranks - 1, &s->local_rank));
    s->starts_scheduler = s->rank == 0;
    return name_job(s);
}
