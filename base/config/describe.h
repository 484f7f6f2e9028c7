/* What a program tells about its own command line: its help; and, for building psring, its manual
 * page and its shell completion. All are made from the tables that its parser reads (argp's rows,
 * and the table of options). The last two are made when psring is built, by "PROGRAM --describe
 * manual DATE" and "PROGRAM --describe completion", which --help does not list. One thread. */
#ifndef PSR_BASE_CONFIG_DESCRIBE_H
#define PSR_BASE_CONFIG_DESCRIBE_H

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

typedef enum psr_describe_kind {
    PSR_DESCRIBE_NOTHING, /* the command line asks for none of these */
    PSR_DESCRIBE_MANUAL,
    PSR_DESCRIBE_COMPLETION
} psr_describe_kind;

/* ret_date: of the manual page, borrowed from argv. */
psr_describe_kind psr_describe_asked(int argc, char **argv, const char **ret_date);

/* program: "psring-worker", or "psring train". */
void psr_describe_manual(const struct argp *root, const char *program, const char *date, FILE *to);

/* Prints --help, as wide as the terminal (base/config/help_width.h). argp's own help takes the
 * width only from a variable of the environment, and when its buffer is nearly full it puts a
 * margin into another line. */
void psr_describe_help(const struct argp *root, const char *program, FILE *to);

/* Assignments to the arrays of deploy/completion/psring.bash: the options of the program, with "="
 * after those that have a value; and what each value, and an argument that is no option, may be:
 * words, @file, @directory or @command. */
void psr_describe_completion(const struct argp *root, const char *program, FILE *to);

/* The possible values of an argument that the help calls so ("rank|arrival", "FILE", "DIR|NAME"),
 * as words separated by blanks. false: size is too small. */
bool psr_describe_argument(const char *argument, char *words, size_t size);

#endif
