/* The variables that MPICH's launcher Hydra gives each process, and those of its kin (Intel MPI,
 * MVAPICH): PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS and PMI_FD, a socket to Hydra's
 * proxy on the host
 * (https://github.com/pmodels/mpich/blob/main/doc/wiki/how_to/Using_the_Hydra_Process_Manager.md).
 *
 * No variable names the job. The proxy does: one has been started on each host for this job, and
 * the kernel knows who made the socket. Its number alone may be another's later, so the time at
 * which it began counts too. Its command line says where the job's mpirun listens, --control-port
 * HOST:PORT, which is the same on all hosts and no other job's while it runs. Nothing is read from
 * the socket or written to it: that is the MPI library's to do. */
#include "base/text/printable.h"
#include "comm/start/variables.h"
#include "comm/start/ways/ways.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Reads a file of /proc/PID as far as there is room. Returns the bytes read; -1: it cannot be
 * read. */
static ssize_t read_of(pid_t pid, const char *file, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (bytes >= 0)
        text[bytes] = '\0';
    return bytes;
}

/* The 22nd field of /proc/PID/stat, in ticks since the machine began; the second, in brackets, may
 * hold anything. false: there is none. */
static bool began_at(pid_t pid, unsigned long long *ret_ticks)
{
    char text[1024];
    if (read_of(pid, "stat", text, sizeof text) <= 0)
        return false;
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL && sscanf(at, "%llu", ret_ticks) == 1;
}

/* The word after --control-port in its command line, in which a zero byte ends each word. false:
 * there is none. */
static bool control_port(pid_t pid, char *ret_port, size_t size)
{
    char text[4096];
    ssize_t bytes = read_of(pid, "cmdline", text, sizeof text);
    for (const char *word = text; bytes > 0 && word < text + bytes; word += strlen(word) + 1) {
        const char *next = word + strlen(word) + 1;
        if (strcmp(word, "--control-port") == 0 && next < text + bytes)
            return snprintf(ret_port, size, "%s", next) < (int)size &&
                   psr_is_printable(next, strlen(next));
    }
    return false;
}

/* Leaves the job's name empty if it cannot be found: PMI_FD is no socket of a process on this host,
 * or the proxy is another kind. */
static psr_err name_job(psr_start *s)
{
    int64_t fd = -1;
    struct ucred proxy;
    socklen_t size = sizeof proxy;
    unsigned long long ticks = 0;
    PSR_TRY(psr_variable_number("PMI_FD", 0, INT_MAX, &fd));
    if (fd >= 0 && getsockopt((int)fd, SOL_SOCKET, SO_PEERCRED, &proxy, &size) == 0 &&
        proxy.pid > 0 && began_at(proxy.pid, &ticks)) {
        char port[PSR_HOST_MAX + 8];
        snprintf(s->job_here, sizeof s->job_here, "hydra %d %llu", (int)proxy.pid, ticks);
        if (control_port(proxy.pid, port, sizeof port))
            snprintf(s->job, sizeof s->job, "hydra %.200s", port);
    }
    return PSR_OK;
}

psr_err psr_start_by_hydra(psr_start *s)
{
    if (psr_variable("PMI_RANK") == NULL && psr_variable("PMI_SIZE") == NULL)
        return PSR_ERR_NOT_FOUND;
    if (psr_variable("MPI_LOCALNRANKS") == NULL && psr_variable("SLURM_STEP_NODELIST") != NULL)
        /* srun --mpi=pmi2 takes Hydra's part for a library; Slurm's own variables say more */
        return PSR_ERR_NOT_FOUND;
    s->way = "MPICH's Hydra";
    s->level = PSR_START_MPI;
    s->by_launcher = true;
    s->mpi = "MPICH";
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
