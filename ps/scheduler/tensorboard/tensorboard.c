#include "ps/scheduler/tensorboard/tensorboard.h"

#include "base/system/file.h"
#include "base/text/json.h"
#include "event.pb-c.h"
#include "ps/scheduler/tensorboard/records.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES 4400
#define FILES_BEGIN "events.out.tfevents."
#define EARLIER_BYTES_MAX ((size_t)1 << 30)
enum { NORM_TENSORS_MAX = 128, TAG_BYTES = 128 }; /* of a line, whose bytes are bounded */
#define OPEN_STEPS_MAX                                                                             \
    4096 /* async: how far a rank may be behind before its step is written without */

/* Of the ranks that have told a step: sums, and the staleness of each. */
typedef struct open_step {
    uint64_t step;
    uint32_t told;
    double wall_s, loss, images, lr, images_per_s, exchange_s, wait_s;
    double test_loss, test_accuracy; /* NaN: no evaluation */
    double ema_accuracy;             /* --ema; NaN: likewise, or none */
    uint32_t lr_rank;
    double *staleness; /* [ranks], owned; told of them are set */
    struct open_step *next;
} open_step;

struct psr_tensorboard {
    uint32_t ranks;
    uint64_t every;
    psr_records *records;
    open_step *steps; /* by step; owned */
    size_t open_count;
    double now_s; /* the newest time that was written */
};

psr_err psr_tensorboard_check(void)
{
    return PSR_OK;
}

/* ---- events ---- */

static psr_err write_event(psr_tensorboard *t, const PsrEvent__Event *event)
{
    const size_t size = psr_event__event__get_packed_size(event);
    uint8_t *bytes = malloc(size + 1);
    if (bytes == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an event");
    psr_event__event__pack(event, bytes);
    psr_err err = psr_records_put(t->records, bytes, size);
    free(bytes);
    return err;
}

static PsrEvent__Event event_at(double wall_s, uint64_t step)
{
    PsrEvent__Event event = PSR_EVENT__EVENT__INIT;
    event.has_wall_time = event.has_step = true;
    event.wall_time = wall_s;
    event.step = (int64_t)step;
    return event;
}

static psr_err write_beginning(psr_tensorboard *t, uint64_t first_step)
{
    static char version[] = "brain.Event:2";
    const double now_s = (double)time(NULL);
    PsrEvent__Event event = event_at(now_s, 0);
    event.file_version = version;
    PSR_TRY(write_event(t, &event));
    PsrEvent__SessionLog log = PSR_EVENT__SESSION_LOG__INIT;
    log.has_status = true;
    log.status = 1; /* START */
    event = event_at(now_s, first_step + 1);
    event.session_log = &log;
    return first_step > 0 ? write_event(t, &event) : PSR_OK;
}

enum { VALUES_MAX = 2 * NORM_TENSORS_MAX };

typedef struct values {
    PsrEvent__Value items[VALUES_MAX], *pointers[VALUES_MAX];
    size_t count;
} values;

static PsrEvent__Value *add_value(values *v, const char *tag)
{
    PsrEvent__Value *value = &v->items[v->count];
    *value = (PsrEvent__Value)PSR_EVENT__VALUE__INIT;
    value->tag = (char *)(uintptr_t)tag; /* is only read */
    v->pointers[v->count++] = value;
    return value;
}

static void add_scalar(values *v, const char *tag, double number)
{
    if (isnan(number))
        return;
    PsrEvent__Value *value = add_value(v, tag);
    value->has_simple_value = true;
    value->simple_value = (float)number;
}

static int compare_numbers(const void *one, const void *other)
{
    const double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

/* A bucket for each value that there is, from just below it to it. limits, counts: [2 * told]. */
static PsrEvent__HistogramProto histogram_of(double *numbers, uint32_t told, double *limits,
                                             double *counts)
{
    PsrEvent__HistogramProto h = PSR_EVENT__HISTOGRAM_PROTO__INIT;
    size_t used = 0;
    qsort(numbers, told, sizeof *numbers, compare_numbers);
    for (uint32_t i = 0; i < told; i++) {
        if (used == 0 || limits[used - 1] < numbers[i] - 0.5) {
            counts[used] = 0; /* of the gap before it */
            limits[used++] = numbers[i] - 0.5;
        }
        if (limits[used - 1] < numbers[i]) {
            counts[used] = 0;
            limits[used++] = numbers[i] + 0.5;
        }
        counts[used - 1]++;
        h.sum += numbers[i];
        h.sum_squares += numbers[i] * numbers[i];
    }
    h.has_min = h.has_max = h.has_num = h.has_sum = h.has_sum_squares = true;
    h.min = numbers[0];
    h.max = numbers[told - 1];
    h.num = told;
    h.bucket_limit = limits;
    h.bucket = counts;
    h.n_bucket_limit = h.n_bucket = used;
    return h;
}

static psr_err write_step(psr_tensorboard *t, open_step *s)
{
    values v = {.count = 0};
    double *limits = calloc((size_t)4 * s->told, sizeof *limits);
    if (limits == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a step's events");
    add_scalar(&v, "Train/Loss", s->images > 0 ? s->loss / s->images : (double)NAN);
    add_scalar(&v, "Train/Learning_rate", s->lr);
    add_scalar(&v, "Test/Loss", s->test_loss);
    add_scalar(&v, "Test/Accuracy", s->test_accuracy);
    add_scalar(&v, "Test/Accuracy_of_average", s->ema_accuracy);
    add_scalar(&v, "Speed/Images_per_s", s->images_per_s);
    add_scalar(&v, "Speed/Exchange_s", s->exchange_s / s->told);
    add_scalar(&v, "Speed/Wait_s", s->wait_s / s->told);
    PsrEvent__HistogramProto histogram =
        histogram_of(s->staleness, s->told, limits, limits + 2 * (size_t)s->told);
    add_value(&v, "Staleness")->histo = &histogram;
    PsrEvent__Summary summary = PSR_EVENT__SUMMARY__INIT;
    summary.n_value = v.count;
    summary.value = v.pointers;
    t->now_s = fmax(t->now_s, s->wall_s); /* hosts' clocks differ */
    PsrEvent__Event event = event_at(t->now_s, s->step);
    event.summary = &summary;
    psr_err err = write_event(t, &event);
    free(limits);
    return err;
}

/* ---- norms ---- */

/* ["fc.weight", norm of the weights, norm of the gradient], as far as it is so. tags: of the
 * values, [2]. */
static void add_norms(values *v, const cJSON *row, char tags[static 2][TAG_BYTES])
{
    static const char *const kinds[] = {"Norm_of_weights", "Norm_of_gradient"};
    const char *name = cJSON_GetStringValue(cJSON_GetArrayItem(row, 0));
    for (int i = 0; i < 2 && name != NULL; i++) {
        const cJSON *norm = cJSON_GetArrayItem(row, 1 + i);
        snprintf(tags[i], TAG_BYTES, "%s/%.80s", kinds[i], name);
        if (cJSON_IsNumber(norm))
            add_scalar(v, tags[i], norm->valuedouble);
    }
}

psr_err psr_tensorboard_norms(psr_tensorboard *t, const psr_metrics_line *line)
{
    typedef char two_tags[2][TAG_BYTES];
    const cJSON *row, *rows = cJSON_GetObjectItemCaseSensitive(line->fields, "norms");
    two_tags *tags = calloc(NORM_TENSORS_MAX, sizeof *tags);
    values *v = calloc(1, sizeof *v);
    size_t count = 0;
    psr_err err = tags != NULL && v != NULL
                      ? PSR_OK
                      : psr_fail(PSR_ERR_NOMEM, "no memory for the norms of a step");
    if (err == PSR_OK)
        cJSON_ArrayForEach(row, rows) if (count < NORM_TENSORS_MAX)
            add_norms(v, row, tags[count++]);
    PsrEvent__Summary summary = PSR_EVENT__SUMMARY__INIT;
    PsrEvent__Event event =
        event_at(fmax(t->now_s, psr_json_number(line->fields, "unix_s", 0)), line->step);
    if (err == PSR_OK && v->count > 0) {
        summary.n_value = v->count;
        summary.value = v->pointers;
        event.summary = &summary;
        err = write_event(t, &event);
    }
    free(tags);
    free(v);
    return err;
}

/* ---- life ---- */

/* The earlier run's files, by a link or a copy. *latest: the largest time in a name. */
static psr_err take_file(const char *from, const char *to, const char *name, uint64_t *latest)
{
    char old[PATH_BYTES + 256], new[PATH_BYTES + 256];
    snprintf(old, sizeof old, "%s/%s", from, name);
    snprintf(new, sizeof new, "%s/%s", to, name);
    const uint64_t second = strtoull(name + sizeof FILES_BEGIN - 1, NULL, 10);
    if (second > *latest && second < UINT32_MAX)
        *latest = second;
    if (link(old, new) == 0)
        return PSR_OK;
    uint8_t *bytes = NULL;
    size_t size;
    PSR_TRY(psr_file_read(old, EARLIER_BYTES_MAX, &bytes, &size));
    psr_err err = psr_file_write_atomic(new, bytes, size);
    free(bytes);
    return err;
}

static psr_err take_earlier(const char *earlier, const char *to, uint64_t *latest)
{
    char from[PATH_BYTES];
    snprintf(from, sizeof from, "%s/tensorboard", earlier);
    DIR *directory = opendir(from);
    psr_err err = PSR_OK;
    if (directory == NULL)
        return PSR_OK; /* it had none */
    for (struct dirent *entry; err == PSR_OK && (entry = readdir(directory)) != NULL;)
        if (strncmp(entry->d_name, FILES_BEGIN, sizeof FILES_BEGIN - 1) == 0)
            err = take_file(from, to, entry->d_name, latest);
    closedir(directory);
    return err;
}

/* TensorBoard reads a folder's files in the order of their names: the time is after the others'. */
static psr_err open_file(psr_tensorboard *t, const char *folder, uint64_t latest)
{
    char path[PATH_BYTES], host[256] = "localhost";
    uint64_t second = (uint64_t)time(NULL);
    if (second <= latest)
        second = latest + 1;
    (void)gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%s/" FILES_BEGIN "%010" PRIu64 ".%s.%d.0", folder, second, host,
             (int)getpid());
    return psr_records_new(path, &t->records);
}

psr_err psr_tensorboard_new(const psr_tensorboard_options *o, psr_tensorboard **ret_tensorboard)
{
    char folder[PATH_BYTES - 300];
    uint64_t latest = 0;
    psr_tensorboard *t = calloc(1, sizeof *t);
    if (t == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for TensorBoard's files");
    t->ranks = o->ranks;
    t->every = o->every;
    snprintf(folder, sizeof folder, "%s/tensorboard", o->directory);
    psr_err err = psr_mkdirs(folder);
    if (err == PSR_OK && o->earlier != NULL)
        err = take_earlier(o->earlier, folder, &latest);
    if (err == PSR_OK)
        err = open_file(t, folder, latest);
    if (err == PSR_OK)
        err = write_beginning(t, o->first_step);
    if (err != PSR_OK) {
        psr_tensorboard_free(t);
        return err;
    }
    *ret_tensorboard = t;
    return PSR_OK;
}

static void drop_first(psr_tensorboard *t)
{
    open_step *first = t->steps;
    t->steps = first->next;
    t->open_count--;
    free(first->staleness);
    free(first);
}

void psr_tensorboard_free(psr_tensorboard *tensorboard)
{
    if (tensorboard == NULL)
        return;
    while (tensorboard->steps != NULL)
        drop_first(tensorboard);
    psr_records_free(tensorboard->records);
    free(tensorboard);
}

/* ---- lines ---- */

/* The place of a step in the list; it is made if it is new. NULL: no memory. */
static open_step *find_step(psr_tensorboard *t, uint64_t step)
{
    open_step **at = &t->steps;
    while (*at != NULL && (*at)->step < step)
        at = &(*at)->next;
    if (*at != NULL && (*at)->step == step)
        return *at;
    open_step *s = calloc(1, sizeof *s);
    if (s == NULL || (s->staleness = calloc(t->ranks, sizeof *s->staleness)) == NULL) {
        free(s);
        return NULL;
    }
    s->step = step;
    s->test_loss = s->test_accuracy = s->ema_accuracy = (double)NAN;
    s->next = *at;
    *at = s;
    t->open_count++;
    return s;
}

static void add_line(open_step *s, const psr_metrics_line *line)
{
    const double loss = psr_json_number(line->fields, "loss", NAN);
    const double images = psr_json_number(line->fields, "images", 0);
    if (!isnan(loss)) {
        s->loss += loss * images;
        s->images += images;
    }
    if (s->told == 0 || line->rank < s->lr_rank) {
        s->lr = psr_json_number(line->fields, "lr", NAN);
        s->lr_rank = line->rank;
    }
    s->wall_s = fmax(s->wall_s, psr_json_number(line->fields, "unix_s", 0));
    s->images_per_s += psr_json_number(line->fields, "images_per_s", 0);
    s->exchange_s += psr_json_number(line->fields, "exchange_s", 0);
    s->wait_s += psr_json_number(line->fields, "wait_s", 0);
    s->staleness[s->told++] = psr_json_number(line->fields, "staleness", 0);
    s->test_loss = fmax(s->test_loss, psr_json_number(line->fields, "test_loss", NAN));
    s->test_accuracy = fmax(s->test_accuracy, psr_json_number(line->fields, "test_accuracy", NAN));
    s->ema_accuracy = fmax(s->ema_accuracy, psr_json_number(line->fields, "ema_accuracy", NAN));
}

/* Steps are written in their order: those that are whole, and the oldest of too many. */
static psr_err write_whole(psr_tensorboard *t)
{
    while (t->steps != NULL && (t->steps->told == t->ranks || t->open_count > OPEN_STEPS_MAX)) {
        PSR_TRY(write_step(t, t->steps));
        drop_first(t);
    }
    return PSR_OK;
}

psr_err psr_tensorboard_take(psr_tensorboard *t, const psr_metrics_line *line)
{
    const bool evaluated = cJSON_GetObjectItemCaseSensitive(line->fields, "test_loss") != NULL;
    if (line->step % t->every != 0 && !evaluated)
        return PSR_OK;
    open_step *s = find_step(t, line->step);
    if (s == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a step's events");
    if (s->told < t->ranks)
        add_line(s, line);
    return write_whole(t);
}

psr_err psr_tensorboard_flush(psr_tensorboard *t)
{
    return psr_records_flush(t->records);
}

psr_err psr_tensorboard_end(psr_tensorboard *t)
{
    while (t->steps != NULL) {
        PSR_TRY(write_step(t, t->steps));
        drop_first(t);
    }
    return psr_records_flush(t->records);
}
