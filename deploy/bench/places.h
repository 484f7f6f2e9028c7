/* The words of a command line that say where a benchmark's processes go, and those that do not. */
#ifndef PSR_DEPLOY_BENCH_PLACES_H
#define PSR_DEPLOY_BENCH_PLACES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* A command line that is being composed. */
typedef struct psr_bench_words {
    const char **words; /* owned array of borrowed words, NULL at the end */
    size_t count;
} psr_bench_words;

/* Room for argc words and a few more. NOMEM. The caller owns *ret_words: psr_bench_words_done. */
PSR_MUST_CHECK psr_err psr_bench_words_init(psr_bench_words *ret_words, int argc);
void psr_bench_words_add(psr_bench_words *words, const char *word); /* borrowed */
void psr_bench_words_done(psr_bench_words *words);

/* How many words the option that begins here takes, if it says where ranks are; else 0. */
int psr_bench_place_words(const char *word);
/* Whether it is this option, and how many words that takes; else 0. */
int psr_bench_option_words(const char *word, const char *option);

/* The value that an option has among words; the last one wins. NULL: it is not there. words: NULL
 * at the end. */
const char *psr_bench_value(const char *const *words, const char *option);

/* What reaches a host (--ssh) in the words that mpirun understands: without quotes. NULL: no
 * memory. The caller owns it. */
char *psr_bench_unquote(const char *ssh);

/* Puts places, and with any of them -n, behind *run, and the rest behind *own. false: the last
 * option lacks its value. argv's -np becomes -n. */
bool psr_bench_divide(int argc, char **argv, psr_bench_words *run, psr_bench_words *own,
                      bool *ret_placed);

/* For completion: the options, each behind a blank. */
void psr_bench_places_print(FILE *to);

/* Becomes that program. Returns only on failure, which it tells: 1. */
int psr_bench_start(const char *path, const psr_bench_words *command);

#endif
