#include "bench/collectives/measure.h"

#include "bench/collectives/values.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POISON = 0xa5, ALIGNMENT = 64 };

/* One rank's part of a measurement. Owns what it points to but the task and what is in the call's
 * group and options. */
typedef struct measurement {
    const bench_task *task;
    bench_call call;
    psring_call options;
    bench_part *parts; /* what is received */
    size_t part_count;
    void *send;
    size_t send_values, receive_values;
    double *seconds; /* [iterations] */
    int64_t wrong;
} measurement;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bench_source source_of(const measurement *m, int rank, size_t first)
{
    /* What is not folded has the values that a maximum has: they are the most various. */
    return (bench_source){m->call.type, m->task->operation->folds ? m->call.op : PSRING_MAXIMUM,
                          m->call.ranks, rank, first};
}

static psring_err new_values(const measurement *m, size_t count, void **ret_values)
{
    const size_t bytes = (count * bench_type_bytes(m->call.type) / ALIGNMENT + 1) * ALIGNMENT;
    if (m->task->shares != NULL)
        return psring_memory_new(m->task->shares, PSRING_SHARED, bytes, ret_values);
    *ret_values = aligned_alloc(ALIGNMENT, bytes);
    return *ret_values != NULL ? PSRING_OK : PSRING_ERR_NOMEM;
}

static void free_values(const measurement *m, void *values)
{
    if (m->task->shares == NULL) {
        free(values);
        return;
    }
    psring_err err = psring_memory_free(m->task->shares, &values);
    (void)err; /* after a failure it ends with the communicator */
}

/* NULL where this rank receives nothing: a reduction would take it for scratch of the whole
 * size. */
static psring_err init_values(measurement *m)
{
    m->send_values = m->task->operation->sent(&m->call);
    psring_err err = new_values(m, m->send_values, &m->send);
    m->call.send = m->send;
    for (size_t k = 0; k < m->part_count; k++)
        m->receive_values += m->parts[k].count;
    if (err == PSRING_OK && m->receive_values > 0)
        err = new_values(m, m->receive_values, &m->call.receive);
    return err;
}

static void done(measurement *m)
{
    free(m->call.counts);
    free(m->parts);
    free_values(m, m->send);
    free_values(m, m->call.receive);
    free(m->seconds);
}

static psring_err init(measurement *m, psring_group *group, const bench_task *task)
{
    *m = (measurement){.task = task,
                       .options = {.size = sizeof m->options,
                                   .algorithm = task->algorithm,
                                   .encoding = task->encoding}};
    m->call = (bench_call){.group = group,
                           .rank = psring_rank(group),
                           .ranks = psring_size(group),
                           .root = task->root,
                           .type = task->type,
                           .op = task->op,
                           .unit = task->unit,
                           .options = &m->options};
    m->call.counts = calloc(2 * (size_t)m->call.ranks, sizeof *m->call.counts);
    m->parts = calloc((size_t)m->call.ranks + 2, sizeof *m->parts);
    m->seconds = calloc(task->iterations, sizeof *m->seconds);
    if (m->call.counts == NULL || m->parts == NULL || m->seconds == NULL)
        return PSRING_ERR_NOMEM;
    m->part_count = task->operation->received(&m->call, m->parts);
    return init_values(m);
}

/* Nothing that an earlier call left can pass for this one's. */
static void prepare(const measurement *m)
{
    const bench_source own = source_of(m, m->call.rank, 0);
    if (m->task->operation->in_place && m->call.rank == m->call.root)
        bench_values_write(&own, m->call.receive, m->receive_values);
    else if (m->receive_values > 0)
        memset(m->call.receive, POISON, m->receive_values * bench_type_bytes(m->call.type));
}

static void check(measurement *m)
{
    const char *at = m->call.receive;
    for (size_t k = 0; k < m->part_count; k++) {
        const bench_source source = source_of(m, m->parts[k].source, m->parts[k].first);
        m->wrong += (int64_t)bench_values_wrong(&source, at, m->parts[k].count);
        at += m->parts[k].count * bench_type_bytes(m->call.type);
    }
}

/* Untimed, since it asks which algorithm there was. */
static psring_err first_call(measurement *m, const char **ret_algorithm)
{
    psring_request *request = NULL;
    prepare(m);
    psring_err err = m->task->operation->start(&m->call, &request);
    if (err == PSRING_OK)
        err = psring_wait(request, PSRING_FOREVER);
    if (err == PSRING_OK) {
        *ret_algorithm = psring_algorithm(request);
        check(m);
    }
    psring_request_free(&request);
    return err;
}

/* Who comes late would be in the others' time: a barrier is before each call. */
static psring_err timed_call(measurement *m, double *ret_seconds)
{
    prepare(m);
    psring_err err = psring_barrier(m->call.group, NULL, NULL);
    if (err != PSRING_OK)
        return err;
    const double begin = now_s();
    err = m->task->operation->start(&m->call, NULL);
    const double end = now_s();
    if (err != PSRING_OK)
        return err;
    check(m);
    *ret_seconds = end - begin;
    return PSRING_OK;
}

static psring_err run_calls(measurement *m, const char **ret_algorithm)
{
    double seconds;
    psring_err err = first_call(m, ret_algorithm);
    for (uint32_t i = 0; i < m->task->warmup && err == PSRING_OK; i++)
        err = timed_call(m, &seconds);
    for (uint32_t i = 0; i < m->task->iterations && err == PSRING_OK; i++)
        err = timed_call(m, &m->seconds[i]);
    return err;
}

/* The slowest rank's time of each call, and all ranks' wrong values: at least this one's, should
 * the library add wrongly. */
static psring_err take_together(measurement *m)
{
    int64_t wrong = 0;
    psring_err err = psring_all_reduce(m->call.group, m->seconds, m->seconds, m->task->iterations,
                                       PSRING_FLOAT64, PSRING_MAXIMUM, NULL, NULL);
    if (err == PSRING_OK)
        err = psring_all_reduce(m->call.group, &m->wrong, &wrong, 1, PSRING_INT64, PSRING_SUM, NULL,
                                NULL);
    m->wrong = wrong > m->wrong ? wrong : m->wrong;
    return err;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sum_up(measurement *m, const char *algorithm, bench_figures *ret_figures)
{
    const uint32_t count = m->task->iterations;
    qsort(m->seconds, count, sizeof *m->seconds, compare);
    *ret_figures =
        (bench_figures){.algorithm = algorithm,
                        .median_s = (m->seconds[(count - 1) / 2] + m->seconds[count / 2]) / 2,
                        .least_s = m->seconds[0],
                        .most_s = m->seconds[count - 1],
                        .wrong = m->wrong};
}

psring_err bench_measure(psring_group *group, const bench_task *task, bench_figures *ret_figures)
{
    measurement m;
    const char *algorithm = NULL;
    psring_err err = init(&m, group, task);
    if (err == PSRING_OK) {
        const bench_source own = source_of(&m, m.call.rank, 0);
        bench_values_write(&own, m.send, m.send_values);
        err = run_calls(&m, &algorithm);
    }
    if (err == PSRING_OK)
        err = take_together(&m);
    if (err == PSRING_OK)
        sum_up(&m, algorithm, ret_figures);
    done(&m);
    return err;
}
