/* An array of a receiver, cut into runs, in which values land that are received again and again. A
 * payload that came over a socket is copied into its run. A payload that lies in another process's
 * memory (net/sharing/borrower.h) need not be copied: the pages on which it lies are mapped, for
 * reading, in place of the run's own pages. The next payload from the same place is then in the
 * array without any work. So a host holds values that several of its processes receive only once,
 * and nobody copies them.
 *
 * This needs values that do not change from the moment when the sender refers to them until the
 * receiver has no more use for them. Sender and receiver must agree on that, since the receiver
 * sees whatever the sender writes later. Only whole pages within a run are mapped. The ends that
 * share a page with another run are copied; so is the whole run where pages do not line up, where
 * it is small, or where the kernel refuses. One thread; others may read the array, but no run that
 * is being taken. */
#ifndef PSR_NET_SHARING_LANDING_H
#define PSR_NET_SHARING_LANDING_H

#include "base/span.h"
#include "net/message.h"

/* A run with fewer bytes of whole pages than this is copied: that costs less than the page faults
 * of a mapping. */
#define PSR_LANDING_LEAST ((size_t)64 << 10)
/* The most runs that are mapped at the same time. Each takes up to two of the 65530 mappings that
 * the kernel allows a process; other code needs mappings too. */
#define PSR_LANDING_RUNS_MAX 8192u

typedef struct psr_landing psr_landing;

/* values: an arena (base/arrays/arena.h) of count floats that nobody has written yet, borrowed for
 * life. From the first payload on only the landing may write it; another write into mapped pages is
 * a SIGSEGV. What is mapped when the landing is freed stays mapped until the arena is freed. NOMEM.
 * The caller owns *ret_landing. */
PSR_MUST_CHECK psr_err psr_landing_new(float *values, size_t count, uint32_t runs,
                                       psr_landing **ret_landing);
/* NULL allowed. */
void psr_landing_free(psr_landing *landing);

/* Brings the message's payload, span.count floats, into the array at span.offset; the message may
 * be freed afterwards. A run has the same span every time, and spans do not overlap. NOMEM: a run
 * was mapped, and the kernel gives no memory to make it the array's own again. */
PSR_MUST_CHECK psr_err psr_landing_take(psr_landing *landing, uint32_t run, psr_span span,
                                        const psr_message *message);

/* Maps what can be mapped of a run that holds these values already, and copies nothing. The run may
 * be read meanwhile. NOMEM: the kernel has removed the run's own pages and failed to map the
 * sender's. */
PSR_MUST_CHECK psr_err psr_landing_show(psr_landing *landing, uint32_t run, psr_span span,
                                        const psr_message *message);

/* How many runs are mapped now. */
uint32_t psr_landing_mapped(const psr_landing *landing);

#endif
