/* A sum over all ranks: the whole program. Build and run:
 *   cc allreduce.c -o allreduce $(pkg-config --cflags --libs psring) &&
 *     ./run_ranks 4 ./allreduce */
#include <psring/psring.h>
#include <stdio.h>

int main(void)
{
    psring_comm *comm = NULL;
    psring_err err = psring_init(NULL, &comm); /* rank, ranks, scheduler and key
                                                  file from the environment */
    if (err == PSRING_OK) {
        psring_group *world = psring_world(comm);
        float x[1000];
        for (int i = 0; i < 1000; i++)
            x[i] = (float)(i + psring_rank(world));
        err = psring_all_reduce(world, x, x, 1000, PSRING_FLOAT32, PSRING_SUM, NULL, NULL);
        if (err == PSRING_OK && psring_rank(world) == 0)
            printf("%d ranks: the sum of x[1] is %g\n", psring_size(world), x[1]);
    }
    if (err == PSRING_OK)
        err = psring_close(&comm);
    if (err != PSRING_OK) {
        fprintf(stderr, "%s: %s\n", psring_err_name(err), psring_err_detail());
        psring_abort(&comm, psring_err_detail()); /* the others learn why at once */
    }
    return err != PSRING_OK;
}
