/* A worker's part in one run: its parts in their order, and the end. */
#include "worker/process/process.h"

#include "base/fault.h"
#include "base/log.h"
#include "comm/view/view.h"
#include "worker/process/process_private.h"
#include "worker/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Time in ms at the end for the last messages to leave. */
#define LINGER_MS 2000

psr_err psr_worker_new(const psr_worker_options *options, psr_worker **ret_worker)
{
    psr_worker *w = calloc(1, sizeof *w);
    if (w == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a worker");
    w->options = *options;
    w->memory = PSR_SHARED_MEMORY_NONE;
    *ret_worker = w;
    return PSR_OK;
}

/* The work of the compute thread while the exchange thread runs. */
static psr_err train(psr_worker *w)
{
    psr_outcome outcome;
    PSR_TRY(psr_worker_get_ready(w));
    PSR_TRY(psr_train(&w->trainer, &outcome));
    psr_session_progress(w->session, PSR_PHASE_SHUTDOWN);
    char *links = NULL, *json = NULL;
    PSR_TRY(psr_exchange_links(w->exchange, &links));
    psr_err err = psr_outcome_to_json(&outcome, links, &json);
    if (err == PSR_OK)
        err = psr_session_done(w->session, outcome.steps, outcome.left_out, json);
    free(json);
    free(links);
    return err;
}

psr_err psr_worker_run(psr_worker *w)
{
    PSR_TRY(psr_worker_join(w));
    psr_launched_joined(w->options.launched);
    psr_peer self = psr_member_self(w->member);
    char name[64];
    snprintf(name, sizeof name, "worker %" PRIu32, self.rank);
    psr_log_init(name, PSR_LOG_INFO);
    PSR_TRY(psr_fault_point_set(w->config.fault_point, "worker", self.rank));
    psr_log(PSR_LOG_INFO, "joined scheduler=%s", w->options.provision->scheduler);

    psr_err err = psr_worker_open_exchange(w);
    if (err != PSR_OK) {
        psr_member_failed(w->member, err, psr_err_detail());
        return err;
    }
    err = train(w);
    if (err != PSR_OK)
        psr_session_fail(w->session, err);
    return err;
}

/* The order is that of session.h. Loans end when the transport ends. Objects that borrow from the
 * view are freed before the member, which owns it. */
void psr_worker_free(psr_worker *w)
{
    if (w == NULL)
        return;
    (void)psr_lost_process_watch(w->options.lost, NULL, NULL, true);
    /* operations that wait for the back end's fences end before the back end */
    psr_session_stop(w->session);
    psr_trainer_done(&w->trainer);
    psr_host_data_free(w->host_data);
    psr_transport_free(&w->transport, LINGER_MS);
    psr_exchange_free(w->exchange);
    psr_peers_done(&w->peers);
    psr_session_free(w->session);
    psr_shared_memory_done(&w->memory);
    psr_tracer_free(w->tracer);
    psr_member_free(w->member);
    psr_buckets_done(&w->buckets);
    psr_network_free(w->net);
    free(w);
}
