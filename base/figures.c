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
    [PSR_FIGURE_TOGETHER_S] =
        {"together_s", "s",
         "from START until the first worker has computed its last step, before it waits for that "
         "step's weights: for so long all trained; none before a worker has"},
    [PSR_FIGURE_TOGETHER_IMAGES_PER_S] =
        {"together_images_per_s", "1/s",
         "images completed from warmup_s to together_s, over the time between: the rate without "
         "the tail of slow workers; none if either is"},
    OVER_WORKERS(PSR_FIGURE_WAIT_S, "wait_s", "a worker's compute thread waited for weights"),
    OVER_WORKERS(PSR_FIGURE_COMPUTE_S, "compute_s",
                 "a worker was in forward and backward passes, without waiting"),
    OVER_WORKERS(PSR_FIGURE_LOAD_WAIT_S, "load_wait_s",
                 "a worker's compute thread waited for the loader"),
    OVER_WORKERS(PSR_FIGURE_HIDDEN_S, "hidden_s",
                 "a worker had gradients or weights under way and its compute thread did not wait "
                 "for weights"),
    OVER_WORKERS(PSR_FIGURE_EXPOSED_S, "exposed_s",
                 "a worker had gradients or weights under way and its compute thread waited for "
                 "weights: part of wait_s"),
    OVER_WORKERS(PSR_FIGURE_DRAIN_S, "drain_s",
                 "a worker waited for all weights of a step before an evaluation, a checkpoint, "
                 "--hash or the end: part of wait_s"),
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
    [PSR_FIGURE_STALENESS] =
        {"staleness", "",
         "SSP and async: by how many updates the oldest weights that a step took were behind, mean "
         "over steps and workers"},
    [PSR_FIGURE_STALENESS_MAX] = {"staleness_max", "", "the most of any step and worker"},
    [PSR_FIGURE_LOSS] = {"loss", "", "mean over the last step's samples of all workers"},
    [PSR_FIGURE_TEST_LOSS] = {"test_loss", "",
                              "mean over the test set at the last evaluation, each sample once"},
    [PSR_FIGURE_TEST_ACCURACY] =
        {"test_accuracy", "",
         "share of the test set that the last evaluation had right, from 0 to 1"},
    [PSR_FIGURE_TEST_TOP5] =
        {"test_top5", "",
         "share of the test set whose class was among the five most likely ones, from 0 to 1"},
    [PSR_FIGURE_EMA_LOSS] = {"ema_loss", "",
                             "test_loss of the average of the weights that --ema keeps"},
    [PSR_FIGURE_EMA_ACCURACY] =
        {"ema_accuracy", "",
         "test_accuracy of that average, by which --target-accuracy and --keep-best go then"},
    [PSR_FIGURE_EMA_TOP5] = {"ema_top5", "", "test_top5 of that average"},
    [PSR_FIGURE_TRAIN_ACCURACY] =
        {"train_accuracy", "",
         "share of the last epoch's samples, as far as this run took them, that the network had "
         "right when it learned from them, from 0 to 1"},
    [PSR_FIGURE_TEST_COUNT] = {"test_count", "", "samples of the test set"},
    [PSR_FIGURE_SKIPPED_STEPS] =
        {"skipped_steps", "",
         "--precision fp16: how many of steps were left out, because a gradient overflowed"},
    [PSR_FIGURE_LOSS_SCALE] = {"loss_scale", "",
                               "--precision fp16: what the loss is multiplied by at the end"},
};

uint64_t psr_warmup_steps(uint64_t own_steps)
{
    uint64_t tenth = own_steps / 10 + (own_steps % 10 != 0);
    return tenth < 10 ? tenth : 10;
}
