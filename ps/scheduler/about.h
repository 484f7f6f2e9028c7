/* What somebody needs to know of a run who has only its files: the versions in run.json, and the
 * metadata of a checkpoint. No state; any thread. */
#ifndef PSR_PS_SCHEDULER_ABOUT_H
#define PSR_PS_SCHEDULER_ABOUT_H

#include "base/config/config.h"
#include "base/facts.h"

#include <cjson/cJSON.h>

/* {"psring": "0.1.0", "backend": "onednn ..", "libzmq": .., "libc": .., "compiler": ..}: of worker
 * 0 the back end, the others of the scheduler. NULL: no memory. The caller owns it. */
cJSON *psr_about_versions(const psr_facts *facts);

/* Pairs of key and value, NULL-terminated, for psr_checkpoint_create: psring (the version),
 * command, processor, backend, data (its name), data-content, mean and std (numbers with commas),
 * class_names (a JSON array; without it they are not known), channels, height and width (of the
 * data's pictures; 0 if these differ), classes, side (of what the network gets) and config (a JSON
 * object, as in run.json). What is not known is left out. command: as typed, or "".
 * NOMEM. The caller owns *ret_pairs: psr_about_pairs_free. */
PSR_MUST_CHECK psr_err psr_about_pairs(const psr_config *config, const psr_facts *facts,
                                       const char *command, char ***ret_pairs);
void psr_about_pairs_free(char **pairs); /* NULL allowed */

#endif
