#include "ps/scheduler/tensorboard/records.h"

#include "base/system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41 with its bits reflected */
#define FRAME_BYTES 16         /* of a record beside its data */

/* Bit by bit: an event has about a hundred bytes, and some are written per step. */
uint32_t psr_crc32c(const void *data, size_t size)
{
    const uint8_t *bytes = data;
    uint32_t crc = ~UINT32_C(0);
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
    }
    return ~crc;
}

uint32_t psr_crc32c_masked(const void *data, size_t size)
{
    const uint32_t crc = psr_crc32c(data, size);
    return (crc >> 15 | crc << 17) + UINT32_C(0xa282ead8);
}

struct psr_records {
    char *path; /* owned */
    int fd;
    uint8_t *bytes; /* whole records that are not written yet */
    size_t used, room;
};

psr_err psr_records_new(const char *path, psr_records **ret_records)
{
    psr_records *r = calloc(1, sizeof *r);
    if (r == NULL || (r->path = strdup(path)) == NULL) {
        free(r);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    }
    r->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (r->fd < 0) {
        const int error = errno;
        psr_records_free(r);
        return psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", path, strerror(error));
    }
    *ret_records = r;
    return PSR_OK;
}

void psr_records_free(psr_records *records)
{
    if (records == NULL)
        return;
    if (records->fd >= 0)
        close(records->fd);
    free(records->bytes);
    free(records->path);
    free(records);
}

static void put_little_endian(uint8_t *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

psr_err psr_records_put(psr_records *r, const void *data, size_t size)
{
    if (r->used + size + FRAME_BYTES > r->room) {
        const size_t room = 2 * (r->used + size + FRAME_BYTES);
        uint8_t *bytes = realloc(r->bytes, room);
        if (bytes == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for %s", r->path);
        r->bytes = bytes;
        r->room = room;
    }
    uint8_t *at = r->bytes + r->used;
    put_little_endian(at, size, 8);
    put_little_endian(at + 8, psr_crc32c_masked(at, 8), 4);
    memcpy(at + 12, data, size);
    put_little_endian(at + 12 + size, psr_crc32c_masked(data, size), 4);
    r->used += size + FRAME_BYTES;
    return PSR_OK;
}

psr_err psr_records_flush(psr_records *r)
{
    if (psr_file_write_all(r->fd, r->bytes, r->used) < r->used)
        return psr_fail(PSR_ERR_IO, "%s: %s", r->path, strerror(errno));
    r->used = 0;
    return PSR_OK;
}
