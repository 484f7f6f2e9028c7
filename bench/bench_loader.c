/* How many images a second the loader makes ready, alone: no network takes them. Two figures,
 * because threads of a loader share the cores with the training: images per second of wall time,
 * and per second of CPU time, which is what one core gives whatever the number of threads. */
#include "base/clock.h"
#include "data/loader.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct bench_settings {
    psr_config config; /* data, augment, image-size, batch-size, loader-threads, seed, decode */
    double seconds;
    bool json;
} bench_settings;

typedef struct bench_result {
    uint64_t images, batches;
    double wall_s, cpu_s, waited_s;
} bench_result;

enum { OPTION_SECONDS = 256, OPTION_JSON, OPTION_FIRST_OF_CONFIG };

static const char *const config_names[] = {"data",           "augment", "image-size", "batch-size",
                                           "loader-threads", "seed",    "decode"};
enum { CONFIG_NAMES = sizeof config_names / sizeof config_names[0] };

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
    case OPTION_SECONDS: {
        char *end = NULL;
        settings->seconds = strtod(argument, &end);
        if (end == argument || *end != '\0' ||
            !(settings->seconds > 0 && settings->seconds <= 3600))
            argp_failure(state, 2, 0,
                         "--seconds: \"%s\", should be a number above 0 and at most 3600",
                         argument);
        return 0;
    }
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

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/* Takes at least least_batches, and goes on until seconds have passed. */
static psr_err take(psr_loader *loader, double seconds, uint64_t least_batches,
                    bench_result *ret_result)
{
    bench_result taken = {0};
    double waited_before_s, waited_s, began_s = psr_clock_s(), began_cpu_s = cpu_seconds();
    uint64_t waits;
    psr_loader_waits(loader, &waited_before_s, &waits);
    while (taken.batches < least_batches || psr_clock_s() - began_s < seconds) {
        const psr_loader_batch *batch = NULL;
        PSR_TRY(psr_loader_next(loader, &batch));
        taken.images += batch->count;
        taken.batches++;
        psr_loader_return(loader, batch);
    }
    psr_loader_waits(loader, &waited_s, &waits);
    taken.wall_s = psr_clock_s() - began_s;
    taken.cpu_s = cpu_seconds() - began_cpu_s;
    taken.waited_s = waited_s - waited_before_s;
    *ret_result = taken;
    return PSR_OK;
}

static void print_result(const bench_settings *settings, const psr_dataset *dataset,
                         const bench_result *result)
{
    const psr_config *config = &settings->config;
    uint32_t side = 0;
    if (psr_augment_side_of(config, dataset->channels,
                            (psr_picture_shape){dataset->height, dataset->width}, &side) != PSR_OK)
        side = 0; /* the loader has refused that */
    double per_wall = (double)result->images / result->wall_s,
           per_cpu = (double)result->images / result->cpu_s;
    if (settings->json) {
        printf("{\"loader\": \"psring\", \"images_per_s\": %.0f, \"images_per_cpu_s\": %.0f, "
               "\"images\": %" PRIu64 ", \"wall_s\": %.3f, \"cpu_s\": %.3f}\n",
               per_wall, per_cpu, result->images, result->wall_s, result->cpu_s);
        return;
    }
    printf("%s: %" PRIu32 " images of %" PRIu32 "x%" PRIu32 "x%" PRIu32 ", batch %" PRIu32
           ", %" PRIu32 " thread%s\n",
           dataset->name, dataset->count, dataset->channels, side, side, config->batch_size,
           config->loader_threads, config->loader_threads == 1 ? "" : "s");
    printf("%12.0f images/s\n%12.0f images/s per core\n%12.1f %% of the time waited for\n",
           per_wall, per_cpu, 100 * result->waited_s / result->wall_s);
}

static psr_err measure(const bench_settings *settings)
{
    const psr_config *config = &settings->config;
    psr_dataset *dataset = NULL;
    psr_loader *loader = NULL;
    bench_result warm_up, measured;
    psr_augment_plan plan;
    PSR_TRY(psr_augment_plan_of(config, &plan));
    psr_err err = psr_dataset_open(config->data, PSR_SPLIT_TRAIN, &dataset);
    if (err != PSR_OK)
        goto out;
    dataset->source->scaled = config->decode == PSR_DECODE_SCALED;
    psr_loader_options options = {
        .sampler = {.seed = config->seed,
                    .count = dataset->count,
                    .workers = 1,
                    .batch_size = config->batch_size,
                    .partition = PSR_PARTITION_EXACT,
                    .shuffle = true},
        .plan = &plan,
        .threads = config->loader_threads,
        .depth = 2 + config->loader_threads,
        .last_epoch = UINT32_MAX,
    };
    err = psr_loader_new(dataset, &options, &loader);
    if (err != PSR_OK)
        goto out;
    err = take(loader, 0, 2 * options.depth, &warm_up);
    if (err == PSR_OK)
        err = take(loader, settings->seconds, psr_sampler_steps(&options.sampler), &measured);
    if (err == PSR_OK)
        print_result(settings, dataset, &measured);
out:
    psr_loader_free(loader);
    psr_dataset_free(dataset);
    return err;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"data", OPTION_FIRST_OF_CONFIG + 0, "DIR|NAME|synthetic[:SPEC]", 0,
         "the data set (fashion-mnist)", 0},
        {"augment", OPTION_FIRST_OF_CONFIG + 1, "none|crop-flip|imagenet|LIST", 0,
         "default crop-flip", 0},
        {"image-size", OPTION_FIRST_OF_CONFIG + 2, "PX", 0, "resize to this size", 0},
        {"batch-size", OPTION_FIRST_OF_CONFIG + 3, "N", 0, "default 128", 0},
        {"loader-threads", OPTION_FIRST_OF_CONFIG + 4, "N", 0, "default 1", 0},
        {"seed", OPTION_FIRST_OF_CONFIG + 5, "N", 0, "of order and crops", 0},
        {"decode", OPTION_FIRST_OF_CONFIG + 6, "full|scaled", 0, "of JPEG pictures; default full",
         0},
        {"seconds", OPTION_SECONDS, "S", 0,
         "measure for at least this long, and an epoch (default 3)", 0},
        {"json", OPTION_JSON, NULL, 0, "one line of JSON", 0},
        {0},
    };
    const struct argp argp = {
        options, parse_option, NULL, "Images a second that the loader makes ready.",
        NULL,    NULL,         NULL};
    argp_err_exit_status = 2;
    bench_settings settings = {.seconds = 3};
    psr_config_defaults(&settings.config);
    strcpy(settings.config.data, "fashion-mnist");
    strcpy(settings.config.augment, "crop-flip");
    settings.config.batch_size = 128;
    settings.config.loader_threads = 1;
    argp_parse(&argp, argc, argv, 0, NULL, &settings);
    psr_err err = measure(&settings);
    if (err != PSR_OK)
        fprintf(stderr, "bench_loader: %s\n", psr_err_detail());
    return psr_err_exit_status(err);
}
