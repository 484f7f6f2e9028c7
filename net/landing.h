/* Where values that are received again and again land: an array of their receiver's, cut into runs. A payload that was sent is copied there. One
 * that lies in another process's memory (net/borrower.h) need not be: the pages on which it lies there are mapped in the place of
 * the run's own, to be read, and the next payload of the same place is in the array before it has come. So values that many receive are in a host's
 * memory once, and nobody copies them.
 *
 * That holds for values that stand from the moment when their sender refers to them until their receiver has no more use for them, which they must
 * agree upon; what the sender writes then the receiver sees. Mapped are whole pages within a run: what shares a page with another run at its
 * ends is copied, as is all of it where pages do not fit, where it is small, or where the kernel refuses. One thread, besides those that
 * read the array, none of them a run that is being taken. */
#ifndef PSR_NET_LANDING_H
#define PSR_NET_LANDING_H

#include "base/span.h"
#include "net/message.h"

/* What has fewer bytes of whole pages is copied, which costs less than what a mapping costs whoever reads it. */
#define PSR_LANDING_LEAST ((size_t)64 << 10)
/* Runs that are mapped at once. Each is up to two mappings of the 65530 that the kernel allows a process: others need some too. */
#define PSR_LANDING_RUNS_MAX 8192u

typedef struct psr_landing psr_landing;

/* values: count of them, an arena (base/arena.h) that nobody has written yet, borrowed for life: from the first payload on only this writes it, and
 * a write of another's into what is mapped is a SIGSEGV. What is mapped at the end stays until the arena is freed. NOMEM. ret owns. */
PSR_MUST_CHECK psr_err psr_landing_new(float *values, size_t count, uint32_t runs, psr_landing **ret_landing);
/* NULL allowed. */
void psr_landing_free(psr_landing *landing);

/* The message's payload, which is span.count floats, is in the array at span.offset when this returns, and the message may be freed. A run has
 * one span for life, which no other's overlaps. NOMEM: the kernel gives no memory for a run in which another process's was mapped. */
PSR_MUST_CHECK psr_err psr_landing_take(psr_landing *landing, uint32_t run, psr_span span,
                                        const psr_message *message);

/* The run has these values already, and may be read meanwhile: the pages that can be mapped are, and nothing is copied. NOMEM: the kernel has
 * taken the run's own pages away, and has given none of the sender's. */
PSR_MUST_CHECK psr_err psr_landing_show(psr_landing *landing, uint32_t run, psr_span span,
                                        const psr_message *message);

/* Runs that are mapped. */
uint32_t psr_landing_mapped(const psr_landing *landing);

#endif
