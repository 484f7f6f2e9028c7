/* How a worker joins: it opens the transport, takes the run's configuration from CONFIG, compares
 * it with the options that it was given itself, and returns what it finds by it (facts.c). It joins
 * again while processes of a former attempt still hold its place. */
#include "worker/process/process_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "comm/view/view.h"
#include "worker/start/launched_options.h"

#include <string.h>

static void log_stranger(void *context, const char *line)
{
    (void)context;
    psr_log_of(PSR_LOG_OF_STRANGER, PSR_LOG_WARN, "%s", line);
}

static void say_shared(bool warning, const char *line)
{
    psr_log(warning ? PSR_LOG_WARN : PSR_LOG_INFO, "%s", line);
}

/* Must be called before other processes can connect; they do so after WELCOME, which does not come
 * before this process has joined. What cannot be shared is sent. */
static void share_memory(psr_worker *w)
{
    if (psr_config_shares_memory(&w->config))
        psr_shared_memory_begin(&w->memory, w->transport, w->config.transport == PSR_TRANSPORT_SHM,
                                say_shared);
}

static psr_err emulate_link(psr_worker *w)
{
    const psr_config *config = &w->config;
    if (!psr_config_has_link(config))
        return PSR_OK;
    return psr_transport_emulate_link(
        w->transport, (uint64_t)((double)config->link_rate_bits_per_s / config->dilate),
        (double)config->link_delay_ns * 1e-9 * config->dilate);
}

static psr_err take_config(void *context, const psr_place *place, psr_bytes given, void **ret_facts,
                           size_t *ret_facts_size)
{
    psr_worker *w = context;
    (void)ret_facts;
    (void)ret_facts_size; /* psr_worker_find_content returns them */
    w->configured = true;
    psr_config_defaults(&w->config);
    PSR_TRY(psr_config_from_json(&w->config, given.data, given.size));
    if (w->options.compares)
        PSR_TRY(psr_launched_compare(&w->options.launched->config, &w->config));
    PSR_TRY(emulate_link(w));
    share_memory(w);
    return psr_worker_find_facts(w, place);
}

static psr_err check_lost(void *context)
{
    psr_worker *w = context;
    return psr_lost_process_watch(w->options.lost, w->transport, NULL, false);
}

static void report(void *context, psr_msg_progress *progress)
{
    const psr_worker *w = context;
    if (w->session != NULL)
        psr_session_report(w->session, progress);
    else if (w->host_data != NULL)
        psr_host_data_report(w->host_data, progress);
}

static psr_err join_once(psr_worker *w)
{
    psr_zmq_options zmq = psr_provision_zmq(w->options.provision);
    zmq.watches_ways = true;
    zmq.misses_scheduler = true;
    zmq.log_stranger = log_stranger;
    PSR_TRY(psr_transport_zmq_new(&zmq, &w->transport));
    const psr_member_options member = {.transport = w->transport,
                                       .provision = w->options.provision,
                                       .shares_memory = true,
                                       .context = w,
                                       .configured = take_config,
                                       .facts = psr_worker_find_content,
                                       .report = report,
                                       .interrupted = check_lost};
    PSR_TRY(check_lost(w));
    return psr_member_join(&member, &w->member);
}

/* How many workers of this host have lower ranks. */
static uint32_t number_on_host(const psr_member *member)
{
    const psr_peer self = psr_member_self(member);
    const psr_view *view = psr_member_view(member);
    const psr_view_member *own = psr_view_find(view, self);
    uint32_t number = 0;
    for (uint32_t i = 0; own != NULL && i < view->member_count; i++) {
        const psr_view_member *other = &view->members[i];
        number += other->peer.role == PSR_ROLE_WORKER && other->peer.rank < self.rank &&
                  strcmp(other->host, own->host) == 0;
    }
    return number;
}

psr_err psr_worker_join(psr_worker *w)
{
    const int64_t began_ms = psr_clock_ms();
    bool said = false;
    psr_err err = join_once(w);
    while (err != PSR_OK && !w->configured &&
           psr_member_joins_again(w->options.provision, w->transport, err, began_ms, &said)) {
        PSR_TRY(psr_lost_process_watch(w->options.lost, NULL, NULL, false));
        psr_transport_free(&w->transport, 0);
        err = join_once(w);
    }
    if (err == PSR_OK)
        w->number_on_host = number_on_host(w->member);
    return err;
}
