#include "ps/scheduler/metrics/metrics_file.h"

#include "base/system/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WRITE_BYTES ((size_t)64 << 10) /* so many are written without waiting for a flush */

/* The newest line of a rank, if it was left out. */
typedef struct pending {
    char *text; /* owned; NULL: the newest was written */
    size_t size;
} pending;

struct psr_metrics_file {
    char *path; /* owned, for messages */
    int fd;
    uint64_t every;
    uint32_t ranks;
    pending *newest; /* [ranks] */
    char *bytes;     /* whole lines that are not written yet */
    size_t used, room;
};

psr_err psr_metrics_file_new(const char *path, uint32_t ranks, uint64_t every,
                             psr_metrics_file **ret_file)
{
    psr_metrics_file *f = calloc(1, sizeof *f);
    if (f == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    *f = (psr_metrics_file){.path = strdup(path),
                            .fd = -1,
                            .every = every,
                            .ranks = ranks,
                            .newest = calloc(ranks, sizeof *f->newest)};
    if (f->path == NULL || f->newest == NULL) {
        psr_metrics_file_free(f);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    }
    for (unsigned attempt = 0;; attempt++) {
        f->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (f->fd >= 0 || !psr_file_try_again(attempt))
            break;
    }
    if (f->fd < 0) {
        const int error = errno;
        psr_metrics_file_free(f);
        return psr_fail(psr_err_of_write(error), "%s: cannot be written: %s", path,
                        strerror(error));
    }
    *ret_file = f;
    return PSR_OK;
}

void psr_metrics_file_free(psr_metrics_file *file)
{
    if (file == NULL)
        return;
    for (uint32_t r = 0; file->newest != NULL && r < file->ranks; r++)
        free(file->newest[r].text);
    if (file->fd >= 0)
        close(file->fd);
    free(file->newest);
    free(file->bytes);
    free(file->path);
    free(file);
}

/* ---- writing ---- */

/* The part of size bytes of text up to its last newline. */
static size_t whole_lines(const char *text, size_t size)
{
    while (size > 0 && text[size - 1] != '\n')
        size--;
    return size;
}

psr_err psr_metrics_file_flush(psr_metrics_file *f)
{
    const size_t done = psr_file_write_all(f->fd, f->bytes, f->used);
    const int error = errno;
    if (done == f->used) {
        f->used = 0;
        return PSR_OK;
    }
    /* The disk is full: the piece of a line is taken back. */
    const size_t whole = whole_lines(f->bytes, done);
    const off_t end = lseek(f->fd, 0, SEEK_END);
    if (whole < done && end >= (off_t)(done - whole))
        (void)!ftruncate(f->fd, end - (off_t)(done - whole));
    memmove(f->bytes, f->bytes + whole, f->used - whole);
    f->used -= whole;
    return psr_fail(psr_err_of_write(error), "%s: %s", f->path, strerror(error));
}

static psr_err add(psr_metrics_file *f, const char *text, size_t size)
{
    if (f->used + size + 1 > f->room) {
        const size_t room = 2 * (f->used + size + 1) + 4096;
        char *bytes = realloc(f->bytes, room);
        if (bytes == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for %s", f->path);
        f->bytes = bytes;
        f->room = room;
    }
    memcpy(f->bytes + f->used, text, size);
    f->used += size;
    f->bytes[f->used++] = '\n';
    return f->used >= WRITE_BYTES ? psr_metrics_file_flush(f) : PSR_OK;
}

static bool is_kept(const psr_metrics_file *f, const psr_metrics_line *line)
{
    return f->every == 1 || line->step % f->every == 0 ||
           cJSON_GetObjectItemCaseSensitive(line->fields, "test_loss") != NULL;
}

psr_err psr_metrics_file_put(psr_metrics_file *f, const psr_metrics_line *line)
{
    pending *newest = line->rank < f->ranks ? &f->newest[line->rank] : NULL;
    if (newest == NULL || is_kept(f, line)) {
        if (newest != NULL) {
            free(newest->text);
            newest->text = NULL;
        }
        return add(f, line->text, line->size);
    }
    char *text = realloc(newest->text, line->size + 1);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", f->path);
    memcpy(text, line->text, line->size);
    *newest = (pending){.text = text, .size = line->size};
    return PSR_OK;
}

psr_err psr_metrics_file_end(psr_metrics_file *f)
{
    for (uint32_t r = 0; r < f->ranks; r++) {
        if (f->newest[r].text == NULL)
            continue;
        PSR_TRY(add(f, f->newest[r].text, f->newest[r].size));
        free(f->newest[r].text);
        f->newest[r].text = NULL;
    }
    return psr_metrics_file_flush(f);
}
