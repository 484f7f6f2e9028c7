#include "bench/exchange/meeting.h"

#include "base/text/printable.h"
#include "bench/exchange/link.h"

#include <psring/psring.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Between rounds nothing is longer than a peer's whole call, which ranks wait for. */
#define PATIENCE_MS (30 * 60 * 1000)

struct bench_meeting {
    pid_t messenger;
    int link; /* to it: a number of bytes and the bytes; back come all */
    uint32_t rank, size;
    char (*hosts)[BENCH_HOST_BYTES]; /* [size] */
    char interface[128];
};

psr_err bench_meeting_is_called(bool *ret_called)
{
    psring_options place = {.size = sizeof place};
    const psring_err err = psring_options_env(&place);
    if (err != PSRING_OK && err != PSRING_ERR_NOT_FOUND)
        return psr_fail(PSR_ERR_USAGE, "%s", psring_err_detail());
    *ret_called = err == PSRING_OK;
    return PSR_OK;
}

/* ---- the messenger ---- */

/* Who is to blame has said so: a rank that ended does not hear it from each of the others. */
static _Noreturn void messenger_failed(psring_comm **comm, psring_err err)
{
    if (err != PSRING_ERR_PEER)
        psr_print(stderr, "psring bench exchange: %s\n", psring_err_detail());
    psring_abort(comm, psring_err_detail());
    _exit(1);
}

static void serve(psring_comm *comm, int link)
{
    psring_group *world = psring_world(comm);
    const psring_call call = {.size = sizeof call, .deadline_ms = PATIENCE_MS};
    const size_t ranks = (size_t)psring_size(world);
    for (uint64_t bytes = 0;;) {
        bench_read(link, &bytes, sizeof bytes);
        if (bytes == 0)
            return;
        char *own = malloc(bytes), *all = malloc(bytes * ranks);
        if (own == NULL || all == NULL)
            bench_die("memory");
        bench_read(link, own, bytes);
        const psring_err err = psring_all_gather(world, own, all, bytes, PSRING_UINT8, &call, NULL);
        if (err != PSRING_OK)
            messenger_failed(&comm, err);
        bench_write(link, all, bytes * ranks);
        free(own);
        free(all);
    }
}

static _Noreturn void be_messenger(pid_t parent, int link)
{
    psring_options place = {.size = sizeof place};
    psring_comm *comm = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    psring_err err = psring_options_env(&place);
    if (err == PSRING_OK)
        err = psring_init(&place, &comm);
    if (err != PSRING_OK)
        messenger_failed(&comm, err);
    psring_group *world = psring_world(comm);
    const uint32_t who[2] = {(uint32_t)psring_rank(world), (uint32_t)psring_size(world)};
    bench_write(link, who, sizeof who);
    for (uint32_t r = 0; r < who[1]; r++) {
        char host[BENCH_HOST_BYTES] = "";
        snprintf(host, sizeof host, "%s", psring_host(world, (int)r));
        bench_write(link, host, sizeof host);
    }
    char interface[sizeof((bench_meeting *)NULL)->interface] = "";
    snprintf(interface, sizeof interface, "%s",
             place.interface != NULL ? place.interface : "127.0.0.1");
    bench_write(link, interface, sizeof interface);
    serve(comm, link);
    err = psring_close(&comm);
    if (err != PSRING_OK)
        messenger_failed(&comm, err);
    _exit(0);
}

/* ---- this process ---- */

static psr_err read_who(bench_meeting *m)
{
    uint32_t who[2];
    bench_read(m->link, who, sizeof who);
    m->rank = who[0];
    m->size = who[1];
    m->hosts = calloc(m->size, sizeof *m->hosts);
    if (m->hosts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the hosts of %u ranks", m->size);
    bench_read(m->link, m->hosts, m->size * sizeof *m->hosts);
    bench_read(m->link, m->interface, sizeof m->interface);
    return PSR_OK;
}

psr_err bench_meeting_join(bench_meeting **ret_meeting)
{
    int pair[2];
    const pid_t parent = getpid();
    bench_meeting *m = calloc(1, sizeof *m);
    if (m == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a meeting");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        free(m);
        return psr_fail(PSR_ERR_IO, "a socket pair: %s", strerror(errno));
    }
    m->messenger = fork();
    if (m->messenger == 0) {
        close(pair[0]);
        be_messenger(parent, pair[1]);
    }
    close(pair[1]);
    m->link = pair[0];
    psr_err err =
        m->messenger > 0 ? read_who(m) : psr_fail(PSR_ERR_IO, "a process: %s", strerror(errno));
    if (err != PSR_OK)
        bench_meeting_end(m);
    else
        *ret_meeting = m;
    return err;
}

uint32_t bench_meeting_rank(const bench_meeting *meeting)
{
    return meeting->rank;
}

uint32_t bench_meeting_size(const bench_meeting *meeting)
{
    return meeting->size;
}

const char *bench_meeting_host(const bench_meeting *meeting, uint32_t rank)
{
    return meeting->hosts[rank];
}

const char *bench_meeting_interface(const bench_meeting *meeting)
{
    return meeting->interface;
}

void bench_meeting_gather(bench_meeting *meeting, const void *own, size_t bytes, void *all)
{
    const uint64_t count = bytes;
    bench_write(meeting->link, &count, sizeof count);
    bench_write(meeting->link, own, bytes);
    bench_read(meeting->link, all, bytes * meeting->size);
}

void bench_meeting_end(bench_meeting *meeting)
{
    if (meeting == NULL)
        return;
    const uint64_t none = 0;
    if (meeting->messenger > 0 && meeting->hosts != NULL)
        bench_write(meeting->link, &none, sizeof none);
    close(meeting->link);
    if (meeting->messenger > 0)
        (void)waitpid(meeting->messenger, NULL, 0);
    free(meeting->hosts);
    free(meeting);
}
