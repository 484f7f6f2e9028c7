/* lost_ranks [all] DEADLINE-MS [within]: kills and stops a rank in each operation of libpsring, and
 * says what the others saw and when.
 *
 * Each case has four processes of its own, which repeat one operation until it fails; one is sent
 * SIGKILL or SIGSTOP in the middle of that. Every other rank's call must fail with PEER, and name
 * it. A case waits for a deadline much more than it works, so several are played at a time. Without
 * "all" each operation is played twice: a rank is killed, and one of another role (root or not;
 * another rank where there is no root) is stopped. With "within" a rank that is told after three
 * quarters of the deadline has failed too: that needs a machine that gives every process its turn.
 * TAP, and a table in its comments. */
#include "tests/unit/psring/ranks.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 4, VALUES = 40000, AT_A_TIME = 13, CALLS_BEFORE = 3, TAG = 7 };
enum {
    HEIGHT = 50,
    WIDTH = 200,
    /* of a tile, which has room in x, and with its halo in y */
    EDGE = 2
};

/* ---- the operations: x and y have VALUES values ---- */

typedef psring_err operation(psring_group *world, int root, float *x, float *y);

static psring_err all_reduce(psring_group *world, int root, float *x, float *y)
{
    (void)root;
    return psring_all_reduce(world, x, y, VALUES, PSRING_FLOAT32, PSRING_MAXIMUM, NULL, NULL);
}

static psring_err reduce(psring_group *world, int root, float *x, float *y)
{
    return psring_reduce(world, x, y, VALUES, PSRING_FLOAT32, PSRING_MAXIMUM, root, NULL, NULL);
}

static psring_err reduce_scatter(psring_group *world, int root, float *x, float *y)
{
    (void)root;
    return psring_reduce_scatter(world, x, y, VALUES / RANKS, PSRING_FLOAT32, PSRING_MAXIMUM, NULL,
                                 NULL);
}

static psring_err all_gather(psring_group *world, int root, float *x, float *y)
{
    (void)root;
    return psring_all_gather(world, x, y, VALUES / RANKS, PSRING_FLOAT32, NULL, NULL);
}

static psring_err broadcast(psring_group *world, int root, float *x, float *y)
{
    (void)y;
    return psring_broadcast(world, x, VALUES, PSRING_FLOAT32, root, NULL, NULL);
}

static psring_err gather(psring_group *world, int root, float *x, float *y)
{
    return psring_gather(world, x, y, VALUES / RANKS, PSRING_FLOAT32, root, NULL, NULL);
}

static psring_err scatter(psring_group *world, int root, float *x, float *y)
{
    return psring_scatter(world, x, y, VALUES / RANKS, PSRING_FLOAT32, root, NULL, NULL);
}

static psring_err all_to_all(psring_group *world, int root, float *x, float *y)
{
    (void)root;
    return psring_all_to_all(world, x, y, VALUES / RANKS, PSRING_FLOAT32, NULL, NULL);
}

/* A rank sends r times as much to rank r as to rank 1, and nothing to rank 0. */
static psring_err all_to_all_v(psring_group *world, int root, float *x, float *y)
{
    size_t to[RANKS], from[RANKS];
    (void)root;
    for (int r = 0; r < RANKS; r++) {
        to[r] = (size_t)r * 1000;
        from[r] = (size_t)psring_rank(world) * 1000;
    }
    return psring_all_to_all_v(world, x, to, y, from, PSRING_FLOAT32, NULL, NULL);
}

static psring_err barrier(psring_group *world, int root, float *x, float *y)
{
    (void)root, (void)x, (void)y;
    return psring_barrier(world, NULL, NULL);
}

/* The root sends, and all others receive. */
static psring_err send_receive(psring_group *world, int root, float *x, float *y)
{
    psring_err err = PSRING_OK;
    if (psring_rank(world) != root)
        return psring_receive(world, y, VALUES, PSRING_FLOAT32, root, TAG, NULL, NULL);
    for (int r = 0; r < RANKS && err == PSRING_OK; r++)
        if (r != root)
            err = psring_send(world, x, VALUES, PSRING_FLOAT32, r, TAG, NULL, NULL);
    return err;
}

static psring_err neighbor_exchange(psring_group *world, int root, float *x, float *y)
{
    psring_block send[2], receive[2];
    const int rank = psring_rank(world),
              sides[2] = {(rank + 1) % RANKS, (rank + RANKS - 1) % RANKS};
    (void)root;
    for (int i = 0; i < 2; i++) {
        send[i] = (psring_block){.rank = sides[i], .data = x, .shape = {1, 1, 1, VALUES / 2}};
        receive[i] = (psring_block){
            .rank = sides[1 - i], .data = y + i * (VALUES / 2), .shape = {1, 1, 1, VALUES / 2}};
    }
    return psring_neighbor_exchange(world, send, 2, receive, 2, PSRING_FLOAT32, NULL, NULL);
}

/* Tiles side by side, round a cylinder. */
static psring_err halo_exchange(psring_group *world, int root, float *x, float *y)
{
    psring_halo halo = {.size = sizeof halo,
                        .shape = {1, 1, HEIGHT, WIDTH},
                        .send_lengths = {0, 0, EDGE, EDGE},
                        .receive_lengths = {0, 0, EDGE, EDGE}};
    const int rank = psring_rank(world);
    (void)root;
    for (int direction = 0; direction < 8; direction++)
        halo.send_ranks[direction] = halo.receive_ranks[direction] = PSRING_NO_RANK;
    halo.send_ranks[PSRING_RIGHT] = halo.receive_ranks[PSRING_RIGHT] = (rank + 1) % RANKS;
    halo.send_ranks[PSRING_LEFT] = halo.receive_ranks[PSRING_LEFT] = (rank + RANKS - 1) % RANKS;
    return psring_halo_exchange(world, &halo, x, y, PSRING_FLOAT32, NULL, NULL);
}

static const struct {
    const char *name;
    operation *call;
    bool has_root; /* or one that sends to all others */
} operations[] = {
    {"all_reduce", all_reduce, false},
    {"reduce", reduce, true},
    {"reduce_scatter", reduce_scatter, false},
    {"all_gather", all_gather, false},
    {"broadcast", broadcast, true},
    {"gather", gather, true},
    {"scatter", scatter, true},
    {"all_to_all", all_to_all, false},
    {"all_to_all_v", all_to_all_v, false},
    {"barrier", barrier, false},
    {"send, receive", send_receive, true},
    {"neighbor_exchange", neighbor_exchange, false},
    {"halo_exchange", halo_exchange, false},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0], CASES = 4 * OPERATIONS + 1 };

/* ---- a case ---- */

typedef struct one_case {
    size_t operation;
    int victim, root, signal;
} one_case;

/* What a rank saw. */
typedef struct seen {
    double at_s;
    psring_err err;
    int named;
    char line[256];
} seen;

typedef struct result {
    double lost_s;
    seen by[RANKS];
} result;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One whose parent ends ends too, stopped or not. */
static pid_t fork_child(void)
{
    fflush(stdout);
    pid_t pid = fork();
    expect(pid >= 0);
    if (pid == 0)
        expect(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    return pid;
}

static void write_all(int fd, const void *data, size_t bytes)
{
    expect(write(fd, data, bytes) == (ssize_t)bytes); /* less than a pipe holds at once */
}

static void read_all(int fd, void *data, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        ssize_t more = read(fd, (char *)data + got, bytes - got);
        expect(more > 0);
        got += (size_t)more;
    }
}

/* Calls until it fails; says so when it has called a few times, and what it saw. */
static void be_rank(const one_case *c, const ranks_folder *folder, int rank, int64_t deadline_ms,
                    int to)
{
    static float x[VALUES], y[VALUES];
    psring_comm *comm = NULL;
    const psring_options options = ranks_options(folder, RANKS, rank, deadline_ms);
    psring_err err = psring_init(&options, &comm);
    expect_ok(err);
    psring_group *world = psring_world(comm);
    for (int calls = 0; err == PSRING_OK; calls++) {
        if (calls == CALLS_BEFORE)
            write_all(to, "r", 1);
        err = operations[c->operation].call(world, c->root, x, y);
    }
    seen saw = {.at_s = now_s(), .err = err, .named = PSRING_NO_RANK};
    psring_failure failure = {.size = sizeof failure};
    snprintf(saw.line, sizeof saw.line, "%.255s", psring_err_detail());
    if (psring_group_failure(world, &failure) == PSRING_OK)
        saw.named = failure.rank;
    write_all(to, &saw, sizeof saw);
    expect_ok(psring_close(&comm));
    _exit(0);
}

/* In a process of its own. */
static void play(const one_case *c, int64_t deadline_ms, int to)
{
    ranks_folder folder;
    pid_t pids[RANKS];
    int from[RANKS][2], status = 0;
    char ready;
    result found = {0};
    ranks_folder_make(&folder);
    for (int r = 0; r < RANKS; r++) {
        expect(pipe(from[r]) == 0);
        pids[r] = fork_child();
        if (pids[r] == 0)
            be_rank(c, &folder, r, deadline_ms, from[r][1]);
        close(from[r][1]);
    }
    for (int r = 0; r < RANKS; r++)
        read_all(from[r][0], &ready, 1);
    found.lost_s = now_s();
    expect(kill(pids[c->victim], c->signal) == 0);
    for (int r = 0; r < RANKS; r++)
        if (r != c->victim)
            read_all(from[r][0], &found.by[r], sizeof found.by[r]);
    expect(kill(pids[c->victim], SIGKILL) == 0);
    for (int r = 0; r < RANKS; r++) {
        expect(waitpid(pids[r], &status, 0) == pids[r]);
        expect(r == c->victim ? WIFSIGNALED(status)
                              : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    ranks_folder_empty(&folder); /* of the victim's sockets */
    ranks_folder_remove(&folder);
    write_all(to, &found, sizeof found);
    _exit(0);
}

/* ---- all cases ---- */

typedef struct played {
    one_case c;
    pid_t pid;
    int from;
} played;

static played begin(const one_case *c, int64_t deadline_ms)
{
    int ends[2];
    expect(pipe(ends) == 0);
    played p = {.c = *c, .pid = fork_child(), .from = ends[0]};
    if (p.pid == 0)
        play(c, deadline_ms, ends[1]);
    close(ends[1]);
    return p;
}

static bool names(const seen *saw, int victim)
{
    char name[32];
    snprintf(name, sizeof name, "rank %d", victim);
    return saw->err == PSRING_ERR_PEER && saw->named == victim && strstr(saw->line, name) != NULL;
}

static const char *role(const one_case *c)
{
    return !operations[c->operation].has_root ? ""
           : c->root == c->victim             ? ", the root"
                                              : ", not the root";
}

static const char *signal_name(const one_case *c)
{
    return c->signal == SIGKILL ? "SIGKILL" : "SIGSTOP";
}

/* Whether all saw what they should. Prints the row of the table. */
static bool end(const played *p, double within_s)
{
    result found = {0};
    int status = 0;
    bool good = read(p->from, &found, sizeof found) == sizeof found;
    close(p->from);
    expect(waitpid(p->pid, &status, 0) == p->pid);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("# %-18s rank %d%-14s %-8s", operations[p->c.operation].name, p->c.victim, role(&p->c),
           signal_name(&p->c));
    for (int r = 0; r < RANKS && good; r++) {
        double after_s = found.by[r].at_s - found.lost_s;
        if (r == p->c.victim) {
            printf("      -  ");
            continue;
        }
        printf(" %6.2f s", after_s);
        good = names(&found.by[r], p->c.victim) && (within_s <= 0 || after_s <= within_s);
        if (!good)
            printf(" <- rank %d: %s: %s", r, psring_err_name(found.by[r].err), found.by[r].line);
    }
    printf("\n");
    return good;
}

/* Of four for each operation, and the last one: rank 0, which hosts the scheduler, is stopped.
 * true: this one is played. */
static bool choose(size_t number, bool all, one_case *ret_case)
{
    const size_t signal = number % 2, role = number / 2 % 2, chosen = number / 4;
    if (chosen == OPERATIONS) {
        *ret_case = (one_case){.root = 0, .victim = 0, .signal = SIGSTOP};
        return true;
    }
    *ret_case = (one_case){
        .operation = chosen, .victim = 2, .root = 2, .signal = signal == 0 ? SIGKILL : SIGSTOP};
    if (role == 1 && operations[chosen].has_root)
        ret_case->root = 1;
    else if (role == 1)
        ret_case->victim = 3;
    return all || (signal ^ role) == chosen % 2;
}

int main(int argc, char **argv)
{
    bool all = argc > 1 && strcmp(argv[1], "all") == 0,
         within = strcmp(argv[argc - 1], "within") == 0;
    const char *text = argc > 1 + all ? argv[1 + all] : "";
    char *rest = NULL;
    const int64_t deadline_ms = strtol(text, &rest, 10);
    if (deadline_ms <= 0 || *rest != '\0' || argc != 2 + all + within) {
        fprintf(stderr, "usage: lost_ranks [all] DEADLINE-MS [within]\n");
        return 2;
    }
    played under_way[AT_A_TIME];
    size_t begun = 0, ended = 0;
    int failed = 0;
    one_case c;
    printf("# times are from the signal to the end of the call, with a deadline of %.1f s\n",
           (double)deadline_ms / 1000);
    printf("# %-18s %-20s %-8s %8s %8s %8s %8s\n", "operation", "lost", "by", "rank 0", "rank 1",
           "rank 2", "rank 3");
    for (size_t number = 0; number < CASES || ended < begun;) {
        bool more = number < CASES;
        if (more && begun - ended < AT_A_TIME) {
            if (choose(number++, all, &c))
                under_way[begun++ % AT_A_TIME] = begin(&c, deadline_ms);
            continue;
        }
        const played *first = &under_way[ended++ % AT_A_TIME];
        bool good = end(first, within ? 0.75e-3 * (double)deadline_ms : 0);
        failed += !good;
        printf("%s %zu - %s: %s of rank %d%s is seen by all others, who name it\n",
               good ? "ok" : "not ok", ended, operations[first->c.operation].name,
               signal_name(&first->c), first->c.victim, role(&first->c));
        fflush(stdout);
    }
    printf("1..%zu\n", ended);
    return failed > 0;
}
