#include "base/options_argp.h"

#include "base/nearest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEGATED = 0x8000, NAME_BYTES = 64, DOC_BYTES = 256 };

/* Texts that argp borrows, of one option. */
typedef struct texts {
    char negated[NAME_BYTES]; /* "no-shuffle" */
    char doc[DOC_BYTES];      /* the help text with the default */
} texts;

struct psr_options_argp {
    struct argp argp;
    struct argp_option *rows;
    texts *texts; /* by index in the table */
};

void psr_options_refuse(const struct argp_state *state, const char *detail)
{
    /* Not argp_error: its second line, "Try --help", would part what was wrong from the end of the log. */
    fprintf(stderr, "%s: %s\n", state->name, detail);
    exit(2);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    /* Below are a program's own keys, above are argp's (0x1000000 and up). */
    if (key < PSR_OPTIONS_ARGP_KEY || key > PSR_OPTIONS_ARGP_KEY + 0xFFFF)
        return ARGP_ERR_UNKNOWN;
    psr_option_info info;
    bool negated = (key & NEGATED) != 0;
    if (!psr_config_option((size_t)(key & (NEGATED - 1)), &info))
        return ARGP_ERR_UNKNOWN;
    const char *value = text;
    if (info.argument == NULL)
        value = negated ? "false" : "true";
    if (state->input != NULL && psr_config_set(state->input, info.name, value) != PSR_OK)
        psr_options_refuse(state, psr_err_detail());
    return 0;
}

static size_t count_options(void)
{
    psr_option_info info;
    size_t count = 0;
    while (psr_config_option(count, &info))
        count++;
    return count;
}

static void write_doc(char doc[static DOC_BYTES], const psr_option_info *info, const psr_config *defaults)
{
    char initial[PSR_OPTION_TEXT_MAX] = "";
    if (psr_config_get(defaults, info->name, initial, sizeof initial) != PSR_OK || initial[0] == '\0')
        snprintf(doc, DOC_BYTES, "%s", info->help);
    else if (info->argument == NULL)
        snprintf(doc, DOC_BYTES, "%s (default %s)", info->help, strcmp(initial, "true") == 0 ? "yes" : "no");
    else
        snprintf(doc, DOC_BYTES, "%s (default %.64s)", info->help, initial);
}

psr_options_argp *psr_options_argp_new(void)
{
    size_t count = count_options();
    psr_options_argp *options = calloc(1, sizeof *options);
    if (options == NULL)
        return NULL;
    /* A heading, the option and its negation at most for each, and the end. */
    options->rows = calloc(3 * count + 1, sizeof *options->rows);
    options->texts = calloc(count, sizeof *options->texts);
    if (options->rows == NULL || options->texts == NULL) {
        psr_options_argp_free(options);
        return NULL;
    }

    psr_config defaults;
    psr_config_defaults(&defaults);
    struct argp_option *row = options->rows;
    const char *group = "";
    int group_number = 0;
    for (size_t i = 0; i < count; i++) {
        psr_option_info info;
        psr_config_option(i, &info);
        if (strcmp(info.group, group) != 0) {
            group = info.group;
            group_number++;
            *row++ = (struct argp_option){.doc = group, .group = group_number};
        }
        texts *t = &options->texts[i];
        write_doc(t->doc, &info, &defaults);
        int key = PSR_OPTIONS_ARGP_KEY + (int)i;
        *row++ = (struct argp_option){
            .name = info.name,
            .key = key,
            .arg = info.argument,
            .flags = info.hidden ? OPTION_HIDDEN : 0,
            .doc = t->doc,
            .group = group_number,
        };
        if (info.negatable) {
            snprintf(t->negated, sizeof t->negated, "no-%s", info.name);
            *row++ = (struct argp_option){
                .name = t->negated,
                .key = key | NEGATED,
                .flags = OPTION_ALIAS | (info.hidden ? OPTION_HIDDEN : 0),
                .group = group_number,
            };
        }
    }
    options->argp = (struct argp){.options = options->rows, .parser = parse_option};
    return options;
}

void psr_options_argp_free(psr_options_argp *options)
{
    if (options == NULL)
        return;
    free(options->rows);
    free(options->texts);
    free(options);
}

const struct argp *psr_options_argp_child(const psr_options_argp *options)
{
    return &options->argp;
}

/* What a word after "--" means to a parser and its children. */
typedef struct lookup {
    const char *word;
    size_t length;
    const char *nearest;
    bool known; /* itself, or the beginning of one, which getopt_long takes or refuses as ambiguous */
    bool takes_argument;
} lookup;

static void look_at(lookup *l, const char *name, bool hidden, bool takes_argument)
{
    if (strncmp(name, l->word, l->length) == 0) {
        bool exact = name[l->length] == '\0';
        if (exact || !l->known)
            l->takes_argument = takes_argument;
        l->known = true;
        return;
    }
    char word[NAME_BYTES];
    snprintf(word, sizeof word, "%.*s", (int)l->length, l->word);
    if (!hidden && psr_is_near(word, name) &&
        (l->nearest == NULL || psr_edit_distance(word, name) < psr_edit_distance(word, l->nearest)))
        l->nearest = name;
}

static void look_in(lookup *l, const struct argp *argp)
{
    for (const struct argp_option *o = argp->options; o != NULL && (o->name != NULL || o->key != 0 || o->doc != NULL);
         o++) {
        if (o->name != NULL)
            look_at(l, o->name, (o->flags & OPTION_HIDDEN) != 0,
                    o->arg != NULL && (o->flags & OPTION_ARG_OPTIONAL) == 0);
    }
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++)
        look_in(l, c->argp);
}

/* Refuses the first unknown long option. getopt_long would name it too, but not what was meant. */
static void check_names(const struct argp *root, int argc, char **argv, unsigned flags)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            if (argv[i][0] != '-' && (flags & ARGP_IN_ORDER) != 0)
                return; /* a subcommand: what follows is its own */
            continue;
        }
        lookup l = {.word = argv[i] + 2, .length = strcspn(argv[i] + 2, "=")};
        look_in(&l, root);
        static const char *const builtin[] = {"help", "usage", "version", "program-name", "HANG"};
        for (size_t b = 0; b < sizeof builtin / sizeof builtin[0]; b++)
            look_at(&l, builtin[b], b >= 2, b == 3);
        if (!l.known) {
            const char *slash = strrchr(argv[0], '/');
            const char *program = slash != NULL ? slash + 1 : argv[0];
            if (l.nearest != NULL)
                fprintf(stderr, "%s: --%.*s: there is no such option; --%s is the nearest\n", program,
                        (int)l.length, l.word, l.nearest);
            else
                fprintf(stderr, "%s: --%.*s: there is no such option; --help lists them\n", program, (int)l.length,
                        l.word);
            exit(2);
        }
        if (l.takes_argument && l.word[l.length] == '\0')
            i++;
    }
}

error_t psr_options_parse(const struct argp *root, int argc, char **argv, unsigned flags, int *ret_arg_index,
                          void *input)
{
    argp_err_exit_status = 2;
    check_names(root, argc, argv, flags);
    return argp_parse(root, argc, argv, flags, ret_arg_index, input);
}
