#include "comm/start/meeting.h"

#include "comm/start/variables.h"
#include "net/address/socket_directory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

void psr_start_directory(const psr_start *s, char ret_directory[PSR_SOCKET_DIRECTORY_BYTES])
{
    char text[sizeof s->job + sizeof s->job_here + 32];
    int length =
        snprintf(text, sizeof text, "%s %s of %u", s->job, s->job_here, (unsigned)geteuid());
    psr_socket_directory_of_job(psr_variable("XDG_RUNTIME_DIR"), XXH3_64bits(text, (size_t)length),
                                ret_directory);
}

static psr_err meet_in_directory(psr_start *s)
{
    char directory[PSR_SOCKET_DIRECTORY_BYTES];
    psr_start_directory(s, directory);
    snprintf(s->scheduler, sizeof s->scheduler, "%s/scheduler", directory);
    return PSR_OK;
}

/* In the folder that is named, or in the one where the processes were started. */
static psr_err meet_by_file(psr_start *s)
{
    char text[sizeof s->job + 32], folder[PATH_MAX] = "";
    int length = snprintf(text, sizeof text, "%s of %u", s->job, (unsigned)geteuid());
    const char *named = s->meeting_folder[0] != '\0' ? s->meeting_folder : ".";
    if (realpath(named, folder) == NULL)
        return psr_fail(PSR_ERR_USAGE, "the folder in which the ranks' hosts meet, %s: %s", named,
                        strerror(errno));
    length = snprintf(s->meeting, sizeof s->meeting, "%s/.psring-meeting-%016" PRIx64,
                      strcmp(folder, "/") != 0 ? folder : "",
                      (uint64_t)XXH3_64bits(text, (size_t)length));
    return length < (int)sizeof s->meeting ? PSR_OK
                                           : psr_fail(PSR_ERR_USAGE,
                                                      "the folder in which the ranks' hosts meet, "
                                                      "%.80s..: its path is longer than %zu bytes",
                                                      folder, sizeof s->meeting - 40);
}

/* Several hosts meet by a file if their launcher says too little, and whenever a folder is
 * named. */
static bool meets_by_file(const psr_start *s)
{
    bool by_job = s->level == PSR_START_MPI || s->level == PSR_START_MANAGER;
    return s->job[0] != '\0' && (by_job || s->meeting_folder[0] != '\0');
}

static psr_err meet_over_tcp(psr_start *s)
{
    if (s->address[0] == '\0' || s->port == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "with a key file the ranks meet over TCP, and nothing says where: give "
                        "--scheduler HOST:PORT, or set PSRING_SCHEDULER");
    bool ipv6 = strchr(s->address, ':') != NULL;
    int length = snprintf(s->scheduler, sizeof s->scheduler, "%s%s%s:%u", ipv6 ? "[" : "",
                          s->address, ipv6 ? "]" : "", (unsigned)s->port);
    return length < (int)sizeof s->scheduler
               ? PSR_OK
               : psr_fail(PSR_ERR_USAGE, "%s is longer than a host's name may be",
                          s->address_variable);
}

/* A process with a role and without a rank needs a rank too: a key belongs to one process. */
static psr_err refuse_several_hosts(const psr_start *s)
{
    /* it was not a resource manager that started it */
    const bool by_hand = s->level == PSR_START_RANKS && s->address_variable != NULL;
    const bool by_role = s->role != PSR_ROLE_WORKER || s->rank == PSR_RANK_ANY;
    return psr_fail(
        PSR_ERR_USAGE,
        "the ranks may be on several hosts (%s is %s), where they meet over TCP, encrypted: give "
        "%s--key-file DIR, as psring keygen writes it, or set PSRING_KEY_FILE, or name a folder "
        "that all hosts see by PSRING_MEETING%s%s%s%s",
        s->address_variable != NULL ? s->address_variable : "the scheduler's address",
        s->address[0] != '\0' ? s->address : "not told", by_role ? "all of them " : "",
        by_role ? ", and each worker and each server its own --rank, from 0" : "",
        by_hand ? "; on this host alone let " : "", by_hand ? s->address_variable : "",
        by_hand ? " be 127.0.0.1" : "");
}

psr_err psr_start_meet(psr_start *s)
{
    if (s->scheduler[0] != '\0')
        return PSR_OK;
    if (s->key_file[0] != '\0')
        return meet_over_tcp(s);
    if (psr_start_is_on_one_host(s) && (s->job[0] != '\0' || s->job_here[0] != '\0'))
        return meet_in_directory(s);
    if (s->ranks == 1)
        return PSR_OK;
    if (meets_by_file(s))
        return meet_by_file(s);
    if (s->job[0] == '\0')
        return psr_fail(
            PSR_ERR_USAGE,
            "%s and %s do not say where the ranks meet: set PSRING_SCHEDULER to HOST:PORT or to a "
            "socket's path",
            s->rank_variable, s->ranks_variable);
    return refuse_several_hosts(s);
}

/* ---- the path to the scheduler ---- */

static psr_err split(const char *scheduler, char host[PSR_HOST_MAX], char port[8])
{
    const char *colon = strrchr(scheduler, ':');
    size_t length = colon != NULL ? (size_t)(colon - scheduler) : 0;
    bool bracketed = length > 2 && scheduler[0] == '[' && scheduler[length - 1] == ']';
    if (bracketed) {
        scheduler++;
        length -= 2;
    }
    if (length == 0 || length >= PSR_HOST_MAX || colon[1] == '\0' || strlen(colon + 1) >= 8)
        return psr_fail(PSR_ERR_USAGE, "\"%s\" is not HOST:PORT", scheduler);
    memcpy(host, scheduler, length);
    host[length] = '\0';
    strcpy(port, colon + 1);
    return PSR_OK;
}

/* Connecting a datagram socket chooses the local address of the path there. */
static bool own_address(const struct addrinfo *to, char ret_address[PSR_HOST_MAX])
{
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                 getsockname(fd, (struct sockaddr *)&own, &size) == 0 &&
                 getnameinfo((struct sockaddr *)&own, size, ret_address, PSR_HOST_MAX, NULL, 0,
                             NI_NUMERICHOST) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

psr_err psr_start_interface(const char *scheduler, char ret_address[PSR_HOST_MAX])
{
    char host[PSR_HOST_MAX], port[8], address[PSR_HOST_MAX];
    PSR_TRY(split(scheduler, host, port));
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    int refused = getaddrinfo(host, port, &hints, &list);
    if (refused != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "host %s of the scheduler: %s; let the name resolve on all hosts, or set "
                        "PSRING_SCHEDULER to ADDRESS:PORT",
                        host, gai_strerror(refused));
    bool found = false;
    for (const struct addrinfo *to = list; to != NULL && !found; to = to->ai_next)
        found = own_address(to, address);
    freeaddrinfo(list);
    if (!found)
        return psr_fail(PSR_ERR_USAGE, "this host has no way to host %s of the scheduler", host);
    memcpy(ret_address, address, sizeof address);
    return PSR_OK;
}
