/* The psring command that runs in a lab: what the user gave, with the options that say where the
 * lab's hosts are and how they are reached. Pure. */
#ifndef PSR_DEPLOY_LAB_WORDS_H
#define PSR_DEPLOY_LAB_WORDS_H

#include "base/config/config.h"
#include "base/text/units.h"
#include "deploy/lab/lab.h"

#include <limits.h>

#define PSR_LAB_ADDED_MAX 32

typedef struct psr_lab_words {
    char **words; /* owned array of borrowed words, NULL at the end; words[0] is psring's path */
    char out[PSR_PATH_MAX]; /* the run's directory; "": it has none, or its name is not known */
    /* of bench train: its file, beside which the result goes; "": another command */
    char bench[PSR_PATH_MAX];
    /* texts of added words */
    char ssh[2 * PATH_MAX], slow[PSR_LAB_HOSTS_MAX * 32], shards[16], dilate[32], slice[32],
        window[16], workers[16], link[32];
    bool trains;
} psr_lab_words;

/* Composes `psring COMMAND`, where command[0] is train, run, bench or doctor; psring: the program's
 * path; both are borrowed for the life of the result. dilate: 1, or what the lab was dilated by.
 * USAGE: another command, or an option that the lab itself gives. The caller owns *ret_words. */
PSR_MUST_CHECK psr_err psr_lab_words_compose(const psr_lab *lab, const char *psring,
                                             const char *const *command, double dilate,
                                             psr_lab_words *ret_words);
void psr_lab_words_done(psr_lab_words *words);

#endif
