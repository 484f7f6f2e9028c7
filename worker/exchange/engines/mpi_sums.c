#include "worker/exchange/engines/mpi_sums.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/system/thread.h"
#include "worker/exchange/engines/sum_queue.h"

#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct psr_mpi_sums {
    psr_mpi_sums_options options;
    pthread_t thread;
    psr_sum_queue queue;

    /* ---- the thread's own ---- */
    MPI_Request *requests; /* [most]; MPI_REQUEST_NULL: free */
    MPI_Status *statuses;  /* [most]: of MPI_Testsome */
    int *indices;          /* [most]: likewise */
    uint32_t *numbers;     /* [most]: of the sum in requests[i] */
    uint32_t *ended;       /* [most]: numbers of the sums that one MPI_Testsome found ended */
    uint32_t tested;       /* requests under way */
};

/* ---- the thread ---- */

/* "Open MPI v4.1.4, package: ..": as far as the first comma or line's end. */
void psr_mpi_library(char *text, size_t size)
{
    char whole[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(whole, &length); /* allowed at any time */
    whole[strcspn(whole, ",\n")] = '\0';
    for (char *c = whole; *c != '\0'; c++) /* MPICH's has tabs */
        *c = *c == '\t' ? ' ' : *c;
    snprintf(text, size, "%s", whole);
}

static psr_err judge(int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return PSR_OK;
    char words[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, words, &length);
    return psr_fail(PSR_ERR_IO, "%s failed: %s", call, words);
}

static psr_err begin(const psr_mpi_sums *sums)
{
    int provided = 0, processes = 0;
    psr_fault_point("mpi-init", 0);
    PSR_TRY(judge(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread"));
    PSR_TRY(judge(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                  "MPI_Comm_set_errhandler"));
    PSR_TRY(judge(MPI_Comm_size(MPI_COMM_WORLD, &processes), "MPI_Comm_size"));
    char library[128];
    psr_mpi_library(library, sizeof library);
    if (provided < MPI_THREAD_FUNNELED)
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "%s was built without threads, and a worker has several", library);
    if ((uint32_t)processes != sums->options.processes)
        return psr_fail(
            PSR_ERR_USAGE,
            "--mode mpi: this run has %" PRIu32
            " workers, and MPI found %d process%s; start them all by one mpirun -n %" PRIu32
            " of the library that psring-worker is built with, %s",
            sums->options.processes, processes, processes == 1 ? "" : "es", sums->options.processes,
            library);
    return PSR_OK;
}

/* Waits while nothing is under way. What was started comes to *ret_started [most]. false: it
 * ends. */
static bool wait_for_work(psr_mpi_sums *sums, psr_started_sum *ret_started, uint32_t *ret_count)
{
    psr_sum_queue *queue = &sums->queue;
    pthread_mutex_lock(&queue->mutex);
    while (!queue->quit && queue->started_count == 0 && sums->tested == 0)
        pthread_cond_wait(&queue->condition, &queue->mutex);
    bool goes_on = !queue->quit;
    *ret_count = psr_sum_queue_take_started(queue, ret_started);
    pthread_mutex_unlock(&queue->mutex);
    return goes_on;
}

static psr_err start(psr_mpi_sums *sums, const psr_started_sum *s)
{
    uint32_t i = 0;
    while (sums->requests[i] != MPI_REQUEST_NULL) /* at most `most` are under way: one is free */
        i++;
    sums->numbers[i] = s->number;
    sums->tested++;
    return judge(MPI_Iallreduce(MPI_IN_PLACE, s->values, (int)s->span.count, MPI_FLOAT, MPI_SUM,
                                MPI_COMM_WORLD, &sums->requests[i]),
                 "MPI_Iallreduce");
}

/* Lets MPI move data. */
static psr_err test(psr_mpi_sums *sums)
{
    int count = 0;
    int code = MPI_Testsome((int)sums->options.most, sums->requests, &count, sums->indices,
                            sums->statuses);
    for (int i = 0; code == MPI_ERR_IN_STATUS && i < count; i++) {
        if (sums->statuses[i].MPI_ERROR != MPI_SUCCESS)
            code = sums->statuses[i].MPI_ERROR;
    }
    PSR_TRY(judge(code, "MPI_Iallreduce"));
    if (count == MPI_UNDEFINED || count == 0) {
        sched_yield(); /* to the compute thread, and to other ranks on this host */
        return PSR_OK;
    }
    for (int i = 0; i < count; i++)
        sums->ended[i] = sums->numbers[sums->indices[i]];
    psr_sum_queue_end(&sums->queue, sums->ended, (uint32_t)count);
    sums->tested -= (uint32_t)count;
    return PSR_OK;
}

static psr_err work(psr_mpi_sums *sums, psr_started_sum *started)
{
    uint32_t count = 0;
    PSR_TRY(begin(sums));
    while (wait_for_work(sums, started, &count)) {
        for (uint32_t i = 0; i < count; i++)
            PSR_TRY(start(sums, &started[i]));
        if (sums->tested > 0)
            PSR_TRY(test(sums));
    }
    return sums->tested == 0 && count == 0 ? judge(MPI_Finalize(), "MPI_Finalize") : PSR_OK;
}

static void *run_thread(void *context)
{
    psr_mpi_sums *sums = context;
    psr_started_sum *started = calloc(sums->options.most, sizeof *started);
    psr_err err = started != NULL ? work(sums, started)
                                  : psr_fail(PSR_ERR_NOMEM, "no memory for the thread of MPI");
    free(started);
    if (err != PSR_OK)
        psr_sum_queue_fail(&sums->queue, err, psr_err_detail());
    return NULL;
}

/* ---- the owner's ---- */

psr_err psr_mpi_sums_start(psr_mpi_sums *sums, uint32_t number, float *values, size_t count)
{
    if (count > INT_MAX)
        return psr_fail(PSR_ERR_USAGE, "MPI sums at most %d values at once, not %zu", INT_MAX,
                        count);
    return psr_sum_queue_start(&sums->queue, (psr_started_sum){number, values, {0, count}});
}

psr_err psr_mpi_sums_take(psr_mpi_sums *sums, bool *ret_any, uint32_t *ret_number)
{
    return psr_sum_queue_take(&sums->queue, ret_any, ret_number);
}

/* ---- life ---- */

static psr_err make_room(psr_mpi_sums *sums)
{
    size_t most = sums->options.most;
    sums->requests = calloc(most, sizeof *sums->requests);
    sums->statuses = calloc(most, sizeof *sums->statuses);
    sums->indices = calloc(most, sizeof *sums->indices);
    sums->numbers = calloc(most, sizeof *sums->numbers);
    sums->ended = calloc(most, sizeof *sums->ended);
    if (sums->requests == NULL || sums->statuses == NULL || sums->indices == NULL ||
        sums->numbers == NULL || sums->ended == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu sums", most);
    for (size_t i = 0; i < most; i++)
        sums->requests[i] = MPI_REQUEST_NULL;
    return PSR_OK;
}

static void give_back(psr_mpi_sums *sums)
{
    psr_sum_queue_done(&sums->queue);
    free(sums->requests);
    free(sums->statuses);
    free(sums->indices);
    free(sums->numbers);
    free(sums->ended);
    free(sums);
}

psr_err psr_mpi_sums_new(const psr_mpi_sums_options *options, psr_mpi_sums **ret_sums)
{
    psr_mpi_sums *sums = calloc(1, sizeof *sums);
    if (sums == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for sums");
    sums->options = *options;
    psr_err err =
        psr_sum_queue_init(&sums->queue, options->most, options->changed, options->context);
    if (err == PSR_OK)
        err = make_room(sums);
    if (err == PSR_OK)
        err = psr_thread_start("psr-mpi", run_thread, sums, &sums->thread);
    if (err != PSR_OK) {
        give_back(sums);
        return err;
    }
    *ret_sums = sums;
    return PSR_OK;
}

void psr_mpi_sums_free(psr_mpi_sums *sums, int linger_ms)
{
    if (sums == NULL)
        return;
    psr_sum_queue_quit(&sums->queue);
    const struct timespec until = psr_clock_after_ns((int64_t)linger_ms * 1000000);
    if (pthread_clockjoin_np(sums->thread, NULL, CLOCK_MONOTONIC, &until) == 0)
        give_back(sums);
    else
        pthread_detach(sums->thread);
}
