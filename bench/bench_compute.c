/* How fast one process trains, without any exchange: images a second of whole steps (forward,
 * backward, update), where the time goes, and peak memory.
 *
 * With --sum it also times, each by itself, the direct oneDNN primitives that the network's
 * convolutions and batch norms would be without this program (primitive_sum.h), for the images a
 * second that their plain sum would give. With --beside it takes steps with other choices of
 * algorithms in turn, in the same process and on the same weights, so that what else happens on the
 * machine happens to all of them. With --grid it measures one point of a grid after the other. */
#include "base/arrays/arena.h"
#include "base/clock.h"
#include "base/config/options_argp.h"
#include "base/rng.h"
#include "base/system/openmp.h"
#include "bench/primitive_sum.h"
#include "bench/step_profile.h"
#include "model/backend.h"
#include "model/optimizers/optimizer.h"

#include <argp.h>
#include <inttypes.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum {
    OPTION_STEPS = 256,
    OPTION_SUM,
    OPTION_JSON,
    OPTION_ALGORITHMS,
    OPTION_BESIDE,
    OPTION_GRID,
    OPTION_FIRST_OF_CONFIG
};

enum { BESIDE_MOST = 4 };

static const char *const config_names[] = {"model",     "image-size", "batch-size",
                                           "precision", "threads",    "backend"};
enum { CONFIG_NAMES = sizeof config_names / sizeof config_names[0] };

typedef struct bench_settings {
    psr_config config; /* the options above */
    uint32_t steps;
    const char *algorithms;
    const char *beside[BESIDE_MOST];
    uint32_t beside_count;
    const char *grid; /* a file of points; NULL: one point, that of config */
    bool sum, json;
} bench_settings;

/* A network, compiled, and what a step works on. */
typedef struct bench {
    psr_network *net;
    psr_buckets buckets;
    psr_backend *backend, *beside[BESIDE_MOST];
    psr_optimizer *optimizer;
    float *weights, *gradients, *buffers, *images;
    uint32_t *labels, *samples;
    size_t image_floats;
    double compile_s;
} bench;

static void bench_done(bench *b)
{
    psr_optimizer_free(b->optimizer);
    psr_backend_free(b->backend);
    for (int i = 0; i < BESIDE_MOST; i++)
        psr_backend_free(b->beside[i]);
    psr_buckets_done(&b->buckets);
    if (b->net != NULL) {
        psr_arena_free(b->weights, b->net->params.length);
        psr_arena_free(b->gradients, b->net->params.length);
        psr_arena_free(b->buffers, b->net->buffers.length);
        psr_arena_free(b->images, b->image_floats);
    }
    psr_network_free(b->net);
    free(b->labels);
    free(b->samples);
}

static psr_err bench_init(bench *b, const bench_settings *settings)
{
    const psr_config *config = &settings->config;
    bool large = strncmp(config->model, "resnet", 6) == 0 && config->image_size >= 64;
    bool grey = strcmp(config->model, "mlp") == 0 || strcmp(config->model, "convnet") == 0;
    *b = (bench){0};
    PSR_TRY(psr_network_of(config, large ? 1000 : 10, grey ? 1 : 3, config->image_size,
                           config->image_size, &b->net));
    PSR_TRY(psr_buckets_plan(&b->net->params,
                             psr_bucket_bytes(&b->net->params, config->bucket_bytes), &b->buckets));
    psr_backend_options options = {.kind = config->backend,
                                   .precision = config->precision,
                                   .max_batch = config->batch_size,
                                   .threads = config->threads,
                                   .buckets = &b->buckets,
                                   .algorithms = settings->algorithms};
    double began_s = psr_clock_s();
    PSR_TRY(psr_backend_new(b->net, &options, &b->backend));
    b->compile_s = psr_clock_s() - began_s;
    for (uint32_t i = 0; i < settings->beside_count; i++) {
        options.algorithms = settings->beside[i];
        PSR_TRY(psr_backend_new(b->net, &options, &b->beside[i]));
    }
    PSR_TRY(psr_optimizer_new(config, &b->net->params, &b->optimizer));
    b->image_floats =
        (size_t)config->batch_size * b->net->channels * b->net->height * b->net->width;
    PSR_TRY(psr_arena_new(b->net->params.length, &b->weights));
    PSR_TRY(psr_arena_new(b->net->params.length, &b->gradients));
    PSR_TRY(psr_arena_new(b->net->buffers.length, &b->buffers));
    PSR_TRY(psr_arena_new(b->image_floats, &b->images));
    b->labels = calloc(config->batch_size, sizeof *b->labels);
    b->samples = calloc(config->batch_size, sizeof *b->samples);
    if (b->labels == NULL || b->samples == NULL)
        return psr_fail(PSR_ERR_NOMEM, "out of memory for a batch");
    psr_network_init(b->net, 1, b->weights, b->buffers);
    psr_rng_at at = {.seed = 1, .purpose = PSR_RNG_SYNTHETIC};
    for (size_t i = 0; i < b->image_floats; i++)
        b->images[i] = 2 * psr_rng_unit(psr_rng_word(at, i)) - 1;
    for (uint32_t n = 0; n < config->batch_size; n++)
        b->labels[n] = n % b->net->classes;
    return PSR_OK;
}

static psr_err step(bench *b, const bench_settings *settings, uint64_t number,
                    const psr_exec_hooks *hooks, double *ret_update_s)
{
    const psr_config *config = &settings->config;
    const psr_batch batch = {b->images,          b->labels,  b->samples,
                             config->batch_size, .epoch = 0, .seed = 1};
    const psr_exec_state state = {b->weights, b->gradients, b->buffers};
    psr_pass_result result;
    PSR_TRY(psr_backend_train(b->backend, &batch, &state, 1.0f / (float)config->batch_size, hooks,
                              &result));
    double began_s = psr_clock_s();
    int parts = 8 * (int)config->threads;
#pragma omp parallel for num_threads((int)config->threads) schedule(static)
    for (int part = 0; part < parts; part++) {
        size_t blocks = b->net->params.length / PSR_TENSOR_ALIGN;
        size_t begin = blocks * (size_t)part / (size_t)parts * PSR_TENSOR_ALIGN;
        size_t end = blocks * (size_t)(part + 1) / (size_t)parts * PSR_TENSOR_ALIGN;
        psr_optimizer_update(b->optimizer, b->weights, b->gradients, begin, end - begin,
                             (float)config->lr, number);
    }
    *ret_update_s = psr_clock_s() - began_s;
    return PSR_OK;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

typedef struct figures {
    double step_s, best_s, cpu_s, update_s, sum_s, over[BESIDE_MOST];
    size_t peak_kib;
    profile profile;
} figures;

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static psr_err measure(const bench_settings *settings, bench *b, figures *ret)
{
    double *times = calloc(3 * (size_t)settings->steps, sizeof *times);
    double *updates = times + settings->steps, *cpu = updates + settings->steps;
    psr_err err = PSR_OK;
    double unused;
    uint64_t number = 1;
    if (times == NULL)
        err = psr_fail(PSR_ERR_NOMEM, "out of memory for the times");
    for (int warm_up = 0; err == PSR_OK && warm_up < 3; warm_up++)
        err = step(b, settings, number++, NULL, &unused);
    for (uint32_t i = 0; err == PSR_OK && i < settings->steps; i++) {
        double began_s = psr_clock_s(), began_cpu_s = cpu_seconds();
        err = step(b, settings, number++, NULL, &updates[i]);
        times[i] = psr_clock_s() - began_s;
        cpu[i] = cpu_seconds() - began_cpu_s;
    }
    if (err == PSR_OK) {
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        ret->peak_kib = (size_t)usage.ru_maxrss;
        ret->step_s = median(times, settings->steps);
        ret->best_s = times[0]; /* median has sorted them */
        ret->cpu_s = median(cpu, settings->steps);
        ret->update_s = median(updates, settings->steps);
        profile_begin(&ret->profile, b->net, settings->config.backend == PSR_BACKEND_ONEDNN);
        psr_exec_hooks hooks = {.context = &ret->profile, .progress = profile_progress};
        err = step(b, settings, number, &hooks, &unused);
        profile_end(&ret->profile);
    }
    free(times);
    return err;
}

/* A step of each, in turn. ret_over[i]: the median over the rounds of the time of beside[i]'s step
 * over the time of ours, which is the rate of ours over its rate. */
static psr_err measure_beside(const bench_settings *settings, bench *b,
                              double ret_over[BESIDE_MOST])
{
    double *over = calloc(BESIDE_MOST * (size_t)settings->steps, sizeof *over), unused;
    psr_backend *own = b->backend;
    psr_err err = over != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "out of memory for the times");
    /* the first one warms up */
    for (uint32_t round = 0; err == PSR_OK && round <= settings->steps; round++) {
        double took_s[BESIDE_MOST + 1];
        for (uint32_t i = 0; err == PSR_OK && i <= settings->beside_count; i++) {
            b->backend = i == 0 ? own : b->beside[i - 1];
            double began_s = psr_clock_s();
            err = step(b, settings, round + 1, NULL, &unused);
            took_s[i] = psr_clock_s() - began_s;
        }
        for (uint32_t i = 0; err == PSR_OK && round > 0 && i < settings->beside_count; i++)
            over[i * settings->steps + round - 1] = took_s[i + 1] / took_s[0];
    }
    b->backend = own;
    for (uint32_t i = 0; err == PSR_OK && i < settings->beside_count; i++)
        ret_over[i] = median(over + i * settings->steps, settings->steps);
    free(over);
    return err;
}

static void print_json(const bench_settings *settings, const bench *b, const figures *f)
{
    const psr_config *config = &settings->config;
    double rate = config->batch_size / f->step_s;
    printf("{\"who\": \"psring\", \"model\": \"%s\", \"image_size\": %u, \"batch_size\": %u, "
           "\"precision\": \"%s\", \"threads\": %u, \"images_per_s\": %.3f, \"images_per_cpu_s\": "
           "%.3f, \"best_images_per_s\": %.3f, \"peak_mib\": %.1f, \"compile_s\": %.3f, "
           "\"copy_share\": %.4f, \"identity\": \"%s\", \"algorithms\": \"%s\"",
           config->model, config->image_size, config->batch_size,
           config->precision == PSR_PRECISION_BF16 ? "bf16" : "fp32", config->threads, rate,
           config->batch_size / f->cpu_s, config->batch_size / f->best_s,
           (double)f->peak_kib / 1024, b->compile_s, profile_copy_share(&f->profile),
           psr_backend_identity(config->backend, 0), psr_backend_algorithms(b->backend));
    if (settings->sum)
        printf(", \"primitive_sum_images_per_s\": %.3f", config->batch_size / f->sum_s);
    for (uint32_t i = 0; i < settings->beside_count; i++)
        printf("%s{\"algorithms\": \"%s\", \"over\": %.4f}", i == 0 ? ", \"beside\": [" : ", ",
               psr_backend_algorithms(b->beside[i]), f->over[i]);
    printf("%s}\n", settings->beside_count > 0 ? "]" : "");
}

static void print_text(const bench_settings *settings, const bench *b, const figures *f)
{
    const psr_config *config = &settings->config;
    printf("%s, %u px, batch %u, %u thread%s, %s\n", config->model, config->image_size,
           config->batch_size, config->threads, config->threads == 1 ? "" : "s",
           psr_backend_identity(config->backend, 0));
    printf("%10.2f images/s (a step: %.1f ms, of which the update %.1f)\n",
           config->batch_size / f->step_s, 1e3 * f->step_s, 1e3 * f->update_s);
    printf("%10.2f images a second of CPU time\n", config->batch_size / f->cpu_s);
    if (settings->sum)
        printf("%10.2f images/s would be the plain sum of the direct oneDNN primitives\n",
               config->batch_size / f->sum_s);
    printf("%10.1f MiB at most; %.1f in the back end\n", (double)f->peak_kib / 1024,
           (double)psr_backend_bytes(b->backend) / (1 << 20));
    printf("%10.3f s to compile and to choose algorithms\n", b->compile_s);
    for (uint32_t i = 0; i < settings->beside_count; i++)
        printf("%10.3f times as fast as --algorithms %s\n", f->over[i], settings->beside[i]);
    profile_print(&f->profile);
}

static psr_err run_point(const bench_settings *settings)
{
    bench b;
    figures f = {0};
    psr_err err = bench_init(&b, settings);
    if (err == PSR_OK)
        err = measure(settings, &b, &f);
    if (err == PSR_OK)
        err = measure_beside(settings, &b, f.over);
    if (err == PSR_OK && settings->sum)
        err = primitive_sum(b.net, settings->config.batch_size,
                            settings->config.precision == PSR_PRECISION_BF16,
                            (int)settings->config.threads, &f.sum_s);
    if (err == PSR_OK)
        (settings->json ? print_json : print_text)(settings, &b, &f);
    bench_done(&b);
    return err;
}

/* MODEL:PX:BATCH:PRECISION:THREADS. */
static psr_err take_point(bench_settings *settings, char *line)
{
    char *rest = line;
    for (size_t i = 0; i < CONFIG_NAMES - 1; i++) { /* but the back end */
        const char *word = strsep(&rest, ":");
        if (word == NULL)
            return psr_fail(PSR_ERR_USAGE, "\"%s\" ends before its %s", line, config_names[i]);
        PSR_TRY(psr_config_set(&settings->config, config_names[i], word));
    }
    return rest == NULL ? PSR_OK : psr_fail(PSR_ERR_USAGE, "behind a point there is \"%s\"", rest);
}

/* What this processor cannot run is said, and the next one follows. */
static psr_err run_points(bench_settings *settings, FILE *file)
{
    char line[256];
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "#\n")] = '\0';
        if (line[0] == '\0')
            continue;
        PSR_TRY(take_point(settings, line));
        psr_err err = run_point(settings);
        if (err == PSR_ERR_UNSUPPORTED)
            fprintf(stderr, "bench_compute: left out: %s\n", psr_err_detail());
        else
            PSR_TRY(err);
        fflush(stdout);
    }
    return PSR_OK;
}

static psr_err run_grid(bench_settings *settings)
{
    FILE *file = fopen(settings->grid, "r");
    if (file == NULL)
        return psr_fail(PSR_ERR_IO, "%s cannot be read", settings->grid);
    settings->json = true;
    psr_err err = run_points(settings, file);
    fclose(file);
    return err;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    bench_settings *settings = state->input;
    if (key >= OPTION_FIRST_OF_CONFIG && key < OPTION_FIRST_OF_CONFIG + CONFIG_NAMES) {
        if (psr_config_set(&settings->config, config_names[key - OPTION_FIRST_OF_CONFIG],
                           argument) != PSR_OK)
            argp_failure(state, 2, 0, "%s", psr_err_detail());
        return 0;
    }
    switch (key) {
    case OPTION_STEPS:
        settings->steps = (uint32_t)psr_options_number(state, "steps", argument, 1, 100000);
        return 0;
    case OPTION_ALGORITHMS:
        settings->algorithms = argument;
        return 0;
    case OPTION_BESIDE:
        if (settings->beside_count == BESIDE_MOST)
            argp_failure(state, 2, 0, "--beside: at most %d", BESIDE_MOST);
        settings->beside[settings->beside_count++] = argument;
        return 0;
    case OPTION_GRID:
        settings->grid = argument;
        return 0;
    case OPTION_SUM:
        settings->sum = true;
        return 0;
    case OPTION_JSON:
        settings->json = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_failure(state, 2, 0, "\"%s\": no argument is expected, only options", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"model", OPTION_FIRST_OF_CONFIG + 0, "NAME", 0, "default resnet50", 0},
        {"image-size", OPTION_FIRST_OF_CONFIG + 1, "PX", 0, "default 224", 0},
        {"batch-size", OPTION_FIRST_OF_CONFIG + 2, "N", 0, "default 16", 0},
        {"precision", OPTION_FIRST_OF_CONFIG + 3, "fp32|bf16", 0, "default fp32", 0},
        {"threads", OPTION_FIRST_OF_CONFIG + 4, "N", 0, "default 2", 0},
        {"backend", OPTION_FIRST_OF_CONFIG + 5, "onednn|reference", 0, "default onednn", 0},
        {"steps", OPTION_STEPS, "N", 0,
         "measure so many steps, of which the median counts (default 10)", 0},
        {"algorithms", OPTION_ALGORITHMS, "TEXT", 0,
         "of convolutions: auto (default), timed, direct, or a text", 0},
        {"beside", OPTION_BESIDE, "ALGORITHMS", 0,
         "take steps with these in turn, and say how much faster ours are; up to 4", 0},
        {"grid", OPTION_GRID, "FILE", 0,
         "one line of JSON for each point of FILE (bench/compute_grid.txt), which is a line "
         "MODEL:PX:BATCH:PRECISION:THREADS",
         0},
        {"sum", OPTION_SUM, NULL, 0, "time the direct oneDNN primitives too", 0},
        {"json", OPTION_JSON, NULL, 0, "one line of JSON", 0},
        {0},
    };
    const struct argp argp = {options, parse_option, NULL, "How fast one process trains.",
                              NULL,    NULL,         NULL};
    psr_openmp_begin(argv); /* as psring-worker */
    argp_err_exit_status = 2;
    bench_settings settings = {.steps = 10};
    psr_config_defaults(&settings.config);
    strcpy(settings.config.model, "resnet50");
    settings.config.image_size = 224;
    settings.config.batch_size = 16;
    settings.config.threads = 2;
    settings.config.lr = 0.01;
    settings.config.momentum = 0.9;
    settings.config.weight_decay = 1e-4;
    argp_parse(&argp, argc, argv, 0, NULL, &settings);
    psr_err err = settings.grid != NULL ? run_grid(&settings) : run_point(&settings);
    if (err != PSR_OK)
        fprintf(stderr, "bench_compute: %s\n", psr_err_detail());
    return psr_err_exit_status(err);
}
