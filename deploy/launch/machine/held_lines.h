/* Errors that processes of a run print, kept until the run's final line is known: it may say the
 * same. Plain data; one thread. */
#ifndef PSR_DEPLOY_LAUNCH_MACHINE_HELD_LINES_H
#define PSR_DEPLOY_LAUNCH_MACHINE_HELD_LINES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

#define PSR_HELD_LINES_MAX 64

typedef struct psr_held_line {
    char *line; /* owned: the line as it would be shown */
    char *what; /* owned: the message in it */
} psr_held_line;

typedef struct psr_held_lines {
    psr_held_line items[PSR_HELD_LINES_MAX];
    size_t count;
} psr_held_lines;

/* Copies what. Lines beyond PSR_HELD_LINES_MAX, or without memory, are not kept. */
void psr_held_lines_add(psr_held_lines *lines, const char *what, const char *format, ...)
    PSR_PRINTF(3, 4);
/* Whether its message is not contained in run_line, nor run_line in it. */
bool psr_held_line_says_more(const psr_held_line *line, const char *run_line);
void psr_held_lines_done(psr_held_lines *lines);

#endif
