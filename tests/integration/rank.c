/* A rank of `psring run` that uses libpsring: does what WHAT says and exits with 0 when all of it went well. What fails is told on stderr.
 *
 *     rank sum|again|loop|leave|abort */
#include "comm/psring/psring.h"

#include <stdio.h>
#include <string.h>

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

static psring_err play(const char *what, psring_comm **comm)
{
    if (strcmp(what, "loop") == 0)
        return loop(*comm);
    if (strcmp(what, "leave") == 0)
        return without_one(comm, NULL);
    if (strcmp(what, "abort") == 0)
        return without_one(comm, "it has had enough");
    return sum(*comm);
}

static psring_err live(const char *what)
{
    psring_comm *comm = NULL;
    psring_err err = psring_init(NULL, &comm);
    if (err == PSRING_OK)
        err = play(what, &comm);
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
    int lives = strcmp(what, "again") == 0 ? 5 : 1;
    for (int i = 0; i < lives; i++)
        if (live(what) != PSRING_OK)
            return 1;
    return 0;
}
