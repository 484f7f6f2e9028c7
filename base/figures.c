#include "base/figures.h"

/* A figure that differs between workers has three rows: mean, least and most. */
#define OVER_WORKERS(FIGURE, name, what)                                                           \
    [FIGURE] = {name, "s", what ": mean over workers"},                                            \
    [FIGURE + 1] = {name "_min", "s", "the least of any worker"},                                  \
    [FIGURE + 2] = {name "_max", "s", "the most of any worker"}

const psr_figure_definition psr_figure_definitions[PSR_FIGURE_COUNT] = {
    [PSR_FIGURE_STEPS] = {"steps", "",
                          "steps that all workers have completed, including those before a resume"},
    [PSR_FIGURE_OWN_STEPS] = {"own_steps", "",
                              "steps of this run alone: fewer than steps if the run was resumed"},
    [PSR_FIGURE_IMAGES] = {"images", "",
                           "samples that all workers together trained on in this run"},
    [PSR_FIGURE_TRAIN_S] =
        {"train_s", "s",
         "from START to the last worker's last weights, without evaluations and checkpoints"},
    [PSR_FIGURE_IMAGES_PER_S] = {"images_per_s", "1/s", "images over train_s"},
    [PSR_FIGURE_WARMUP_STEPS] =
        {"warmup_steps", "",
         "how many first steps count as warm-up: a tenth of this run's steps, at most 10"},
    [PSR_FIGURE_WARMUP_S] =
        {"warmup_s", "s",
         "from START until the first worker has completed warmup_steps; part of train_s"},
    [PSR_FIGURE_STEADY_IMAGES_PER_S] =
        {"steady_images_per_s", "1/s",
         "images completed after warmup_s, over train_s less warmup_s; none if a worker has not "
         "completed more than warmup_steps"},
    OVER_WORKERS(PSR_FIGURE_WAIT_S, "wait_s", "a worker's compute thread waited for weights"),
    OVER_WORKERS(PSR_FIGURE_COMPUTE_S, "compute_s",
                 "a worker was in forward and backward passes, without waiting"),
    OVER_WORKERS(PSR_FIGURE_LOAD_WAIT_S, "load_wait_s",
                 "a worker's compute thread waited for the loader"),
    [PSR_FIGURE_GRADIENT_BYTES] = {"gradient_bytes", "B",
                                   "payloads of gradients, and of their sums in a ring, that all "
                                   "workers together sent in this run"},
    [PSR_FIGURE_GRADIENT_FLOAT32_BYTES] =
        {"gradient_float32_bytes", "B",
         "bytes of the same payloads without compression; divided by gradient_bytes it is the "
         "factor that --compress saved"},
    [PSR_FIGURE_BYTES_SENT] = {"bytes_sent", "B",
                               "all bytes that all workers together sent in the steps of this run"},
    [PSR_FIGURE_BYTES_LENT] = {"bytes_lent", "B",
                               "the part of bytes_sent that went through shared memory"},
    [PSR_FIGURE_LOSS] = {"loss", "", "mean over the last step's samples of all workers"},
    [PSR_FIGURE_TEST_LOSS] = {"test_loss", "",
                              "mean over the test set at the last evaluation, each sample once"},
    [PSR_FIGURE_TEST_ACCURACY] =
        {"test_accuracy", "",
         "share of the test set that the last evaluation had right, from 0 to 1"},
    [PSR_FIGURE_TEST_COUNT] = {"test_count", "", "samples of the test set"},
};

uint64_t psr_warmup_steps(uint64_t own_steps)
{
    uint64_t tenth = own_steps / 10 + (own_steps % 10 != 0);
    return tenth < 10 ? tenth : 10;
}
