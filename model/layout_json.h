/* A layout as JSON, for use in messages. The process that has the network sends it, so processes
 * that only hold and update parameters need no network. It is an array of tensors in the arena's
 * order. Each tensor is [name, length, ..], with the lengths of its shape:
 * [["conv1.weight",64,3,7,7],["fc.bias",10]]. Offsets are not sent, because psr_layout_add computes
 * the same ones on both sides. No state; any thread. */
#ifndef PSR_MODEL_LAYOUT_JSON_H
#define PSR_MODEL_LAYOUT_JSON_H

#include "model/layout.h"

struct cJSON;

/* The caller owns the result: cJSON_Delete; NULL: no memory */
struct cJSON *psr_layout_to_json_array(const psr_layout *layout);

/* array may be NULL, and its content may be hostile. FORMAT: a tensor's name is empty, too long or
 * not printable, its shape is not a shape, or it has more floats than an arena can have; the
 * message names the tensor. NOMEM. The caller owns *ret_layout: psr_layout_done. */
PSR_MUST_CHECK psr_err psr_layout_from_json_array(const struct cJSON *array,
                                                  psr_layout *ret_layout);

#endif
