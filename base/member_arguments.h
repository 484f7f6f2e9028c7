/* The command line of a process that joins a run, psring-ps and psring-worker: started by psring's agent (--provision -), or by
 * hand. For a program's front door alone: it prints and exits. */
#ifndef PSR_BASE_MEMBER_ARGUMENTS_H
#define PSR_BASE_MEMBER_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct psr_member_arguments {
    bool provisioned;                  /* all else is told on standard input */
    const char *scheduler, *interface; /* borrowed from argv; interface may be NULL */
    const char *keys;                  /* of --key-file or --keys; borrowed from argv */
    uint32_t rank;                     /* UINT32_MAX: any */
} psr_member_arguments;

/* What differs between the two in --help and refusals. */
typedef struct psr_member_words {
    const char *doc;        /* of the program */
    const char *key_file;   /* what its keys are */
    const char *rank;       /* what --rank is */
    uint32_t ranks;         /* --rank is below */
    const char *rank_range; /* "--rank: give a number from 0 to .." */
    const char *neither;    /* with neither --provision nor the options of a start by hand */
} psr_member_words;

/* Does not return after --help, --version or a refusal (exit status 2). */
void psr_member_arguments_parse(const psr_member_words *words, int argc, char **argv,
                                psr_member_arguments *ret_arguments);

#endif
