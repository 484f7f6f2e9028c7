/* A program for shards that psring-ps serves: SGD on a table, with a rate that falls. Prints the
 * values at the end. All else is in the environment. */
#include <psring/psring.h>
#include <stdio.h>

enum { VALUES = 3, STEPS = 4 };

static psring_err train(psring_group *world)
{
    const size_t parts[] = {VALUES};
    float pushed[VALUES] = {1, 2, 3}, values[VALUES];
    psring_table *table = NULL;
    psring_err err =
        psring_table_open(world, "weights",
                          PSRING_WITH(psring_table_options, .parts = parts, .part_count = 1,
                                      .update = "sgd lr=1", .fold = PSRING_MEAN),
                          NULL, &table);
    if (err == PSRING_OK)
        err = psring_table_set(table, "lr=0.25", 3, NULL);
    for (int step = 0; step < STEPS && err == PSRING_OK; step++)
        err = psring_push_pull(table, 0, pushed, values, NULL, NULL);
    if (err == PSRING_OK)
        printf("%g %g %g\n", (double)values[0], (double)values[1], (double)values[2]);
    if (err == PSRING_OK)
        err = psring_table_close(&table, NULL);
    return err;
}

int main(void)
{
    psring_comm *comm = NULL;
    psring_err err = psring_init(NULL, &comm);
    if (err == PSRING_OK)
        err = train(psring_world(comm));
    if (err == PSRING_OK)
        err = psring_close(&comm);
    if (err == PSRING_OK)
        return 0;
    fprintf(stderr, "%s: %s\n", psring_err_name(err), psring_err_detail());
    psring_abort(&comm, psring_err_detail());
    return 1;
}
