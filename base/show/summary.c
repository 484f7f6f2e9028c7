#include "base/show/summary.h"

#include "base/text/text.h"
#include "base/text/json.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

double psr_summary_figure(const cJSON *outcome, psr_figure figure)
{
    return psr_json_number(outcome, psr_figure_definitions[figure].name, NAN);
}

static bool is_over_workers(psr_figure figure)
{
    return figure == PSR_FIGURE_WAIT_S || figure == PSR_FIGURE_COMPUTE_S ||
           figure == PSR_FIGURE_LOAD_WAIT_S || figure == PSR_FIGURE_HIDDEN_S ||
           figure == PSR_FIGURE_EXPOSED_S || figure == PSR_FIGURE_DRAIN_S;
}

/* Four digits or so: seconds and rates go from thousandths to millions. */
static void print_amount(double value, char *text, size_t size)
{
    int decimals = value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0;
    snprintf(text, size, "%.*f", decimals, value);
}

static void print_range(const cJSON *outcome, psr_figure figure, double mean,
                        char text[static PSR_FIGURE_TEXT_BYTES])
{
    char of[3][16];
    double least = psr_summary_figure(outcome, figure + 1),
           most = psr_summary_figure(outcome, figure + 2);
    print_amount(mean, of[0], sizeof of[0]);
    print_amount(least, of[1], sizeof of[1]);
    print_amount(most, of[2], sizeof of[2]);
    if (least < most)
        snprintf(text, PSR_FIGURE_TEXT_BYTES, "%.15s (%.12s-%.12s)", of[0], of[1], of[2]);
    else
        snprintf(text, PSR_FIGURE_TEXT_BYTES, "%s", of[0]);
}

void psr_summary_text(const cJSON *outcome, psr_figure figure,
                      char text[static PSR_FIGURE_TEXT_BYTES])
{
    double value = psr_summary_figure(outcome, figure);
    const char *unit = psr_figure_definitions[figure].unit;
    if (!isfinite(value))
        snprintf(text, PSR_FIGURE_TEXT_BYTES, "-");
    else if (is_over_workers(figure))
        print_range(outcome, figure, value, text);
    else if (figure == PSR_FIGURE_TEST_ACCURACY || figure == PSR_FIGURE_TEST_TOP5 ||
             figure == PSR_FIGURE_EMA_ACCURACY || figure == PSR_FIGURE_EMA_TOP5 ||
             figure == PSR_FIGURE_TRAIN_ACCURACY)
        snprintf(text, PSR_FIGURE_TEXT_BYTES, "%.2f%%", 100 * value);
    else if (figure == PSR_FIGURE_LOSS || figure == PSR_FIGURE_TEST_LOSS ||
             figure == PSR_FIGURE_EMA_LOSS)
        snprintf(text, PSR_FIGURE_TEXT_BYTES, "%.6g", value);
    else if (unit[0])
        print_amount(value, text, PSR_FIGURE_TEXT_BYTES);
    else
        snprintf(text, PSR_FIGURE_TEXT_BYTES, "%.0f", value);
}

static void add_stretch(psr_text_end *end, const cJSON *s, const char *before)
{
    char steps[40], rate[PSR_FIGURE_TEXT_BYTES], wait[PSR_FIGURE_TEXT_BYTES], pause[16];
    const char *mode = psr_json_text(s, "mode");
    const double first = psr_json_number(s, "first_step", NAN);
    snprintf(steps, sizeof steps, "%.0f-%.0f", first, first + psr_json_number(s, "steps", NAN) - 1);
    psr_summary_text(s, PSR_FIGURE_IMAGES_PER_S, rate);
    psr_summary_text(s, PSR_FIGURE_WAIT_S, wait);
    print_amount(psr_json_number(s, "pause_s", NAN), pause, sizeof pause);
    psr_text_add(end, "%s%-5.16s  %11s  %9s  %7s  %s\n", before, mode != NULL ? mode : "-", steps,
                 rate, pause, wait);
}

void psr_summary_stretches(const cJSON *outcome, const char *before,
                           char text[static PSR_SUMMARY_BYTES])
{
    psr_text_end end = {text, PSR_SUMMARY_BYTES};
    const cJSON *stretches = cJSON_GetObjectItemCaseSensitive(outcome, "stretches"), *stretch;
    text[0] = '\0';
    if (cJSON_GetArraySize(stretches) < 2)
        return;
    psr_text_add(&end, "%s%-5s  %11s  %9s  %7s  %s\n", before, "mode", "steps", "images/s",
                 "pause s", "wait s, mean (least-most)");
    cJSON_ArrayForEach(stretch, stretches) add_stretch(&end, stretch, before);
}

/* ---- the summary ---- */

static bool has(const cJSON *outcome, psr_figure figure)
{
    return isfinite(psr_summary_figure(outcome, figure));
}

static void add_time(psr_text_end *end, const cJSON *o)
{
    char train_s[PSR_FIGURE_TEXT_BYTES], rate[PSR_FIGURE_TEXT_BYTES];
    double steps = psr_summary_figure(o, PSR_FIGURE_STEPS),
           own = psr_summary_figure(o, PSR_FIGURE_OWN_STEPS);
    if (own == 0) { /* resumed after its last step */
        psr_text_add(end, "trained    0 steps: all %.0f were done before\n", steps);
        return;
    }
    psr_summary_text(o, PSR_FIGURE_TRAIN_S, train_s);
    psr_summary_text(o, PSR_FIGURE_IMAGES_PER_S, rate);
    psr_text_add(end, "trained    %.0f step%s", own, own == 1 ? "" : "s");
    if (own > 0 && own < steps)
        psr_text_add(end, " (%.0f to %.0f)", steps - own + 1, steps);
    psr_text_add(end, " in %s s, %s images/s over all workers\n", train_s, rate);
}

static void add_warmup(psr_text_end *end, const cJSON *o)
{
    char warmup_s[PSR_FIGURE_TEXT_BYTES], rate[PSR_FIGURE_TEXT_BYTES];
    double steps = psr_summary_figure(o, PSR_FIGURE_WARMUP_STEPS);
    if (!has(o, PSR_FIGURE_WARMUP_S) || !has(o, PSR_FIGURE_STEADY_IMAGES_PER_S))
        return;
    psr_summary_text(o, PSR_FIGURE_WARMUP_S, warmup_s);
    psr_summary_text(o, PSR_FIGURE_STEADY_IMAGES_PER_S, rate);
    if (steps == 1)
        psr_text_add(end, "warm-up    the first step took %s s of that; %s images/s after it\n",
                     warmup_s, rate);
    else
        psr_text_add(end,
                     "warm-up    the first %.0f steps took %s s of that; %s images/s after them\n",
                     steps, warmup_s, rate);
}

static void add_waiting(psr_text_end *end, const cJSON *o)
{
    char mean[16], least[16], most[16];
    if (!has(o, PSR_FIGURE_WAIT_S) || !has(o, PSR_FIGURE_WAIT_S_MIN) ||
        !(psr_summary_figure(o, PSR_FIGURE_WAIT_S_MAX) > 0))
        return; /* or nobody had to wait for anything */
    print_amount(psr_summary_figure(o, PSR_FIGURE_WAIT_S), mean, sizeof mean);
    print_amount(psr_summary_figure(o, PSR_FIGURE_WAIT_S_MIN), least, sizeof least);
    print_amount(psr_summary_figure(o, PSR_FIGURE_WAIT_S_MAX), most, sizeof most);
    psr_text_add(end, "waiting    %s s for weights, mean over workers (least %s s, most %s s)\n",
                 mean, least, most);
}

/* Nothing where all went as it was, or nothing was sent. */
static void add_gradients(psr_text_end *end, const cJSON *o)
{
    double sent = psr_summary_figure(o, PSR_FIGURE_GRADIENT_BYTES),
           as_float32 = psr_summary_figure(o, PSR_FIGURE_GRADIENT_FLOAT32_BYTES);
    if (!(sent > 0) || !isfinite(as_float32) || sent == as_float32)
        return;
    psr_text_add(end,
                 "gradients  %.1f MB sent by all workers, which are %.1f MB as float32: %.3g times "
                 "as much\n",
                 sent / 1e6, as_float32 / 1e6, as_float32 / sent);
}

/* By which way, where there is more than one. */
static void add_traffic(psr_text_end *end, const cJSON *o)
{
    double sent = psr_summary_figure(o, PSR_FIGURE_BYTES_SENT),
           lent = psr_summary_figure(o, PSR_FIGURE_BYTES_LENT);
    if (lent > 0 && sent > 0)
        psr_text_add(end,
                     "exchanged  %.1f MB sent by workers, %.1f%% of it through shared memory\n",
                     sent / 1e6, 100 * lent / sent);
}

/* --precision fp16 */
static void add_loss_scale(psr_text_end *end, const cJSON *o)
{
    const double skipped = psr_summary_figure(o, PSR_FIGURE_SKIPPED_STEPS);
    if (has(o, PSR_FIGURE_SKIPPED_STEPS) && has(o, PSR_FIGURE_LOSS_SCALE))
        psr_text_add(
            end, "skipped    %.0f step%s whose gradient overflowed; the loss scale is %.0f\n",
            skipped, skipped == 1 ? "" : "s", psr_summary_figure(o, PSR_FIGURE_LOSS_SCALE));
}

static void add_accuracies(psr_text_end *end, const cJSON *o)
{
    const bool tested = has(o, PSR_FIGURE_TEST_TOP5), trained = has(o, PSR_FIGURE_TRAIN_ACCURACY);
    char top5[PSR_FIGURE_TEXT_BYTES], train[PSR_FIGURE_TEXT_BYTES];
    if (psr_json_text(o, "hash") == NULL || (!tested && !trained))
        return;
    psr_summary_text(o, PSR_FIGURE_TEST_TOP5, top5);
    psr_summary_text(o, PSR_FIGURE_TRAIN_ACCURACY, train);
    psr_text_add(end, "correct    ");
    if (trained)
        psr_text_add(end, "%s of the last epoch's samples in training%s", train,
                     tested ? "; " : "\n");
    if (tested)
        psr_text_add(end, "%s of the test set within the top five\n", top5);
}

static void add_ema(psr_text_end *end, const cJSON *o)
{
    char accuracy[PSR_FIGURE_TEXT_BYTES], loss[PSR_FIGURE_TEXT_BYTES];
    if (!has(o, PSR_FIGURE_EMA_ACCURACY))
        return;
    psr_summary_text(o, PSR_FIGURE_EMA_ACCURACY, accuracy);
    psr_summary_text(o, PSR_FIGURE_EMA_LOSS, loss);
    psr_text_add(end, "average    of the weights: test accuracy %s, test loss %s\n", accuracy,
                 loss);
}

static void add_result(psr_text_end *end, const cJSON *o)
{
    char loss[PSR_FIGURE_TEXT_BYTES], accuracy[PSR_FIGURE_TEXT_BYTES];
    const char *hash = psr_json_text(o, "hash");
    if (hash == NULL)
        return;
    psr_summary_text(o, PSR_FIGURE_LOSS, loss);
    psr_summary_text(o, PSR_FIGURE_TEST_ACCURACY, accuracy);
    psr_text_add(end, "result     ");
    if (has(o, PSR_FIGURE_LOSS))
        psr_text_add(end, "loss %s, ", loss);
    if (has(o, PSR_FIGURE_TEST_ACCURACY))
        psr_text_add(end, "test accuracy %s, ", accuracy);
    psr_text_add(end, "weight hash %.32s\n", hash);
}

void psr_summary_print(const cJSON *outcome, char text[static PSR_SUMMARY_BYTES])
{
    psr_text_end end = {text, PSR_SUMMARY_BYTES};
    text[0] = '\0';
    if (has(outcome, PSR_FIGURE_OWN_STEPS) && has(outcome, PSR_FIGURE_STEPS))
        add_time(&end, outcome);
    add_warmup(&end, outcome);
    add_waiting(&end, outcome);
    char stretches[PSR_SUMMARY_BYTES];
    psr_summary_stretches(outcome, "  ", stretches);
    psr_text_add(&end, "%s", stretches);
    add_gradients(&end, outcome);
    add_traffic(&end, outcome);
    add_loss_scale(&end, outcome);
    add_accuracies(&end, outcome);
    add_ema(&end, outcome);
    add_result(&end, outcome);
}
