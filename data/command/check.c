/* `psring data check SPEC`: reads every picture of a data set. */
#include "data/command/bar.h"
#include "data/command/command.h"

#include "base/config/options_argp.h"
#include "base/system/cpus.h"
#include "base/text/printable.h"
#include "data/opened.h"
#include "data/survey.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* As many broken pictures are named. */
#define NAMED_MOST 20

typedef struct check_options {
    const psr_data_command *command;
    const char *spec;
    uint32_t threads;
} check_options;

typedef struct checking {
    psr_data_bar bar;
    const char *split;
    uint32_t bad; /* of this split */
} checking;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    check_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (o->spec != NULL)
            psr_options_refuse(state, "one data set is enough");
        o->spec = arg;
        return 0;
    case 't':
        o->threads = (uint32_t)psr_options_number(state, "threads", arg, 1, 1024);
        return 0;
    case ARGP_KEY_END:
        if (o->spec == NULL)
            psr_options_refuse(state, "give what --data would be given: a name, DIR or FILE.pack");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option options[] = {
    {"threads", 't', "N", 0, "threads that read and decode (default: one for each processor)", 0},
    {0}};

static const struct argp argp = {
    options,
    parse,
    "DIR|NAME|FILE.pack",
    "Reads every picture of a data set, and says how many each class has, their sizes, the mean "
    "and "
    "deviation of each channel as --mean and --std take them, and which pictures are broken.\v"
    "Examples:\n"
    "  psring data check cifar10\n"
    "  psring data check pictures.pack --threads 4\n"
    "\n"
    "Exit status: 0 every picture can be read; 1 some cannot, and they are named; 2 bad input; 130 "
    "interrupted.\n",
    NULL,
    NULL,
    NULL};

static void show(void *context, uint64_t done, uint64_t total)
{
    checking *c = context;
    psr_data_bar_at(&c->bar, done, total);
}

static void name_bad(void *context, uint32_t sample, const char *message)
{
    checking *c = context;
    (void)sample;
    psr_data_bar_end(&c->bar);
    if (c->bad++ < NAMED_MOST)
        psr_print(stderr, "%s\n", message);
}

static void print_constants(const char *title, const float *values, uint32_t channels)
{
    psr_print(stdout, "  %s", title);
    for (uint32_t c = 0; c < channels; c++)
        psr_print(stdout, "%s%.6f", c > 0 ? "," : "", (double)values[c]);
    psr_print(stdout, "\n");
}

static void print_classes(const psr_dataset *dataset, const psr_survey *survey)
{
    enum { ALL = 100 };
    uint32_t classes = dataset->source->classes, empty = 0;
    uint32_t least = survey->of_class[0], most = 0;
    for (uint32_t i = 0; i < classes; i++) {
        least = survey->of_class[i] < least ? survey->of_class[i] : least;
        most = survey->of_class[i] > most ? survey->of_class[i] : most;
        empty += survey->of_class[i] == 0;
    }
    psr_print(stdout, "  classes %" PRIu32 ", of %" PRIu32 " to %" PRIu32 " pictures", classes,
              least, most);
    if (empty > 0)
        psr_print(stdout, ", %" PRIu32 " without any", empty);
    psr_print(stdout, "\n");
    for (uint32_t i = 0; i < classes && classes <= ALL; i++) {
        const char *const *names = dataset->source->class_names;
        psr_print(stdout, "    %4" PRIu32 " %8" PRIu32 "%s%s\n", i, survey->of_class[i],
                  names != NULL ? "  " : "", names != NULL ? names[i] : "");
    }
}

static void print_survey(const psr_dataset *dataset, const char *split, const psr_survey *survey)
{
    psr_print(stdout, "%s: %" PRIu32 " pictures of %" PRIu32 " channel%s, ", split, dataset->count,
              dataset->channels, dataset->channels == 1 ? "" : "s");
    if (survey->least_height == survey->most_height && survey->least_width == survey->most_width)
        psr_print(stdout, "%" PRIu32 "x%" PRIu32 "\n", survey->most_height, survey->most_width);
    else
        psr_print(stdout, "%" PRIu32 " to %" PRIu32 " high, %" PRIu32 " to %" PRIu32 " wide\n",
                  survey->least_height, survey->most_height, survey->least_width,
                  survey->most_width);
    print_classes(dataset, survey);
    print_constants("mean ", survey->mean, dataset->channels);
    print_constants("std  ", survey->deviation, dataset->channels);
    if (survey->bad > 0)
        psr_print(stdout, "  broken %" PRIu32 "\n", survey->bad);
}

static psr_err check_split(const check_options *o, const psr_dataset *dataset, const char *split,
                           bool *is_bad)
{
    checking c = {.split = split};
    psr_survey survey;
    const psr_data_progress progress = {.at = show, .context = &c, .stop = o->command->stop};
    const psr_survey_options how = {
        .threads = o->threads, .progress = &progress, .bad = name_bad, .context = &c};
    psr_data_bar_begin(&c.bar, split, false);
    psr_err err = psr_survey_make(dataset->source, &how, &survey);
    psr_data_bar_end(&c.bar);
    PSR_TRY(err);
    if (c.bad > NAMED_MOST)
        psr_print(stderr, "and %" PRIu32 " more\n", c.bad - NAMED_MOST);
    print_survey(dataset, split, &survey);
    *is_bad = *is_bad || survey.bad > 0;
    psr_survey_done(&survey);
    return PSR_OK;
}

psr_err psr_data_check(psr_data_command *command, int argc, char **argv)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    check_options o = {.command = command, .threads = processors > 0 ? (uint32_t)processors : 1};
    char spec[PSR_PATH_MAX];
    psr_opened opened;
    psr_options_parse(&argp, argc, argv, 0, NULL, &o);
    PSR_TRY(psr_dataset_find(o.spec, command->user_directory, 0, spec, sizeof spec));
    PSR_TRY(psr_opened_init(spec, NULL, NULL, &opened));
    psr_print(stdout, "%s: %s, content %s-%s\n", spec, opened.train->name, opened.content.train,
              opened.content.test);
    psr_err err = check_split(&o, opened.train, "train", &command->refused);
    if (err == PSR_OK)
        err = check_split(&o, opened.test, "test", &command->refused);
    psr_opened_done(&opened);
    return err;
}
