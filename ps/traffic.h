/* What a shard tells the scheduler with DONE, as JSON. The bytes that are read may be hostile:
 * FORMAT names the field. No state; any thread. */
#ifndef PSR_PS_TRAFFIC_H
#define PSR_PS_TRAFFIC_H

#include "base/bytes.h"
#include "base/err.h"

#include <stdint.h>

/* The bytes that it exchanged with all workers since its start: payloads of PUSH received and of
 * WEIGHTS sent. In SSP and async a shard is done with its last push, so the last pulls, which are
 * still to be answered, are not counted. */
typedef struct psr_traffic {
    uint64_t gradient_bytes, weight_bytes;
} psr_traffic;
/* The two as a line of a log. */
#define PSR_TRAFFIC_LINE "carried gradient_bytes=%" PRIu64 " weight_bytes=%" PRIu64

/* The caller owns *ret_json: free() */
PSR_MUST_CHECK psr_err psr_traffic_to_json(const psr_traffic *traffic, char **ret_json);
PSR_MUST_CHECK psr_err psr_traffic_from_json(psr_bytes json, psr_traffic *ret_traffic);

#endif
