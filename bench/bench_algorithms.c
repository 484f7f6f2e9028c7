/* What the rule for convolutions' algorithms (model/onednn/choice/rule.h) is derived from: the
 * times of 3x3 convolutions of stride 1 by each algorithm, in each direction, over a grid of
 * shapes, and what the rule makes of them.
 *
 * One line per shape and direction, tab-separated, under a line of names; bench/fit_algorithms
 * reads it. */
#include "model/networks/network_build.h"
#include "model/onednn/context.h"
#include "model/onednn/exec.h"
#include "model/onednn/choice/pick.h"
#include "model/onednn/choice/trial.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLASSES = 10, DIRECTIONS = PSR_ONEDNN_BACKWARD_WEIGHTS + 1 };

typedef struct shape {
    uint32_t in, out, size, batch; /* channels, channels, pixels a side, images */
} shape;

typedef struct bench_settings {
    psr_precision precision;
    uint32_t threads, rounds;
    double most_flop;   /* of the direct sum */
    const char *shapes; /* NULL: the grid */
} bench_settings;

/* images - 1x1 to `in` channels - batch norm - ReLU - 3x3 to `out` - batch norm - ReLU - mean -
 * classes: so the 3x3 one has the layouts of one in the middle of a network, and a gradient for its
 * source. */
static psr_err net_of(const shape *s, psr_network **ret_net)
{
    psr_network_builder b;
    PSR_TRY(psr_build_begin(&b, "one convolution", CLASSES, 3, s->size, s->size));
    uint32_t x = psr_build_conv(&b, 0, "first", s->in, 1, 1, 0, PSR_INIT_KAIMING_NORMAL_FAN_IN);
    x = psr_build_relu(&b, psr_build_batchnorm(&b, x, "bn1"), "relu1");
    x = psr_build_conv(&b, x, "second", s->out, 3, 1, 1, PSR_INIT_KAIMING_NORMAL_FAN_IN);
    x = psr_build_relu(&b, psr_build_batchnorm(&b, x, "bn2"), "relu2");
    x = psr_build_flatten(&b, psr_build_avgpool(&b, x, "mean"));
    psr_build_linear(&b, x, "fc", CLASSES, PSR_INIT_UNIFORM_FAN_IN, PSR_INIT_UNIFORM_FAN_IN);
    if (b.err != PSR_OK) {
        psr_network_free(b.net);
        return b.err;
    }
    *ret_net = b.net;
    return PSR_OK;
}

static const psr_onednn_step *step_of(const psr_onednn_exec *exec)
{
    for (uint32_t i = 0; i < exec->groups->count; i++) {
        const psr_network_node *node = &exec->net->nodes[exec->steps[i].group->output];
        if (exec->steps[i].group->op == PSR_OP_CONV && node->kernel == 3)
            return &exec->steps[i];
    }
    return NULL;
}

static psr_err measure(const shape *s, const psr_onednn_exec *exec, const bench_settings *settings)
{
    static const char *const names[DIRECTIONS] = {"forward", "data", "weights"};
    const psr_onednn_step *step = step_of(exec);
    for (int d = 0; d < DIRECTIONS; d++) {
        double took_s[PSR_ONEDNN_ALGORITHMS];
        psr_onednn_algorithm chosen;
        PSR_TRY(psr_onednn_trial(exec, step, (psr_onednn_direction)d, settings->rounds, took_s));
        PSR_TRY(psr_onednn_decide_by_rule(exec, step, (psr_onednn_direction)d, &chosen));
        printf("%s\t%u\t%s\t%u\t%u\t%u\t%u\t%.4f\t%.4f\t%.4f\t%c\n",
               psr_backend_identity(PSR_BACKEND_ONEDNN, 0), settings->threads, names[d], s->batch,
               s->in, s->out, s->size, 1e3 * took_s[0], 1e3 * took_s[1], 1e3 * took_s[2],
               psr_onednn_letter(chosen));
    }
    fflush(stdout);
    return PSR_OK;
}

static psr_err run_shape(const shape *s, const psr_onednn_context *context,
                         const bench_settings *settings)
{
    psr_network *net = NULL;
    psr_fusion_groups groups = {0};
    psr_onednn_exec *exec = NULL;
    PSR_TRY(net_of(s, &net));
    psr_err err = psr_fusion_groups_init(net, &groups);
    if (err == PSR_OK)
        err = psr_onednn_exec_new(context, net, &groups, "", s->batch, true, &exec);
    if (err == PSR_OK)
        err = measure(s, exec, settings);
    psr_onednn_exec_free(exec);
    psr_fusion_groups_done(&groups);
    psr_network_free(net);
    return err;
}

/* The grid: what 3x3 convolutions of networks for images have. */
static psr_err run_grid(const psr_onednn_context *context, const bench_settings *settings)
{
    static const uint32_t channels[] = {16, 32, 64, 96, 128, 192, 256, 512};
    static const uint32_t sizes[] = {4, 7, 8, 12, 14, 16, 20, 28, 32, 40, 56, 64};
    static const uint32_t batches[] = {1, 4, 16, 64};
    for (size_t c = 0; c < sizeof channels / sizeof *channels; c++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t n = 0; n < sizeof batches / sizeof *batches; n++) {
                const shape s = {channels[c], channels[c], sizes[i], batches[n]};
                const double flop = 18.0 * s.in * s.out * s.size * s.size * s.batch;
                if (flop <= settings->most_flop && flop >= settings->most_flop / 200)
                    PSR_TRY(run_shape(&s, context, settings));
            }
    return PSR_OK;
}

/* IN:OUT:SIZE:BATCH, separated by commas. */
static psr_err run_list(const psr_onednn_context *context, const bench_settings *settings)
{
    for (const char *at = settings->shapes; *at != '\0';) {
        shape s;
        int length = 0;
        if (sscanf(at, "%u:%u:%u:%u%n", &s.in, &s.out, &s.size, &s.batch, &length) != 4)
            return psr_fail(PSR_ERR_USAGE, "\"%s\" does not begin with IN:OUT:SIZE:BATCH", at);
        PSR_TRY(run_shape(&s, context, settings));
        at += length + (at[length] == ',');
    }
    return PSR_OK;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    bench_settings *s = state->input;
    if (key == 't')
        s->threads = (uint32_t)strtoul(argument, NULL, 10);
    else if (key == 'r')
        s->rounds = (uint32_t)strtoul(argument, NULL, 10);
    else if (key == 'f')
        s->most_flop = 1e9 * strtod(argument, NULL);
    else if (key == 's')
        s->shapes = argument;
    else if (key == 'p' && strcmp(argument, "bf16") == 0)
        s->precision = PSR_PRECISION_BF16;
    else if (key == 'p' && strcmp(argument, "fp32") == 0)
        s->precision = PSR_PRECISION_FP32;
    else if (key == 'p')
        argp_failure(state, 2, 0, "\"%s\" is neither fp32 nor bf16", argument);
    else
        return ARGP_ERR_UNKNOWN;
    if (s->threads < 1 || s->rounds < 1 || !(s->most_flop > 0))
        argp_failure(state, 2, 0, "\"%s\" is no number above 0", argument);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"precision", 'p', "fp32|bf16", 0, "default fp32", 0},
        {"threads", 't', "N", 0, "default 2", 0},
        {"rounds", 'r', "N", 0, "of which the least time counts (default 5)", 0},
        {"most-work", 'f', "GFLOP", 0,
         "leave out shapes above it, and below a 200th of it (default 8)", 0},
        {"shapes", 's', "IN:OUT:SIZE:BATCH,..", 0, "these instead of the grid", 0},
        {0},
    };
    const struct argp argp = {
        options, parse_option, NULL, "Times 3x3 convolutions by each algorithm.", NULL, NULL, NULL};
    argp_err_exit_status = 2;
    bench_settings settings = {
        .precision = PSR_PRECISION_FP32, .threads = 2, .rounds = 5, .most_flop = 8e9};
    argp_parse(&argp, argc, argv, 0, NULL, &settings);
    psr_onednn_context context;
    psr_err err = psr_onednn_context_open(settings.precision, settings.threads, &context);
    if (err == PSR_OK) {
        printf("identity\tthreads\tdirection\tbatch\tin\tout\tsize\tdirect_ms\twinograd_ms\town_"
               "ms\trule\n");
        err =
            settings.shapes != NULL ? run_list(&context, &settings) : run_grid(&context, &settings);
        psr_onednn_context_close(&context);
    }
    if (err != PSR_OK)
        fprintf(stderr, "bench_algorithms: %s\n", psr_err_detail());
    return psr_err_exit_status(err);
}
