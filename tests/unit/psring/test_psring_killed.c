/* A rank that is killed is missed by all others long before the deadline: the kernel of the host
 * tells (net/sharing/lives.h), or those of two hosts do (net/zmq/transport_zmq_far.c). Each rank is
 * a process. */
#include "tests/unit/psring/ranks.h"

#include <arpa/inet.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

/* The others must have ended before the deadline could tell them, which takes three quarters of it,
 * however slow the machine. */
enum { RANKS = 4, DEADLINE_MS = 160000, FAR_MS = 100000 };

typedef struct play {
    ranks_folder folder;
    int culprit, shards;
    bool over_tcp; /* the ranks meet at a port */
    bool far;      /* over TCP, and the scheduler's kernel knows nothing of the others' processes */
    bool apart;    /* each rank is in a network of its own, if the test's user may do that */
    bool has_child; /* the culprit has a child that outlives it */
    bool exits;     /* the culprit is not killed: it exits without psring_close */
    char *key;      /* over TCP */
    char scheduler[64];
    int ready[2], ended[2], child[2]; /* pipes */
} play;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static psring_comm *join(const play *p, int rank)
{
    psring_comm *comm = NULL;
    psring_options options = ranks_options(&p->folder, RANKS, rank, DEADLINE_MS);
    options.shards = p->shards;
    if (p->over_tcp) {
        options.scheduler = p->scheduler;
        options.key = p->key;
    }
    expect_ok(psring_init(&options, &comm));
    return comm;
}

/* Works until that fails. A rank that has no shards reduces, others push. */
static psring_err work(const play *p, psring_comm *comm)
{
    float x = 1;
    bool told = false;
    psring_table *table = NULL;
    psring_err err = PSRING_OK;
    if (psring_is_shard(comm)) {
        expect(write(p->ready[1], "r", 1) == 1);
        return psring_serve(comm);
    }
    if (p->shards > 0)
        expect_ok(psring_table_open(
            psring_world(comm), "weights",
            PSRING_WITH(psring_table_options, .parts = (const size_t[]){1}, .part_count = 1), NULL,
            &table));
    while (err == PSRING_OK) {
        err = table != NULL ? psring_push_pull(table, 0, &x, &x, NULL, NULL)
                            : psring_all_reduce(psring_world(comm), &x, &x, 1, PSRING_FLOAT32,
                                                PSRING_MAXIMUM, NULL, NULL);
        if (!told)
            expect(err != PSRING_OK || write(p->ready[1], "r", 1) == 1);
        told = true;
    }
    return err;
}

/* Holds what it has, or what its parent had, until the test closes the pipe. */
static void hold_on(const play *p)
{
    char byte;
    expect(read(p->child[0], &byte, 1) == 0);
    _exit(0);
}

static void be_culprit(const play *p, psring_comm *comm)
{
    float x = 1;
    if (p->has_child) {
        pid_t pid = fork();
        expect(pid >= 0);
        if (pid == 0)
            hold_on(p);
    }
    if (!p->exits)
        (void)work(p, comm);
    expect_ok(psring_all_reduce(psring_world(comm), &x, &x, 1, PSRING_FLOAT32, PSRING_MAXIMUM, NULL,
                                NULL));
    expect(write(p->ready[1], "r", 1) == 1);
    hold_on(p);
}

static void be_rank(const play *p, int rank)
{
    char who[96];
    psring_failure failure = {.size = sizeof failure};
    close(p->child[1]);
    if (p->apart)
        (void)unshare(CLONE_NEWNET);
    psring_comm *comm = join(p, rank);
    psring_group *world = psring_world(comm);
    if (rank == p->culprit)
        be_culprit(p, comm);
    const psring_err err = work(p, comm);
    const bool serves_on =
        psring_is_shard(comm) && p->culprit > 0 && p->culprit < RANKS - p->shards;
    if (serves_on) { /* a shard outlives the loss of a worker */
        expect(err == PSRING_OK);
    } else {
        /* of another host's scheduler nobody knows which rank's process it was */
        const bool nameless = p->far && p->culprit == 0;
        if (nameless)
            snprintf(who, sizeof who, "the scheduler at tcp://%s", p->scheduler);
        else
            snprintf(who, sizeof who, "rank %d on ", p->culprit);
        expect(err == PSRING_ERR_PEER && strstr(psring_err_detail(), who) != NULL &&
               strstr(psring_err_detail(), "has ended") != NULL);
        expect_ok(psring_group_failure(world, &failure));
        expect(failure.err == PSRING_ERR_PEER &&
               failure.rank == (nameless ? PSRING_NO_RANK : p->culprit));
    }
    expect(write(p->ended[1], "e", 1) == 1);
    expect(serves_on ? psring_close(&comm) == PSRING_OK : psring_close(&comm) != PSRING_ERR_USAGE);
    _exit(0);
}

static void be_well(pid_t pid)
{
    int status = 0;
    expect(waitpid(pid, &status, 0) == pid);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Over TCP the port is one that was free a moment before, below those that the kernel gives to
 * whoever asks for any: nobody gets it meanwhile. */
static void find_port(play *p)
{
    enum { LEAST = 10000, PORTS = 22000 };
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    static unsigned tried;
    int bound = -1;
    while (bound != 0) {
        const unsigned port = LEAST + ((unsigned)getpid() * 16 + tried++) % PORTS;
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        address.sin_port = htons((uint16_t)port);
        expect(fd >= 0 && tried <= PORTS);
        bound = bind(fd, (const struct sockaddr *)&address, sizeof address);
        snprintf(p->scheduler, sizeof p->scheduler, "127.0.0.1:%u", port);
        close(fd);
    }
}

/* Takes the place beside the scheduler's port at which ranks of its host would say who they are
 * (docs/wire.md, "Who lives"): then they are to it what ranks of another host are. */
static int hide_processes(const play *p)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "psring-end-%s",
                                strchr(p->scheduler, ':') + 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    expect(fd >= 0 &&
           bind(fd, (struct sockaddr *)&address,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0);
    return fd;
}

static void play_it(play p)
{
    pid_t pids[RANKS];
    char byte;
    int hidden = -1;
    ranks_folder_make(&p.folder);
    if (p.over_tcp) {
        find_port(&p);
        expect_ok(psring_key_make(RANKS, &p.key));
    }
    if (p.far)
        hidden = hide_processes(&p);
    expect(pipe(p.ready) == 0 && pipe(p.ended) == 0 && pipe(p.child) == 0);
    for (int r = 0; r < RANKS; r++) {
        pids[r] = fork();
        expect(pids[r] >= 0);
        if (pids[r] == 0)
            be_rank(&p, r);
    }
    close(p.ready[1]); /* so that a rank that fails is seen */
    close(p.ended[1]);
    for (int r = 0; r < RANKS; r++)
        expect(read(p.ready[0], &byte, 1) == 1);
    const int64_t began_ms = now_ms();
    if (p.exits)
        close(p.child[1]);
    else
        expect(kill(pids[p.culprit], SIGKILL) == 0);
    for (int r = 0; r < RANKS - 1; r++)
        expect(read(p.ended[0], &byte, 1) == 1);
    const int64_t took_ms = now_ms() - began_ms;
    print_message("# %s rank %d of %d%s%s: the others knew after %d ms, of a deadline of %d\n",
                  p.exits ? "without psring_close" : "killed", p.culprit, RANKS,
                  p.over_tcp ? ", over TCP" : "", p.far ? " as between hosts" : "", (int)took_ms,
                  (int)DEADLINE_MS);
    expect(took_ms < FAR_MS);
    for (int r = 0; r < RANKS; r++) {
        if (r != p.culprit)
            be_well(pids[r]);
        else
            expect(waitpid(pids[r], NULL, 0) == pids[r]);
    }
    close(p.ready[0]);
    close(p.ended[0]);
    close(p.child[0]);
    if (!p.exits)
        close(p.child[1]);
    if (hidden >= 0)
        close(hidden);
    psring_key_free(&p.key);
    ranks_folder_empty(&p.folder);
    ranks_folder_remove(&p.folder);
}

static void a_rank_that_is_killed_is_named_at_once(void **state)
{
    (void)state;
    play_it((play){.culprit = 2});
    play_it((play){.culprit = 2, .over_tcp = true});
    play_it((play){.culprit = 2, .apart = true});
}

static void the_rank_that_hosts_the_scheduler_is_named_at_once(void **state)
{
    (void)state;
    play_it((play){.culprit = 0});
    play_it((play){.culprit = 0, .over_tcp = true});
}

static void a_worker_and_a_shard_that_are_killed_are_named_at_once(void **state)
{
    (void)state;
    play_it((play){.culprit = 1, .shards = 1});
    play_it((play){.culprit = RANKS - 1, .shards = 2});
}

static void a_child_that_holds_the_sockets_of_the_killed_does_not_hide_it(void **state)
{
    (void)state;
    play_it((play){.culprit = 3, .has_child = true});
    play_it((play){.culprit = 0, .has_child = true});
}

static void a_rank_that_exits_without_closing_is_named_at_once(void **state)
{
    (void)state;
    play_it((play){.culprit = 1, .exits = true});
}

static void a_rank_of_another_host_that_ends_is_named_long_before_the_deadline(void **state)
{
    (void)state;
    play_it((play){.culprit = 2, .over_tcp = true, .far = true});
    play_it((play){.culprit = 1, .over_tcp = true, .far = true, .exits = true});
    play_it((play){.culprit = RANKS - 1, .shards = 1, .over_tcp = true, .far = true});
    play_it((play){.culprit = 0, .over_tcp = true, .far = true});
}

/* Ranks that close are not missed, and the others go on. */
static void close_one_by_one(psring_comm **comm, int rank, void *context)
{
    (void)context;
    psring_group *group = psring_world(*comm), *rest = NULL;
    for (int left = psring_size(group); left > 1; left--) {
        const bool stays = psring_rank(group) < left - 1;
        expect_ok(psring_group_split(group, stays ? 0 : PSRING_NO_COLOUR, 0, NULL, &rest));
        if (!stays)
            break;
        group = rest;
        for (int i = 0; i < 20; i++)
            expect_ok(psring_barrier(group, NULL, NULL));
    }
    (void)rank;
    expect_ok(psring_close(comm));
}

static void a_rank_that_closes_is_not_missed(void **state)
{
    (void)state;
    ranks_run(RANKS, close_one_by_one, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_is_killed_is_named_at_once),
        cmocka_unit_test(the_rank_that_hosts_the_scheduler_is_named_at_once),
        cmocka_unit_test(a_worker_and_a_shard_that_are_killed_are_named_at_once),
        cmocka_unit_test(a_child_that_holds_the_sockets_of_the_killed_does_not_hide_it),
        cmocka_unit_test(a_rank_that_exits_without_closing_is_named_at_once),
        cmocka_unit_test(a_rank_of_another_host_that_ends_is_named_long_before_the_deadline),
        cmocka_unit_test(a_rank_that_closes_is_not_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
