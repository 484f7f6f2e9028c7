#include "bench/predict/question.h"

#include "bench/predict/costs.h"
#include "bench/predict/inputs.h"
#include "comm/wire/compression/compression.h"
#include "model/networks/network_list.h"

#include <string.h>

#define WORKERS_MAX 65536u
#define MACHINES_MAX 1024u
#define ETHERNET_FRAME_BYTES 90 /* headers of TCP, IP and Ethernet, with preamble and gap */

const char *const psr_predict_names_of_run[PSR_PREDICT_OF_RUN] = {
    "model",    "batch-size", "bucket-size", "slice-size", "window", "compress", "compress-weights",
    "shortcut", "stem",       "se",          "freeze"};

typedef struct images {
    uint32_t classes, channels, height, width;
} images;

static psr_err take_run(psr_predict_options *o, images *ret_images)
{
    psr_scenario *k = &o->question.scenario;
    psr_run_input run;
    PSR_TRY(psr_run_input_read(o->runs[0], &run));
    k->config = run.config;
    k->compute_s = psr_run_input_alone_s(&run, k->processors);
    *ret_images = (images){run.classes, run.channels, run.height, run.width};
    return PSR_OK;
}

/* doctor measures what messages carry, encrypted, so there are no frames and no sealing beside. */
static psr_err take_doctor(psr_predict_options *o)
{
    psr_scenario *k = &o->question.scenario;
    psr_doctor_input doctor;
    PSR_TRY(psr_doctor_input_read(o->doctor, &doctor));
    const double processes_s = 2 * k->costs.message_s, one_way_s = doctor.round_trip_s / 2;
    k->bits_per_s = doctor.bits_per_s;
    if (k->frame_bytes < 0)
        k->frame_bytes = 0;
    k->latency_s = one_way_s > processes_s ? one_way_s - processes_s : 0;
    if (o->question.host_count == 0 && doctor.hosts > 0) {
        o->question.host_count = 1;
        o->question.hosts[0] = doctor.hosts;
    }
    return PSR_OK;
}

/* Options win over the file. */
static psr_err take_costs(psr_predict_options *o)
{
    psr_link_costs *c = &o->question.scenario.costs;
    double *const into[] = {&c->message_s, &c->copy_s_per_byte, &c->seal_s_per_byte,
                            &c->fold_s_per_byte, &c->update_s_per_byte};
    if (o->costs != NULL)
        PSR_TRY(psr_costs_read(o->costs, c));
    for (size_t i = 0; i < sizeof into / sizeof *into; i++)
        if (o->costs_given[i] >= 0)
            *into[i] = o->costs_given[i];
    return PSR_OK;
}

static psr_err set_options_of_run(psr_predict_options *o)
{
    psr_config *config = &o->question.scenario.config;
    for (size_t i = 0; i < PSR_PREDICT_OF_RUN; i++)
        if (o->of_run[i] != NULL) {
            if (strcmp(psr_predict_names_of_run[i], "model") == 0)
                config->bucket_bytes = 0; /* RUN's was for another network */
            if (strcmp(psr_predict_names_of_run[i], "slice-size") == 0 ||
                strcmp(psr_predict_names_of_run[i], "window") == 0)
                o->question.slices_given = true;
            PSR_TRY(psr_config_set(config, psr_predict_names_of_run[i], o->of_run[i]));
        }
    PSR_TRY(psr_compression_check_options(config->compress, config->compress_weights));
    if (o->profile != NULL && strlen(o->profile) >= sizeof config->profile)
        return psr_fail(PSR_ERR_USAGE, "--profile: longer than %zu bytes",
                        sizeof config->profile - 1);
    if (o->profile != NULL)
        strcpy(config->profile, o->profile);
    return psr_network_check(config);
}

static psr_err check(const psr_predict_options *o)
{
    const psr_predict_question *q = &o->question;
    const psr_scenario *k = &q->scenario;
    const uint64_t most = (uint64_t)q->hosts[q->host_count - 1] * k->workers_per_host;
    if (most > WORKERS_MAX)
        return psr_fail(PSR_ERR_USAGE, "--hosts, --workers-per-host: %llu workers; at most %u",
                        (unsigned long long)most, WORKERS_MAX);
    if (q->by == PSR_BY_MACHINES && most > MACHINES_MAX)
        return psr_fail(PSR_ERR_USAGE,
                        "--by machines: %llu workers; psring has at most %u: "
                        "take --by one-link",
                        (unsigned long long)most, MACHINES_MAX);
    if (k->processors > 0 &&
        (q->by == PSR_BY_ONE_LINK || (q->by == PSR_BY_AUTO && most > PSR_EMULATED_WORKERS_MAX)))
        return psr_fail(PSR_ERR_USAGE, "--processors: the one-link model knows none that hosts "
                                       "share; take --by machines");
    if (k->compute_s < 0 && o->profile == NULL)
        return psr_fail(PSR_ERR_USAGE,
                        "--compute: how long a step computes is not known: give it, --profile, or "
                        "the directory of a run");
    return PSR_OK;
}

static void take_numbers(psr_predict_options *o, images *of)
{
    psr_scenario *k = &o->question.scenario;
    if (o->compute_s >= 0)
        k->compute_s = o->compute_s;
    if (o->link_bits_per_s >= 0)
        k->bits_per_s = o->link_bits_per_s;
    if (o->latency_s >= 0)
        k->latency_s = o->latency_s;
    if (k->frame_bytes < 0)
        k->frame_bytes = ETHERNET_FRAME_BYTES;
    if (o->classes > 0)
        of->classes = (uint32_t)o->classes;
    if (o->channels > 0)
        of->channels = (uint32_t)o->channels;
    if (o->image_size > 0)
        of->height = of->width = (uint32_t)o->image_size;
}

static void take_usual_hosts(psr_predict_question *q)
{
    if (q->host_count > 0)
        return;
    q->host_count = 3;
    for (uint32_t i = 0; i < q->host_count; i++)
        q->hosts[i] = 2u << i;
}

psr_err psr_predict_question_make(psr_predict_options *o)
{
    psr_scenario *k = &o->question.scenario;
    images of = {1000, 3, 224, 224};
    psr_config_defaults(&k->config);
    PSR_TRY(psr_config_set(&k->config, "model", "resnet50"));
    PSR_TRY(psr_config_set(&k->config, "batch-size", "32"));
    k->compute_s = -1;
    PSR_TRY(take_costs(o));
    if (o->run_count > 0)
        PSR_TRY(take_run(o, &of));
    if (o->doctor != NULL)
        PSR_TRY(take_doctor(o));
    take_numbers(o, &of);
    take_usual_hosts(&o->question);
    PSR_TRY(set_options_of_run(o));
    PSR_TRY(check(o));
    return psr_scenario_init(k, of.classes, of.channels, of.height, of.width, o->profile);
}
