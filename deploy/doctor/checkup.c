#include "deploy/doctor/checkup.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

psr_err psr_checkup_init(const psr_hosts *hosts, psr_checkup *ret_checkup)
{
    if (hosts->count > PSR_CHECKUP_HOSTS_MAX)
        return psr_fail(PSR_ERR_USAGE, "%zu hosts are more than %d; give fewer at a time",
                        hosts->count, PSR_CHECKUP_HOSTS_MAX);
    psr_checkup c = {.count = hosts->count,
                     .hosts = calloc(hosts->count, sizeof *c.hosts),
                     .pairs = calloc(hosts->count * hosts->count, sizeof *c.pairs)};
    if (c.hosts == NULL || c.pairs == NULL) {
        psr_checkup_done(&c);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu hosts", hosts->count);
    }
    for (size_t i = 0; i < c.count; i++)
        c.hosts[i].host = hosts->items[i];
    *ret_checkup = c;
    return PSR_OK;
}

void psr_checkup_done(psr_checkup *c)
{
    free(c->hosts);
    free(c->pairs);
    *c = (psr_checkup){0};
}

psr_checkup_pair *psr_checkup_pair_of(const psr_checkup *c, size_t from, size_t to)
{
    return &c->pairs[from * c->count + to];
}

uint32_t psr_checkup_slots(const psr_checkup *c)
{
    uint32_t slots = 0;
    for (size_t i = 0; i < c->count; i++)
        slots += c->hosts[i].host.slots;
    return slots;
}

uint64_t psr_checkup_worker_bytes(const psr_checkup *c, const psr_checkup_host *h)
{
    const uint64_t fixed = h->facts.fixed_bytes, sample = h->facts.sample_bytes;
    if (c->model == NULL)
        return 0;
    if (sample > 0 && c->batch_size > PSR_FACT_UNLIMITED / sample)
        return PSR_FACT_UNLIMITED; /* a host may say anything */
    return fixed + sample * c->batch_size;
}

/* Finds the longest part of path that exists. */
static bool find_nearest_existing(const char *path, char *there, size_t size)
{
    struct stat status;
    if (snprintf(there, size, "%s", path[0] ? path : ".") >= (int)size)
        return false;
    while (stat(there, &status) != 0 && errno == ENOENT && strcmp(there, "/") != 0 &&
           strcmp(there, ".") != 0) {
        char *slash = strrchr(there, '/');
        if (slash == NULL)
            strcpy(there, ".");
        else
            slash[slash == there] = '\0';
    }
    return true;
}

void psr_checkup_look_at_out(psr_checkup *c)
{
    char there[PATH_MAX];
    struct statvfs file_system;
    struct stat status;
    if (c->out == NULL)
        return;
    if (!find_nearest_existing(c->out, there, sizeof there))
        snprintf(c->out_failure, sizeof c->out_failure, "its name is longer than %d bytes",
                 PATH_MAX - 1);
    else if (stat(there, &status) == 0 && !S_ISDIR(status.st_mode))
        snprintf(c->out_failure, sizeof c->out_failure, "%.400s is no directory", there);
    else if (access(there, W_OK | X_OK) != 0 || statvfs(there, &file_system) != 0)
        snprintf(c->out_failure, sizeof c->out_failure, "%.400s: %s", there, strerror(errno));
    else
        c->out_free_bytes = (uint64_t)file_system.f_bavail * file_system.f_frsize;
}
