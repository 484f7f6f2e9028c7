/* The launcher's side of psring doctor: an agent on each host, as a run would have it, and through
 * it a probe (deploy/doctor/visit/probe.h). All hosts are asked at once, each question has its
 * deadline, and a host that does not answer is given up and named. Measurements go in rounds of
 * pairs of which no two share a host (deploy/doctor/visit/rounds.h). What a probe says is believed
 * about its own host, and about the way from there. One thread. */
#ifndef PSR_DEPLOY_DOCTOR_VISIT_VISIT_H
#define PSR_DEPLOY_DOCTOR_VISIT_VISIT_H

#include "deploy/doctor/checkup.h"

typedef struct psr_visit_options {
    const char *ssh, *remote_program; /* see psr_host_start */
    const char *const *variables;     /* see psr_host_set_variables */
    int64_t deadline_ms;              /* approximate time for the answer to each question */
    /* for tests: this host's clock is reported wrong by clock_fault_s; SIZE_MAX: none */
    size_t clock_fault_host;
    double clock_fault_s;
    /* Called when it changes: "logins", "connections", "speeds, round 2 of 5", and how many of the
     * hosts that were asked have answered. NULL: not wanted. */
    void (*progress)(void *context, const char *what, size_t answered, size_t asked);
    void *progress_context;
} psr_visit_options;

/* Fills in hosts and pairs, with what failed on each host. CANCELLED: by a signal; no agent of ours
 * is left then. NOMEM; USAGE: ssh. */
PSR_MUST_CHECK psr_err psr_visit(const psr_visit_options *options, psr_checkup *checkup);

#endif
