#include "base/config/options_argp.h"

#include "base/config/config_table.h"
#include "base/config/describe.h"
#include "base/text/nearest.h"
#include "base/text/printable.h"
#include "base/text/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEGATED = 0x8000, NAME_BYTES = 64, DOC_BYTES = 640 };

/* Texts that argp borrows, of one option. */
typedef struct texts {
    char negated[NAME_BYTES]; /* "no-shuffle" */
    char doc[DOC_BYTES];      /* the help text with the default */
} texts;

struct psr_options_argp {
    struct argp argp;
    struct argp_option *rows;
    texts *texts;         /* by index in the table */
    const char *networks; /* their names */
};

void psr_options_refuse(const struct argp_state *state, const char *detail)
{
    /* argp_error is not used, because it prints a second line, "Try --help", after the error. */
    psr_print(stderr, "%s: %s\n", state->name, detail);
    exit(2);
}

void psr_options_refuse_format(const struct argp_state *state, const char *format, ...)
{
    char detail[512];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    psr_options_refuse(state, detail);
}

uint64_t psr_options_number(const struct argp_state *state, const char *name, const char *text,
                            uint64_t least, uint64_t most)
{
    uint64_t value;
    if (!psr_parse_whole(text, &value) || value < least || value > most) {
        char detail[160];
        snprintf(detail, sizeof detail,
                 "--%s: '%.40s' is not a number from %" PRIu64 " to %" PRIu64, name, text, least,
                 most);
        psr_options_refuse(state, detail);
    }
    return value;
}

void psr_options_check_provision(const struct argp_state *state, const char *text)
{
    if (strcmp(text, "-") != 0)
        psr_options_refuse(state, "--provision: only '-', standard input, can be read");
}

void psr_options_set_keys(const struct argp_state *state, const char **keys, const char *text)
{
    if (*keys != NULL && strcmp(*keys, text) != 0)
        psr_options_refuse(state, "--key-file and --keys: give one of them, once");
    *keys = text;
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
    else if (text == NULL)
        value = info.implied;
    if (state->input != NULL && psr_config_set(state->input, info.name, value) != PSR_OK)
        psr_options_refuse(state, psr_err_detail());
    return 0;
}

static void write_doc(char doc[static DOC_BYTES], const psr_option_info *info,
                      const psr_config *defaults)
{
    char initial[PSR_OPTION_TEXT_MAX] = "";
    if (psr_config_get(defaults, info->name, initial, sizeof initial) != PSR_OK ||
        initial[0] == '\0')
        snprintf(doc, DOC_BYTES, "%s", info->help);
    else if (info->argument == NULL)
        snprintf(doc, DOC_BYTES, "%s (default %s)", info->help,
                 strcmp(initial, "true") == 0 ? "yes" : "no");
    else
        snprintf(doc, DOC_BYTES, "%s (default %.64s)", info->help, initial);
}

psr_options_argp *psr_options_argp_new(const char *networks, const char *names)
{
    size_t count = psr_options_count;
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
        if (strcmp(info.name, "model") == 0)
            info.help = networks;
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
            .flags = (info.hidden ? OPTION_HIDDEN : 0) |
                     (info.implied != NULL ? OPTION_ARG_OPTIONAL : 0),
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
    options->networks = names;
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

static bool is_listed(const char *const *list, const char *word)
{
    for (; list != NULL && *list != NULL; list++)
        if (strcmp(*list, word) == 0)
            return true;
    return false;
}

/* "a, b": "a b". */
static bool without_commas(const char *names, char *words, size_t size)
{
    if (strlen(names) >= size)
        return false;
    for (; *names != '\0'; names++)
        if (*names != ',')
            *words++ = *names;
    *words = '\0';
    return true;
}

bool psr_options_argp_words(const struct argp *argp, const struct argp_option *row, char *words,
                            size_t size)
{
    psr_option_info info;
    if (argp->parser != parse_option || row->key < PSR_OPTIONS_ARGP_KEY ||
        !psr_config_option((size_t)(row->key - PSR_OPTIONS_ARGP_KEY) & (NEGATED - 1), &info))
        return false;
    if (strcmp(info.name, "model") == 0) /* the child is its struct's first field */
        return without_commas(((const psr_options_argp *)argp)->networks, words, size);
    psr_text_end end = {words, size};
    for (const char *const *word = info.words; word != NULL && *word != NULL; word++)
        if (!is_listed(info.unlisted, *word))
            psr_text_add(&end, "%s%s", end.at > words ? " " : "", *word);
    return info.words != NULL && end.room > 1;
}

/* The option that a word after "--" means to a parser and its children. As with getopt_long, an
 * unambiguous beginning of a name is enough. */
typedef struct lookup {
    char word[NAME_BYTES];
    size_t length;
    const char *found, *second; /* names that are or begin with the word */
    const char *argument;       /* of found: "N"; NULL for a flag */
    bool optional;              /* found's argument */
    bool exact;
    bool seeks_nearest; /* for words that none begins with: it takes a while */
    const char *nearest;
} lookup;

static void look_at(lookup *l, const char *name, const char *argument, int flags)
{
    if (strncmp(name, l->word, l->length) != 0) {
        if (l->seeks_nearest && (flags & OPTION_HIDDEN) == 0)
            l->nearest = psr_nearer(l->word, l->nearest, name);
        return;
    }
    bool exact = name[l->length] == '\0';
    if (l->found != NULL && !exact) {
        l->second = name;
        return;
    }
    l->second = l->found;
    l->found = name;
    l->argument = argument;
    l->optional = (flags & OPTION_ARG_OPTIONAL) != 0;
    l->exact = exact || l->exact;
}

static void look_in(lookup *l, const struct argp *argp)
{
    for (const struct argp_option *o = argp->options;
         o != NULL && (o->name != NULL || o->key != 0 || o->doc != NULL); o++) {
        if (o->name != NULL)
            look_at(l, o->name, o->arg, o->flags);
    }
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++)
        look_in(l, c->argp);
}

/* "/usr/bin/psring-ps": "psring-ps"; "psring train" stays. */
static const char *name_of(const char *program)
{
    const char *slash = strrchr(program, '/');
    return slash != NULL ? slash + 1 : program;
}

static void refuse(const char *program, const char *word, const char *format, ...) PSR_PRINTF(3, 4)
    __attribute__((noreturn));

static void refuse(const char *program, const char *word, const char *format, ...)
{
    char why[256];
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    psr_print(stderr, "%s: --%s: %s\n", name_of(program), word, why);
    exit(2);
}

/* What argp itself takes. */
static const struct argp_option builtin_options[] = {
    {.name = "help"},
    {.name = "usage"},
    {.name = "version"},
    {.name = "program-name", .arg = "NAME", .flags = OPTION_HIDDEN},
    {.name = "HANG", .arg = "SECS", .flags = OPTION_HIDDEN},
    {0}};
static const struct argp of_argp = {.options = builtin_options};

/* A word of a command line that begins with "--". ret_equals: the "=" in it, or NULL. */
static lookup look_up(const struct argp *root, const char *word, const char **ret_equals)
{
    const char *equals = strchr(word, '=');
    lookup l = {.length = equals != NULL ? (size_t)(equals - word - 2) : strlen(word + 2)};
    if (l.length >= sizeof l.word)
        l.length = sizeof l.word - 1;
    memcpy(l.word, word + 2, l.length);
    look_in(&l, root);
    look_in(&l, &of_argp);
    if (l.found == NULL) {
        l.seeks_nearest = true;
        look_in(&l, root);
        look_in(&l, &of_argp);
    }
    *ret_equals = equals;
    return l;
}

/* Its value is the next word. */
static bool takes_next(const lookup *l, const char *equals)
{
    return l->found != NULL && l->argument != NULL && !l->optional && equals == NULL;
}

/* -h is the help of most programs, but argp has no such option. A parser with its own -h keeps
 * it. */
static bool has_key(const struct argp *argp, int key)
{
    for (const struct argp_option *o = argp->options;
         o != NULL && (o->name != NULL || o->key != 0 || o->doc != NULL); o++)
        if (o->key == key)
            return true;
    for (const struct argp_child *c = argp->children; c != NULL && c->argp != NULL; c++)
        if (has_key(c->argp, key))
            return true;
    return false;
}

/* Refuses the first long option that getopt_long would refuse, in one line that says what would be
 * right. Turns -h into --help. Returns whether help is asked for. */
static bool check_names(const struct argp *root, int argc, char **argv, unsigned flags)
{
    bool asks_for_help = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        static char help[] = "--help";
        if (strcmp(argv[i], "-h") == 0 && !has_key(root, 'h'))
            argv[i] = help;
        if (strncmp(argv[i], "--", 2) != 0) {
            if (argv[i][0] != '-' && (flags & ARGP_IN_ORDER) != 0)
                break; /* a subcommand: what follows is its own */
            asks_for_help |= strcmp(argv[i], "-?") == 0;
            continue;
        }
        const char *equals;
        lookup l = look_up(root, argv[i], &equals);

        if (l.found == NULL && l.nearest != NULL)
            refuse(argv[0], l.word, "there is no such option; --%s is the nearest", l.nearest);
        if (l.found == NULL)
            refuse(argv[0], l.word, "there is no such option; --help lists them");
        if (!l.exact && l.second != NULL)
            refuse(argv[0], l.word, "may be --%s or --%s; give more of its name", l.found,
                   l.second);
        if (l.argument == NULL && equals != NULL)
            refuse(argv[0], l.word, "takes no value, so leave '%.64s' out", equals);
        asks_for_help |= strcmp(l.found, "help") == 0;
        if (!takes_next(&l, equals))
            continue;
        if (i + 1 == argc)
            refuse(argv[0], l.word, "its value is missing; give --%s %s", l.found, l.argument);
        i++;
    }
    return asks_for_help;
}

bool psr_options_find(const struct argp *root, int argc, char **argv, const char *name,
                      const char **ret_value)
{
    bool found = false;
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], "--", 2) != 0)
            continue;
        const char *equals;
        lookup l = look_up(root, argv[i], &equals);
        bool next = takes_next(&l, equals) && i + 1 < argc;
        if (l.found != NULL && (l.exact || l.second == NULL) && strcmp(l.found, name) == 0) {
            found = true;
            *ret_value = equals != NULL ? equals + 1 : next ? argv[i + 1] : NULL;
        }
        i += next;
    }
    return found;
}

error_t psr_options_parse(const struct argp *root, int argc, char **argv, unsigned flags,
                          int *ret_arg_index, void *input)
{
    const char *date = NULL;
    psr_describe_kind described = psr_describe_asked(argc, argv, &date);
    if (described == PSR_DESCRIBE_MANUAL)
        psr_describe_manual(root, name_of(argv[0]), date, stdout);
    if (described == PSR_DESCRIBE_COMPLETION)
        psr_describe_completion(root, name_of(argv[0]), stdout);
    if (described != PSR_DESCRIBE_NOTHING)
        exit(0);
    argp_err_exit_status = 2;
    if (check_names(root, argc, argv, flags)) {
        psr_describe_help(root, name_of(argv[0]), stdout);
        exit(0);
    }
    return argp_parse(root, argc, argv, flags, ret_arg_index, input);
}
