#include "ps/scheduler/prometheus/exposition.h"

#include "base/text/json.h"
#include "base/text/printable.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What a rank's lines say under `field`. */
static const struct figure {
    const char *name, *field, *help;
    bool is_counter;
    bool is_sum; /* of all lines; else the newest */
} figures[] = {
    {"psring_steps_total", "step",
     "Steps that the rank has completed, those before a resumption too.", true, false},
    {"psring_images_total", "images", "Training samples that it has computed.", true, true},
    {"psring_compute_seconds_total", "compute_s", "Seconds in which it computed.", true, true},
    {"psring_exchange_seconds_total", "exchange_s",
     "Seconds from a step's first gradient to its last weights.", true, true},
    {"psring_wait_seconds_total", "wait_s", "Seconds in which it waited for the exchange.", true,
     true},
    {"psring_load_wait_seconds_total", "load_wait_s", "Seconds in which it waited for samples.",
     true, true},
    {"psring_sent_bytes_total", "bytes_sent", "Bytes that it sent, messages of all kinds.", true,
     true},
    {"psring_received_bytes_total", "bytes_received",
     "Bytes that it received, messages of all kinds.", true, true},
    {"psring_epoch", "epoch", "The epoch of its newest step, from 1 on.", false, false},
    {"psring_loss", "loss", "Mean loss of its own samples in its newest step.", false, false},
    {"psring_train_accuracy_ratio", "train_accuracy",
     "Share of its own samples in its newest step that were right.", false, false},
    {"psring_learning_rate", "lr", "Learning rate of its newest step.", false, false},
    {"psring_images_per_second", "images_per_s", "Its rate in its newest step.", false, false},
    {"psring_staleness_steps", "staleness",
     "By how many updates the weights of its newest step were behind.", false, false},
    {"psring_gradient_norm", "gradient_norm",
     "Norm of all workers' gradient in its newest step, with --clip-norm.", false, false},
    {"psring_last_step_timestamp_seconds", "unix_s", "When its newest step ended.", false, false},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

typedef struct rank_figures {
    bool has[FIGURES];
    double values[FIGURES];
} rank_figures;

/* Of the newest evaluation. */
static const struct test_figure {
    const char *name, *field, *help;
} test_figures[] = {
    {"psring_test_step", "step", "The step after which the newest evaluation was."},
    {"psring_test_loss", "test_loss", "Mean loss over the test set, in the newest evaluation."},
    {"psring_test_accuracy_ratio", "test_accuracy",
     "Share of the test set that was right, in the newest evaluation."},
    {"psring_test_top5_ratio", "test_top5",
     "Share of the test set whose class was among the best five, in the newest evaluation."},
};
enum { TEST_FIGURES = sizeof test_figures / sizeof test_figures[0] };

typedef struct state {
    uint32_t ranks;
    rank_figures *of_rank; /* [ranks] */
    double test[TEST_FIGURES];
    bool evaluated;
    char *run, *mode, *model; /* as labels, which then stay as they are; NULL: not begun */
    uint32_t workers, shards;
    uint64_t planned_steps;
} state;

struct psr_exposition {
    double started_s; /* this process, seconds since 1970 */
    pthread_mutex_t mutex;
    state now; /* guarded by it */
};

/* ---- text ---- */

/* A number as Go's ParseFloat reads it. */
static void add_number(FILE *to, double number)
{
    if (isnan(number))
        fputs("NaN\n", to);
    else if (isinf(number))
        fputs(number > 0 ? "+Inf\n" : "-Inf\n", to);
    else
        fprintf(to, "%.15g\n", number);
}

static void add_head(FILE *to, const char *name, const char *type, const char *help)
{
    fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Text as the value of a label: UTF-8, in which backslash, quote and newline are escaped. NULL: no
 * memory. */
static char *label_of(const char *text)
{
    char *clean = strdup(text), *label = malloc(2 * strlen(text) + 1), *to = label;
    if (clean == NULL || label == NULL) {
        free(clean);
        free(label);
        return NULL;
    }
    psr_printable_text(clean, strlen(clean));
    for (const char *at = clean; *at != '\0'; at++) {
        if (*at == '\\' || *at == '"' || *at == '\n')
            *to++ = '\\';
        *to++ = *at;
        if (*at == '\n')
            to[-1] = 'n';
    }
    *to = '\0';
    free(clean);
    return label;
}

static void print_run(FILE *to, const state *s)
{
    const struct {
        const char *name, *help;
        double value;
    } gauges[] = {
        {"psring_workers", "Workers of the run.", s->workers},
        {"psring_shards", "Shards of the run.", s->shards},
        {"psring_planned_steps", "Steps that the run is to take.", (double)s->planned_steps},
    };
    add_head(to, "psring_run_info", "gauge", "Always 1; its labels say what runs.");
    fprintf(to, "psring_run_info{run=\"%s\",mode=\"%s\",model=\"%s\",version=\"%s\"} 1\n", s->run,
            s->mode, s->model, PSR_VERSION);
    for (size_t i = 0; i < sizeof gauges / sizeof gauges[0]; i++) {
        add_head(to, gauges[i].name, "gauge", gauges[i].help);
        fprintf(to, "%s{run=\"%s\"} ", gauges[i].name, s->run);
        add_number(to, gauges[i].value);
    }
    for (size_t i = 0; s->evaluated && i < TEST_FIGURES; i++) {
        add_head(to, test_figures[i].name, "gauge", test_figures[i].help);
        fprintf(to, "%s{run=\"%s\"} ", test_figures[i].name, s->run);
        add_number(to, s->test[i]);
    }
}

/* All samples of a name stand together, as the format demands. */
static void print_ranks(FILE *to, const state *s)
{
    for (size_t i = 0; i < FIGURES; i++) {
        bool headed = false;
        for (uint32_t r = 0; r < s->ranks; r++) {
            if (!s->of_rank[r].has[i])
                continue;
            if (!headed)
                add_head(to, figures[i].name, figures[i].is_counter ? "counter" : "gauge",
                         figures[i].help);
            headed = true;
            fprintf(to, "%s{run=\"%s\",rank=\"%" PRIu32 "\"} ", figures[i].name, s->run, r);
            add_number(to, s->of_rank[r].values[i]);
        }
    }
}

psr_err psr_exposition_print(psr_exposition *e, char **ret_text, size_t *ret_size)
{
    char *text = NULL;
    size_t size = 0;
    rank_figures *of_rank = calloc(e->now.ranks, sizeof *of_rank);
    FILE *to = open_memstream(&text, &size);
    if (of_rank == NULL || to == NULL) {
        free(of_rank);
        if (to != NULL)
            fclose(to);
        free(text);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the run's figures");
    }
    pthread_mutex_lock(&e->mutex);
    state copy = e->now;
    memcpy(of_rank, copy.of_rank, copy.ranks * sizeof *of_rank);
    pthread_mutex_unlock(&e->mutex);
    copy.of_rank = of_rank;
    add_head(to, "process_start_time_seconds", "gauge",
             "When the scheduler's process began, in seconds since 1970.");
    fputs("process_start_time_seconds ", to);
    add_number(to, e->started_s);
    if (copy.run != NULL) {
        print_run(to, &copy);
        print_ranks(to, &copy);
    }
    free(of_rank);
    if (fclose(to) != 0) {
        free(text);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the run's figures");
    }
    *ret_text = text;
    *ret_size = size;
    return PSR_OK;
}

/* ---- life ---- */

static double seconds_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* When this process began: /proc/self/stat has it in ticks since the machine did (proc(5), field
 * 22). Where that cannot be read: now. */
static double process_start(void)
{
    char text[1024] = "";
    unsigned long long ticks = 0;
    double age_s = 0;
    FILE *file = fopen("/proc/self/stat", "re");
    const size_t size = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    const char *name_end = size > 0 ? strrchr(text, ')') : NULL;
    if (file != NULL)
        fclose(file);
    if (name_end != NULL &&
        sscanf(name_end + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) == 1)
        age_s = seconds_of(CLOCK_BOOTTIME) - (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return seconds_of(CLOCK_REALTIME) - (age_s > 0 ? age_s : 0);
}

psr_err psr_exposition_new(uint32_t ranks, psr_exposition **ret_exposition)
{
    psr_exposition *e = calloc(1, sizeof *e);
    if (e == NULL || (e->now.of_rank = calloc(ranks, sizeof *e->now.of_rank)) == NULL) {
        free(e);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the run's figures");
    }
    pthread_mutex_init(&e->mutex, NULL);
    e->now.ranks = ranks;
    e->started_s = process_start();
    *ret_exposition = e;
    return PSR_OK;
}

void psr_exposition_free(psr_exposition *e)
{
    if (e == NULL)
        return;
    pthread_mutex_destroy(&e->mutex);
    free(e->now.of_rank);
    free(e->now.run);
    free(e->now.mode);
    free(e->now.model);
    free(e);
}

psr_err psr_exposition_begin(psr_exposition *e, const psr_exposition_about *about)
{
    char *run = label_of(about->run), *mode = label_of(about->mode),
         *model = label_of(about->model);
    if (run == NULL || mode == NULL || model == NULL) {
        free(run);
        free(mode);
        free(model);
        return psr_fail(PSR_ERR_NOMEM, "no memory for the run's figures");
    }
    pthread_mutex_lock(&e->mutex);
    e->now.run = run;
    e->now.mode = mode;
    e->now.model = model;
    e->now.workers = about->workers;
    e->now.shards = about->shards;
    e->now.planned_steps = about->planned_steps;
    pthread_mutex_unlock(&e->mutex);
    return PSR_OK;
}

void psr_exposition_take(psr_exposition *e, const psr_metrics_line *line)
{
    const bool evaluated = cJSON_GetObjectItemCaseSensitive(line->fields, "test_loss") != NULL;
    if (line->rank >= e->now.ranks)
        return;
    rank_figures *f = &e->now.of_rank[line->rank];
    pthread_mutex_lock(&e->mutex);
    for (size_t i = 0; i < FIGURES; i++) {
        if (cJSON_GetObjectItemCaseSensitive(line->fields, figures[i].field) == NULL)
            continue;
        const double value =
            psr_json_number(line->fields, figures[i].field, figures[i].is_sum ? 0 : (double)NAN);
        f->values[i] = value + (figures[i].is_sum ? f->values[i] : 0);
        f->has[i] = true;
    }
    for (size_t i = 0; evaluated && i < TEST_FIGURES; i++)
        e->now.test[i] = psr_json_number(line->fields, test_figures[i].field, NAN);
    e->now.evaluated |= evaluated;
    pthread_mutex_unlock(&e->mutex);
}
