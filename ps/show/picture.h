/* The picture of psring show: the arena as three bands of an SVG, tensors, buckets and slices, the
 * last two in the colours of who holds them. */
#ifndef PSR_PS_SHOW_PICTURE_H
#define PSR_PS_SHOW_PICTURE_H

#include "comm/view/plan.h"
#include "model/layout.h"

/* IO: the file cannot be written, and is as it was; NOMEM. */
PSR_MUST_CHECK psr_err psr_show_picture_write(const char *path, const char *model,
                                              const psr_layout *layout, const psr_plan *plan);

#endif
