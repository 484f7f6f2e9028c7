/* `psring predict`: how long a step would take on a cluster, for each architecture. */
#include "base/config/options_argp.h"
#include "base/log.h"
#include "bench/predict/answer.h"
#include "bench/predict/inputs.h"
#include "comm/wire/compression/compression.h"
#include "model/networks/network_list.h"

#include <argp.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_DOCTOR = 1000,
    KEY_HOSTS,
    KEY_WORKERS_PER_HOST,
    KEY_LINK,
    KEY_LATENCY,
    KEY_LOSS,
    KEY_TCP_WINDOW,
    KEY_FRAME,
    KEY_MODE,
    KEY_SHARDS,
    KEY_PLACEMENT,
    KEY_BY,
    KEY_COMPUTE,
    KEY_CLASSES,
    KEY_IMAGE_SIZE,
    KEY_MESSAGE,
    KEY_COPY,
    KEY_SEAL,
    KEY_FOLD,
    KEY_UPDATE,
    KEY_NO_ENCRYPT,
    KEY_JSON,
    KEY_OF_RUN, /* and above: options of a run, by their names */
};

#define HOSTS_MAX 65536u

static const struct argp_option rows[] = {
    {NULL, 0, NULL, 0, "What is trained:", 1},
    {"model", KEY_OF_RUN, "NAME", 0, "the network (RUN's, or resnet50)", 1},
    {"compute", KEY_COMPUTE, "MS", 0,
     "forward and backward pass of a worker's step, in milliseconds (RUN's median)", 1},
    {"batch-size", KEY_OF_RUN + 1, "N", 0, "of each worker (RUN's, or 32)", 1},
    {"image-size", KEY_IMAGE_SIZE, "PX", 0, "side of the images (RUN's, or 224)", 1},
    {"classes", KEY_CLASSES, "N", 0, "of the images (RUN's, or 1000)", 1},
    {"bucket-size", KEY_OF_RUN + 2, "BYTES", 0, "as of psring train", 1},
    {"slice-size", KEY_OF_RUN + 3, "BYTES", 0, "as of psring train", 1},
    {"window", KEY_OF_RUN + 4, "N", 0, "as of psring train", 1},
    {"compress", KEY_OF_RUN + 5, "NAME", 0, "as of psring train", 1},
    {"compress-weights", KEY_OF_RUN + 6, "NAME", 0, "as of psring train", 1},
    {NULL, 0, NULL, 0, "The cluster:", 2},
    {"hosts", KEY_HOSTS, "LIST", 0,
     "numbers of hosts with workers, separated by commas (doctor's, or 2,4,8)", 2},
    {"workers-per-host", KEY_WORKERS_PER_HOST, "N", 0, "which share the host's memory (1)", 2},
    {"link", KEY_LINK, "RATE", 0,
     "of each host, in a direction: 100Mbit, 1Gbit, 25Gbit (doctor's, or 1Gbit)", 2},
    {"latency", KEY_LATENCY, "US", 0,
     "one way between two hosts, in microseconds (doctor's, or 50)", 2},
    {"loss", KEY_LOSS, "SHARE", 0, "of packets: 0.001 or 0.1% (0)", 2},
    {"tcp-window", KEY_TCP_WINDOW, "BYTES", 0,
     "that a TCP connection has on the way at most; 0: no limit (256K)", 2},
    {"frame-bytes", KEY_FRAME, "N", 0,
     "of a packet beyond 1448 bytes of payload; tc counts 66 (90: Ethernet with preamble and gap)",
     2},
    {"mode", KEY_MODE, "ps|ring|both", 0, "what is predicted (both)", 2},
    {"shards", KEY_SHARDS, "LIST", 0, "numbers of shards (1, 2, 4, .. and one for each host)", 2},
    {"placement", KEY_PLACEMENT, "beside|dedicated|both", 0,
     "of shards. beside: on the workers' hosts; dedicated: on hosts of their own (both)", 2},
    {"doctor", KEY_DOCTOR, "FILE", 0,
     "take hosts, link and latency from what psring doctor --json has written", 2},
    {NULL, 0, NULL, 0, "What a process needs, of its processor:", 3},
    {"message-us", KEY_MESSAGE, "US", 0, "microseconds for a message (20)", 3},
    {"copy-ns", KEY_COPY, "NS", 0, "nanoseconds to send or receive a byte (0.25)", 3},
    {"seal-ns", KEY_SEAL, "NS", 0, "to encrypt or decrypt a byte (0.3)", 3},
    {"no-encrypt", KEY_NO_ENCRYPT, NULL, 0, "the same as --seal-ns 0", 3},
    {"fold-ns", KEY_FOLD, "NS", 0, "to add a byte of a gradient to a sum (0.15)", 3},
    {"update-ns", KEY_UPDATE, "NS", 0, "to make a byte of new weights (0.3)", 3},
    {NULL, 0, NULL, 0, "How it is predicted, and shown:", 4},
    {"by", KEY_BY, "auto|machines|one-link", 0,
     "machines: by psring's own, in virtual time; one-link: by the formulas of "
     "docs/algorithms.md; auto: machines up to 64 workers (auto)",
     4},
    {"json", KEY_JSON, NULL, 0, "write one JSON object", 4},
    {0},
};

static const char *const names_of_run[] = {"model",  "batch-size", "bucket-size",     "slice-size",
                                           "window", "compress",   "compress-weights"};

/* What the command line says; options that are not given are below 0, or NULL. */
typedef struct words {
    const char *run, *doctor, *hosts;
    const char *of_run[sizeof names_of_run / sizeof *names_of_run];
    double compute_s, link, latency_s;
    long classes, image_size;
    bool json;
} words;

typedef struct settings {
    words words;
    psr_predict_question question;
} settings;

/* ---- reading options ---- */

/* A number from least to most; what follows it is returned. */
static const char *number(const struct argp_state *state, const char *name, const char *text,
                          double least, double most, double *ret_value)
{
    char *end = NULL;
    const bool starts_well = isdigit((unsigned char)*text) || *text == '.' || *text == '-';
    const double value = starts_well ? strtod(text, &end) : NAN;
    if (!starts_well || end == text || !isfinite(value))
        psr_options_refuse_format(state, "--%s '%s': give a number", name, text);
    if (value < least || value > most)
        psr_options_refuse_format(state, "--%s %s: give a number from %.10g to %.10g", name, text,
                                  least, most);
    *ret_value = value;
    return end;
}

static double plain_number(const struct argp_state *state, const char *name, const char *text,
                           double least, double most)
{
    double value = 0;
    if (*number(state, name, text, least, most, &value) != '\0')
        psr_options_refuse_format(state, "--%s '%s': give a number without a unit", name, text);
    return value;
}

static double rate(const struct argp_state *state, const char *text)
{
    static const struct {
        const char *unit;
        double bits;
    } units[] = {{"kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"Tbit", 1e12}};
    double value = 0;
    const char *unit = number(state, "link", text, 0, 1e9, &value);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcasecmp(unit, units[i].unit) == 0) {
            const double bits = value * units[i].bits;
            if (bits < 1e4 || bits > 1e13)
                psr_options_refuse_format(state, "--link %s: give a rate from 10kbit to 10Tbit",
                                          text);
            return bits;
        }
    psr_options_refuse_format(
        state, "--link '%s': give a rate with its unit: kbit, Mbit, Gbit or Tbit", text);
    return 0;
}

static double share(const struct argp_state *state, const char *text)
{
    double value = 0;
    const char *unit = number(state, "loss", text, 0, 50, &value);
    if (strcmp(unit, "%") == 0)
        value /= 100;
    else if (*unit != '\0')
        psr_options_refuse_format(state, "--loss '%s': give a share: 0.001 or 0.1%%", text);
    if (value > 0.5)
        psr_options_refuse_format(state, "--loss %s: give at most half of the packets", text);
    return value;
}

static double bytes(const struct argp_state *state, const char *text)
{
    double value = 0;
    const char *unit = number(state, "tcp-window", text, 0, 1e9, &value);
    const char *at = *unit != '\0' ? strchr("KMG", *unit) : NULL;
    if (*unit != '\0' && (at == NULL || unit[1] != '\0'))
        psr_options_refuse_format(state, "--tcp-window '%s': give bytes: 65536, 256K, 4M", text);
    if (at != NULL)
        value *= pow(1024, 1 + (double)(at - strchr("KMG", 'K')));
    if (value > 0 && value < PSR_LINK_SEGMENT_BYTES)
        psr_options_refuse_format(state, "--tcp-window %s: less than one segment of 1448 bytes",
                                  text);
    return value;
}

/* Ascending, separated by commas. */
static uint32_t list(const struct argp_state *state, const char *name, const char *text,
                     uint32_t most, uint32_t *into)
{
    uint32_t count = 0;
    const char *at = text;
    for (;;) {
        char *end = NULL;
        const unsigned long value = isdigit((unsigned char)*at) ? strtoul(at, &end, 10) : 0;
        if (value < 1 || value > most || (*end != ',' && *end != '\0'))
            psr_options_refuse_format(state,
                                      "--%s '%s': give numbers from 1 to %u, separated by commas",
                                      name, text, most);
        if (count == PSR_ANSWER_LIST_MAX)
            psr_options_refuse_format(state, "--%s %s: at most %d numbers", name, text,
                                      PSR_ANSWER_LIST_MAX);
        if (count > 0 && value <= into[count - 1])
            psr_options_refuse_format(state, "--%s %s: give them in ascending order", name, text);
        into[count++] = (uint32_t)value;
        if (*end == '\0')
            return count;
        at = end + 1;
    }
}

static void place(const struct argp_state *state, const char *text, psr_predict_question *q)
{
    q->beside = strcmp(text, "dedicated") != 0;
    q->dedicated = strcmp(text, "beside") != 0;
    if (q->beside && q->dedicated && strcmp(text, "both") != 0)
        psr_options_refuse_format(state, "--placement '%s': give beside, dedicated or both", text);
}

static void modes(const struct argp_state *state, const char *text, psr_predict_question *q)
{
    q->ring = strcmp(text, "ps") != 0;
    q->ps = strcmp(text, "ring") != 0;
    if (q->ring && q->ps && strcmp(text, "both") != 0)
        psr_options_refuse_format(state, "--mode '%s': give ps, ring or both", text);
}

static psr_predict_by way(const struct argp_state *state, const char *text)
{
    if (strcmp(text, "auto") == 0)
        return PSR_BY_AUTO;
    if (strcmp(text, "machines") == 0)
        return PSR_BY_MACHINES;
    if (strcmp(text, "one-link") != 0)
        psr_options_refuse_format(state, "--by '%s': give auto, machines or one-link", text);
    return PSR_BY_ONE_LINK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    settings *s = state->input;
    words *w = &s->words;
    psr_predict_question *q = &s->question;
    psr_scenario *k = &q->scenario;
    psr_link_costs *c = &k->costs;
    const int of_run = key - KEY_OF_RUN;
    if (of_run >= 0 && of_run < (int)(sizeof names_of_run / sizeof *names_of_run)) {
        w->of_run[of_run] = arg;
        return 0;
    }
    switch (key) {
    case ARGP_KEY_ARG:
        if (w->run != NULL)
            psr_options_refuse_format(state, "'%s': one run directory is enough", arg);
        w->run = arg;
        return 0;
    case KEY_DOCTOR:
        w->doctor = arg;
        return 0;
    case KEY_HOSTS:
        q->host_count = list(state, "hosts", arg, HOSTS_MAX, q->hosts);
        return 0;
    case KEY_SHARDS:
        q->shard_count = list(state, "shards", arg, 256, q->shards);
        return 0;
    case KEY_WORKERS_PER_HOST:
        k->workers_per_host = (uint32_t)psr_options_number(state, "workers-per-host", arg, 1, 256);
        return 0;
    case KEY_LINK:
        w->link = rate(state, arg);
        return 0;
    case KEY_LATENCY:
        w->latency_s = plain_number(state, "latency", arg, 0, 1e7) / 1e6;
        return 0;
    case KEY_LOSS:
        k->loss = share(state, arg);
        return 0;
    case KEY_TCP_WINDOW:
        k->window_bytes = bytes(state, arg);
        return 0;
    case KEY_FRAME:
        k->frame_bytes = plain_number(state, "frame-bytes", arg, 0, 1448);
        return 0;
    case KEY_MODE:
        modes(state, arg, q);
        return 0;
    case KEY_PLACEMENT:
        place(state, arg, q);
        return 0;
    case KEY_BY:
        q->by = way(state, arg);
        return 0;
    case KEY_COMPUTE:
        w->compute_s = plain_number(state, "compute", arg, 0, 1e9) / 1e3;
        return 0;
    case KEY_CLASSES:
        w->classes = (long)psr_options_number(state, "classes", arg, 1, 1000000);
        return 0;
    case KEY_IMAGE_SIZE:
        w->image_size = (long)psr_options_number(state, "image-size", arg, 1, 65536);
        return 0;
    case KEY_MESSAGE:
        c->message_s = plain_number(state, "message-us", arg, 0, 1e6) / 1e6;
        return 0;
    case KEY_COPY:
        c->copy_s_per_byte = plain_number(state, "copy-ns", arg, 0, 1e6) / 1e9;
        return 0;
    case KEY_SEAL:
        c->seal_s_per_byte = plain_number(state, "seal-ns", arg, 0, 1e6) / 1e9;
        return 0;
    case KEY_NO_ENCRYPT:
        c->seal_s_per_byte = 0;
        return 0;
    case KEY_FOLD:
        c->fold_s_per_byte = plain_number(state, "fold-ns", arg, 0, 1e6) / 1e9;
        return 0;
    case KEY_UPDATE:
        c->update_s_per_byte = plain_number(state, "update-ns", arg, 0, 1e6) / 1e9;
        return 0;
    case KEY_JSON:
        w->json = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    rows,
    parse,
    "[RUN]",
    "Predicts how long a training step takes on a cluster that need not exist, with parameter "
    "servers of each number of shards and with a ring: which is fastest, what limits it, where "
    "one overtakes the other, and how much each input matters. RUN: the directory of a run of "
    "psring train, from which network, batch and computing time are taken."
    "\vExamples:\n"
    "  psring predict runs/resnet50 --hosts 2,4,8 --link 10Gbit\n"
    "  psring predict --model resnet50 --compute 350 --hosts 4 --link 1Gbit\n"
    "  psring doctor --hostfile hosts --json >hosts.json\n"
    "  psring predict runs/resnet50 --doctor hosts.json --placement beside\n",
    NULL,
    NULL,
    NULL};

/* ---- from words to a question ---- */

typedef struct images {
    uint32_t classes, channels, height, width;
} images;

static psr_err take_run(settings *s, images *ret_images)
{
    psr_scenario *k = &s->question.scenario;
    psr_run_input run;
    PSR_TRY(psr_run_input_read(s->words.run, &run));
    k->config = run.config;
    k->compute_s = run.compute_s;
    *ret_images = (images){run.classes, run.channels, run.height, run.width};
    return PSR_OK;
}

/* doctor measures what messages carry, encrypted, so there are no frames and no sealing beside. */
static psr_err take_doctor(settings *s)
{
    psr_scenario *k = &s->question.scenario;
    psr_doctor_input doctor;
    PSR_TRY(psr_doctor_input_read(s->words.doctor, &doctor));
    const double processes_s = 2 * k->costs.message_s, one_way_s = doctor.round_trip_s / 2;
    k->bits_per_s = doctor.bits_per_s;
    k->frame_bytes = 0;
    k->latency_s = one_way_s > processes_s ? one_way_s - processes_s : 0;
    if (s->question.host_count == 0 && doctor.hosts > 0) {
        s->question.host_count = 1;
        s->question.hosts[0] = doctor.hosts;
    }
    return PSR_OK;
}

static psr_err set_options_of_run(settings *s)
{
    psr_config *config = &s->question.scenario.config;
    psr_compression compression;
    for (size_t i = 0; i < sizeof names_of_run / sizeof *names_of_run; i++)
        if (s->words.of_run[i] != NULL) {
            if (strcmp(names_of_run[i], "model") == 0)
                config->bucket_bytes = 0; /* RUN's was for another network */
            PSR_TRY(psr_config_set(config, names_of_run[i], s->words.of_run[i]));
        }
    PSR_TRY(psr_compression_parse_option("compress", config->compress, &compression));
    return psr_network_check(config);
}

static psr_err check(const psr_predict_question *q)
{
    const uint64_t most = (uint64_t)q->hosts[q->host_count - 1] * q->scenario.workers_per_host;
    if (most > HOSTS_MAX)
        return psr_fail(PSR_ERR_USAGE, "--hosts, --workers-per-host: %llu workers; at most %u",
                        (unsigned long long)most, HOSTS_MAX);
    if (q->by == PSR_BY_MACHINES && most > 1024)
        return psr_fail(PSR_ERR_USAGE,
                        "--by machines: %llu workers; psring has at most 1024: "
                        "take --by one-link",
                        (unsigned long long)most);
    if (q->scenario.compute_s < 0)
        return psr_fail(PSR_ERR_USAGE, "--compute: how long a step computes is not known: give "
                                       "it, or the directory of a run");
    return PSR_OK;
}

static psr_err make_question(settings *s)
{
    const words *w = &s->words;
    psr_predict_question *q = &s->question;
    psr_scenario *k = &q->scenario;
    images of = {1000, 3, 224, 224};
    psr_config_defaults(&k->config);
    PSR_TRY(psr_config_set(&k->config, "model", "resnet50"));
    PSR_TRY(psr_config_set(&k->config, "batch-size", "32"));
    k->compute_s = -1;
    if (w->run != NULL)
        PSR_TRY(take_run(s, &of));
    if (w->doctor != NULL)
        PSR_TRY(take_doctor(s));
    if (w->compute_s >= 0)
        k->compute_s = w->compute_s;
    if (w->link >= 0)
        k->bits_per_s = w->link;
    if (w->latency_s >= 0)
        k->latency_s = w->latency_s;
    if (w->classes > 0)
        of.classes = (uint32_t)w->classes;
    if (w->image_size > 0)
        of.height = of.width = (uint32_t)w->image_size;
    if (q->host_count == 0) {
        q->host_count = 3;
        for (uint32_t i = 0; i < q->host_count; i++)
            q->hosts[i] = 2u << i;
    }
    PSR_TRY(set_options_of_run(s));
    PSR_TRY(check(q));
    return psr_scenario_init(k, of.classes, of.channels, of.height, of.width);
}

static psr_err answer(settings *s)
{
    psr_answer found;
    PSR_TRY(make_question(s));
    psr_err err = psr_answer_make(&s->question, &found);
    if (err == PSR_OK) {
        if (s->words.json)
            err = psr_answer_print_json(&s->question, &found);
        else
            psr_answer_print(&s->question, &found);
        psr_answer_done(&found);
    }
    psr_scenario_done(&s->question.scenario);
    return err;
}

int main(int argc, char **argv)
{
    settings s = {.words = {.compute_s = -1, .link = -1, .latency_s = -1},
                  .question = {.ring = true,
                               .ps = true,
                               .beside = true,
                               .dedicated = true,
                               .scenario = {.workers_per_host = 1,
                                            .bits_per_s = 1e9,
                                            .latency_s = 50e-6,
                                            .window_bytes = 256 << 10,
                                            .frame_bytes = 90,
                                            .costs = {.message_s = 20e-6,
                                                      .copy_s_per_byte = 0.25e-9,
                                                      .seal_s_per_byte = 0.3e-9,
                                                      .fold_s_per_byte = 0.15e-9,
                                                      .update_s_per_byte = 0.3e-9}}}};
    psr_log_init("predict", PSR_LOG_ERROR);
    psr_options_parse(&parser, argc, argv, 0, NULL, &s);
    psr_err err = answer(&s);
    if (err != PSR_OK)
        fprintf(stderr, "psring predict: %s\n", psr_err_detail());
    return psr_err_exit_status(err);
}
