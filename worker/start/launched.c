#include "worker/start/launched.h"

#include "base/log.h"
#include "comm/start/meeting.h"
#include "comm/view/view.h"
#include "net/address/interface.h"
#include "worker/exchange/engines/engine.h"
#include "worker/start/end_signals.h"
#include "worker/start/launched_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOREVER_MS (INT64_MAX / 4) /* a process that waits here has deadlines of its own */
/* how long processes beside this one may take to end with the run: checkpoints are in place by
 * then */
#define END_MS 15000

/* ---- the way to the others ---- */

/* This host's address on the path to the scheduler. A host's own name is often 127.0.1.1 in its
 * /etc/hosts, and a scheduler that listens there can be reached only from this host. */
static psr_err find_way(const psr_start *s, const char *scheduler, char ret_address[PSR_HOST_MAX])
{
    char address[PSR_HOST_MAX];
    PSR_TRY(psr_start_interface(scheduler, address));
    bool by_name = s->address[0] != '\0' && strncmp(scheduler, s->address, strlen(s->address)) == 0;
    if (by_name && !psr_start_is_on_one_host(s) && psr_address_is_loopback(address))
        return psr_fail(
            PSR_ERR_USAGE,
            "the scheduler's host %s has an address here that no other host reaches (%s): give its "
            "name a network address in /etc/hosts, or set PSRING_SCHEDULER to ADDRESS:PORT",
            s->address, address);
    memcpy(ret_address, address, sizeof address);
    return PSR_OK;
}

/* Over TCP the process needs an interface: the given one, or that of the path to the scheduler. */
static psr_err provision_of(const psr_launched *l, psr_peer self, psr_provision *ret_provision)
{
    const psr_start *s = &l->start;
    psr_provision p = {.self = self};
    psr_err err = psr_provision_set_scheduler(&p, s->scheduler);
    if (err != PSR_OK)
        return psr_fail_context(err, "where the scheduler is");
    snprintf(p.host, sizeof p.host, "%s", s->host);
    /* The other processes notice a loss after the deadline, and their launchers need some time
     * too. */
    if (s->attempt > 0)
        p.patience_ms = (uint32_t)(2000 * l->config.deadline_s) + 10000;
    if (p.directory[0] != '\0' && s->interface[0] != '\0')
        return psr_fail(PSR_ERR_USAGE, "--interface: this run is on ipc sockets; leave it out");
    snprintf(p.interface, sizeof p.interface, "%s", s->interface);
    PSR_TRY(psr_provision_load_keys(&p, s->key_file[0] != '\0' ? s->key_file : NULL));
    psr_provision_tell_old_keys(&p, s->key_file);
    if (p.directory[0] == '\0' && p.interface[0] == '\0')
        snprintf(p.interface, sizeof p.interface, "%s", s->tcp_interface);
    char way[PSR_HOST_MAX] = "";
    if (p.directory[0] == '\0')
        err = find_way(s, p.scheduler + strlen("tcp://"), way);
    if (p.interface[0] == '\0')
        memcpy(p.interface, way, sizeof way);
    if (err != PSR_OK) {
        psr_provision_done(&p);
        return err;
    }
    if (p.directory[0] == '\0')
        snprintf(p.sharing, sizeof p.sharing, "%s", l->folder.directory.path);
    *ret_provision = p;
    return PSR_OK;
}

/* ---- what is beside ---- */

static psr_err start_one(psr_launched *l, const char *program, char *const options[], psr_peer self)
{
    psr_provision p;
    PSR_TRY(provision_of(l, self, &p));
    psr_err err = PSR_OK;
    if (self.role == PSR_ROLE_SCHEDULER && p.directory[0] == '\0') {
        p.port = (uint16_t)strtoul(strrchr(p.scheduler, ':') + 1, NULL, 10);
        p.scheduler[0] = '\0';
        /* The address at which the others look for the scheduler, whichever network they listen
         * on. */
        err = psr_start_interface(l->start.scheduler, p.interface);
    }
    if (err == PSR_OK)
        err = psr_beside_start(l->beside, program, options, &p);
    psr_provision_done(&p);
    return err;
}

static psr_err start_scheduler(psr_launched *l)
{
    static char provision[] = "--provision", from[] = "-", by_worker[] = "--by-worker";
    char command[PSR_COMMAND_MAX + 16]; /* a person typed this one, for run.json */
    char **words = NULL, *options[256] = {provision, from, by_worker, command};
    psr_config config = l->config;
    size_t count = 4;
    snprintf(command, sizeof command, "--command=%s", l->command);
    psr_launched_share_cores(&l->start, &config);
    PSR_TRY(psr_config_to_arguments(&config, &words));
    for (size_t i = 0; words[i] != NULL && count + 1 < sizeof options / sizeof *options; i++)
        options[count++] = words[i];
    psr_err err = start_one(l, "psring-scheduler", options, (psr_peer){PSR_ROLE_SCHEDULER, 0});
    psr_config_arguments_free(words);
    return err;
}

static psr_err start_shard(psr_launched *l, uint32_t shard)
{
    static char provision[] = "--provision", from[] = "-";
    char *const options[] = {provision, from, NULL};
    return start_one(l, "psring-ps", options, (psr_peer){PSR_ROLE_SHARD, shard});
}

static psr_err start_shards(psr_launched *l, uint32_t rank)
{
    uint32_t shards = psr_engine_shards(&l->config);
    for (uint32_t shard = rank; shard < shards; shard += l->start.ranks)
        PSR_TRY(start_shard(l, shard));
    return PSR_OK;
}

/* Shards that no launcher starts: each worker starts its own. */
static bool shards_are_beside(const psr_launched *l)
{
    return l->start.shards_variable == NULL && psr_engine_shards(&l->config) > 0;
}

static psr_err start_beside(psr_launched *l, uint32_t rank,
                            void (*lost)(void *context, bool killed, psr_err status,
                                         const char *line),
                            void *context)
{
    bool is_shard = l->start.role == PSR_ROLE_SHARD;
    bool shards = shards_are_beside(l) && rank < psr_engine_shards(&l->config);
    if (!l->start.starts_scheduler && !shards && !is_shard)
        return PSR_OK;
    PSR_TRY(psr_beside_new(lost, context, &l->beside));
    if (l->start.starts_scheduler)
        PSR_TRY(start_scheduler(l));
    if (is_shard)
        PSR_TRY(start_shard(l, rank));
    if (shards)
        PSR_TRY(start_shards(l, rank));
    return psr_beside_watch(l->beside);
}

/* ---- beginning and end ---- */

static void say_place(const psr_launched *l, const psr_provision *p)
{
    char line[PSR_START_LINE_MAX];
    psr_start_describe(&l->start, line, sizeof line);
    psr_log(PSR_LOG_INFO, "%s; the scheduler is at %s%s%s%s", line, p->scheduler,
            l->start.meeting[0] != '\0' ? ", by " : "", l->start.meeting,
            l->start.starts_scheduler ? ", and this process starts it" : "");
}

/* Finds where the scheduler is, and which processes may join. */
static psr_err meet(psr_launched *l)
{
    PSR_TRY(psr_start_meet(&l->start));
    PSR_TRY(psr_meeting_file_meet(&l->start, l->start.ranks, psr_engine_shards(&l->config),
                                  (int64_t)(l->config.deadline_s * 1000), &l->meeting));
    if (l->meeting.path[0] != '\0')
        psr_end_removing(l->meeting.path);
    return PSR_OK;
}

/* Launchers other than psring's send these signals to all ranks. */
static void take_signals(const psr_launched *l)
{
    if (l->start.way != NULL)
        psr_end_by_orders(
            l->beside != NULL && l->start.starts_scheduler ? psr_beside_orders(l->beside) : -1);
}

void psr_launched_joined(psr_launched *l)
{
    psr_meeting_file_remove(&l->meeting);
    take_signals(l);
}

/* Enters the folder in which the processes on this host share memory, in a job on several hosts. If
 * that fails, only speed is lost. */
static void enter_to_share(psr_launched *l)
{
    char directory[PSR_SOCKET_DIRECTORY_BYTES];
    if (l->start.meeting[0] == '\0' || l->start.local_ranks == 1)
        return;
    psr_start_directory(&l->start, directory);
    if (psr_job_folder_enter(directory, &l->folder) != PSR_OK)
        psr_log(PSR_LOG_WARN, "no memory is shared with other processes on this host: %s",
                psr_err_detail());
}

/* Enters the job's directory on this host and, if its sockets are there, takes this process's
 * place. */
static psr_err enter_folder(psr_launched *l, psr_peer *self)
{
    char directory[PSR_SOCKET_DIRECTORY_BYTES] = "";
    if (l->start.scheduler[0] != '/') {
        enter_to_share(l);
        return PSR_OK;
    }
    snprintf(directory, sizeof directory, "%.*s",
             (int)(strrchr(l->start.scheduler, '/') - l->start.scheduler), l->start.scheduler);
    PSR_TRY(psr_job_folder_enter(directory, &l->folder));
    return psr_job_folder_take(&l->folder, self,
                               self->role == PSR_ROLE_SHARD ? l->start.shards : l->start.ranks);
}

psr_err psr_launched_begin(psr_launched *l, const psr_worker_arguments *a, const psr_start *start,
                           void (*lost)(void *context, bool killed, psr_err status,
                                        const char *line),
                           void *context, psr_provision *ret_provision)
{
    psr_provision p;
    l->start = *start;
    l->command = a->command;
    if (start->level == PSR_START_MPI)
        psr_end_with_parent();
    PSR_TRY(psr_launched_resolve(a, &l->start, &l->config));
    PSR_TRY(meet(l));
    psr_peer self = {l->start.role, l->start.rank};
    PSR_TRY(enter_folder(l, &self));
    l->start.rank = self.rank;
    PSR_TRY(provision_of(l, self, &p));
    say_place(l, &p);
    psr_err err = start_beside(l, self.rank, lost, context);
    if (err != PSR_OK) {
        psr_provision_done(&p);
        return err;
    }
    *ret_provision = p;
    return PSR_OK;
}

/* The result of a process beside this one, as this one's own result. */
static psr_err outcome_of(int status, const char *who)
{
    switch (status) {
    case 0:
        return PSR_OK;
    case 2:
        return psr_fail(PSR_ERR_USAGE, "the %s ended with status 2", who);
    case 3:
        return psr_fail(PSR_ERR_PROTOCOL, "the %s ended with status 3", who);
    case 130:
        return psr_fail(PSR_ERR_CANCELLED, "the run was stopped in order");
    default:
        return psr_fail(PSR_ERR_PEER, "the %s ended with status %d", who, status);
    }
}

psr_err psr_launched_stay(psr_launched *l)
{
    /* Slurm signals all tasks of a job */
    if (l->start.starts_scheduler || l->start.level == PSR_START_MANAGER)
        take_signals(l);
    else
        psr_end_leaving_hangups();
    int status = psr_beside_end(l->beside, true, FOREVER_MS);
    l->beside = NULL;
    return outcome_of(status, l->start.starts_scheduler ? "scheduler" : "shard");
}

psr_err psr_launched_end(psr_launched *l, psr_err err)
{
    int status = psr_beside_end(l->beside, err == PSR_OK, END_MS);
    l->beside = NULL;
    psr_meeting_file_remove(&l->meeting);
    psr_job_folder_leave(&l->folder);
    return err == PSR_OK && l->start.starts_scheduler ? outcome_of(status, "scheduler") : err;
}
