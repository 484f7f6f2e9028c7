/* Where the processes of a run are, and how many bytes went from host to host: what run.json has
 * under `placement` and `links`. Made of the roster and of what each worker tells with DONE. One
 * thread; no I/O. */
#ifndef PSR_PS_SCHEDULER_METRICS_LINKS_H
#define PSR_PS_SCHEDULER_METRICS_LINKS_H

#include "comm/view/view.h"

typedef struct psr_links psr_links;

/* members: of the run; read here, and not kept. The caller owns *ret_links. NOMEM. */
PSR_MUST_CHECK psr_err psr_links_new(const psr_view *members, psr_links **ret_links);
/* NULL allowed. */
void psr_links_free(psr_links *links);

/* Takes the payload of worker `from`'s DONE: its rows `links` (worker/exchange/link_bytes.h). What
 * it sends to workers and shards counts, and what shards send to it; other workers tell their own.
 * Rows that name nobody in the run are left out. */
void psr_links_take_done(psr_links *links, uint32_t from, const char *json, size_t size);

/* Makes of json, an object as text, one that has as well:
 *     "placement": {"shards": "none"|"beside"|"dedicated"|"mixed",
 *                   "hosts": [{"host", "workers", "shards"}, ..]}
 *     "links": [{"from", "to", "bytes"}, ..]   hosts; from = to is what stayed within one
 * "beside": every shard is on a host that has a worker; "dedicated": none is. The caller owns
 * *ret_json: free(). FORMAT: json is no object. NOMEM. */
PSR_MUST_CHECK psr_err psr_links_add_to(const psr_links *links, const char *json, char **ret_json);

#endif
