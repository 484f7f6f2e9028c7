#include "worker/input/data_passing.h"

#include "base/system/file.h"
#include "base/system/thread.h"
#include "net/sharing/shared_arena.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

#define BACKLOG 128

/* ---- the memory ---- */

/* All that can fail comes before the move. The arena's own mapping is the last one that can write,
 * so it is removed. */
psr_err psr_sealed_data_make(psr_opened *opened, psr_reading *reading, psr_sealed_data *ret_sealed)
{
    psr_sealed_data sealed = PSR_SEALED_DATA_NONE;
    psr_shared_arena arena = PSR_SHARED_ARENA_NONE;
    size_t bytes = psr_opened_packed_bytes(opened);
    PSR_TRY(psr_shared_arena_new((bytes + sizeof(float) - 1) / sizeof(float), &arena));
    psr_err err = psr_shared_arena_map(arena.fd, arena.bytes, &sealed.data);
    if (err == PSR_OK) {
        sealed.bytes = arena.bytes;
        sealed.fd = fcntl(arena.fd, F_DUPFD_CLOEXEC, 0);
        if (sealed.fd < 0)
            err = psr_fail(PSR_ERR_IO, "no descriptor for shared memory: %s", strerror(errno));
    }
    if (err == PSR_OK)
        err = psr_opened_pack(opened, reading, arena.values);
    psr_shared_arena_done(&arena);
    if (err != PSR_OK) {
        psr_sealed_data_done(&sealed);
        return err;
    }
    *ret_sealed = sealed;
    return PSR_OK;
}

void psr_sealed_data_done(psr_sealed_data *sealed)
{
    if (sealed->data != NULL)
        munmap((void *)(uintptr_t)sealed->data, sealed->bytes);
    if (sealed->fd >= 0)
        close(sealed->fd);
    *sealed = PSR_SEALED_DATA_NONE;
}

/* ---- who asks ---- */

static bool address_of(const char *path, struct sockaddr_un *address)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, strlen(path) + 1);
    return true;
}

static psr_err connect_to(const char *path, int *ret_fd)
{
    struct sockaddr_un address;
    unsigned user = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return psr_fail(PSR_ERR_IO, "no descriptor for a socket: %s", strerror(errno));
    int refused = -1;
    if (address_of(path, &address))
        while ((refused = connect(fd, (const struct sockaddr *)&address, sizeof address)) != 0 &&
               errno == EINTR)
            continue;
    psr_err err = PSR_OK;
    if (refused != 0)
        err = psr_fail(PSR_ERR_NOT_FOUND, "no process passes a data set at %s", path);
    else if (!psr_share_user(fd, &user) || user != geteuid())
        err = psr_fail(PSR_ERR_DENIED, "another user passes a data set at %s", path);
    if (err != PSR_OK) {
        close(fd);
        return err;
    }
    *ret_fd = fd;
    return PSR_OK;
}

/* The record that carries the descriptor. */
static psr_err read_record(psr_record_stream *stream, const char *path, psr_record *record,
                           int *ret_passed)
{
    psr_record_read_result result;
    while ((result = psr_record_read(stream, record, ret_passed)) == PSR_RECORD_NONE_YET) {
        struct pollfd readable = {.fd = stream->fd, .events = POLLIN};
        (void)poll(&readable, 1, -1);
    }
    if (result == PSR_RECORD_CLOSED)
        return psr_fail(PSR_ERR_NOT_FOUND, "the process that passed a data set at %s has ended",
                        path);
    if (result != PSR_RECORD_COMPLETE || record->kind != PSR_RECORD_ARENA || *ret_passed < 0)
        return psr_fail(PSR_ERR_FORMAT, "what was passed at %s is not a data set", path);
    return PSR_OK;
}

static psr_err map_passed(const char *path, const psr_record *record, psr_sealed_data *sealed)
{
    int seals = fcntl(sealed->fd, F_GET_SEALS);
    if (seals < 0 || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) == 0)
        return psr_fail(PSR_ERR_FORMAT, "what was passed at %s is not sealed against writes", path);
    PSR_TRY(psr_shared_arena_map(sealed->fd, record->value, &sealed->data));
    sealed->bytes = record->value;
    return PSR_OK;
}

psr_err psr_sealed_data_receive(const char *path, psr_sealed_data *ret_sealed)
{
    psr_sealed_data sealed = PSR_SEALED_DATA_NONE;
    psr_record record;
    int fd = -1;
    PSR_TRY(connect_to(path, &fd));
    psr_record_stream stream = psr_record_stream_of(fd);
    psr_err err = read_record(&stream, path, &record, &sealed.fd);
    psr_record_stream_close(&stream);
    if (err == PSR_OK)
        err = map_passed(path, &record, &sealed);
    if (err != PSR_OK) {
        psr_sealed_data_done(&sealed);
        return err;
    }
    *ret_sealed = sealed;
    return PSR_OK;
}

/* ---- who passes ---- */

static void pass(const psr_data_passer *passer, int fd)
{
    unsigned user = 0;
    psr_record record = {.kind = PSR_RECORD_ARENA, .value = passer->sealed->bytes};
    /* A process that does not get the descriptor reads the files itself. */
    if (psr_share_user(fd, &user) && user == geteuid())
        (void)psr_record_write(fd, &record, 1, passer->sealed->fd);
    close(fd);
}

static void *passer_thread(void *argument)
{
    const psr_data_passer *passer = argument;
    for (;;) {
        int fd = accept4(passer->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            pass(passer, fd);
        else if (errno != EINTR && errno != ECONNABORTED && !psr_file_try_again(0))
            return NULL; /* the socket was shut down */
    }
}

psr_err psr_data_passer_start(const char *path, const psr_sealed_data *sealed,
                              psr_data_passer *passer)
{
    struct sockaddr_un address;
    if (!address_of(path, &address))
        return psr_fail(PSR_ERR_IO, "the path %s is too long for a socket", path);
    passer->sealed = sealed;
    passer->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (passer->listener < 0)
        return psr_fail(PSR_ERR_IO, "no descriptor for a socket: %s", strerror(errno));
    (void)unlink(path);
    psr_err err = PSR_OK;
    if (bind(passer->listener, (const struct sockaddr *)&address, sizeof address) != 0 ||
        listen(passer->listener, BACKLOG) != 0)
        err = psr_fail(PSR_ERR_IO, "the socket %s: %s", path, strerror(errno));
    else
        err = psr_thread_start("psr-data-pass", passer_thread, passer, &passer->thread);
    if (err != PSR_OK) {
        close(passer->listener);
        *passer = PSR_DATA_PASSER_NONE;
    }
    return err;
}

void psr_data_passer_stop(psr_data_passer *passer)
{
    if (passer->listener < 0)
        return;
    (void)shutdown(passer->listener, SHUT_RDWR);
    pthread_join(passer->thread, NULL);
    close(passer->listener);
    *passer = PSR_DATA_PASSER_NONE;
}
