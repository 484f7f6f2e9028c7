/* `psring data pack SRC -o FILE`: one file of a data set. */
#include "data/command/bar.h"
#include "data/command/command.h"

#include "base/config/options_argp.h"
#include "base/text/printable.h"
#include "data/opened.h"
#include "data/pack/write.h"

#include <inttypes.h>
#include <unistd.h>

typedef struct pack_options {
    const char *spec, *file;
    uint32_t threads;
    bool decoded, keeps_constants;
} pack_options;

enum { KEY_DECODED = 1000, KEY_CONSTANTS };

static error_t parse(int key, char *arg, struct argp_state *state)
{
    pack_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->spec != NULL)
            psr_options_refuse(state, "one data set is enough");
        o->spec = arg;
        return 0;
    case 'o':
        o->file = arg;
        return 0;
    case 't':
        o->threads = (uint32_t)psr_options_number(state, "threads", arg, 1, 1024);
        return 0;
    case KEY_DECODED:
        o->decoded = true;
        return 0;
    case KEY_CONSTANTS:
        o->keeps_constants = true;
        return 0;
    case ARGP_KEY_END:
        if (o->spec == NULL)
            psr_options_refuse(state, "give what --data would be given: a name or DIR");
        if (o->file == NULL)
            psr_options_refuse(state, "give --output FILE.pack, the file to write");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"output", 'o', "FILE.pack", 0, "the file to write", 0},
    {"decoded", KEY_DECODED, NULL, 0,
     "raw pixels rather than the bytes of JPEG and PNG files: larger, and nothing to decode", 0},
    {"keep-constants", KEY_CONSTANTS, NULL, 0,
     "keep the mean and deviation that a folder of pictures has by default (ImageNet's), rather "
     "than read all of the train split to compute its own",
     0},
    {"threads", 't', "N", 0, "threads that read for that (default: one for each processor)", 0},
    {0}};

static const struct argp argp = {
    options,
    parse,
    "DIR|NAME|FILE.pack",
    "Writes a data set into one file, which --data takes: with an index, labels, class names, mean "
    "and deviation, and checksums. It is mapped, so it may be larger than memory, and one file is "
    "read where many small ones are slow.\v"
    "Examples:\n"
    "  psring data pack cifar10 -o cifar10.pack\n"
    "  psring train --model resnet20 --data cifar10.pack --steps 10\n"
    "\n"
    "The file appears when it is whole.\n"
    "\n"
    "Exit status: 0 done; 1 it could not be written; 2 bad input; 130 interrupted.\n",
    NULL,
    NULL,
    NULL};

static void show(void *context, uint64_t done, uint64_t total)
{
    psr_data_bar_at(context, done, total);
}

/* A picture that cannot be read cannot be packed. */
static void name_bad(void *context, uint32_t sample, const char *message)
{
    (void)sample;
    psr_data_bar_end(context);
    psr_print(stderr, "%s\n", message);
}

static psr_err compute_constants(const pack_options *o, const psr_data_command *command,
                                 const psr_picture_source *train, psr_survey *ret_survey)
{
    psr_data_bar bar;
    const psr_data_progress progress = {.at = show, .context = &bar, .stop = command->stop};
    const psr_survey_options how = {
        .threads = o->threads, .progress = &progress, .bad = name_bad, .context = &bar};
    psr_data_bar_begin(&bar, "reading", false);
    psr_err err = psr_survey_make(train, &how, ret_survey);
    psr_data_bar_end(&bar);
    PSR_TRY(err);
    if (ret_survey->bad == 0)
        return PSR_OK;
    uint32_t bad = ret_survey->bad;
    psr_survey_done(ret_survey);
    return psr_fail(PSR_ERR_FORMAT,
                    "%" PRIu32 " picture%s cannot be read, as said above; mend or remove %s", bad,
                    bad == 1 ? "" : "s", bad == 1 ? "it" : "them");
}

static psr_err write_pack(const pack_options *o, const psr_data_command *command,
                          const psr_opened *opened)
{
    const psr_picture_source *const sources[2] = {opened->train->source, opened->test->source};
    psr_data_bar bar;
    psr_survey survey = {0};
    psr_pack_written written;
    const psr_data_progress progress = {.at = show, .context = &bar, .stop = command->stop};
    psr_pack_options how = {
        .name = opened->train->name, .decoded = o->decoded, .progress = &progress};
    if (sources[0]->origin != PSR_CONSTANTS_COMPUTED && !o->keeps_constants) {
        PSR_TRY(compute_constants(o, command, sources[0], &survey));
        how.mean = survey.mean;
        how.deviation = survey.deviation;
    }
    psr_data_bar_begin(&bar, "packing", false);
    psr_err err = psr_pack_write(o->file, sources, &how, &written);
    psr_data_bar_end(&bar);
    psr_survey_done(&survey);
    PSR_TRY(err);
    psr_print(stdout, "%s: %s, %" PRIu32 " + %" PRIu32 " pictures, %.1f MiB, content %s-%s\n",
              o->file, opened->train->name, opened->train->count, opened->test->count,
              (double)written.bytes / (1 << 20), written.content.train, written.content.test);
    return PSR_OK;
}

psr_err psr_data_pack(psr_data_command *command, int argc, char **argv)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pack_options o = {.threads = processors > 0 ? (uint32_t)processors : 1};
    char spec[PSR_PATH_MAX];
    psr_opened opened;
    psr_options_parse(&argp, argc, argv, 0, NULL, &o);
    PSR_TRY(psr_dataset_find(o.spec, command->user_directory, 0, spec, sizeof spec));
    PSR_TRY(psr_opened_init(spec, command->cache, NULL, &opened));
    psr_err err = write_pack(&o, command, &opened);
    psr_opened_done(&opened);
    return err;
}
