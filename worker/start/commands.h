/* What other programs of psring ask of psring-worker, without a run: `examine` and `read` of psring
 * doctor and psring show, `inspect`, `export`, `eval` and `classify` of the commands of these
 * names. One thread. */
#ifndef PSR_WORKER_START_COMMANDS_H
#define PSR_WORKER_START_COMMANDS_H

#include <stdbool.h>

/* The user's folders; NULL: there is none. */
typedef struct psr_worker_folders {
    const char *data;  /* of data sets with known names */
    const char *cache; /* as psr_opened_init's */
} psr_worker_folders;

/* words[0..count): `examine [DATA [OPTIONS]]`, where OPTIONS is a configuration as JSON, `read
 * DATA`, `inspect CKPT [CKPT]`, `export CKPT FORMAT FILE`, `eval CKPT DATA THREADS SAMPLES`,
 * `classify CKPT TOP lines|json THREADS SAMPLES IMAGE...`. Prints the answer, and sets the exit
 * status. false: it is none of these. */
bool psr_worker_command(int count, char **words, const psr_worker_folders *folders,
                        int *ret_status);

#endif
