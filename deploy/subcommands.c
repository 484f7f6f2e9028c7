#include "deploy/subcommands.h"

#include "base/config/describe.h"
#include "base/config/help_width.h"
#include "base/config/manual.h"
#include "base/text/nearest.h"
#include "base/text/printable.h"
#include "base/text/text.h"

#include <string.h>

#define HELP_COLUMN 12

const psr_subcommand *psr_subcommands_find(const psr_subcommands *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->rows[i].name, name) == 0)
            return &list->rows[i];
    return NULL;
}

int psr_subcommands_refuse(const psr_subcommands *list, const char *program, const char *kind,
                           const char *name)
{
    const char *nearest = NULL;
    for (size_t i = 0; i < list->count; i++)
        nearest = psr_nearer(name, nearest, list->rows[i].name);
    psr_print(stderr, "%s: '%s' is not %s", program, name, kind);
    if (nearest != NULL)
        psr_print(stderr, " (%s?)", nearest);
    psr_print(stderr, "; there are");
    for (size_t i = 0; i < list->count; i++)
        psr_print(stderr, "%s %s", i > 0 ? "," : "", list->rows[i].name);
    psr_print(stderr, "\n");
    return 2;
}

void psr_subcommands_help(const psr_subcommands *list, FILE *to)
{
    for (size_t i = 0; i < list->count; i++) {
        psr_print(to, "  %-9s ", list->rows[i].name);
        psr_help_wrap(to, list->rows[i].help, HELP_COLUMN, HELP_COLUMN);
    }
}

void psr_subcommands_manual(const psr_subcommands *list, const char *title, FILE *to)
{
    psr_manual_section(to, title);
    for (size_t i = 0; i < list->count; i++) {
        psr_manual_item(to);
        psr_manual_bold(to, list->rows[i].name);
        psr_manual_meaning(to, list->rows[i].help);
    }
}

void psr_subcommands_see_also(const psr_subcommands *list, const char *others, FILE *to)
{
    char pages[512] = "";
    psr_text_end end = {pages, sizeof pages};
    psr_text_add(&end, "%s", others);
    for (size_t i = 0; i < list->count; i++)
        psr_text_add(&end, " %s%s", list->pages, list->rows[i].name);
    psr_manual_see_also(to, pages);
}

void psr_subcommands_completion(const psr_subcommands *list, const char *program,
                                const char *options, FILE *to)
{
    psr_print(to, "_psring_options['%s']='%s'\n_psring_values['%s']='", program, options, program);
    for (size_t i = 0; i < list->count; i++)
        psr_print(to, "%s%s", i > 0 ? " " : "", list->rows[i].name);
    psr_print(to, "'\n");
}

static void usage(const psr_front_door *door, FILE *to)
{
    char told[128];
    snprintf(told, sizeof told, "`%s WHAT --help` tells %s. For a start:", door->program,
             door->rest);
    psr_print(to, "Usage: %s WHAT [OPTION...]\n\n%s:\n", door->program, door->heading);
    psr_subcommands_help(door->list, to);
    psr_print(to, "\n");
    psr_help_wrap(to, door->about, 0, 0);
    psr_print(to, "\n");
    psr_help_wrap(to, told, 0, 0);
    psr_print(to, "%s", door->example);
}

static void print_manual(const psr_front_door *door, const char *date)
{
    psr_manual_begin(stdout, door->program, door->title, date);
    psr_manual_section(stdout, "SYNOPSIS");
    psr_manual_synopsis(stdout, door->program, "WHAT [OPTION...]");
    psr_manual_section(stdout, "DESCRIPTION");
    psr_manual_text(stdout, door->about, strlen(door->about));
    psr_subcommands_manual(door->list, door->man_heading, stdout);
    psr_manual_section(stdout, "EXAMPLES");
    psr_manual_text(stdout, door->example, strlen(door->example));
    psr_subcommands_see_also(door->list, door->others, stdout);
}

static void print_completion(const psr_front_door *door)
{
    psr_subcommands_completion(door->list, door->program, "--help", stdout);
    if (door->complete != NULL)
        door->complete(stdout);
}

int psr_front_door_run(const psr_front_door *door, int argc, char **argv)
{
    if (argc < 2) {
        usage(door, stderr);
        return 2;
    }
    const char *date = NULL;
    const psr_describe_kind described = psr_describe_asked(argc, argv, &date);
    if (described == PSR_DESCRIBE_MANUAL)
        print_manual(door, date);
    if (described == PSR_DESCRIBE_COMPLETION)
        print_completion(door);
    if (described != PSR_DESCRIBE_NOTHING)
        return 0;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "-?") == 0) {
        usage(door, stdout);
        return 0;
    }
    const psr_subcommand *found = psr_subcommands_find(door->list, argv[1]);
    if (found != NULL)
        return found->run(argc - 1, argv + 1);
    return psr_subcommands_refuse(door->list, door->program, door->kind, argv[1]);
}
