/* A parameter server of one's own: softmax regression on MNIST. The last ranks hold the weights in
 * a table and step down by an update that this program brings, the others push gradients of their
 * share of each batch and pull new weights, in step (bsp) or each at its own pace (ssp:K, async).
 * In bsp the losses have the same bits with any number of shards. Build and run, with 2 workers and
 * 1 shard:
 *   cc -O3 parameter_server.c -o parameter_server $(pkg-config --cflags --libs psring) -lz -lm
 *   psring run -n 3 -- ./parameter_server MNIST-FOLDER bsp 1 [STEPS] */
#include <math.h>
#include <psring/psring.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { PIXELS = 784, CLASSES = 10, BATCH = 32, EPOCH = 60000 / BATCH, PRINT_EVERY = 20 };
enum { WEIGHTS, BIAS, PARTS };
static const size_t parts[PARTS] = {CLASSES * PIXELS, CLASSES};
static unsigned char pixels[EPOCH * BATCH][PIXELS], labels[EPOCH * BATCH];
static float weights[CLASSES][PIXELS], bias[CLASSES], by_weights[CLASSES][PIXELS], by_bias[CLASSES];

/* IDX, packed by gzip or not; the images begin behind a head of so many bytes. */
static int read_idx(const char *folder, const char *name, unsigned head, void *items,
                    unsigned bytes)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.gz", folder, name);
    gzFile file = gzopen(path, "rb");
    if (file == NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, name);
        file = gzopen(path, "rb");
    }
    int good = file != NULL && gzread(file, items, head) == (int)head &&
               gzread(file, items, bytes) == (int)bytes;
    if (file != NULL)
        gzclose(file);
    if (!good)
        fprintf(stderr, "%s cannot be read\n", path);
    return good;
}

/* One sample's share of the batch's mean loss; adds its share of the gradients. */
static double sample(int i)
{
    double y[CLASSES], sum = 0, largest = -INFINITY;
    for (int c = 0; c < CLASSES; c++) {
        y[c] = bias[c];
        for (int p = 0; p < PIXELS; p++)
            y[c] += weights[c][p] * (float)pixels[i][p] / 255;
        largest = fmax(largest, y[c]);
    }
    for (int c = 0; c < CLASSES; c++)
        sum += exp(y[c] - largest);
    for (int c = 0; c < CLASSES; c++) {
        float by_y = (float)((exp(y[c] - largest) / sum - (c == labels[i])) / BATCH);
        by_bias[c] += by_y;
        for (int p = 0; p < PIXELS; p++)
            by_weights[c][p] += by_y * (float)pixels[i][p] / 255;
    }
    return (log(sum) + largest - y[labels[i] % CLASSES]) / BATCH;
}

/* What the shards do with what is pushed. */
static psring_err descend(void *context, const psring_update_run *run)
{
    const float rate = *(const float *)context;
    for (size_t i = 0; i < run->count; i++)
        run->values[i] -= rate * run->pushed[i];
    return PSRING_OK;
}

static psring_err serve(psring_comm *comm)
{
    static float rate = 0.1F;
    psring_err err = psring_update_define(
        comm, "descend", PSRING_WITH(psring_update, .context = &rate, .apply = descend));
    return err == PSRING_OK ? psring_serve(comm) : err;
}

static psring_err step(psring_table *table, int first, int share, double *ret_loss)
{
    void *values[PARTS] = {weights, bias}, *gradients[PARTS] = {by_weights, by_bias};
    double loss = 0;
    psring_err err = PSRING_OK;
    for (int c = 0; c < CLASSES; c++) {
        by_bias[c] = 0;
        for (int p = 0; p < PIXELS; p++)
            by_weights[c][p] = 0;
    }
    for (int i = 0; i < share; i++)
        loss += sample(first + i);
    for (size_t part = 0; part < PARTS && err == PSRING_OK; part++)
        err = psring_push_pull(table, part, gradients[part], values[part], NULL, NULL);
    *ret_loss = loss;
    return err;
}

static psring_err train(psring_group *workers, const char *sync, int steps)
{
    const int share = BATCH / psring_size(workers), rank = psring_rank(workers);
    psring_table *table = NULL;
    psring_err err =
        psring_table_open(workers, "softmax",
                          PSRING_WITH(psring_table_options, .parts = parts, .part_count = PARTS,
                                      .update = "descend", .sync = sync),
                          NULL, &table);
    for (int s = 0; s < steps && err == PSRING_OK; s++) {
        double loss = 0;
        err = step(table, s % EPOCH * BATCH + rank * share, share, &loss);
        if (err != PSRING_OK || (s + 1) % PRINT_EVERY != 0)
            continue;
        err = psring_all_reduce(workers, &loss, &loss, 1, PSRING_FLOAT64, PSRING_SUM, NULL, NULL);
        if (err == PSRING_OK && rank == 0)
            printf("epoch: %d step: %d, loss is %.16g\n", s / EPOCH + 1, s + 1, loss);
    }
    return err == PSRING_OK ? psring_table_close(&table, NULL) : err;
}

static psring_err run(psring_comm *comm, char **argv, int steps)
{
    psring_group *world = psring_world(comm);
    if (psring_is_shard(comm))
        return serve(comm);
    if (BATCH % psring_size(world) != 0)
        fprintf(stderr, "%d workers cannot share a batch of %d\n", psring_size(world), BATCH);
    if (BATCH % psring_size(world) != 0 ||
        !read_idx(argv[1], "train-images-idx3-ubyte", 16, pixels, sizeof pixels) ||
        !read_idx(argv[1], "train-labels-idx1-ubyte", 8, labels, sizeof labels))
        return PSRING_ERR_USAGE;
    return train(world, argv[2], steps);
}

int main(int argc, char **argv)
{
    psring_comm *comm = NULL;
    psring_options options = {.size = sizeof options};
    if (argc < 4) {
        fprintf(stderr, "usage: parameter_server MNIST-FOLDER bsp|ssp:K|async SHARDS [STEPS]\n");
        return 2;
    }
    options.shards = atoi(argv[3]); /* all else is in the environment */
    psring_err err = psring_init(&options, &comm);
    if (err == PSRING_OK)
        err = run(comm, argv, argc > 4 ? atoi(argv[4]) : EPOCH);
    if (err == PSRING_OK)
        err = psring_close(&comm);
    if (err != PSRING_OK) {
        fprintf(stderr, "%s: %s\n", psring_err_name(err), psring_err_detail());
        psring_abort(&comm, psring_err_detail());
    }
    return err != PSRING_OK;
}
