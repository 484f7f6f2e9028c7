#include "bench/predict/costs.h"

#include "base/arrays/arena.h"
#include "base/arrays/fold.h"
#include "base/system/child.h"
#include "base/text/json_fields.h"
#include "model/optimizers/optimizer.h"
#include "model/optimizers/optimizer_rule.h"
#include "net/trust/seal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    REPETITIONS = 3,        /* the median counts */
    ARRAY_FLOATS = 4 << 20, /* 16 MiB, more than a processor's own caches hold */
    SEALED_BYTES = 256 << 10,
    SEALED_TIMES = 64,
    PIECE_BYTES = 64 << 10,
    PIECES = 2048, /* that go through a connection */
    ROUNDS = 12,   /* of the exchange */
    EXCHANGED_BYTES = 8 << 20,
    SMALL_SLICE = 16 << 10,
    LARGE_SLICE = 256 << 10,
};

static double cpu_s(int who)
{
    struct rusage used;
    getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of what measure gives. */
static psr_err median_of(psr_err (*measure)(double *ret_value), double *ret_value)
{
    double values[REPETITIONS];
    for (size_t i = 0; i < REPETITIONS; i++)
        PSR_TRY(measure(&values[i]));
    qsort(values, REPETITIONS, sizeof *values, compare);
    *ret_value = values[REPETITIONS / 2];
    return PSR_OK;
}

/* ---- arrays ---- */

typedef struct arrays {
    float *weights, *gradients, *momentum;
} arrays;

static void arrays_done(arrays *a)
{
    psr_arena_free(a->weights, ARRAY_FLOATS);
    psr_arena_free(a->gradients, ARRAY_FLOATS);
    psr_arena_free(a->momentum, ARRAY_FLOATS);
}

static psr_err arrays_init(arrays *a)
{
    *a = (arrays){NULL, NULL, NULL};
    psr_err err = psr_arena_new(ARRAY_FLOATS, &a->weights);
    if (err == PSR_OK)
        err = psr_arena_new(ARRAY_FLOATS, &a->gradients);
    if (err == PSR_OK)
        err = psr_arena_new(ARRAY_FLOATS, &a->momentum);
    if (err != PSR_OK) {
        arrays_done(a);
        return err;
    }
    for (size_t i = 0; i < ARRAY_FLOATS; i++) { /* pages that are there */
        a->weights[i] = 1;
        a->gradients[i] = 1e-6f;
        a->momentum[i] = 0;
    }
    return PSR_OK;
}

static psr_err measure_fold(double *ret_s_per_byte)
{
    arrays a;
    PSR_TRY(arrays_init(&a));
    const double begin_s = cpu_s(RUSAGE_SELF);
    for (int i = 0; i < 8; i++)
        psr_fold_add(a.weights, a.gradients, ARRAY_FLOATS);
    *ret_s_per_byte = (cpu_s(RUSAGE_SELF) - begin_s) / 8 / ((double)ARRAY_FLOATS * sizeof(float));
    arrays_done(&a);
    return PSR_OK;
}

static psr_err measure_update(double *ret_s_per_byte)
{
    psr_config config;
    arrays a;
    psr_config_defaults(&config);
    PSR_TRY(psr_config_set(&config, "optimizer", "sgd"));
    PSR_TRY(psr_config_set(&config, "momentum", "0.9"));
    PSR_TRY(arrays_init(&a));
    float *slots[PSR_OPTIMIZER_SLOTS_MAX] = {a.momentum};
    const double begin_s = cpu_s(RUSAGE_SELF);
    for (uint64_t update = 1; update <= 8; update++)
        psr_optimizer_apply(&config, a.weights, a.gradients, slots, ARRAY_FLOATS, update);
    *ret_s_per_byte = (cpu_s(RUSAGE_SELF) - begin_s) / 8 / ((double)ARRAY_FLOATS * sizeof(float));
    arrays_done(&a);
    return PSR_OK;
}

/* ---- the cipher ---- */

static psr_err seal_often(psr_seal_library *library, const psr_seal_secret *secret,
                          psr_cipher cipher, uint8_t *plain, uint8_t *out)
{
    psr_seal *seal = NULL;
    const psr_seal_run run = {plain, SEALED_BYTES};
    PSR_TRY(psr_seal_new(library, cipher, secret->key, true, &seal));
    psr_err err = PSR_OK;
    for (int i = 0; i < SEALED_TIMES && err == PSR_OK; i++)
        err = psr_seal_seal(seal, "c", 1, &run, 1, out);
    psr_seal_free(seal);
    return err;
}

static psr_err seal_with(psr_seal_library *library, uint8_t *plain, uint8_t *out,
                         double *ret_s_per_byte)
{
    uint8_t parts[2][PSR_SEAL_PART_BYTES];
    psr_seal_secret secret;
    psr_cipher cipher;
    if (!psr_seal_choose(psr_seal_ciphers(), psr_seal_ciphers(), &cipher))
        return psr_fail(PSR_ERR_UNSUPPORTED, "there is no cipher");
    PSR_TRY(psr_seal_part(parts[0]));
    PSR_TRY(psr_seal_part(parts[1]));
    PSR_TRY(psr_seal_agree(library, parts[0], parts[1], cipher, "c", 1, &secret));
    const double begin_s = cpu_s(RUSAGE_SELF);
    psr_err err = seal_often(library, &secret, cipher, plain, out);
    *ret_s_per_byte = (cpu_s(RUSAGE_SELF) - begin_s) / SEALED_TIMES / SEALED_BYTES;
    psr_seal_wipe(&secret, sizeof secret);
    return err;
}

static psr_err measure_seal(double *ret_s_per_byte)
{
    psr_seal_library *library = NULL;
    uint8_t *plain = calloc(1, SEALED_BYTES), *out = malloc(SEALED_BYTES + PSR_SEAL_TAG_BYTES);
    psr_err err = plain != NULL && out != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory");
    if (err == PSR_OK)
        err = psr_seal_library_new(&library);
    if (err == PSR_OK)
        err = seal_with(library, plain, out, ret_s_per_byte);
    psr_seal_library_free(library);
    free(plain);
    free(out);
    return err;
}

/* ---- a connection ---- */

static void *write_pieces(void *fd)
{
    char *piece = calloc(1, PIECE_BYTES);
    bool ok = piece != NULL;
    for (int i = 0; i < PIECES && ok; i++)
        for (size_t at = 0; at < PIECE_BYTES && ok;) {
            const ssize_t wrote =
                send(*(const int *)fd, piece + at, PIECE_BYTES - at, MSG_NOSIGNAL);
            ok = wrote > 0 || errno == EINTR;
            at += wrote > 0 ? (size_t)wrote : 0;
        }
    shutdown(*(const int *)fd, SHUT_WR);
    free(piece);
    return NULL;
}

static double read_pieces(int fd)
{
    char *piece = malloc(PIECE_BYTES);
    double bytes = 0;
    ssize_t got = 1;
    while (piece != NULL && got > 0) {
        got = read(fd, piece, PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            bytes += (double)got;
    }
    free(piece);
    return bytes;
}

static psr_err no_connection(void)
{
    return psr_fail(PSR_ERR_IO, "a connection to this machine itself: %s", strerror(errno));
}

/* Two ends of a TCP connection over loopback; the caller owns both. */
static psr_err connect_ends(int ret_ends[2])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
              out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int in = -1;
    if (listener >= 0 && out >= 0 && bind(listener, (struct sockaddr *)&at, sizeof at) == 0 &&
        listen(listener, 1) == 0 && getsockname(listener, (struct sockaddr *)&at, &size) == 0 &&
        connect(out, (struct sockaddr *)&at, size) == 0)
        in = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    psr_err err = in >= 0 ? PSR_OK : no_connection();
    if (listener >= 0)
        close(listener);
    if (err != PSR_OK && out >= 0)
        close(out);
    ret_ends[0] = out;
    ret_ends[1] = in;
    return err;
}

static psr_err measure_copy(double *ret_s_per_byte)
{
    int ends[2];
    pthread_t writer;
    PSR_TRY(connect_ends(ends));
    const double begin_s = cpu_s(RUSAGE_SELF), whole = (double)PIECES * PIECE_BYTES;
    double bytes = 0;
    const bool writes = pthread_create(&writer, NULL, write_pieces, &ends[0]) == 0;
    if (writes) {
        bytes = read_pieces(ends[1]);
        pthread_join(writer, NULL);
    }
    *ret_s_per_byte = (cpu_s(RUSAGE_SELF) - begin_s) / whole / 2;
    close(ends[0]);
    close(ends[1]);
    return bytes < whole ? no_connection() : PSR_OK;
}

/* ---- a message ---- */

/* The processor time of all processes of an exchange in slices of that size. */
static psr_err exchange(unsigned slice_bytes, double *ret_cpu_s)
{
    char program[PATH_MAX], bytes[16], rounds[16], slice[16];
    PSR_TRY(psr_program_path("psring-bench-exchange", program, sizeof program));
    snprintf(bytes, sizeof bytes, "%d", EXCHANGED_BYTES);
    snprintf(rounds, sizeof rounds, "%d", ROUNDS);
    snprintf(slice, sizeof slice, "%u", slice_bytes);
    const char *const words[] = {
        program, "--mode",          "ring", "--workers", "2",   "--rounds",
        rounds,  "--warmup-rounds", "0",    "--bytes",   bytes, "--slice-size",
        slice,   "--transport",     "tcp",  "--json",    NULL};
    char *argv[sizeof words / sizeof *words];
    memcpy(argv, words, sizeof argv); /* exec takes no const */
    psr_child child;
    const double begin_s = cpu_s(RUSAGE_CHILDREN);
    PSR_TRY(psr_child_start(argv, PSR_CHILD_KEEP_STDERR, &child));
    psr_child_wait(&child);
    const int status = child.status;
    psr_child_done(&child);
    *ret_cpu_s = cpu_s(RUSAGE_CHILDREN) - begin_s;
    if (status == 0)
        return PSR_OK;
    char how[128];
    psr_child_describe(status, how, sizeof how);
    return psr_fail(PSR_ERR_PEER, "psring-bench-exchange: %s", how);
}

/* A ring of two sends as many bytes from each as there are: each byte is handled four times, by two
 * senders and two receivers. */
static psr_err measure_message(double *ret_message_s)
{
    double small_s, large_s;
    PSR_TRY(exchange(LARGE_SLICE, &large_s));
    PSR_TRY(exchange(SMALL_SLICE, &small_s));
    const double more = 4.0 * ROUNDS * EXCHANGED_BYTES * (1.0 / SMALL_SLICE - 1.0 / LARGE_SLICE);
    *ret_message_s = small_s > large_s ? (small_s - large_s) / more : 0;
    return PSR_OK;
}

/* ---- all of them ---- */

psr_err psr_costs_calibrate(void)
{
    const struct {
        const char *name;
        psr_err (*measure)(double *ret_value);
        double scale;
    } all[] = {{"message_us", measure_message, 1e6},
               {"copy_ns", measure_copy, 1e9},
               {"seal_ns", measure_seal, 1e9},
               {"fold_ns", measure_fold, 1e9},
               {"update_ns", measure_update, 1e9}};
    psr_fields_writer w = psr_fields_begin();
    char *json = NULL;
    psr_err err = PSR_OK;
    for (size_t i = 0; i < sizeof all / sizeof *all && err == PSR_OK; i++) {
        double value = 0;
        err = median_of(all[i].measure, &value);
        psr_fields_put_item(&w, all[i].name, cJSON_CreateNumber(value * all[i].scale));
    }
    if (err != PSR_OK) {
        cJSON_Delete(w.object);
        return err;
    }
    PSR_TRY(psr_fields_finish(&w, &json));
    printf("%s\n", json);
    free(json);
    return PSR_OK;
}
