/* A layout as JSON, for use in other messages. The process that has the network sends it, so that
 * processes that only hold and update parameters need no network. An array of tensors in the
 * arena's order, each [name, length, ..] with its lengths as in the shape:
 * [["conv1.weight",64,3,7,7],["fc.bias",10]]. Offsets are not sent: psr_layout_add gives both sides
 * the same. No state; any thread. */
#ifndef PSR_MODEL_LAYOUT_JSON_H
#define PSR_MODEL_LAYOUT_JSON_H

#include "model/layout.h"

struct cJSON;

/* The caller owns the result: cJSON_Delete; NULL: no memory */
struct cJSON *psr_layout_to_json_array(const psr_layout *layout);

/* array may be NULL and what it holds hostile. FORMAT names the tensor: a name that is empty, too
 * long or not printable, a shape that is none, or of more floats than an arena can have. NOMEM. The
 * caller owns *ret_layout: psr_layout_done. */
PSR_MUST_CHECK psr_err psr_layout_from_json_array(const struct cJSON *array,
                                                  psr_layout *ret_layout);

#endif
