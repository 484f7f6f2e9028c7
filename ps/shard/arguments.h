/* The command lines of psring-ps and of psring-ps serve. psring's agent starts both; psring-ps is
 * also started by hand. Only for main: these functions print and exit. */
#ifndef PSR_PS_SHARD_ARGUMENTS_H
#define PSR_PS_SHARD_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct psr_shard_arguments {
    bool provisioned;                  /* everything else comes on standard input */
    const char *scheduler, *interface; /* borrowed from argv; interface may be NULL */
    const char *keys;                  /* from --key-file or --keys; borrowed from argv */
    uint32_t rank;                     /* UINT32_MAX: any */
} psr_shard_arguments;

/* Does not return after --help, --version or a refusal (exit status 2). */
void psr_shard_arguments_parse(int argc, char **argv, psr_shard_arguments *ret_arguments);

typedef struct psr_serve_arguments {
    int32_t parent; /* the process to end with; 0: none */
} psr_serve_arguments;

/* Of psring-ps serve; argv[0] is "serve". Does not return after --help, --version or a refusal
 * (exit status 2). */
void psr_serve_arguments_parse(int argc, char **argv, psr_serve_arguments *ret_arguments);

#endif
