/* zlib takes its input as const only when asked to. */
#define ZLIB_CONST
#include "data/files/source.h"

#include "base/system/file.h"

#include <errno.h>
#include <inttypes.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

enum { INPUT_BYTES = 64 * 1024, FIRST_BYTES = 1024 * 1024 };

static const char *const packing_name[] = {
    [PSR_SOURCE_PLAIN] = "plain", [PSR_SOURCE_GZIP] = "gzip", [PSR_SOURCE_XZ] = "xz"};

struct psr_source {
    char *path;
    psr_source_packing packing;
    int fd;               /* -1: memory */
    const uint8_t *input; /* what has been read and not yet unpacked */
    size_t input_bytes;
    bool input_ended;        /* no more input will come */
    uint64_t unpacked_bytes; /* handed out so far */
    bool ended;              /* the packed stream has ended as it should */
    bool between_members;    /* gzip: before the first or after a whole member */
    bool unpacker_live;
    z_stream gzip;
    lzma_stream xz;
    uint8_t *buffer;      /* INPUT_BYTES, of a file */
    psr_reading *reading; /* borrowed; NULL: nobody looks at it */
};

static psr_source_packing packing_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (dot != NULL && strcmp(dot, ".gz") == 0)
        return PSR_SOURCE_GZIP;
    if (dot != NULL && strcmp(dot, ".xz") == 0)
        return PSR_SOURCE_XZ;
    return PSR_SOURCE_PLAIN;
}

/* ---- memory of liblzma ---- */

/* xz wants its dictionary in memory, up to as much as the file has unpacked. It is mapped, because
 * a program that trains keeps freed blocks (base/system/memory.h), in an arena of the thread that
 * unpacks: what follows then never gets that memory. */
enum { BLOCK_HEAD = 64 }; /* a multiple of any alignment */

static void *block_new(void *opaque, size_t count, size_t size)
{
    (void)opaque;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - BLOCK_HEAD)
        return NULL;
    bytes += BLOCK_HEAD;
    uint8_t *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED)
        return NULL;
    memcpy(block, &bytes, sizeof bytes);
    return block + BLOCK_HEAD;
}

static void block_free(void *opaque, void *at)
{
    size_t bytes;
    (void)opaque;
    if (at == NULL)
        return;
    uint8_t *block = (uint8_t *)at - BLOCK_HEAD;
    memcpy(&bytes, block, sizeof bytes);
    (void)munmap(block, bytes);
}

static const lzma_allocator mapped_blocks = {.alloc = block_new, .free = block_free};

/* ---- opening ---- */

static psr_err unpacker_init(psr_source *source)
{
    switch (source->packing) {
    case PSR_SOURCE_PLAIN:
        return PSR_OK;
    case PSR_SOURCE_GZIP:
        source->between_members = true;
        /* 16: a gzip header and trailer, nothing else. */
        if (inflateInit2(&source->gzip, MAX_WBITS + 16) != Z_OK)
            return psr_fail(PSR_ERR_NOMEM, "%s: no memory to unpack gzip", source->path);
        break;
    case PSR_SOURCE_XZ:
        source->xz = (lzma_stream)LZMA_STREAM_INIT;
        source->xz.allocator = &mapped_blocks;
        if (lzma_stream_decoder(&source->xz, PSR_SOURCE_UNPACK_BYTES, LZMA_CONCATENATED) != LZMA_OK)
            return psr_fail(PSR_ERR_NOMEM, "%s: no memory to unpack xz", source->path);
        break;
    }
    source->unpacker_live = true;
    return PSR_OK;
}

/* NULL: no memory. */
static psr_source *source_new(const char *path, psr_source_packing packing)
{
    psr_source *source = calloc(1, sizeof *source);
    if (source == NULL)
        return NULL;
    source->fd = -1;
    source->packing = packing;
    source->path = strdup(path);
    if (source->path == NULL) {
        free(source);
        return NULL;
    }
    return source;
}

static psr_err open_file(psr_source *source)
{
    source->buffer = malloc(INPUT_BYTES);
    if (source->buffer == NULL)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to read it", source->path);
    /* the unpacked size is known only after reading, since packed files have their length at the
     * end */
    uint64_t size = 0;
    PSR_TRY(psr_file_open(source->path, &source->fd, &size));
    return unpacker_init(source);
}

psr_err psr_source_open(const char *path, psr_source **ret_source)
{
    psr_source *source = source_new(path, packing_of(path));
    if (source == NULL)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to open it", path);
    psr_err err = open_file(source);
    if (err != PSR_OK) {
        psr_source_free(source);
        return err;
    }
    *ret_source = source;
    return PSR_OK;
}

psr_err psr_source_open_memory(const char *name, psr_source_packing packing, const uint8_t *bytes,
                               size_t size, psr_source **ret_source)
{
    psr_source *source = source_new(name, packing);
    if (source == NULL)
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to open it", name);
    source->input = bytes;
    source->input_bytes = size;
    source->input_ended = true;
    psr_err err = unpacker_init(source);
    if (err != PSR_OK) {
        psr_source_free(source);
        return err;
    }
    *ret_source = source;
    return PSR_OK;
}

void psr_source_free(psr_source *source)
{
    if (source == NULL)
        return;
    if (source->unpacker_live && source->packing == PSR_SOURCE_GZIP)
        inflateEnd(&source->gzip);
    if (source->unpacker_live && source->packing == PSR_SOURCE_XZ)
        lzma_end(&source->xz);
    if (source->fd >= 0)
        close(source->fd);
    free(source->buffer);
    free(source->path);
    free(source);
}

void psr_source_watch(psr_source *source, psr_reading *reading)
{
    source->reading = reading;
}

const char *psr_source_path(const psr_source *source)
{
    return source->path;
}

bool psr_source_is_plain_file(const psr_source *source)
{
    return source->packing == PSR_SOURCE_PLAIN && source->fd >= 0;
}

/* Calls read(2) until it returns something. */
static psr_err read_some(psr_source *source, uint8_t *to, size_t size, size_t *ret_size)
{
    for (;;) {
        ssize_t got = read(source->fd, to, size);
        if (got >= 0) {
            *ret_size = (size_t)got;
            return PSR_OK;
        }
        if (errno != EINTR)
            return psr_fail(PSR_ERR_IO, "%s: cannot be read: %s", source->path, strerror(errno));
    }
}

/* Makes input non-empty, or input_ended true. */
static psr_err refill(psr_source *source)
{
    if (source->input_bytes > 0 || source->input_ended)
        return PSR_OK;
    size_t got = 0;
    PSR_TRY(read_some(source, source->buffer, INPUT_BYTES, &got));
    source->input = source->buffer;
    source->input_bytes = got;
    source->input_ended = got == 0;
    return PSR_OK;
}

static psr_err plain_some(psr_source *source, uint8_t *to, size_t size, size_t *ret_size)
{
    if (source->fd >= 0 && source->input_bytes == 0 && size >= INPUT_BYTES)
        return read_some(source, to, size, ret_size); /* a long run needs no copy */
    PSR_TRY(refill(source));
    size_t length = size < source->input_bytes ? size : source->input_bytes;
    if (length > 0)
        memcpy(to, source->input, length);
    source->input += length;
    source->input_bytes -= length;
    *ret_size = length;
    return PSR_OK;
}

/* unpacked: the bytes of this call, in addition to those that were returned before. */
static psr_err fail_cut(const psr_source *source, size_t unpacked)
{
    return psr_fail(PSR_ERR_FORMAT,
                    "%s: truncated: the %s data break off after %" PRIu64 " unpacked bytes",
                    source->path, packing_name[source->packing], source->unpacked_bytes + unpacked);
}

static psr_err fail_damaged(const psr_source *source, size_t unpacked, const char *what)
{
    return psr_fail(PSR_ERR_FORMAT, "%s: damaged %s data after %" PRIu64 " unpacked bytes: %s",
                    source->path, packing_name[source->packing], source->unpacked_bytes + unpacked,
                    what);
}

/* Several members after one another are one file (RFC 1952, section 2.2). */
static psr_err gzip_some(psr_source *source, uint8_t *to, size_t size, size_t *ret_size)
{
    z_stream *gzip = &source->gzip;
    uInt room = size < (1u << 30) ? (uInt)size : 1u << 30;
    gzip->next_out = to;
    gzip->avail_out = room;
    while (gzip->avail_out == room) {
        PSR_TRY(refill(source));
        if (source->input_bytes == 0) {
            if (!source->between_members || source->gzip.total_in == 0)
                return fail_cut(source, 0);
            source->ended = true;
            break;
        }
        if (source->between_members && gzip->total_in > 0)
            inflateReset(gzip);
        source->between_members = false;
        uInt given = source->input_bytes < (1u << 30) ? (uInt)source->input_bytes : 1u << 30;
        gzip->next_in = source->input;
        gzip->avail_in = given;
        int code = inflate(gzip, Z_NO_FLUSH);
        source->input += given - gzip->avail_in;
        source->input_bytes -= given - gzip->avail_in;
        if (code == Z_STREAM_END)
            source->between_members = true;
        else if (code == Z_MEM_ERROR)
            return psr_fail(PSR_ERR_NOMEM, "%s: no memory to unpack gzip", source->path);
        else if (code != Z_OK && code != Z_BUF_ERROR)
            return fail_damaged(source, room - gzip->avail_out,
                                gzip->msg != NULL ? gzip->msg : "a preset dictionary is asked for");
    }
    *ret_size = room - gzip->avail_out;
    return PSR_OK;
}

static psr_err xz_fail(const psr_source *source, size_t unpacked, lzma_ret code)
{
    switch (code) {
    case LZMA_MEM_ERROR:
        return psr_fail(PSR_ERR_NOMEM, "%s: no memory to unpack xz", source->path);
    case LZMA_MEMLIMIT_ERROR:
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: asks for more than %u MiB to unpack, more than xz -9 would",
                        source->path, PSR_SOURCE_UNPACK_BYTES >> 20);
    case LZMA_BUF_ERROR:
        return fail_cut(source, unpacked);
    case LZMA_FORMAT_ERROR:
        return fail_damaged(source, unpacked, "no xz header");
    case LZMA_OPTIONS_ERROR:
        return fail_damaged(source, unpacked, "filters that liblzma does not know");
    default:
        return fail_damaged(source, unpacked, "a checksum or a code is wrong");
    }
}

static psr_err xz_some(psr_source *source, uint8_t *to, size_t size, size_t *ret_size)
{
    lzma_stream *xz = &source->xz;
    xz->next_out = to;
    xz->avail_out = size;
    while (xz->avail_out == size && !source->ended) {
        PSR_TRY(refill(source));
        xz->next_in = source->input;
        xz->avail_in = source->input_bytes;
        /* The end of memory is known. The end of a file is known only after a read that returned
         * nothing. */
        bool last = source->input_ended;
        lzma_ret code = lzma_code(xz, last ? LZMA_FINISH : LZMA_RUN);
        source->input = xz->next_in;
        source->input_bytes = xz->avail_in;
        if (code == LZMA_STREAM_END)
            source->ended = true;
        else if (code == LZMA_BUF_ERROR && !last)
            continue;
        else if (code != LZMA_OK)
            return xz_fail(source, size - xz->avail_out, code);
    }
    *ret_size = size - xz->avail_out;
    return PSR_OK;
}

/* Returns between 1 and size bytes; 0 bytes: a proper end. */
static psr_err some(psr_source *source, uint8_t *to, size_t size, size_t *ret_size)
{
    *ret_size = 0;
    if (source->ended || size == 0)
        return PSR_OK;
    psr_err err = psr_reading_moved(source->reading);
    if (err != PSR_OK)
        return err;
    if (size > PSR_READING_BYTES)
        size = PSR_READING_BYTES;
    switch (source->packing) {
    case PSR_SOURCE_PLAIN:
        err = plain_some(source, to, size, ret_size);
        break;
    case PSR_SOURCE_GZIP:
        err = gzip_some(source, to, size, ret_size);
        break;
    case PSR_SOURCE_XZ:
        err = xz_some(source, to, size, ret_size);
        break;
    }
    if (err == PSR_OK)
        source->unpacked_bytes += *ret_size;
    return err;
}

psr_err psr_source_read(psr_source *source, void *to, size_t size, uint64_t whole_size)
{
    uint8_t *at = to;
    while (size > 0) {
        size_t got = 0;
        PSR_TRY(some(source, at, size, &got));
        if (got == 0)
            return psr_fail(PSR_ERR_FORMAT,
                            "%s: truncated: ends after %" PRIu64 " bytes, should have %" PRIu64,
                            source->path, source->unpacked_bytes, whole_size);
        at += got;
        size -= got;
    }
    return PSR_OK;
}

psr_err psr_source_read_new(psr_source *source, size_t size, uint64_t whole_size,
                            uint8_t **ret_bytes)
{
    uint8_t *bytes = NULL;
    size_t have = 0, room = 0;
    psr_err err = PSR_OK;
    do {
        room = room == 0 ? FIRST_BYTES : room * 2;
        if (room > size || room < have)
            room = size;
        uint8_t *grown = realloc(bytes, room > 0 ? room : 1);
        if (grown == NULL) {
            err = psr_fail(PSR_ERR_NOMEM, "%s: no memory for %zu bytes", source->path, size);
            goto out;
        }
        bytes = grown;
        err = psr_source_read(source, bytes + have, room - have, whole_size);
        if (err != PSR_OK)
            goto out;
        have = room;
    } while (have < size);
    *ret_bytes = bytes;
    bytes = NULL;
out:
    free(bytes);
    return err;
}

psr_err psr_source_end(psr_source *source)
{
    uint64_t whole_size = source->unpacked_bytes;
    uint8_t extra;
    size_t got = 0;
    PSR_TRY(some(source, &extra, 1, &got));
    if (got > 0)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: over-long: more bytes follow the %" PRIu64 " that it should have",
                        source->path, whole_size);
    return PSR_OK;
}
