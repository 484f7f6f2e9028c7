#include "deploy/watch/rank_lines.h"

#include "base/text/json.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 << 10)
#define LINE_BYTES_MAX ((size_t)64 << 10)
enum { WINDOW = 20 };

/* What a line tells, as far as a table shows it. */
typedef struct line {
    double images, took_s, compute_s, wait_s, sent, received, staleness;
} line;

typedef struct rank_lines {
    uint64_t step;
    double loss, test_accuracy;
    line window[WINDOW];
    size_t count, next;
} rank_lines;

struct psr_rank_lines {
    char *path; /* owned */
    off_t offset;
    char *bytes; /* [READ_BYTES] of the file from offset on */
    uint32_t ranks;
    uint64_t strange;
    rank_lines of[PSR_RANK_LINES_RANKS_MAX];
};

psr_err psr_rank_lines_new(const char *run, psr_rank_lines **ret_lines)
{
    psr_rank_lines *l = calloc(1, sizeof *l);
    if (l == NULL || asprintf(&l->path, "%s/metrics.jsonl", run) < 0 ||
        (l->bytes = malloc(READ_BYTES)) == NULL) {
        psr_rank_lines_free(l);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the lines of %s", run);
    }
    *ret_lines = l;
    return PSR_OK;
}

void psr_rank_lines_free(psr_rank_lines *lines)
{
    if (lines == NULL)
        return;
    free(lines->path);
    free(lines->bytes);
    free(lines);
}

static double amount(const cJSON *object, const char *name)
{
    const double value = psr_json_number(object, name, 0);
    return value >= 0 ? value : 0;
}

static void take_line(psr_rank_lines *l, const char *text, size_t size)
{
    cJSON *object = cJSON_ParseWithLength(text, size);
    const double rank = psr_json_number(object, "rank", -1),
                 step = psr_json_number(object, "step", 0);
    if (!(rank >= 0 && rank < PSR_RANK_LINES_RANKS_MAX && rank == floor(rank) && step >= 1 &&
          step < 0x1p53)) {
        l->strange++;
        cJSON_Delete(object);
        return;
    }
    rank_lines *r = &l->of[(size_t)rank];
    const double rate = amount(object, "images_per_s"), images = amount(object, "images");
    if (r->step == 0)
        r->test_accuracy = (double)NAN;
    r->step = (uint64_t)step;
    r->loss = psr_json_number(object, "loss", NAN);
    r->test_accuracy = psr_json_number(object, "test_accuracy", r->test_accuracy);
    r->window[r->next] =
        (line){.images = images,
               .took_s = rate > 0 ? images / rate : 0,
               .compute_s = amount(object, "compute_s") + amount(object, "load_wait_s"),
               .wait_s = amount(object, "wait_s"),
               .sent = amount(object, "bytes_sent"),
               .received = amount(object, "bytes_received"),
               .staleness = amount(object, "staleness")};
    r->next = (r->next + 1) % WINDOW;
    r->count += r->count < WINDOW;
    if ((uint32_t)rank >= l->ranks)
        l->ranks = (uint32_t)rank + 1;
    cJSON_Delete(object);
}

/* Returns how many bytes were whole lines. */
static size_t take_lines(psr_rank_lines *l, size_t size)
{
    const char *at = l->bytes, *end = l->bytes + size, *newline;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        take_line(l, at, (size_t)(newline - at));
        at = newline + 1;
    }
    return (size_t)(at - l->bytes);
}

psr_err psr_rank_lines_read(psr_rank_lines *l)
{
    psr_err err = PSR_OK;
    const int fd = open(l->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return PSR_OK;
    if (fd < 0)
        return psr_fail(PSR_ERR_IO, "%s: %s", l->path, strerror(errno));
    for (;;) {
        const ssize_t got = pread(fd, l->bytes, READ_BYTES, l->offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            err = psr_fail(PSR_ERR_IO, "%s: %s", l->path, strerror(errno));
        if (got <= 0)
            break;
        const size_t whole = take_lines(l, (size_t)got);
        l->offset += (off_t)whole;
        if (whole == 0 && (size_t)got > LINE_BYTES_MAX) {
            err = psr_fail(PSR_ERR_FORMAT, "%s: a line is too long for a step of a run", l->path);
            break;
        }
        if (whole == 0)
            break; /* the rest of a line is still to come */
    }
    close(fd);
    return err;
}

uint32_t psr_rank_lines_ranks(const psr_rank_lines *lines)
{
    return lines->ranks;
}

uint64_t psr_rank_lines_strange(const psr_rank_lines *lines)
{
    return lines->strange;
}

psr_rank_now psr_rank_lines_now(const psr_rank_lines *lines, uint32_t rank)
{
    const rank_lines *r = &lines->of[rank];
    line sum = {0};
    double most = 0;
    for (size_t i = 0; i < r->count; i++) {
        const line *w = &r->window[i];
        sum.images += w->images;
        sum.took_s += w->took_s;
        sum.compute_s += w->compute_s;
        sum.wait_s += w->wait_s;
        sum.sent += w->sent;
        sum.received += w->received;
        most = fmax(most, w->staleness);
    }
    const double took_s = sum.took_s > 0 ? sum.took_s : (double)INFINITY;
    return (psr_rank_now){.step = r->step,
                          .loss = r->step > 0 ? r->loss : (double)NAN,
                          .images_per_s = sum.images / took_s,
                          .compute_s = r->count > 0 ? sum.compute_s / (double)r->count : 0,
                          .wait_share = fmin(sum.wait_s / took_s, 1),
                          .sent_per_s = sum.sent / took_s,
                          .received_per_s = sum.received / took_s,
                          .staleness = most,
                          .test_accuracy = r->step > 0 ? r->test_accuracy : (double)NAN};
}
