/* Before the scheduler starts: how fast the links between the hosts are. The agents listen, and
 * then each sends to the next one, all at the same time. Whatever comes of it, the run begins. */
#include "deploy/launch/machine/launch_machine_private.h"

#include "net/address/interface.h"

#include <stdio.h>
#include <string.h>

#define LINKS_MS 500 /* for both questions to all agents */

/* On loopback there is no link. */
static bool are_there(const psr_launch_machine *m)
{
    if (m->host_count < 2 || m->options.interface_is_loopback)
        return false;
    for (size_t i = 0; i < m->host_count; i++)
        if (psr_address_is_loopback(psr_launch_interface_for(m, &m->hosts[i])))
            return false;
    return true;
}

static psr_err end(psr_launch_machine *m, int64_t now_ms)
{
    m->links = PSR_LINKS_DONE;
    return psr_launch_begin_run(m, now_ms);
}

static psr_err go_without(psr_launch_machine *m, const psr_launch_host *h, const char *why,
                          int64_t now_ms)
{
    psr_launch_show(m, m->act.show_line, "links between the hosts were not measured: host %s: %s",
                    h->name, why);
    return end(m, now_ms);
}

psr_err psr_launch_begin_links(psr_launch_machine *m, int64_t now_ms)
{
    if (!m->options.measures_links || !are_there(m))
        return end(m, now_ms);
    m->links = PSR_LINKS_LISTENING;
    m->links_by_ms = now_ms + LINKS_MS;
    for (size_t i = 0; i < m->host_count; i++) {
        psr_launch_host *h = &m->hosts[i];
        PSR_TRY(m->act.ask_to_listen(m->act.context, i, psr_launch_interface_for(m, h)));
        h->asked_to_listen = true;
    }
    return PSR_OK;
}

/* Each host sends to the next one. */
static psr_err ask_for_rates(psr_launch_machine *m)
{
    m->links = PSR_LINKS_MEASURING;
    for (size_t i = 0; i < m->host_count; i++) {
        const size_t next = (i + 1) % m->host_count;
        m->act.measure_link(m->act.context, i, next, m->hosts[next].link_address,
                            m->hosts[next].link_port);
        m->hosts[i].asked_for_link = true;
    }
    return PSR_OK;
}

psr_err psr_launch_listens(psr_launch_machine *m, psr_launch_host *h, const psr_agent_event *event,
                           int64_t now_ms)
{
    h->asked_to_listen = false;
    if (m->links != PSR_LINKS_LISTENING)
        return PSR_OK; /* the time was over */
    if (event->port == 0)
        return go_without(m, h, event->text, now_ms);
    snprintf(h->link_address, sizeof h->link_address, "%s", event->address);
    h->link_port = event->port;
    for (size_t i = 0; i < m->host_count; i++)
        if (m->hosts[i].asked_to_listen)
            return PSR_OK;
    return ask_for_rates(m);
}

/* The slowest one decides: in a ring and for shards on all hosts everybody waits for it. */
static psr_err take_rates(psr_launch_machine *m, int64_t now_ms)
{
    size_t slowest = 0;
    for (size_t i = 1; i < m->host_count; i++)
        if (m->hosts[i].bits_per_s < m->hosts[slowest].bits_per_s)
            slowest = i;
    const size_t from = (slowest + m->host_count - 1) % m->host_count;
    m->slowest = (psr_order){.kind = PSR_ORDER_LINKS, .bits_per_s = m->hosts[slowest].bits_per_s};
    snprintf(m->slowest.host, sizeof m->slowest.host, "%s", m->hosts[from].name);
    snprintf(m->slowest.to, sizeof m->slowest.to, "%s", m->hosts[slowest].name);
    m->act.take_links(m->act.context, &m->slowest);
    return end(m, now_ms);
}

psr_err psr_launch_link(psr_launch_machine *m, psr_launch_host *h, const psr_agent_event *event,
                        int64_t now_ms)
{
    h->asked_for_link = false;
    if (m->links != PSR_LINKS_MEASURING)
        return PSR_OK;
    if (event->bits_per_s == 0)
        return go_without(m, h, event->text, now_ms);
    h->bits_per_s = event->bits_per_s;
    for (size_t i = 0; i < m->host_count; i++)
        if (m->hosts[i].asked_for_link)
            return PSR_OK;
    return take_rates(m, now_ms);
}

static bool is_at_it(const psr_launch_machine *m)
{
    return m->links == PSR_LINKS_LISTENING || m->links == PSR_LINKS_MEASURING;
}

psr_err psr_launch_check_links(psr_launch_machine *m, int64_t now_ms)
{
    if (!is_at_it(m) || now_ms < m->links_by_ms)
        return PSR_OK;
    const psr_launch_host *late = m->hosts;
    for (size_t i = 0; i < m->host_count; i++)
        if (m->hosts[i].asked_to_listen || m->hosts[i].asked_for_link)
            late = &m->hosts[i];
    return go_without(m, late, "its agent took longer than half a second", now_ms);
}

int64_t psr_launch_links_due_ms(const psr_launch_machine *m)
{
    return is_at_it(m) ? m->links_by_ms : INT64_MAX;
}
