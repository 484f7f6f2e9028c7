/* How wide a help may be: as the terminal is, or as COLUMNS says. For a program's front door alone,
 * as base/config/options_argp.h: it reads the environment. */
#ifndef PSR_BASE_CONFIG_HELP_WIDTH_H
#define PSR_BASE_CONFIG_HELP_WIDTH_H

#include <stdio.h>

/* Columns of stdout, from 40 to 100; 80 where nobody tells. */
unsigned psr_help_width(void);

/* The words of text, in lines of that width whose first one is continued at column `used` and whose
 * others begin at column `indent`. Ends the last one. */
void psr_help_wrap(FILE *to, const char *text, unsigned used, unsigned indent);

#endif
