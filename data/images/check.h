/* Reads every picture of a list once, before training, but those that an earlier start has read:
 * whether it can be decoded, its size, and the content of all. So a broken file is known before
 * the first step, in every mode and on every host alike, and no sample is missing later.
 *
 * The place of a broken file is taken by the next good one, by sample number and with its label,
 * after the last by the first. That depends on the files alone: every mode and any number of
 * workers, shards and threads trains on the same samples, and a run ends in the same bits as one in
 * whose folder the broken file is a copy of that next file. The number of samples stays that of the
 * files, so it is known before any is read. */
#ifndef PSR_DATA_IMAGES_CHECK_H
#define PSR_DATA_IMAGES_CHECK_H

#include "base/content.h"
#include "data/files/reading.h"
#include "data/images/decode.h"
#include "data/images/known_pictures.h"
#include "data/images/picture_list.h"

/* Files that known has are not read (NULL: none). Replaces what cannot be decoded in list, and
 * appends a message to broken for each, in the list's order. threads: 1 or more; they change no
 * result. ret_sizes [list's count]: the caller owns it, free(). ret_known [count]: what is known
 * of each file now, before anything was replaced; the caller owns it; NULL: not wanted. content:
 * the digits of the files' bytes and labels. reading: moves with every picture; may be NULL.
 * FORMAT: no picture can be decoded; CANCELLED, NOMEM; IO: a thread could not be started. */
PSR_MUST_CHECK psr_err psr_picture_list_check(psr_picture_list *list,
                                              const psr_known_pictures *known, uint32_t threads,
                                              psr_reading *reading, psr_names *broken,
                                              psr_image_size **ret_sizes,
                                              psr_known_picture **ret_known,
                                              char ret_content[PSR_CONTENT_BYTES]);

#endif
