/* Reads every picture of a list once, before training: whether it can be decoded, its size, and the
 * content of all. So a broken file is known before the first step, in every mode and on every host
 * alike, and no sample is missing later.
 *
 * A broken file is taken off the list: the samples are numbered as if it had never been there. That
 * depends on the files alone, so for one set of files every number of workers, shards and threads
 * trains on the same samples in the same order; and a run on the folder without that file ends in
 * the same bits. A file that breaks after the check ends the run with its name. */
#ifndef PSR_DATA_IMAGES_CHECK_H
#define PSR_DATA_IMAGES_CHECK_H

#include "base/content.h"
#include "data/files/reading.h"
#include "data/images/decode.h"
#include "data/images/picture_list.h"

/* Drops what cannot be decoded from list, and appends a message to broken for each, in the list's
 * order. threads: 1 or more; they change no result. ret_sizes [list's count afterwards]: the
 * caller owns it, free(). content: the digits of the files' bytes and labels. reading: moves with
 * every picture; may be NULL. CANCELLED, NOMEM; IO: a thread could not be started. */
PSR_MUST_CHECK psr_err psr_picture_list_check(psr_picture_list *list, uint32_t threads,
                                              psr_reading *reading, psr_names *broken,
                                              psr_image_size **ret_sizes,
                                              char ret_content[PSR_CONTENT_BYTES]);

#endif
