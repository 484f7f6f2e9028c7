#include "data/files/mapped.h"

#include "base/system/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct psr_mapped {
    psr_mapped_place place;
    int fd;
    const uint8_t *file; /* mapped: all of it */
};

static int64_t ns_of(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static psr_err see(psr_mapped *m)
{
    struct stat status;
    if (fstat(m->fd, &status) != 0)
        return psr_fail(PSR_ERR_IO, "%s: %s", m->place.path, strerror(errno));
    m->place.device = (uint64_t)status.st_dev;
    m->place.inode = (uint64_t)status.st_ino;
    m->place.file_bytes = (uint64_t)status.st_size;
    m->place.modified_ns = ns_of(status.st_mtim);
    m->place.changed_ns = ns_of(status.st_ctim);
    return PSR_OK;
}

static psr_err map(psr_mapped *m)
{
    const psr_mapped_place *p = &m->place;
    if (p->file_bytes < p->offset + p->bytes)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: truncated: ends after %" PRIu64 " bytes, should have %" PRIu64,
                        p->path, p->file_bytes, p->offset + p->bytes);
    if (p->file_bytes > p->offset + p->bytes)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: over-long: more bytes follow the %" PRIu64 " that it should have",
                        p->path, p->offset + p->bytes);
    void *map = mmap(NULL, p->file_bytes, PROT_READ, MAP_SHARED, m->fd, 0);
    if (map == MAP_FAILED)
        return psr_fail(PSR_ERR_NOMEM, "%s: cannot be mapped: %s", p->path, strerror(errno));
    m->file = map;
    return PSR_OK;
}

static psr_err open_file(psr_mapped *m, const char *path)
{
    uint64_t size = 0;
    char *real = realpath(path, NULL);
    const char *name = real != NULL ? real : path;
    psr_err err = PSR_OK;
    if (strlen(name) >= sizeof m->place.path)
        err = psr_fail(PSR_ERR_USAGE, "%s: a path longer than %d bytes", name, PSR_PATH_MAX);
    else
        strcpy(m->place.path, name);
    free(real);
    if (err == PSR_OK)
        err = psr_file_open(m->place.path, &m->fd, &size);
    return err == PSR_OK ? see(m) : err;
}

static psr_err mapped_new(uint64_t offset, uint64_t bytes, psr_mapped **ret_mapped)
{
    psr_mapped *m = calloc(1, sizeof *m);
    if (m == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to map a file");
    m->fd = -1;
    m->place.offset = offset;
    m->place.bytes = bytes;
    *ret_mapped = m;
    return PSR_OK;
}

/* Maps the file if it was opened without an error; otherwise frees m. */
static psr_err map_opened(psr_mapped *m, psr_err err, psr_mapped **ret_mapped)
{
    if (err == PSR_OK)
        err = map(m);
    if (err != PSR_OK) {
        psr_mapped_free(m);
        return err;
    }
    *ret_mapped = m;
    return PSR_OK;
}

psr_err psr_mapped_open(const char *path, uint64_t offset, uint64_t bytes, psr_mapped **ret_mapped)
{
    psr_mapped *m = NULL;
    PSR_TRY(mapped_new(offset, bytes, &m));
    psr_err err = open_file(m, path);
    return map_opened(m, err, ret_mapped);
}

psr_err psr_mapped_open_place(const psr_mapped_place *place, psr_mapped **ret_mapped)
{
    psr_mapped *m = NULL;
    if (memchr(place->path, '\0', sizeof place->path) == NULL || place->path[0] != '/' ||
        place->bytes > UINT64_MAX - place->offset)
        return psr_fail(PSR_ERR_FORMAT, "what another process passed is no place in a file");
    PSR_TRY(mapped_new(place->offset, place->bytes, &m));
    psr_err err = open_file(m, place->path);
    if (err == PSR_OK && memcmp(&m->place, place, sizeof *place) != 0)
        err = psr_fail(PSR_ERR_FORMAT, "%s: has changed since another process opened it",
                       place->path);
    return map_opened(m, err, ret_mapped);
}

void psr_mapped_free(psr_mapped *m)
{
    if (m == NULL)
        return;
    if (m->file != NULL)
        munmap((void *)(uintptr_t)m->file, m->place.file_bytes);
    if (m->fd >= 0)
        close(m->fd);
    free(m);
}

const uint8_t *psr_mapped_bytes(const psr_mapped *mapped)
{
    return mapped->file + mapped->place.offset;
}

const psr_mapped_place *psr_mapped_place_of(const psr_mapped *mapped)
{
    return &mapped->place;
}

psr_err psr_mapped_check(const psr_mapped *m)
{
    struct stat status;
    if (fstat(m->fd, &status) != 0)
        return psr_fail(PSR_ERR_IO, "%s: %s", m->place.path, strerror(errno));
    if ((uint64_t)status.st_size < m->place.file_bytes)
        return psr_fail(PSR_ERR_FORMAT,
                        "%s: truncated while it was in use: has %" PRIu64
                        " bytes, should have %" PRIu64,
                        m->place.path, (uint64_t)status.st_size, m->place.file_bytes);
    return PSR_OK;
}

/* ---- the source ---- */

static uint64_t bytes_of_picture(const psr_picture_source *source)
{
    return (uint64_t)source->channels * source->height * source->width;
}

static psr_err mapped_picture(const psr_picture_source *source, uint32_t i,
                              const psr_picture_part *part, psr_picture_scratch *scratch,
                              psr_picture *ret_picture)
{
    const psr_mapped *m = source->state;
    (void)scratch;
    PSR_TRY(psr_mapped_check(m));
    return psr_picture_of_planes(source, psr_mapped_bytes(m) + i * bytes_of_picture(source), part,
                                 ret_picture);
}

/* The kernel reads the pages meanwhile. */
static void mapped_prefetch(const psr_picture_source *source, uint32_t i)
{
    const psr_mapped *m = source->state;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), bytes = bytes_of_picture(source),
                   at = m->place.offset + i * bytes, begin = at / page * page;
    (void)posix_madvise((void *)(uintptr_t)(m->file + begin), at + bytes - begin,
                        POSIX_MADV_WILLNEED);
}

static void mapped_free(psr_picture_source *source)
{
    free(source);
}

static const psr_picture_source_kind mapped_kind = {
    .name = "mapped", .picture = mapped_picture, .prefetch = mapped_prefetch, .free = mapped_free};

psr_err psr_mapped_source_new(const psr_mapped *mapped, const uint32_t *labels, uint32_t count,
                              uint32_t channels, uint32_t height, uint32_t width, uint32_t classes,
                              psr_picture_source **ret_source)
{
    psr_picture_source *source = NULL;
    PSR_TRY(psr_memory_source_new(psr_mapped_bytes(mapped), labels, count, channels, height, width,
                                  classes, &source));
    source->kind = &mapped_kind;
    source->state = (void *)(uintptr_t)mapped;
    *ret_source = source;
    return PSR_OK;
}
