/* The table of options as a child parser for glibc's argp, which every program uses that takes a
 * run's options; and the way in which our programs call argp: a wrong option gets one line that
 * names it and the nearest known one, and exit status 2. Only for main: it prints and exits. */
#ifndef PSR_BASE_CONFIG_OPTIONS_ARGP_H
#define PSR_BASE_CONFIG_OPTIONS_ARGP_H

#include "base/config/config.h"

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

/* Keys of the table's options begin here; a program's own keys are below. */
#define PSR_OPTIONS_ARGP_KEY 0x10000

typedef struct psr_options_argp psr_options_argp;

/* networks: what --help says of --model, since the networks are not known here; names: their names,
 * separated by ", ". Both are borrowed. NULL: no memory. The caller owns the result:
 * psr_options_argp_free, after the last use of its child. */
psr_options_argp *psr_options_argp_new(const char *networks, const char *names);
void psr_options_argp_free(psr_options_argp *options);

/* The child, for the program's own struct argp_child array; borrowed from options. At ARGP_KEY_INIT
 * the program sets state->child_inputs[i] to the psr_config that the options are to be put into.
 * Each option is put there by psr_config_set when it is met. A refused one ends the program. */
const struct argp *psr_options_argp_child(const psr_options_argp *options);

/* The words that are possible in a row of the child, separated by blanks. false: the row is not the
 * child's, or of another kind; or size is too small. */
bool psr_options_argp_words(const struct argp *argp, const struct argp_option *row, char *words,
                            size_t size);

/* argp_parse with exit status 2 for refusals. A long option that is unknown (the nearest that root
 * and its children know is told), ambiguous, without its value or with one too many is refused in
 * one line. Returns what argp_parse returns; does not return after --help, --usage, --version, what
 * base/config/describe.h says, or a refusal. */
error_t psr_options_parse(const struct argp *root, int argc, char **argv, unsigned flags,
                          int *ret_arg_index, void *input);

/* Finds a long option on a command line before that is parsed, by the rules of psr_options_parse
 * (the beginning of a name is enough; the last one wins). ret_value: its text, borrowed from argv;
 * NULL if it takes none. false: it is not there, and ret_value is untouched. */
bool psr_options_find(const struct argp *root, int argc, char **argv, const char *name,
                      const char **ret_value);

/* Refuses, from a program's own parser: "PROGRAM: detail" in one line on stderr, exit status 2. */
void psr_options_refuse(const struct argp_state *state, const char *detail);
/* The same with a detail as of printf, of at most 511 bytes. */
void psr_options_refuse_format(const struct argp_state *state, const char *format, ...)
    PSR_PRINTF(2, 3);

/* A whole number from least to most, the value of --name; anything else is refused. */
uint64_t psr_options_number(const struct argp_state *state, const char *name, const char *text,
                            uint64_t least, uint64_t most);

/* For options that all psring processes have. The text of --provision, which is refused unless it
 * is "-". */
void psr_options_check_provision(const struct argp_state *state, const char *text);
/* --key-file and --keys mean the same: *keys becomes text, borrowed; refused if it has another
 * value already. */
void psr_options_set_keys(const struct argp_state *state, const char **keys, const char *text);

#endif
