#include "deploy/launch/machine/launch_machine_private.h"

#include "deploy/agent/ssh_words.h"
#include "net/address/interface.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* time for ssh and the start of the agent; the run's deadline may be as short as a second */
#define HELLO_MS 20000
#define CONNECTING_MAX 32

/* ---- who answers ---- */

void psr_launch_remember_words(psr_launch_host *h, const char *line)
{
    if (h->greeted || !psr_ssh_words_tell_why(h->last_words))
        snprintf(h->last_words, sizeof h->last_words, "%s", line);
}

/* Whether the launcher waits for the host's agent. */
static bool is_awaited(const psr_launch_host *h)
{
    return h->agent != PSR_LIFE_NOT_STARTED && h->agent != PSR_LIFE_CLOSED && !h->greeted;
}

static size_t count_awaited(const psr_launch_machine *m)
{
    size_t count = 0;
    for (size_t i = 0; i < m->started_count; i++)
        count += is_awaited(&m->hosts[i]);
    return count;
}

/* ---- what it came to ---- */

static void show_connecting(psr_launch_machine *m)
{
    size_t settled = m->greeted_count + m->trouble_count;
    if (settled == m->settled_before || m->host_count == 1)
        return;
    m->settled_before = settled;
    m->act.show_connecting(m->act.context, m->greeted_count, m->trouble_count, m->host_count);
}

/* For one host this is a single line. For several it is their number, and a line for each follows
 * (psr_launch_show_troubles). */
static void end_for_troubles(psr_launch_machine *m, int64_t now_ms)
{
    char line[128];
    const char *last = "";
    for (size_t i = 0; i < m->host_count; i++)
        if (m->hosts[i].trouble != NULL)
            last = m->hosts[i].trouble;
    snprintf(line, sizeof line, "%zu of %zu hosts cannot be used:", m->trouble_count,
             m->host_count);
    m->lists_troubles = m->trouble_count > 1;
    psr_launch_end(m, m->trouble_status, m->lists_troubles ? line : last, now_ms);
}

/* Called when it is known of each host whether it can be used. */
static psr_err go_on(psr_launch_machine *m, int64_t now_ms)
{
    if (m->ended || m->greeted_count + m->trouble_count < m->host_count)
        return PSR_OK;
    show_connecting(m);
    if (m->trouble_count == 0)
        return psr_launch_begin(m, now_ms);
    end_for_troubles(m, now_ms);
    return PSR_OK;
}

/* A process that listens on loopback can be reached from its own machine only. Whether two hosts
 * are one machine is not always known. */
static bool is_elsewhere_on_loopback(const psr_launch_machine *m, const psr_launch_host *h)
{
    return !h->reached.here && m->options.interface == NULL &&
           psr_address_is_loopback(h->reached.address) && h->other_machine;
}

psr_err psr_launch_greeted(psr_launch_machine *m, psr_launch_host *h, int64_t now_ms)
{
    if (!h->reached.here && m->options.interface == NULL && h->reached.address[0] == '\0') {
        psr_err err = psr_fail(PSR_ERR_USAGE,
                               "host %s does not tell the address that ssh reached it by; name the "
                               "interface with --interface",
                               h->name);
        psr_launch_give_up_host(m, h, err, now_ms);
        return PSR_OK;
    }
    if (is_elsewhere_on_loopback(m, h)) {
        psr_err err = psr_fail(PSR_ERR_USAGE,
                               "host %s is another machine, and says that ssh reached it at %s, "
                               "which is its own alone; name the interface with --interface",
                               h->name, h->reached.address);
        psr_launch_give_up_host(m, h, err, now_ms);
        return PSR_OK;
    }
    h->greeted = true;
    m->greeted_count++;
    return go_on(m, now_ms);
}

void psr_launch_give_up_host(psr_launch_machine *m, psr_launch_host *h, psr_err err, int64_t now_ms)
{
    if (h->trouble != NULL || m->ended)
        return;
    h->trouble = strdup(psr_err_detail());
    if (h->trouble == NULL) {
        err = psr_fail(PSR_ERR_NOMEM, "no memory for what is wrong with host %s", h->name);
        psr_launch_machine_failed(m, err, now_ms);
        return;
    }
    m->trouble_count++;
    m->greeted_count -= h->greeted;
    int status = err == PSR_ERR_PEER ? 1 : 2;
    m->trouble_status = status > m->trouble_status ? status : m->trouble_status;
    if (h->agent == PSR_LIFE_RUNNING)
        m->act.drop_agent(m->act.context, (size_t)(h - m->hosts));
    err = go_on(m, now_ms);
    if (err != PSR_OK)
        psr_launch_machine_failed(m, err, now_ms);
}

/* A user who stops the launcher while it waits is told of the hosts that had failed until then. */
void psr_launch_show_troubles(psr_launch_machine *m)
{
    for (size_t i = 0; i < m->host_count; i++)
        if (m->hosts[i].trouble != NULL && (m->lists_troubles || m->interrupts > 0))
            psr_launch_show(m, m->act.show_error, "  %s", m->hosts[i].trouble);
}

/* ---- time ---- */

static void check_hellos(psr_launch_machine *m, int64_t now_ms)
{
    for (size_t i = 0; i < m->started_count && !m->ended; i++) {
        psr_launch_host *h = &m->hosts[i];
        if (!is_awaited(h) || h->trouble != NULL || now_ms - h->started_ms < HELLO_MS)
            continue;
        psr_err err = psr_fail(
            PSR_ERR_NOT_FOUND,
            "host %s: its agent did not answer within %d s%s%s; see what `ssh %s true` does",
            h->name, HELLO_MS / 1000, h->last_words[0] != '\0' ? ": " : "", h->last_words, h->name);
        psr_launch_give_up_host(m, h, err, now_ms);
    }
}

static psr_err start_agent(psr_launch_machine *m, int64_t now_ms)
{
    psr_launch_host *h = &m->hosts[m->started_count];
    PSR_TRY(m->act.start_agent(m->act.context, m->started_count, &h->reached.here));
    h->agent = PSR_LIFE_RUNNING;
    h->started_ms = now_ms;
    m->started_count++;
    return PSR_OK;
}

void psr_launch_connect(psr_launch_machine *m, int64_t now_ms)
{
    psr_err err = PSR_OK;
    check_hellos(m, now_ms);
    if (m->ended)
        return;
    for (size_t awaited = count_awaited(m);
         m->started_count < m->host_count && awaited < CONNECTING_MAX; awaited++) {
        err = start_agent(m, now_ms);
        if (err != PSR_OK) {
            psr_launch_machine_failed(m, err, now_ms);
            return;
        }
    }
    if (m->scheduler == PSR_LIFE_NOT_STARTED)
        show_connecting(m);
}

int64_t psr_launch_hello_due_ms(const psr_launch_machine *m)
{
    int64_t due_ms = INT64_MAX;
    for (size_t i = 0; i < m->started_count; i++) {
        const psr_launch_host *h = &m->hosts[i];
        if (is_awaited(h) && h->trouble == NULL && h->started_ms + HELLO_MS < due_ms)
            due_ms = h->started_ms + HELLO_MS;
    }
    return due_ms;
}
