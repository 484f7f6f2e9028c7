#include "worker/input/host_data.h"

#include "base/config/config.h"
#include "base/system/file.h"
#include "base/log.h"
#include "base/system/memory.h"
#include "base/system/thread.h"
#include "net/address/socket_directory.h"
#include "worker/input/data_passing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Of "data-0123456789abcdef", the name of a turn and of the socket in the directory. */
#define KEY_DIGITS 16
#define NAME_BYTES (sizeof "data-" + KEY_DIGITS)
#define PATH_BYTES (PSR_SOCKET_DIRECTORY_BYTES + NAME_BYTES + 8)

struct psr_host_data {
    char data[PSR_PATH_MAX], cache[PSR_PATH_MAX]; /* cache "": none */
    char name[64];
    char directory[PSR_SOCKET_DIRECTORY_BYTES];
    uint32_t rank, ranks;
    void *context;
    void (*ended)(void *context);

    pthread_t thread;
    psr_reading reading;
    _Atomic bool waits; /* for its turn; the turn's file names the process that has the turn */

    /* ---- the thread's until it has ended ---- */
    char turn[PATH_BYTES]; /* "" until there is one */
    psr_opened opened;
    psr_sealed_data sealed;
    psr_data_passer passer;
    psr_err err;
    char detail[2 * PSR_PATH_MAX]; /* error details belong to a thread */

    pthread_mutex_t mutex;
    bool has_ended, abandoned;
    bool joined; /* used by the caller after the thread has ended */
};

/* ---- the thread ---- */

static const char *cache_of(const psr_host_data *d)
{
    return d->cache[0] != '\0' ? d->cache : NULL;
}

static psr_err read_alone(psr_host_data *d)
{
    return psr_opened_init(d->data, cache_of(d), &d->reading, &d->opened);
}

static void say_alone(void)
{
    psr_log(PSR_LOG_INFO, "other workers of this host read the data set themselves: %s",
            psr_err_detail());
}

/* The data set was read. Other processes may use it too, so it moves to memory that is passed to
 * them. If that memory cannot be had or passed, they read the files themselves. */
static psr_err share(psr_host_data *d, const char *socket)
{
    psr_err err = psr_sealed_data_make(&d->opened, &d->reading, &d->sealed);
    if (err == PSR_ERR_CANCELLED)
        return err;
    if (err != PSR_OK) {
        say_alone();
        return PSR_OK;
    }
    psr_opened_done(&d->opened);
    psr_memory_give_back();
    err = psr_opened_unpack(d->sealed.data, d->sealed.bytes, d->name, &d->opened);
    if (err != PSR_OK) { /* no memory, or a mapped file has changed */
        say_alone();
        psr_sealed_data_done(&d->sealed);
        return read_alone(d);
    }
    if (psr_data_passer_start(socket, &d->sealed, &d->passer) != PSR_OK)
        say_alone();
    return PSR_OK;
}

/* It is this process's turn: it gets the data set from a process that has read it, or reads it. */
static psr_err read_in_turn(psr_host_data *d, const char *socket)
{
    psr_err err = psr_sealed_data_receive(socket, &d->sealed);
    if (err == PSR_OK)
        err = psr_opened_unpack(d->sealed.data, d->sealed.bytes, d->name, &d->opened);
    if (err == PSR_OK) {
        psr_log(PSR_LOG_INFO, "data set read by another worker of this host, %.1f MiB are shared",
                (double)d->sealed.bytes / (1 << 20));
        return PSR_OK;
    }
    if (err != PSR_ERR_NOT_FOUND)
        psr_log(PSR_LOG_WARN, "%s", psr_err_detail());
    psr_sealed_data_done(&d->sealed);
    PSR_TRY(read_alone(d));
    return psr_opened_is_passed(&d->opened) ? share(d, socket) : PSR_OK;
}

static psr_err read_in(psr_host_data *d, const psr_socket_directory *directory)
{
    char key[PSR_CONTENT_BYTES], name[NAME_BYTES], socket[PATH_BYTES], holder[16];
    int turn = -1;
    PSR_TRY(psr_content_key(d->data, key));
    snprintf(name, sizeof name, "data-%.*s", KEY_DIGITS, key);
    snprintf(socket, sizeof socket, "%s/%s", directory->path, name);
    snprintf(holder, sizeof holder, "%" PRIu32 "\n", d->rank);
    psr_socket_directory_turn_path(directory, name, d->turn, sizeof d->turn);
    atomic_store(&d->waits, true);
    psr_err err = psr_socket_directory_turn(directory, name, holder, &turn);
    atomic_store(&d->waits, false);
    if (err != PSR_OK) /* without the directory each process reads the files itself */
        return read_alone(d);
    err = read_in_turn(d, socket);
    close(turn);
    return err;
}

static psr_err read_data(psr_host_data *d)
{
    psr_socket_directory directory = PSR_SOCKET_DIRECTORY_NONE;
    if (d->directory[0] == '\0' || psr_socket_directory_hold(d->directory, &directory) != PSR_OK)
        return read_alone(d);
    /* The directory exists while the run does. A thread that is left behind at the end of its
     * process must not keep it from being removed. */
    (void)flock(directory.hold, LOCK_UN);
    psr_err err = read_in(d, &directory);
    psr_socket_directory_release(&directory);
    return err;
}

/* Frees all, after the thread's last use of it. */
static void done(psr_host_data *d)
{
    psr_data_passer_stop(&d->passer);
    psr_opened_done(&d->opened);
    psr_sealed_data_done(&d->sealed);
    pthread_mutex_destroy(&d->mutex);
    free(d);
}

static void *data_thread(void *argument)
{
    psr_host_data *d = argument;
    d->err = read_data(d);
    if (d->err != PSR_OK)
        snprintf(d->detail, sizeof d->detail, "%s", psr_err_detail());
    pthread_mutex_lock(&d->mutex);
    d->has_ended = true;
    bool abandoned = d->abandoned;
    if (!abandoned)
        d->ended(d->context);
    pthread_mutex_unlock(&d->mutex);
    if (abandoned)
        done(d);
    return NULL;
}

/* ---- the caller's ---- */

psr_err psr_host_data_start(const psr_host_data_options *options, psr_host_data **ret_data)
{
    psr_host_data *d = calloc(1, sizeof *d);
    if (d == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a data set");
    snprintf(d->data, sizeof d->data, "%s", options->data);
    snprintf(d->cache, sizeof d->cache, "%s", options->cache != NULL ? options->cache : "");
    snprintf(d->name, sizeof d->name, "%s", options->name);
    snprintf(d->directory, sizeof d->directory, "%s", options->directory);
    d->rank = options->rank;
    d->ranks = options->ranks;
    d->context = options->context;
    d->ended = options->ended;
    d->sealed = PSR_SEALED_DATA_NONE;
    d->passer = PSR_DATA_PASSER_NONE;
    pthread_mutex_init(&d->mutex, NULL);
    psr_err err = psr_thread_start("psr-data", data_thread, d, &d->thread);
    if (err != PSR_OK) {
        pthread_mutex_destroy(&d->mutex);
        free(d);
        return err;
    }
    *ret_data = d;
    return PSR_OK;
}

static bool has_ended(psr_host_data *d)
{
    pthread_mutex_lock(&d->mutex);
    bool ended = d->has_ended;
    pthread_mutex_unlock(&d->mutex);
    return ended;
}

psr_err psr_host_data_take(psr_host_data *data, psr_opened **ret_opened)
{
    *ret_opened = NULL;
    if (!data->joined && !has_ended(data))
        return PSR_OK;
    if (!data->joined)
        pthread_join(data->thread, NULL);
    data->joined = true;
    if (data->err != PSR_OK)
        return psr_fail(data->err, "%s", data->detail);
    *ret_opened = &data->opened;
    return PSR_OK;
}

/* The process that has the turn, by the turn's file. false: not known. */
static bool find_holder(const psr_host_data *d, uint32_t *ret_rank)
{
    uint8_t *text = NULL;
    size_t size = 0;
    if (psr_file_read(d->turn, 16, &text, &size) != PSR_OK)
        return false;
    char *end = NULL;
    unsigned long rank = strtoul((const char *)text, &end, 10);
    bool known = size > 1 && *end == '\n' && rank < d->ranks && rank != d->rank;
    free(text);
    *ret_rank = (uint32_t)rank;
    return known;
}

void psr_host_data_report(const psr_host_data *data, psr_msg_progress *progress)
{
    uint32_t rank = 0;
    progress->phase = PSR_PHASE_START;
    progress->counter = atomic_load_explicit(&data->reading.moves, memory_order_relaxed);
    if (!atomic_load(&data->waits) || !find_holder(data, &rank))
        return;
    progress->waits = true;
    progress->waits_for = (psr_peer){PSR_ROLE_WORKER, rank};
}

int psr_host_data_shared(const psr_host_data *data)
{
    return data->joined ? data->sealed.fd : -1;
}

void psr_host_data_free(psr_host_data *data)
{
    if (data == NULL)
        return;
    pthread_mutex_lock(&data->mutex);
    data->abandoned = true;
    bool ended = data->has_ended;
    if (!ended) { /* from the unlocking on it is the thread's, which frees it */
        atomic_store(&data->reading.stop, true);
        pthread_detach(data->thread);
    }
    pthread_mutex_unlock(&data->mutex);
    if (!ended)
        return;
    if (!data->joined)
        pthread_join(data->thread, NULL);
    done(data);
}
