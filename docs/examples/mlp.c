/* Data parallelism by hand: the network 784-512-512-10 on MNIST. Every rank has the whole network,
 * begins with the same weights, and takes its share of each batch of 32. What the ranks' gradients
 * sum to is the gradient of the batch, so all of them make the same step, and the losses are those
 * of one process. Sums over rows and ranks are double: each number of ranks adds in another order,
 * and the rounding of floats would pull the losses apart by 1e-5 within a hundred steps. Build and
 * run:
 *   cc -O3 mlp.c -o mlp $(pkg-config --cflags --libs psring) -lz -lm &&
 *     ./run_ranks 4 ./mlp MNIST-FOLDER [STEPS] */
#include <math.h>
#include <psring/psring.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

enum { LAYERS = 3, PIXELS = 784, HIDDEN = 512, CLASSES = 10, BATCH = 32, IMAGES = 60000 };
enum { EPOCH = IMAGES / BATCH, PRINT_EVERY = 20 }; /* steps */

/* Of the data set, over all pixels divided by 255. */
static const float PIXEL_MEAN = 0.1307F, PIXEL_DEVIATION = 0.3081F;
static const double LEARNING_RATE = 1e-2;

typedef struct layer {
    int inputs, outputs;
    float *weights;    /* [inputs + 1][outputs]: the last row is the bias */
    double *gradients; /* the same, of the sum over ranks once `reduced` has ended */
    float *values;     /* [BATCH][outputs]: what the layer makes of its input */
    float *value_grad; /* [BATCH][outputs]: the loss's gradient by values */
    psring_request *reduced;
} layer;

typedef struct trainer {
    layer layers[LAYERS];
    uint8_t *pixels; /* [images][PIXELS] */
    uint8_t *labels; /* [images] */
    int steps;
    float x[BATCH * PIXELS]; /* of the batch that is trained: all of it on every rank */
    double loss;             /* of this rank's share; of the sum over
                                ranks once `loss_reduced` has ended */
    psring_request *loss_reduced;
} trainer;

/* ---- reading: IDX files, packed by gzip or not. NULL and a line on stderr when one is not what it
 * should be ---- */

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static gzFile open_idx(const char *folder, const char *name)
{
    static const char *const endings[] = {"", ".gz"};
    gzFile file = NULL;
    for (int i = 0; i < 2 && file == NULL; i++) {
        char path[4096];
        if (snprintf(path, sizeof path, "%s/%s%s", folder, name, endings[i]) < (int)sizeof path)
            file = gzopen(path, "rb");
    }
    return file;
}

/* The first `count` items of item_bytes each. magic: the kind of file; its low byte is how many
 * sizes follow. */
static uint8_t *read_idx(const char *folder, const char *name, uint32_t magic, int count,
                         int item_bytes)
{
    gzFile file = open_idx(folder, name);
    uint8_t *items = malloc((size_t)count * (size_t)item_bytes);
    uint8_t head[16];
    int head_bytes = 4 + 4 * (int)(magic & 0xff);
    bool good = file != NULL && items != NULL &&
                gzread(file, head, (unsigned)head_bytes) == head_bytes &&
                big_endian(head) == magic && big_endian(head + 4) == IMAGES;
    if (good && head_bytes == 16)
        good = big_endian(head + 8) == 28 && big_endian(head + 12) == 28;
    good = good && gzread(file, items, (unsigned)(count * item_bytes)) == count * item_bytes;
    if (file != NULL)
        gzclose(file);
    if (good)
        return items;
    fprintf(stderr, "%s/%s: cannot be read, or is not MNIST's\n", folder, name);
    free(items);
    return NULL;
}

/* ---- the network ---- */

/* From -1 to 1; the same numbers on every rank. */
static float uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (float)(*state >> 40) / (float)(1 << 23) - 1;
}

static size_t weight_count(const layer *l)
{
    return (size_t)(l->inputs + 1) * (size_t)l->outputs;
}

static bool make_layer(layer *l, int inputs, int outputs, uint64_t *random)
{
    *l = (layer){.inputs = inputs, .outputs = outputs};
    l->weights = calloc(weight_count(l), sizeof(float));
    l->gradients = calloc(weight_count(l), sizeof(double));
    l->values = calloc((size_t)(BATCH * outputs), sizeof(float));
    l->value_grad = calloc((size_t)(BATCH * outputs), sizeof(float));
    if (l->weights == NULL || l->gradients == NULL || l->values == NULL || l->value_grad == NULL)
        return false;
    for (size_t i = 0; i < (size_t)inputs * (size_t)outputs; i++) /* the bias begins with zeros */
        l->weights[i] = uniform(random) / sqrtf((float)inputs);
    return true;
}

/* to += factor * from */
static void add_scaled(float *to, float factor, const float *from, int count)
{
    for (int i = 0; i < count; i++)
        to[i] += factor * from[i];
}

/* values = x weights + bias; ReLU but in the last layer. */
static void forward(layer *l, const float *x, int rows, bool relu)
{
    for (int r = 0; r < rows; r++) {
        float *y = l->values + r * l->outputs;
        for (int j = 0; j < l->outputs; j++)
            y[j] = l->weights[l->inputs * l->outputs + j];
        for (int k = 0; k < l->inputs; k++)
            add_scaled(y, x[r * l->inputs + k], l->weights + k * l->outputs, l->outputs);
        for (int j = 0; relu && j < l->outputs; j++)
            y[j] = y[j] > 0 ? y[j] : 0;
    }
}

/* The mean softmax cross entropy of the rows, and in value_grad its gradient by the values. */
static double cross_entropy(layer *last, const uint8_t *labels, int rows)
{
    double loss = 0;
    for (int r = 0; r < rows; r++) {
        const float *y = last->values + r * CLASSES;
        float largest = y[0];
        for (int j = 1; j < CLASSES; j++)
            largest = fmaxf(largest, y[j]);
        double sum = 0;
        for (int j = 0; j < CLASSES; j++)
            sum += exp(y[j] - largest);
        loss += log(sum) - (y[labels[r]] - largest);
        for (int j = 0; j < CLASSES; j++)
            last->value_grad[r * CLASSES + j] =
                (float)((exp(y[j] - largest) / sum - (j == labels[r])) / rows);
    }
    return loss / rows;
}

/* gradients += those of one row by one input, a row of weights. */
static void add_product(double *gradients, double x, const float *value_grad, int count)
{
    for (int j = 0; j < count; j++)
        gradients[j] += x * value_grad[j];
}

/* gradients = those of weights and bias, from value_grad. */
static void weight_gradients(layer *l, const float *x, int rows)
{
    for (size_t i = 0; i < weight_count(l); i++)
        l->gradients[i] = 0;
    for (int r = 0; r < rows; r++) {
        const float *dy = l->value_grad + r * l->outputs;
        for (int k = 0; k < l->inputs; k++)
            add_product(l->gradients + k * l->outputs, x[r * l->inputs + k], dy, l->outputs);
        add_product(l->gradients + l->inputs * l->outputs, 1, dy, l->outputs);
    }
}

/* below->value_grad, through the ReLU: a value of 0 passes no gradient on. */
static void gradients_below(const layer *l, layer *below, int rows)
{
    for (int r = 0; r < rows; r++)
        for (int k = 0; k < l->inputs; k++) {
            float sum = 0;
            for (int j = 0; j < l->outputs; j++)
                sum += l->value_grad[r * l->outputs + j] * l->weights[k * l->outputs + j];
            below->value_grad[r * l->inputs + k] = below->values[r * l->inputs + k] > 0 ? sum : 0;
        }
}

/* ---- training ---- */

/* Requests that every step starts again: made once, in the same order on all ranks. */
static psring_err make_requests(trainer *t, psring_group *world)
{
    const psring_call *persistent = PSRING_CALL(.persistent = true);
    psring_err err = psring_all_reduce(world, &t->loss, &t->loss, 1, PSRING_FLOAT64, PSRING_SUM,
                                       persistent, &t->loss_reduced);
    for (layer *l = t->layers; err == PSRING_OK && l < t->layers + LAYERS; l++)
        err = psring_all_reduce(world, l->gradients, l->gradients, weight_count(l), PSRING_FLOAT64,
                                PSRING_SUM, persistent, &l->reduced);
    return err;
}

/* From the last layer to the first. The sum of a layer's gradients is under way while the layer
 * below computes its own. */
static psring_err backward(trainer *t, const float *x, int rows)
{
    psring_err err = PSRING_OK;
    for (int i = LAYERS - 1; err == PSRING_OK && i >= 0; i--) {
        layer *l = &t->layers[i];
        weight_gradients(l, i > 0 ? t->layers[i - 1].values : x, rows);
        err = psring_start(l->reduced);
        if (i > 0)
            gradients_below(l, &t->layers[i - 1], rows);
    }
    return err;
}

/* Waits for each layer's sum, and moves its weights. The gradient of the batch is the mean of the
 * ranks' ones. */
static psring_err update(trainer *t, int ranks)
{
    psring_err err = PSRING_OK;
    for (int i = LAYERS - 1; err == PSRING_OK && i >= 0; i--) {
        layer *l = &t->layers[i];
        err = psring_wait(l->reduced, PSRING_FOREVER);
        for (size_t w = 0; err == PSRING_OK && w < weight_count(l); w++)
            l->weights[w] -= (float)(LEARNING_RATE * (l->gradients[w] / ranks));
    }
    return err;
}

static psring_err train_step(trainer *t, int step, int rank, int ranks)
{
    int first = step % EPOCH * BATCH; /* image of the batch */
    for (int i = 0; i < BATCH * PIXELS; i++)
        t->x[i] = ((float)t->pixels[first * PIXELS + i] / 255 - PIXEL_MEAN) / PIXEL_DEVIATION;

    int share = BATCH / ranks;
    const float *x = &t->x[rank * share * PIXELS];
    const uint8_t *labels = &t->labels[first + rank * share];
    for (int i = 0; i < LAYERS; i++)
        forward(&t->layers[i], i > 0 ? t->layers[i - 1].values : x, share, i < LAYERS - 1);
    t->loss = cross_entropy(&t->layers[LAYERS - 1], labels, share);
    psring_err err = psring_start(t->loss_reduced);
    if (err == PSRING_OK)
        err = backward(t, x, share);
    if (err == PSRING_OK)
        err = update(t, ranks);
    if (err == PSRING_OK)
        err = psring_wait(t->loss_reduced, PSRING_FOREVER);
    return err;
}

static psring_err train(trainer *t, psring_group *world)
{
    int rank = psring_rank(world), ranks = psring_size(world);
    psring_err err = make_requests(t, world);
    for (int step = 0; err == PSRING_OK && step < t->steps; step++) {
        err = train_step(t, step, rank, ranks);
        if (err == PSRING_OK && (step + 1) % PRINT_EVERY == 0)
            printf("epoch: %d step: %d, loss is %.16g\n", step / EPOCH + 1, step % EPOCH + 1,
                   t->loss / ranks);
    }
    return err;
}

/* ---- the program ---- */

static bool prepare(trainer *t, const char *folder, const char *steps)
{
    char *end = NULL;
    long wanted = steps != NULL ? strtol(steps, &end, 10) : EPOCH;
    if (wanted < 1 || wanted > 1000000 || (end != NULL && *end != '\0')) {
        fprintf(stderr, "%s: should be a number of steps\n", steps);
        return false;
    }
    t->steps = (int)wanted;
    int images = BATCH * (t->steps < EPOCH ? t->steps : EPOCH);
    t->pixels = read_idx(folder, "train-images-idx3-ubyte", 0x803, images, PIXELS);
    t->labels = read_idx(folder, "train-labels-idx1-ubyte", 0x801, images, 1);
    if (t->pixels == NULL || t->labels == NULL)
        return false;
    for (int i = 0; i < images; i++)
        if (t->labels[i] >= CLASSES) {
            fprintf(stderr, "%s: image %d has the label %d\n", folder, i, t->labels[i]);
            return false;
        }
    uint64_t random = 1;
    return make_layer(&t->layers[0], PIXELS, HIDDEN, &random) &&
           make_layer(&t->layers[1], HIDDEN, HIDDEN, &random) &&
           make_layer(&t->layers[2], HIDDEN, CLASSES, &random);
}

static bool join_and_train(trainer *t)
{
    psring_comm *comm = NULL;
    psring_err err = psring_init(NULL, &comm);
    bool equal_shares = err == PSRING_OK && BATCH % psring_size(psring_world(comm)) == 0;
    if (equal_shares)
        err = train(t, psring_world(comm));
    else if (err == PSRING_OK)
        fprintf(stderr, "%d ranks cannot share a batch of %d\n", psring_size(psring_world(comm)),
                BATCH);
    if (err == PSRING_OK)
        err = psring_close(&comm); /* frees the requests too */
    if (err != PSRING_OK) {
        fprintf(stderr, "%s: %s\n", psring_err_name(err), psring_err_detail());
        psring_abort(&comm, psring_err_detail()); /* the others learn why at once */
    }
    return err == PSRING_OK && equal_shares; /* what was lent is the caller's again */
}

static void free_trainer(trainer *t)
{
    if (t == NULL)
        return;
    for (layer *l = t->layers; l < t->layers + LAYERS; l++) {
        free(l->weights);
        free(l->gradients);
        free(l->values);
        free(l->value_grad);
    }
    free(t->pixels);
    free(t->labels);
    free(t);
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "mlp MNIST-FOLDER [STEPS]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* a loss is in its file when it is known */
    trainer *t = calloc(1, sizeof *t);
    bool trained = false;
    if (t != NULL && prepare(t, argv[1], argv[2]))
        trained = join_and_train(t);
    free_trainer(t);
    return !trained;
}
