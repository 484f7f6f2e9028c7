/* A rank of `psring run` that uses libpsring: does what WHAT says and exits with 0 when all of it
 * went well. What fails is told on stderr.
 *
 *     rank sum|again|loop|broadcast|leave|abort
 *     rank table UPDATE SYNC ROUNDS: pushes rank + 1 so often to two parts, and prints what it
 *         pulls
 *     rank encode ENCODING SPOILT: sums some times in that encoding, and prints a hash of what each
 *         rank has; rank SPOILT changes one bit of it before
 *     rank keep UPDATE STEPS FILE: goes on from FILE where it is there, takes steps, and writes the
 *         table and its update's state to FILE: bytes that say nothing else */
#include "comm/psring/psring.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static psring_err sum(psring_comm *comm)
{
    psring_group *world = psring_world(comm);
    int rank = psring_rank(world), ranks = psring_size(world);
    double x = rank + 1;
    psring_err err = psring_all_reduce(world, &x, &x, 1, PSRING_FLOAT64, PSRING_SUM, NULL, NULL);
    if (err == PSRING_OK)
        printf("rank %d of %d on %s: %g\n", rank, ranks, psring_host(world, rank), x);
    return err;
}

/* Until it fails. */
static psring_err loop(psring_comm *comm)
{
    psring_group *world = psring_world(comm);
    printf("ready %d\n", psring_rank(world));
    fflush(stdout);
    for (;;) {
        psring_err err = psring_barrier(world, NULL, NULL);
        if (err != PSRING_OK)
            return err;
    }
}

/* Rank 1 goes without a word, or with one; all others wait for it. */
static psring_err without_one(psring_comm **comm, const char *line)
{
    psring_group *world = psring_world(*comm);
    if (psring_rank(world) != 1)
        return psring_barrier(world, NULL, NULL);
    if (line != NULL)
        psring_abort(comm, line);
    *comm = NULL;
    return PSRING_OK;
}

static psring_err table(psring_comm *comm, char **words)
{
    enum { VALUES = 3 };
    psring_table *table = NULL;
    psring_group *world = psring_world(comm);
    float pushed[VALUES], pulled[2][VALUES] = {{0}};
    for (int i = 0; i < VALUES; i++)
        pushed[i] = (float)(psring_rank(world) + 1);
    psring_err err = psring_table_open(
        world, "played",
        PSRING_WITH(psring_table_options, .parts = (const size_t[]){VALUES, VALUES},
                    .part_count = 2, .update = words[0], .sync = words[1]),
        NULL, &table);
    for (int round = 0; round < atoi(words[2]) && err == PSRING_OK; round++)
        for (size_t part = 0; part < 2 && err == PSRING_OK; part++)
            err = psring_push_pull(table, part, pushed, pulled[part], NULL, NULL);
    if (err == PSRING_OK)
        printf("rank %d of %d and %d: %.9g %.9g\n", psring_rank(world), psring_size(world),
               psring_shards(comm), (double)pulled[0][0], (double)pulled[1][VALUES - 1]);
    fflush(stdout);
    return err == PSRING_OK ? psring_table_close(&table, NULL) : err;
}

enum { KEPT_VALUES = 70000, KEPT_STATES_MAX = 8 };

/* A program's checkpoint: rank 0's. */
typedef struct kept {
    int64_t steps;
    uint32_t states;
    float arrays[1 + KEPT_STATES_MAX][KEPT_VALUES];
} kept;

static size_t kept_bytes(const kept *k)
{
    return sizeof *k - (KEPT_STATES_MAX - k->states) * sizeof k->arrays[0];
}

static bool load(kept *k, const char *path)
{
    FILE *file = fopen(path, "rb");
    bool whole = file == NULL;
    if (file != NULL) {
        whole = fread(k, 1, sizeof *k, file) >= offsetof(kept, arrays);
        fclose(file);
    }
    return whole;
}

static bool store(const kept *k, const char *path)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return false;
    bool whole = fwrite(k, 1, kept_bytes(k), file) == kept_bytes(k);
    return fclose(file) == 0 && whole;
}

static psring_err take_steps(psring_table *table, int rank, int64_t first, int64_t end)
{
    static float x[KEPT_VALUES];
    psring_err err = PSRING_OK;
    for (int64_t step = first; step < end && err == PSRING_OK; step++) {
        for (size_t i = 0; i < KEPT_VALUES; i++)
            x[i] = (float)(((int64_t)i * 7 + rank * 13 + step * 5) % 101 - 50) / 64;
        err = psring_push_pull(table, PSRING_ALL, x, x, NULL, NULL);
    }
    return err;
}

static psring_err keep(psring_comm *comm, char **words)
{
    static kept k;
    psring_table *table = NULL;
    psring_group *world = psring_world(comm);
    const int rank = psring_rank(world);
    if (rank == 0 && !load(&k, words[2]))
        return PSRING_ERR_IO;
    psring_err err = psring_broadcast(world, &k.steps, 1, PSRING_INT64, 0, NULL, NULL);
    if (err == PSRING_OK)
        err = psring_table_open(world, "kept",
                                PSRING_WITH(psring_table_options,
                                            .parts = (const size_t[]){1, KEPT_VALUES - 10, 9},
                                            .part_count = 3, .update = words[0],
                                            .initial = k.arrays[0], .updates = (uint64_t)k.steps),
                                NULL, &table);
    for (uint32_t s = 1; err == PSRING_OK && s <= psring_table_states(table); s++)
        err = psring_table_write(table, s, PSRING_ALL, k.arrays[s], KEPT_VALUES, NULL);
    if (err == PSRING_OK)
        err = take_steps(table, rank, k.steps, k.steps + atoi(words[1]));
    for (uint32_t s = 0; err == PSRING_OK && s <= psring_table_states(table); s++)
        err = psring_table_read(table, s, PSRING_ALL, rank == 0 ? k.arrays[s] : NULL, KEPT_VALUES,
                                NULL);
    k.steps += atoi(words[1]);
    k.states = psring_table_states(table);
    if (err == PSRING_OK && rank == 0 && !store(&k, words[2]))
        err = PSRING_ERR_IO;
    return err == PSRING_OK ? psring_table_close(&table, NULL) : err;
}

static psring_err encode(psring_comm *comm, char **words)
{
    enum { VALUES = 50021, STARTS = 3 };
    static float x[VALUES], y[VALUES];
    psring_request *request = NULL;
    psring_group *world = psring_world(comm);
    const int rank = psring_rank(world);
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    psring_err err =
        psring_all_reduce(world, x, y, VALUES, PSRING_FLOAT32, PSRING_SUM,
                          PSRING_CALL(.encoding = words[0], .persistent = true), &request);
    for (int start = 0; start < STARTS && err == PSRING_OK; start++) {
        for (size_t i = 0; i < VALUES; i++)
            x[i] = (float)((i * 31 + (size_t)rank * 17 + (size_t)start * 7) % 251) / 63 - 1;
        err = psring_start(request);
        if (err == PSRING_OK)
            err = psring_wait(request, PSRING_FOREVER);
        if (rank == atoi(words[1]))
            ((unsigned char *)y)[VALUES] ^= 1;
        for (size_t i = 0; i < sizeof y; i++)
            hash = (hash ^ ((const unsigned char *)y)[i]) * UINT64_C(0x100000001b3);
    }
    if (err == PSRING_OK)
        printf("rank %d: %016llx\n", rank, (unsigned long long)hash);
    fflush(stdout);
    psring_request_free(&request);
    return err;
}

/* Says one number to all again and again until that fails, and how much memory it has had. */
static psring_err broadcast(psring_comm *comm)
{
    psring_err err = PSRING_OK;
    struct rusage usage;
    for (double x = 0; err == PSRING_OK; x++)
        err = psring_broadcast(psring_world(comm), &x, 1, PSRING_FLOAT64, 0, NULL, NULL);
    getrusage(RUSAGE_SELF, &usage);
    printf("rank %d: at most %ld KiB\n", psring_rank(psring_world(comm)), usage.ru_maxrss);
    fflush(stdout);
    return err;
}

static psring_err play(const char *what, char **words, psring_comm **comm)
{
    if (strcmp(what, "table") == 0)
        return table(*comm, words);
    if (strcmp(what, "encode") == 0)
        return encode(*comm, words);
    if (strcmp(what, "keep") == 0)
        return keep(*comm, words);
    if (strcmp(what, "broadcast") == 0)
        return broadcast(*comm);
    if (strcmp(what, "loop") == 0)
        return loop(*comm);
    if (strcmp(what, "leave") == 0)
        return without_one(comm, NULL);
    if (strcmp(what, "abort") == 0)
        return without_one(comm, "it has had enough");
    return sum(*comm);
}

static psring_err live(const char *what, char **words)
{
    psring_comm *comm = NULL;
    psring_err err = psring_init(NULL, &comm);
    if (err == PSRING_OK)
        err = play(what, words, &comm);
    if (err != PSRING_OK)
        fprintf(stderr, "%s: %s\n", psring_err_name(err), psring_err_detail());
    if (err != PSRING_OK)
        psring_abort(&comm, psring_err_detail());
    else if (comm != NULL)
        err = psring_close(&comm);
    return err;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "sum";
    if (strcmp(what, "encode") == 0 && argc != 4)
        return 2;
    if ((strcmp(what, "table") == 0 || strcmp(what, "keep") == 0) && argc != 5)
        return 2;
    /* at a run's end it has its say, however late it gets its turn, and ends then */
    signal(SIGTERM, SIG_IGN);
    int lives = strcmp(what, "again") == 0 ? 5 : 1;
    for (int i = 0; i < lives; i++)
        if (live(what, argv + 2) != PSRING_OK)
            return 1;
    return 0;
}
