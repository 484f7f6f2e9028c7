#include "bench/predict/options.h"

#include "base/config/options_argp.h"
#include "base/text/units.h"

#include <argp.h>
#include <ctype.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEY_DOCTOR = 1000,
    KEY_LAB,
    KEY_PROFILE,
    KEY_COSTS,
    KEY_HOSTS,
    KEY_WORKERS_PER_HOST,
    KEY_PROCESSORS,
    KEY_HOST_LINKS,
    KEY_SLOW,
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
    KEY_CHANNELS,
    KEY_IMAGE_SIZE,
    KEY_MESSAGE,
    KEY_COPY,
    KEY_SEAL,
    KEY_FOLD,
    KEY_UPDATE,
    KEY_NO_ENCRYPT,
    KEY_CALIBRATE,
    KEY_BESIDE,
    KEY_JSON,
    KEY_OF_RUN, /* and above: options of a run, by their names */
};

#define HOSTS_MAX 65536u

static const struct argp_option rows[] = {
    {NULL, 0, NULL, 0, "What is trained:", 1},
    {"model", KEY_OF_RUN, "NAME", 0, "the network (RUN's, or resnet50)", 1},
    {"shortcut", KEY_OF_RUN + 7, "A|B", 0, "as of psring train (RUN's)", 1},
    {"stem", KEY_OF_RUN + 8, "large|small", 0, "as of psring train (RUN's)", 1},
    {"se", KEY_OF_RUN + 9, "RATIO|none", 0, "as of psring train (RUN's)", 1},
    {"freeze", KEY_OF_RUN + 10, "LIST|all-but:LIST", 0,
     "as of psring train (RUN's): only the rest is exchanged, and the backward pass ends where "
     "nothing before is trained",
     1},
    {"compute", KEY_COMPUTE, "MS", 0,
     "forward and backward pass of a worker's step, in milliseconds (RUN's median, which is of "
     "RUN's network)",
     1},
    {"profile", KEY_PROFILE, "FILE", 0,
     "take both passes, tensor by tensor, from what psring train --record has written", 1},
    {"batch-size", KEY_OF_RUN + 1, "N", 0, "of each worker (RUN's, or 32)", 1},
    {"image-size", KEY_IMAGE_SIZE, "PX", 0, "side of the images (RUN's, or 224)", 1},
    {"channels", KEY_CHANNELS, "N", 0, "of the images (RUN's, or 3)", 1},
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
    {"host-links", KEY_HOST_LINKS, "RATE,..", 0,
     "where links differ: of each host in turn, the shards' own hosts last; the one-link model "
     "takes the slowest",
     2},
    {"slow", KEY_SLOW, "N,..", 0, "so many times as long do workers of each host compute (1)", 2},
    {"lab", KEY_LAB, "FILE", 0,
     "take hosts, links and shards from a lab file (docs/lab.md), and this machine's processors as "
     "--processors",
     2},
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
    {"processors", KEY_PROCESSORS, "N", 0,
     "that all hosts share, because they are emulated on one machine; 0: each process has as many "
     "as it uses (0)",
     2},
    {NULL, 0, NULL, 0, "What a process needs, of its processor:", 3},
    {"costs", KEY_COSTS, "FILE", 0, "take these from what --calibrate has written", 3},
    {"calibrate", KEY_CALIBRATE, NULL, 0,
     "measure them on this machine, which takes some seconds, and write them as JSON; nothing is "
     "predicted",
     3},
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
    {"beside", KEY_BESIDE, NULL, 0,
     "predict the configuration of each RUN, and show it beside the time that its steps took", 4},
    {"json", KEY_JSON, NULL, 0, "write one JSON object", 4},
    {0},
};

/* ---- values ---- */

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

static double rate(const struct argp_state *state, const char *name, const char *text)
{
    uint64_t bits_per_s = 0;
    if (!psr_rate_parse(text, strlen(text), &bits_per_s))
        psr_options_refuse_format(
            state, "--%s '%s': give a rate with its unit, from 1Kbit to 1000Gbit: 100Mbit, 25Gbit",
            name, text);
    return (double)bits_per_s;
}

/* Values separated by commas, each by `read`. */
static uint32_t each_host(const struct argp_state *state, const char *name, const char *text,
                          double (*read)(const struct argp_state *state, const char *name,
                                         const char *text),
                          double into[PSR_SCENARIO_HOSTS_MAX])
{
    char word[64];
    uint32_t count = 0;
    for (const char *at = text;; at++) {
        const size_t length = strcspn(at, ",");
        if (count == PSR_SCENARIO_HOSTS_MAX || length >= sizeof word)
            psr_options_refuse_format(state, "--%s: give at most %d values, separated by commas",
                                      name, PSR_SCENARIO_HOSTS_MAX);
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        into[count++] = read(state, name, word);
        at += length;
        if (*at == '\0')
            return count;
    }
}

static double slowness(const struct argp_state *state, const char *name, const char *text)
{
    return plain_number(state, name, text, 1, 1000);
}

/* The slowest link is --link, and the others are as much faster. */
static void take_host_links(const struct argp_state *state, const char *text,
                            psr_predict_options *o)
{
    psr_scenario *k = &o->question.scenario;
    o->link_count = each_host(state, "host-links", text, rate, k->link_of);
    double slowest = k->link_of[0];
    for (uint32_t h = 1; h < o->link_count; h++)
        slowest = fmin(slowest, k->link_of[h]);
    for (uint32_t h = 0; h < o->link_count; h++)
        k->link_of[h] /= slowest;
    o->link_bits_per_s = slowest;
}

/* Hosts of which one list says something and the other nothing. */
static void fill_hosts(psr_predict_options *o)
{
    psr_scenario *k = &o->question.scenario;
    k->different_hosts = o->link_count > o->slow_count ? o->link_count : o->slow_count;
    for (uint32_t h = o->link_count; h < k->different_hosts; h++)
        k->link_of[h] = 1;
    for (uint32_t h = o->slow_count; h < k->different_hosts; h++)
        k->slow_of[h] = 1;
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

/* ---- options ---- */

/* Options that are a number: where they go, and what one of theirs is there. */
static const struct figure {
    int key;
    const char *name;
    double least, most, scale;
    size_t offset;
} figures[] = {
    {KEY_COMPUTE, "compute", 0, 1e9, 1e-3, offsetof(psr_predict_options, compute_s)},
    {KEY_LATENCY, "latency", 0, 1e7, 1e-6, offsetof(psr_predict_options, latency_s)},
    {KEY_CLASSES, "classes", 1, 1e6, 1, offsetof(psr_predict_options, classes)},
    {KEY_CHANNELS, "channels", 1, 1024, 1, offsetof(psr_predict_options, channels)},
    {KEY_IMAGE_SIZE, "image-size", 1, 65536, 1, offsetof(psr_predict_options, image_size)},
    {KEY_FRAME, "frame-bytes", 0, 1448, 1,
     offsetof(psr_predict_options, question.scenario.frame_bytes)},
    {KEY_MESSAGE, "message-us", 0, 1e6, 1e-6, offsetof(psr_predict_options, costs_given[0])},
    {KEY_COPY, "copy-ns", 0, 1e6, 1e-9, offsetof(psr_predict_options, costs_given[1])},
    {KEY_SEAL, "seal-ns", 0, 1e6, 1e-9, offsetof(psr_predict_options, costs_given[2])},
    {KEY_FOLD, "fold-ns", 0, 1e6, 1e-9, offsetof(psr_predict_options, costs_given[3])},
    {KEY_UPDATE, "update-ns", 0, 1e6, 1e-9, offsetof(psr_predict_options, costs_given[4])},
};

/* Options that are a file's name. */
static const struct file {
    int key;
    size_t offset;
} files[] = {
    {KEY_DOCTOR, offsetof(psr_predict_options, doctor)},
    {KEY_LAB, offsetof(psr_predict_options, lab)},
    {KEY_PROFILE, offsetof(psr_predict_options, profile)},
    {KEY_COSTS, offsetof(psr_predict_options, costs)},
};

/* false: key is no such option. */
static bool take_from_tables(const struct argp_state *state, int key, const char *arg,
                             psr_predict_options *o)
{
    if (key >= KEY_OF_RUN && key < KEY_OF_RUN + PSR_PREDICT_OF_RUN) {
        o->of_run[key - KEY_OF_RUN] = arg;
        return true;
    }
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (figures[i].key == key) {
            const struct figure *f = &figures[i];
            const double value = f->scale * plain_number(state, f->name, arg, f->least, f->most);
            memcpy((char *)o + f->offset, &value, sizeof value);
            return true;
        }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].key == key) {
            memcpy((char *)o + files[i].offset, &arg, sizeof arg);
            return true;
        }
    return false;
}

static void add_run(const struct argp_state *state, const char *run, psr_predict_options *o)
{
    if (o->run_count == PSR_PREDICT_RUNS_MAX)
        psr_options_refuse_format(state, "'%s': give at most %d runs", run, PSR_PREDICT_RUNS_MAX);
    o->runs[o->run_count++] = run;
}

static bool take_flag(int key, psr_predict_options *o)
{
    bool *flag = key == KEY_JSON        ? &o->json
                 : key == KEY_CALIBRATE ? &o->calibrate
                 : key == KEY_BESIDE    ? &o->beside
                                        : NULL;
    if (flag != NULL)
        *flag = true;
    if (key == KEY_NO_ENCRYPT)
        o->costs_given[2] = 0;
    return flag != NULL || key == KEY_NO_ENCRYPT;
}

static void check_together(const struct argp_state *state, const psr_predict_options *o)
{
    if (o->run_count > 1 && !o->beside)
        psr_options_refuse_format(state, "'%s': one run is enough, but with --beside", o->runs[1]);
    if (o->beside && o->run_count == 0)
        psr_options_refuse(state, "--beside: give the directories of runs");
    if (o->lab != NULL)
        psr_options_refuse(state, "--lab: psring predict reads it; start that, not this program");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    psr_predict_options *o = state->input;
    psr_predict_question *q = &o->question;
    psr_scenario *k = &q->scenario;
    if (take_flag(key, o) || take_from_tables(state, key, arg, o))
        return 0;
    switch (key) {
    case ARGP_KEY_ARG:
        add_run(state, arg, o);
        return 0;
    case ARGP_KEY_END:
        check_together(state, o);
        fill_hosts(o);
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
    case KEY_PROCESSORS:
        k->processors = (uint32_t)psr_options_number(state, "processors", arg, 0, 4096);
        return 0;
    case KEY_LINK:
        o->link_bits_per_s = rate(state, "link", arg);
        return 0;
    case KEY_HOST_LINKS:
        take_host_links(state, arg, o);
        return 0;
    case KEY_SLOW:
        o->slow_count = each_host(state, "slow", arg, slowness, k->slow_of);
        return 0;
    case KEY_LOSS:
        k->loss = share(state, arg);
        return 0;
    case KEY_TCP_WINDOW:
        k->window_bytes = bytes(state, arg);
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
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp parser = {
    rows,
    parse,
    "[RUN...]",
    "Predicts how long a training step takes on a cluster that need not exist, with parameter "
    "servers of each number of shards and with a ring: which is fastest, what limits it, where "
    "one overtakes the other, and how much each input matters. RUN: the directory of a run of "
    "psring train, from which network, batch and computing time are taken; with --beside several "
    "of them, or files of psring bench train --keep-runs."
    "\vExamples:\n"
    "  psring predict runs/resnet50 --hosts 2,4,8 --link 10Gbit\n"
    "  psring predict --model resnet50 --compute 350 --hosts 4 --link 1Gbit\n"
    "  psring predict --model resnet18 --stem small --image-size 32 \\\n"
    "    --freeze layer1 --compute 40\n"
    "  psring doctor --hostfile hosts --json >hosts.json\n"
    "  psring predict runs/resnet50 --doctor hosts.json --placement beside\n"
    "  psring predict --calibrate >costs.json\n"
    "  psring predict --beside runs/a runs/b --lab four.lab --costs costs.json\n"
    "\n"
    "Exit status: 0 done; 1 it could not be measured; 2 bad input.\n",
    NULL,
    NULL,
    NULL};

void psr_predict_options_parse(int argc, char **argv, psr_predict_options *ret_options)
{
    *ret_options =
        (psr_predict_options){.compute_s = -1,
                              .link_bits_per_s = -1,
                              .latency_s = -1,
                              .classes = -1,
                              .channels = -1,
                              .image_size = -1,
                              .costs_given = {-1, -1, -1, -1, -1},
                              .question = {.ring = true,
                                           .ps = true,
                                           .beside = true,
                                           .dedicated = true,
                                           .scenario = {.workers_per_host = 1,
                                                        .bits_per_s = 1e9,
                                                        .latency_s = 50e-6,
                                                        .window_bytes = 256 << 10,
                                                        .frame_bytes = -1,
                                                        .costs = {.message_s = 20e-6,
                                                                  .copy_s_per_byte = 0.25e-9,
                                                                  .seal_s_per_byte = 0.3e-9,
                                                                  .fold_s_per_byte = 0.15e-9,
                                                                  .update_s_per_byte = 0.3e-9}}}};
    psr_options_parse(&parser, argc, argv, 0, NULL, ret_options);
}
