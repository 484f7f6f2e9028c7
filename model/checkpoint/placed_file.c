#include "model/checkpoint/placed_file.h"

#include "base/system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What O_DIRECT wants memory, places and sizes to be multiples of: the largest sector in use, and
 * the size of a block of most file systems. */
#define BLOCK_BYTES ((size_t)4096)
/* Copied at a time: what the caller then does with the copy finds it in the cache. */
#define COPY_BYTES ((size_t)64 << 10)
/* Through the page cache the file is flushed after so many bytes: the end never has much to flush,
 * and who watches hears of a slow disk. */
#define FLUSH_BYTES ((uint64_t)32 << 20)

_Static_assert(PSR_PLACED_FILE_STAGE_BYTES % BLOCK_BYTES == 0, "whole blocks are written");

static uint64_t blocks_up(uint64_t bytes)
{
    return (bytes + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
}

static psr_err fail_errno(const psr_placed_file *file)
{
    return psr_fail(psr_err_of_write(errno), "%s: %s", file->path, strerror(errno));
}

static psr_err tell_moved(const psr_placed_file *file)
{
    return file->moved != NULL ? file->moved(file->context) : PSR_OK;
}

/* ---- the kernel's part ---- */

/* A file system may open a file with O_DIRECT and want more than BLOCK_BYTES, or refuse when it is
 * used. Then the bytes go through the page cache. */
static bool give_up_direct(psr_placed_file *file)
{
    if (!file->direct || errno != EINVAL)
        return false;
    file->direct = false;
    return fcntl(file->fd, F_SETFL, fcntl(file->fd, F_GETFL) & ~O_DIRECT) == 0;
}

static psr_err write_at(psr_placed_file *file, const uint8_t *from, size_t size, uint64_t offset)
{
    while (size > 0) {
        const ssize_t written = pwrite(file->fd, from, size, (off_t)offset);
        if (written < 0 && (errno == EINTR || give_up_direct(file)))
            continue;
        if (written < 0)
            return fail_errno(file);
        from += written;
        offset += (uint64_t)written;
        size -= (size_t)written;
    }
    return tell_moved(file);
}

static psr_err read_at(psr_placed_file *file, uint8_t *to, size_t size, uint64_t offset)
{
    while (size > 0) {
        const ssize_t got = pread(file->fd, to, size, (off_t)offset);
        if (got < 0 && (errno == EINTR || give_up_direct(file)))
            continue;
        if (got <= 0)
            return got < 0 ? fail_errno(file)
                           : psr_fail(PSR_ERR_IO, "%s: another program has made it shorter",
                                      file->path);
        to += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return PSR_OK;
}

static psr_err flush(psr_placed_file *file)
{
    if (fsync(file->fd) != 0)
        return fail_errno(file);
    file->unflushed_bytes = 0;
    return tell_moved(file);
}

/* ---- the stage ---- */

/* Fills the rest of the first and the last block from the file. */
static psr_err complete_blocks(psr_placed_file *file)
{
    uint8_t block[BLOCK_BYTES] __attribute__((aligned(4096)));
    const size_t end = blocks_up(file->to), last = end - BLOCK_BYTES;
    if (file->from > 0) {
        PSR_TRY(read_at(file, block, sizeof block, file->begin));
        memcpy(file->stage, block, file->from);
    }
    if (file->to < end) {
        PSR_TRY(read_at(file, block, sizeof block, file->begin + last));
        memcpy(file->stage + file->to, block + (file->to - last), end - file->to);
    }
    return PSR_OK;
}

static psr_err write_stage(psr_placed_file *file)
{
    if (file->from == file->to)
        return PSR_OK;
    if (file->direct)
        PSR_TRY(complete_blocks(file));
    const size_t from = file->direct ? 0 : file->from,
                 to = file->direct ? blocks_up(file->to) : file->to;
    PSR_TRY(write_at(file, file->stage + from, to - from, file->begin + from));
    file->unflushed_bytes += to - from;
    file->from = file->to = 0;
    return file->direct || file->unflushed_bytes < FLUSH_BYTES ? PSR_OK : flush(file);
}

psr_err psr_placed_file_put(psr_placed_file *file, uint64_t offset, const void *data, size_t bytes,
                            const void **ret_copy, size_t *ret_copied)
{
    if (file->to == PSR_PLACED_FILE_STAGE_BYTES || offset != file->begin + file->to)
        PSR_TRY(write_stage(file));
    if (file->from == file->to) {
        file->begin = offset / BLOCK_BYTES * BLOCK_BYTES;
        file->from = file->to = (size_t)(offset - file->begin);
    }
    const size_t room = PSR_PLACED_FILE_STAGE_BYTES - file->to;
    size_t copied = bytes < room ? bytes : room;
    copied = copied < COPY_BYTES ? copied : COPY_BYTES;
    memcpy(file->stage + file->to, data, copied);
    *ret_copy = file->stage + file->to;
    *ret_copied = copied;
    file->to += copied;
    return PSR_OK;
}

psr_err psr_placed_file_read(psr_placed_file *file, uint64_t offset, uint64_t bytes,
                             const void **ret_data, size_t *ret_got)
{
    PSR_TRY(write_stage(file));
    const uint64_t begin = offset / BLOCK_BYTES * BLOCK_BYTES;
    uint64_t end = blocks_up(offset + bytes);
    end = end - begin < PSR_PLACED_FILE_STAGE_BYTES ? end : begin + PSR_PLACED_FILE_STAGE_BYTES;
    PSR_TRY(read_at(file, file->stage, (size_t)(end - begin), begin));
    PSR_TRY(tell_moved(file));
    const uint64_t got = end - offset;
    *ret_data = file->stage + (offset - begin);
    *ret_got = (size_t)(got < bytes ? got : bytes);
    return PSR_OK;
}

/* ---- beginning and end ---- */

static int open_at(const char *path, int flags)
{
    int fd = -1;
    for (unsigned attempt = 0; fd < 0; attempt++) {
        fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0666);
        if (fd < 0 && !psr_file_try_again(attempt))
            break;
    }
    return fd;
}

/* Whole blocks, which are what is written and read. On a file system that cannot reserve space the
 * file is sparse, and a full disk is reported later. */
static psr_err reserve(psr_placed_file *file)
{
    const off_t size = (off_t)blocks_up(file->size_bytes);
    int failed;
    do
        failed = fallocate(file->fd, 0, 0, size);
    while (failed && errno == EINTR);
    if (failed && errno == EOPNOTSUPP)
        failed = ftruncate(file->fd, size);
    return failed ? fail_errno(file) : PSR_OK;
}

psr_err psr_placed_file_create(psr_placed_file *file, uint64_t size_bytes, bool direct)
{
    *file = (psr_placed_file){.path = file->path,
                              .moved = file->moved,
                              .context = file->context,
                              .fd = -1,
                              .direct = direct,
                              .size_bytes = size_bytes};
    file->stage = psr_huge_pages_map(PSR_PLACED_FILE_STAGE_BYTES);
    if (file->stage == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to write %s", file->path);
    psr_huge_pages_fill(file->stage,
                        PSR_PLACED_FILE_STAGE_BYTES); /* one page to hold for a write */
    file->fd = open_at(file->path, direct ? O_DIRECT : 0);
    if (file->fd < 0 && direct && errno == EINVAL) {
        file->direct = false;
        file->fd = open_at(file->path, 0);
    }
    if (file->fd < 0)
        return fail_errno(file);
    file->created = true;
    return reserve(file);
}

psr_err psr_placed_file_finish(psr_placed_file *file)
{
    PSR_TRY(write_stage(file));
    if (file->size_bytes % BLOCK_BYTES != 0 && ftruncate(file->fd, (off_t)file->size_bytes) != 0)
        return fail_errno(file);
    return flush(file);
}

void psr_placed_file_done(psr_placed_file *file, bool removes)
{
    if (file->created && removes)
        (void)unlink(file->path);
    if (file->fd >= 0)
        close(file->fd);
    if (file->stage != NULL)
        (void)munmap(file->stage, PSR_PLACED_FILE_STAGE_BYTES);
    *file = PSR_PLACED_FILE_NONE;
}
