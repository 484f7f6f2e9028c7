/* The width of help and tables: that of the terminal, or COLUMNS. Only for programs, as
 * base/config/options_argp.h, since it reads the environment. */
#ifndef PSR_BASE_CONFIG_HELP_WIDTH_H
#define PSR_BASE_CONFIG_HELP_WIDTH_H

#include <stdio.h>

/* The columns of stdout, from 40 to 100; 80 if not known. */
unsigned psr_help_width(void);

/* Prints the words of text in lines of that width. The first line continues at column `used`, the
 * others begin at column `indent`. Ends the last line. */
void psr_help_wrap(FILE *to, const char *text, unsigned used, unsigned indent);

/* The same for a command, which can be copied as it is printed: a line that goes on ends with a
 * backslash, and a comment ("# ..") that goes on begins anew. */
void psr_help_wrap_command(FILE *to, const char *command, unsigned used, unsigned indent);

#endif
