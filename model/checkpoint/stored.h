/* A checkpoint as a person names it, and what its metadata say of the run (ps/scheduler/about.h).
 * No state; any thread. */
#ifndef PSR_MODEL_STORED_H
#define PSR_MODEL_STORED_H

#include "base/config/config.h"
#include "model/checkpoint/checkpoint.h"
#include "model/networks/network.h"

/* Which file path means: itself, the model.safetensors of a checkpoint's folder, or that of the
 * newest checkpoint of a run's directory. NOT_FOUND, USAGE: it is neither, or too long. */
PSR_MUST_CHECK psr_err psr_stored_file(const char *path, char *ret_file, size_t size);

/* The configuration of the run, and its network for the data that the run had. FORMAT: the metadata
 * do not have them, or not as psring writes them; and psr_network_new's errors. The caller owns
 * *ret_net. origin: for messages. */
PSR_MUST_CHECK psr_err psr_stored_network(const psr_checkpoint *checkpoint, const char *origin,
                                          psr_config *ret_config, psr_network **ret_net);

/* A trained network with its weights. */
typedef struct psr_stored_model {
    char file[PSR_PATH_MAX + 64];
    psr_checkpoint *checkpoint;
    psr_config config; /* of the run */
    psr_network *net;
    float *weights, *buffers; /* arenas as long as net's params and buffers */
} psr_stored_model;

/* path: as psr_stored_file's. Errors: those of the functions above, of psr_checkpoint_open and of
 * psr_checkpoint_load. psr_stored_done is right after a failure too. In place. */
PSR_MUST_CHECK psr_err psr_stored_open(const char *path, psr_stored_model *ret_model);
void psr_stored_done(psr_stored_model *model);

/* A number from 0 to 65536, as of "height". false: there is none. */
bool psr_stored_count(const psr_checkpoint *checkpoint, const char *key, uint32_t *ret_count);
/* Numbers with commas, as of "mean" and "std". Returns how many; 0: there are none, or other than
 * most at most. */
uint32_t psr_stored_numbers(const psr_checkpoint *checkpoint, const char *key, float *ret_numbers,
                            uint32_t most);

#endif
