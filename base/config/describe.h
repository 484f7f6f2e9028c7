/* What a program tells of its own command line: its help; and for those who build psring its manual
 * page, and what the shell offers behind each of its words. All are made from the tables that its
 * parser reads (argp's rows, and the table of options), the last two when psring is built, by
 * "PROGRAM --describe manual DATE" and "PROGRAM --describe completion", which --help does not name.
 * One thread. */
#ifndef PSR_BASE_CONFIG_DESCRIBE_H
#define PSR_BASE_CONFIG_DESCRIBE_H

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>

typedef enum psr_describe_kind {
    PSR_DESCRIBE_NOTHING, /* the command line asks for something else */
    PSR_DESCRIBE_MANUAL,
    PSR_DESCRIBE_COMPLETION
} psr_describe_kind;

/* ret_date: of the manual page, borrowed from argv. */
psr_describe_kind psr_describe_asked(int argc, char **argv, const char **ret_date);

/* program: "psring-worker", or "psring train". */
void psr_describe_manual(const struct argp *root, const char *program, const char *date, FILE *to);

/* What --help tells, as wide as the terminal (base/config/help_width.h). argp's own help knows no
 * width but that of a variable of the environment, and when its buffer is nearly full it puts a
 * margin into another line. */
void psr_describe_help(const struct argp *root, const char *program, FILE *to);

/* Assignments to the arrays of deploy/completion/psring.bash: the options of the program, "="
 * behind those with a value; and what each value, and what is no option, may be: words, @file,
 * @directory or @command. */
void psr_describe_completion(const struct argp *root, const char *program, FILE *to);

/* What may stand for an argument that help calls so ("rank|arrival", "FILE", "DIR|NAME"), in these
 * words with blanks between them. false: size is too small. */
bool psr_describe_argument(const char *argument, char *words, size_t size);

#endif
