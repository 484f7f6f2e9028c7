#include "deploy/subcommands.h"

#include "base/config/help_width.h"
#include "base/config/manual.h"
#include "base/text/printable.h"
#include "base/text/text.h"

#include <string.h>

#define HELP_COLUMN 11

const psr_subcommand *psr_subcommands_find(const psr_subcommands *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->rows[i].name, name) == 0)
            return &list->rows[i];
    return NULL;
}

void psr_subcommands_help(const psr_subcommands *list, FILE *to)
{
    for (size_t i = 0; i < list->count; i++) {
        psr_print(to, "  %-8s ", list->rows[i].name);
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
