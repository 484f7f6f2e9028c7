#include "deploy/launch/machine/held_lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void line_done(psr_held_line *line)
{
    free(line->line);
    free(line->what);
}

void psr_held_lines_add(psr_held_lines *lines, const char *what, const char *format, ...)
{
    if (lines->count == PSR_HELD_LINES_MAX)
        return;
    psr_held_line line = {.what = strdup(what)};
    va_list args;
    va_start(args, format);
    if (vasprintf(&line.line, format, args) < 0)
        line.line = NULL;
    va_end(args);
    if (line.line != NULL && line.what != NULL)
        lines->items[lines->count++] = line;
    else
        line_done(&line);
}

bool psr_held_line_says_more(const psr_held_line *line, const char *run_line)
{
    return run_line[0] == '\0' ||
           (strstr(run_line, line->what) == NULL && strstr(line->what, run_line) == NULL);
}

void psr_held_lines_done(psr_held_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        line_done(&lines->items[i]);
    lines->count = 0;
}
