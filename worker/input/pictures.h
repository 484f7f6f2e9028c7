/* What a worker does with the pictures of a data set before the run begins: --max-bad and --decode.
 * No state; one thread. */
#ifndef PSR_WORKER_INPUT_PICTURES_H
#define PSR_WORKER_INPUT_PICTURES_H

#include "data/opened.h"

/* FORMAT, naming the first: more pictures are broken than --max-bad allows. Every rank finds the
 * same ones; the one that `says` logs them. Data sets without files of pictures have none. */
PSR_MUST_CHECK psr_err psr_pictures_prepare(psr_opened *opened, const psr_config *config,
                                            bool says);

#endif
