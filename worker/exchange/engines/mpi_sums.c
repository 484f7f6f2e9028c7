#include "worker/exchange/engines/mpi_sums.h"

#include "base/clock.h"
#include "base/fault.h"
#include "base/system/thread.h"

#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 1024 };

typedef struct sum {
    uint32_t number;
    float *values;
    int count;
} sum;

struct psr_mpi_sums {
    psr_mpi_sums_options options;
    pthread_t thread;

    /* ---- under the mutex ---- */
    pthread_mutex_t mutex;
    pthread_cond_t condition; /* a sum was started, or the thread shall end */
    sum *asked;               /* [most], in order: those that the thread has not taken */
    uint32_t asked_count;
    uint32_t *ended; /* [most] numbers, in order: those that psr_mpi_sums_take has not told */
    uint32_t ended_count;
    uint32_t under_way; /* sums that were started and whose end was not returned yet */
    bool quit;
    psr_err status; /* for good */
    char failure[LINE_MAX_BYTES];

    /* ---- the thread's own ---- */
    MPI_Request *requests; /* [most]; MPI_REQUEST_NULL: free */
    MPI_Status *statuses;  /* [most]: of MPI_Testsome */
    int *indices;          /* [most]: likewise */
    uint32_t *numbers;     /* [most]: of the sum in requests[i] */
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

/* Waits while nothing is under way. What was asked for comes to *ret_asked [most]. false: it
 * ends. */
static bool wait_for_work(psr_mpi_sums *sums, sum *ret_asked, uint32_t *ret_count)
{
    pthread_mutex_lock(&sums->mutex);
    while (!sums->quit && sums->asked_count == 0 && sums->tested == 0)
        pthread_cond_wait(&sums->condition, &sums->mutex);
    bool goes_on = !sums->quit;
    *ret_count = sums->asked_count;
    memcpy(ret_asked, sums->asked, sums->asked_count * sizeof *ret_asked);
    sums->asked_count = 0;
    pthread_mutex_unlock(&sums->mutex);
    return goes_on;
}

static psr_err start(psr_mpi_sums *sums, const sum *s)
{
    uint32_t i = 0;
    while (sums->requests[i] != MPI_REQUEST_NULL) /* at most `most` are under way: one is free */
        i++;
    sums->numbers[i] = s->number;
    sums->tested++;
    return judge(MPI_Iallreduce(MPI_IN_PLACE, s->values, s->count, MPI_FLOAT, MPI_SUM,
                                MPI_COMM_WORLD, &sums->requests[i]),
                 "MPI_Iallreduce");
}

/* Under the mutex. Once the owner has let go it hears no more. */
static void tell_owner(const psr_mpi_sums *sums)
{
    if (!sums->quit)
        sums->options.changed(sums->options.context);
}

static void tell_ended(psr_mpi_sums *sums, int count)
{
    pthread_mutex_lock(&sums->mutex);
    for (int i = 0; i < count; i++)
        sums->ended[sums->ended_count++] = sums->numbers[sums->indices[i]];
    tell_owner(sums);
    pthread_mutex_unlock(&sums->mutex);
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
    tell_ended(sums, count);
    sums->tested -= (uint32_t)count;
    return PSR_OK;
}

static psr_err work(psr_mpi_sums *sums, sum *asked)
{
    uint32_t count = 0;
    PSR_TRY(begin(sums));
    while (wait_for_work(sums, asked, &count)) {
        for (uint32_t i = 0; i < count; i++)
            PSR_TRY(start(sums, &asked[i]));
        if (sums->tested > 0)
            PSR_TRY(test(sums));
    }
    return sums->tested == 0 && count == 0 ? judge(MPI_Finalize(), "MPI_Finalize") : PSR_OK;
}

static void *run_thread(void *context)
{
    psr_mpi_sums *sums = context;
    sum *asked = calloc(sums->options.most, sizeof *asked);
    psr_err err = asked != NULL ? work(sums, asked)
                                : psr_fail(PSR_ERR_NOMEM, "no memory for the thread of MPI");
    free(asked);
    if (err == PSR_OK)
        return NULL;
    pthread_mutex_lock(&sums->mutex);
    snprintf(sums->failure, sizeof sums->failure, "%s", psr_err_detail());
    sums->status = err;
    tell_owner(sums);
    pthread_mutex_unlock(&sums->mutex);
    return NULL;
}

/* ---- the owner's ---- */

psr_err psr_mpi_sums_start(psr_mpi_sums *sums, uint32_t number, float *values, size_t count)
{
    psr_err err = PSR_OK;
    if (count > INT_MAX)
        return psr_fail(PSR_ERR_USAGE, "MPI sums at most %d values at once, not %zu", INT_MAX,
                        count);
    pthread_mutex_lock(&sums->mutex);
    if (sums->under_way == sums->options.most) {
        err = psr_fail(PSR_ERR_USAGE, "%" PRIu32 " sums are under way already", sums->under_way);
    } else {
        sums->under_way++;
        sums->asked[sums->asked_count++] = (sum){number, values, (int)count};
        pthread_cond_signal(&sums->condition);
    }
    pthread_mutex_unlock(&sums->mutex);
    return err;
}

psr_err psr_mpi_sums_take(psr_mpi_sums *sums, bool *ret_any, uint32_t *ret_number)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&sums->mutex);
    bool any = sums->ended_count > 0;
    if (any) {
        *ret_any = true;
        *ret_number = sums->ended[0];
        sums->ended_count--;
        sums->under_way--;
        memmove(sums->ended, sums->ended + 1, sums->ended_count * sizeof *sums->ended);
    } else if (sums->status != PSR_OK) {
        err = psr_fail(sums->status, "%s", sums->failure);
    } else {
        *ret_any = false;
    }
    pthread_mutex_unlock(&sums->mutex);
    return err;
}

/* ---- life ---- */

static psr_err make_room(psr_mpi_sums *sums)
{
    size_t most = sums->options.most;
    sums->asked = calloc(most, sizeof *sums->asked);
    sums->ended = calloc(most, sizeof *sums->ended);
    sums->requests = calloc(most, sizeof *sums->requests);
    sums->statuses = calloc(most, sizeof *sums->statuses);
    sums->indices = calloc(most, sizeof *sums->indices);
    sums->numbers = calloc(most, sizeof *sums->numbers);
    if (sums->asked == NULL || sums->ended == NULL || sums->requests == NULL ||
        sums->statuses == NULL || sums->indices == NULL || sums->numbers == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu sums", most);
    for (size_t i = 0; i < most; i++)
        sums->requests[i] = MPI_REQUEST_NULL;
    return PSR_OK;
}

static void give_back(psr_mpi_sums *sums)
{
    pthread_cond_destroy(&sums->condition);
    pthread_mutex_destroy(&sums->mutex);
    free(sums->asked);
    free(sums->ended);
    free(sums->requests);
    free(sums->statuses);
    free(sums->indices);
    free(sums->numbers);
    free(sums);
}

psr_err psr_mpi_sums_new(const psr_mpi_sums_options *options, psr_mpi_sums **ret_sums)
{
    psr_mpi_sums *sums = calloc(1, sizeof *sums);
    if (sums == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for sums");
    sums->options = *options;
    pthread_mutex_init(&sums->mutex, NULL);
    pthread_cond_init(&sums->condition, NULL);
    psr_err err = make_room(sums);
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
    pthread_mutex_lock(&sums->mutex);
    sums->quit = true;
    pthread_cond_signal(&sums->condition);
    pthread_mutex_unlock(&sums->mutex);
    const struct timespec until = psr_clock_after_ns((int64_t)linger_ms * 1000000);
    if (pthread_clockjoin_np(sums->thread, NULL, CLOCK_MONOTONIC, &until) == 0)
        give_back(sums);
    else
        pthread_detach(sums->thread);
}
