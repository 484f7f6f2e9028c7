/* What other programs read of a run while it goes on, beside its directory's own files:
 * TensorBoard's event files (--tensorboard) and the figures for Prometheus (--metrics-port). In
 * place; zeros first, and what was not asked for does nothing. One thread. */
#ifndef PSR_PS_SCHEDULER_FOLLOWERS_H
#define PSR_PS_SCHEDULER_FOLLOWERS_H

#include "base/config/config.h"
#include "ps/scheduler/checkpoints/resume.h"
#include "ps/scheduler/metrics/metrics_line.h"

typedef struct psr_followers {
    const psr_config *config; /* borrowed */
    struct psr_tensorboard *tensorboard;
    struct psr_exposition *exposition;
    struct psr_endpoint *endpoint;
} psr_followers;

/* Before the run: listens. UNSUPPORTED: not in this build. IO: the port cannot be had. NOMEM.
 * psr_followers_done follows, on failure too. */
PSR_MUST_CHECK psr_err psr_followers_init(psr_followers *followers, const psr_config *config);
void psr_followers_done(psr_followers *followers);

/* Where the figures are served; NULL: they are not. Borrowed. */
const char *psr_followers_url(const psr_followers *followers);

/* All have joined. directory: of the run, which exists. Copied. NOMEM. */
PSR_MUST_CHECK psr_err psr_followers_joined(psr_followers *followers, const char *directory,
                                            uint64_t first_step, uint64_t total_steps);
/* All have started. resume: NULL: the run is from its beginning. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_followers_begin(psr_followers *followers, const char *directory,
                                           const psr_resume *resume);
/* The next line of a rank. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_followers_take(psr_followers *followers, const psr_metrics_line *line);
/* psr_scheduler_events.norms. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_followers_norms(psr_followers *followers, const psr_metrics_line *line);
/* An evaluation of before the first step (psr_scheduler_events.made_up). */
void psr_followers_made_up(psr_followers *followers, const psr_metrics_line *line);
/* IO. */
PSR_MUST_CHECK psr_err psr_followers_flush(psr_followers *followers);
/* No line follows. IO, NOMEM. */
PSR_MUST_CHECK psr_err psr_followers_end(psr_followers *followers);

#endif
