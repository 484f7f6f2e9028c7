#include "deploy/lab/words.h"

#include "base/config/options_argp.h"
#include "base/text/text.h"
#include "deploy/bench_train/results.h"
#include "deploy/lab/namespaces.h"
#include "deploy/launch/hosts/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For wordexp: in quotes, with each quote outside of them. */
static psr_err quote(const char *text, char *to, size_t size)
{
    size_t at = 0;
    to[at++] = '\'';
    for (; *text != '\0' && at + 7 < size; text++) {
        if (*text == '\'') {
            memcpy(to + at, "'\\''", 4);
            at += 4;
        } else {
            to[at++] = *text;
        }
    }
    if (*text != '\0')
        return psr_fail(PSR_ERR_USAGE, "psring's own path is too long");
    to[at++] = '\'';
    to[at] = '\0';
    return PSR_OK;
}

static bool is(const char *word, const char *text)
{
    return word != NULL && strcmp(word, text) == 0;
}

/* What the user's words say that the lab must know. */
typedef struct said {
    psr_config config; /* mode and model */
    bool out, resumes, shards, slices, workers, link;
    const char *map_by;
} said;

/* lists: options may be lists, as of bench train, and say nothing by themselves. */
static psr_err look(const struct argp *argp, int argc, char **argv, bool lists, said *s)
{
    static const char *const ours[] = {"hostfile", "host", "ssh", "interface", "remote-psring"};
    const char *text = NULL;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (psr_options_find(argp, argc, argv, ours[i], &text))
            return psr_fail(PSR_ERR_USAGE, "--%s: the lab says which hosts there are; leave it out",
                            ours[i]);
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "-H", 2) == 0 || strncmp(argv[i], "--ps-hostfile", 13) == 0)
            return psr_fail(PSR_ERR_USAGE, "%s: the lab says which hosts there are; leave it out",
                            argv[i]);
    psr_config_defaults(&s->config);
    static const char *const known[] = {"backend", "out", "mode", "model", "route"};
    for (size_t i = 0; i < (lists ? 2 : sizeof known / sizeof *known); i++)
        if (psr_options_find(argp, argc, argv, known[i], &text) && text != NULL)
            PSR_TRY(psr_config_set(&s->config, known[i], text));
    s->out = s->config.out[0] != '\0';
    s->resumes = psr_options_find(argp, argc, argv, "resume", &text);
    s->shards = psr_options_find(argp, argc, argv, "shards", &text);
    s->slices = psr_options_find(argp, argc, argv, "slice-size", &text) ||
                psr_options_find(argp, argc, argv, "window", &text);
    s->workers = psr_options_find(argp, argc, argv, "workers", &text);
    for (int i = 1; i < argc; i++) {
        s->workers = s->workers || (argv[i][0] == '-' && argv[i][1] == 'n');
        s->link = s->link || is(argv[i], "--link") || strncmp(argv[i], "--link=", 7) == 0;
    }
    (void)psr_options_find(argp, argc, argv, "map-by", &s->map_by);
    return PSR_OK;
}

static psr_err look_at(char **command, int argc, bool lists, said *s)
{
    psr_options_argp *table = psr_options_argp_new("", "");
    if (table == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the options");
    const struct argp_child children[] = {
        {psr_options_argp_child(table), 0, NULL, 0}, {&psr_places_argp, 0, NULL, 0}, {0}};
    const struct argp argp = {.children = children};
    psr_err err = look(&argp, argc, command, lists, s);
    psr_options_argp_free(table);
    return err;
}

/* Ranks take the hosts' slots in order. */
static psr_err compose_slow(const psr_lab *lab, const said *s, psr_lab_words *w)
{
    psr_text_end end = {w->slow, sizeof w->slow};
    uint32_t rank = 0;
    for (size_t i = 0; i < lab->host_count; i++) {
        const psr_lab_host *host = &lab->hosts[i];
        for (uint32_t k = 0; k < host->slots; k++, rank++)
            if (host->slow > 1)
                psr_text_add(&end, "%s%u:%.6g", w->slow[0] != '\0' ? "," : "", rank, host->slow);
    }
    if (w->slow[0] != '\0' && s->map_by != NULL && strcmp(s->map_by, "slot") != 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--map-by %s: a lab with slow hosts places by slot; leave it out",
                        s->map_by);
    return PSR_OK;
}

static uint64_t slowest_rate(const psr_lab *lab)
{
    uint64_t rate = UINT64_MAX;
    for (size_t i = 0; i < lab->host_count; i++)
        if (lab->hosts[i].link.rate_bits_per_s < rate)
            rate = lab->hosts[i].link.rate_bits_per_s;
    return rate;
}

/* The slowest link decides. */
static void compose_slices(const psr_lab *lab, uint32_t pushers, psr_lab_words *w)
{
    uint64_t slice;
    uint32_t window;
    psr_config_slices_for(slowest_rate(lab), pushers, &slice, &window);
    snprintf(w->slice, sizeof w->slice, "%llu", (unsigned long long)slice);
    snprintf(w->window, sizeof w->window, "%u", window);
}

typedef struct adding {
    char **words;
    size_t count;
} adding;

static void add(adding *a, const char *word)
{
    a->words[a->count++] = (char *)(uintptr_t)word; /* execv does not write to it */
}

static void add_pair(adding *a, const char *option, const char *value)
{
    add(a, option);
    add(a, value);
}

/* Where shards go, if there are any, and slices. */
static void add_for_shards(const psr_lab *lab, const said *s, bool needs_shards, adding *a,
                           psr_lab_words *w)
{
    const uint32_t shards = psr_lab_shards(lab);
    if (shards > 0 && needs_shards) {
        add_pair(a, "--ps-hostfile", PSR_LAB_PS_HOSTS);
        snprintf(w->shards, sizeof w->shards, "%u", shards);
        if (!s->shards)
            add_pair(a, "--shards", w->shards);
    }
    compose_slices(lab, needs_shards ? psr_lab_slots(lab) : 0, w);
    if (!s->slices) {
        add_pair(a, "--slice-size", w->slice);
        add_pair(a, "--window", w->window);
    }
}

/* Of train and of bench train. */
static psr_err add_for_computing(const psr_lab *lab, const said *s, double dilate, adding *a,
                                 psr_lab_words *w)
{
    PSR_TRY(compose_slow(lab, s, w));
    if (w->slow[0] != '\0')
        add_pair(a, "--slow", w->slow);
    if (dilate > 1 && s->config.backend != PSR_BACKEND_PLAYED)
        return psr_fail(PSR_ERR_USAGE,
                        "--dilate: links would be slower, and computation would not; add --backend "
                        "played:PROFILE to the command, or leave --dilate out");
    snprintf(w->dilate, sizeof w->dilate, "%.17g", dilate);
    if (dilate > 1)
        add_pair(a, "--dilate", w->dilate);
    return PSR_OK;
}

static psr_err add_for_training(const psr_lab *lab, said *s, double dilate, adding *a,
                                psr_lab_words *w)
{
    PSR_TRY(add_for_computing(lab, s, dilate, a, w));
    s->slices = true; /* it measures the links itself */
    add_for_shards(lab, s, psr_config_needs_shards(&s->config), a, w);
    if (!s->out && !s->resumes) {
        psr_config_name_out(&s->config);
        add_pair(a, "--out", s->config.out);
    }
    return PSR_OK;
}

/* A worker for each slot, shards beside the workers and on the lab's hosts for shards, and what the
 * slowest link can carry. */
static psr_err add_for_bench_train(const psr_lab *lab, said *s, double dilate, adding *a,
                                   psr_lab_words *w)
{
    PSR_TRY(add_for_computing(lab, s, dilate, a, w));
    add_for_shards(lab, s, true, a, w);
    snprintf(w->workers, sizeof w->workers, "%u", psr_lab_slots(lab));
    if (!s->workers)
        add_pair(a, "--workers", w->workers);
    psr_rate_print(slowest_rate(lab), w->link);
    if (!s->link)
        add_pair(a, "--link", w->link);
    if (!s->out) /* its file tells when steps were taken */
        psr_results_name(s->config.out, sizeof s->config.out);
    snprintf(w->bench, sizeof w->bench, "%s", s->config.out);
    if (!s->out)
        add_pair(a, "--out", w->bench);
    return PSR_OK;
}

static psr_err compose(const psr_lab *lab, const char *psring, char **command, int argc,
                       double dilate, psr_lab_words *w)
{
    said s = {.map_by = NULL};
    char quoted[PATH_MAX + 16];
    w->trains = is(command[0], "train");
    if (!w->trains && !is(command[0], "run") && !is(command[0], "bench") &&
        !is(command[0], "doctor"))
        return psr_fail(PSR_ERR_USAGE,
                        "'%s' does not run in a lab; there are train, run, bench and doctor",
                        command[0]);
    if (is(command[0], "bench") && (argc < 2 || command[1][0] == '-'))
        return psr_fail(PSR_ERR_USAGE, "bench: say which; for instance bench comm");
    /* The words of a program are not options of ours. */
    int ours = argc;
    for (int i = argc - 1; i > 0; i--)
        if (is(command[i], "--"))
            ours = i;
    const bool benches = is(command[0], "bench"),
               benches_train = benches && is(command[1], "train");
    PSR_TRY(look_at(command, ours, benches_train, &s));
    PSR_TRY(quote(psring, quoted, sizeof quoted));
    snprintf(w->ssh, sizeof w->ssh, "%s lab-host", quoted);

    adding a = {w->words, 0};
    const int named = benches ? 2 : 1;
    add(&a, psring);
    for (int i = 0; i < named; i++)
        add(&a, command[i]);
    add_pair(&a, "--hostfile", PSR_LAB_HOSTS);
    add_pair(&a, "--ssh", w->ssh);
    add_pair(&a, "--remote-psring", psring);
    if (w->trains) {
        PSR_TRY(add_for_training(lab, &s, dilate, &a, w));
        snprintf(w->out, sizeof w->out, "%s", s.resumes ? "" : s.config.out);
        for (size_t i = 0; i < a.count; i++)
            if (a.words[i] == s.config.out)
                a.words[i] = w->out;
    } else if (benches_train) {
        PSR_TRY(add_for_bench_train(lab, &s, dilate, &a, w));
    } else if (benches && is(command[1], "exchange")) {
        add_for_shards(lab, &s, psr_config_needs_shards(&s.config), &a, w);
    }
    for (int i = named; i < argc; i++)
        add(&a, command[i]);
    return PSR_OK;
}

psr_err psr_lab_words_compose(const psr_lab *lab, const char *psring, const char *const *command,
                              double dilate, psr_lab_words *ret_words)
{
    char **words = (char **)(uintptr_t)command; /* is read alone */
    int argc = 0;
    while (command[argc] != NULL)
        argc++;
    ret_words->out[0] = ret_words->bench[0] = ret_words->slow[0] = '\0';
    ret_words->words = calloc((size_t)argc + PSR_LAB_ADDED_MAX, sizeof *ret_words->words);
    if (ret_words->words == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a command");
    psr_err err = compose(lab, psring, words, argc, dilate, ret_words);
    if (err)
        psr_lab_words_done(ret_words);
    return err;
}

void psr_lab_words_done(psr_lab_words *words)
{
    free(words->words);
    words->words = NULL;
}
