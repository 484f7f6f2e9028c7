/* Findings about connections between hosts. A host that no other can reach is one finding, not one
 * for each of the others. */
#include "deploy/doctor/findings/findings_private.h"

#include "net/address/interface.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAIRS_TOLD 12 /* most pairs named in a finding; --json has all */
/* A pair is slow if it carries less than a third of the median pair. Repetitions differ by less
 * than that. */
#define SLOW_FACTOR 3
#define PAIRS_FOR_MIDDLE 6

/* ---- connections ---- */

/* Finds the cause from the system's message, or from that of psr_reach_all. */
static const char *port_advice(const char *failure)
{
    if (strstr(failure, "refused") != NULL)
        return "a firewall there rejects it: let TCP to all ports through from these hosts, or "
               "name another network by --interface";
    if (strstr(failure, "no answer") != NULL)
        return "a firewall drops it: let TCP to all ports through from these hosts, or name "
               "another network by --interface";
    return "look at cable, interface and route (ip route get), or name another network by "
           "--interface";
}

static void name_way(const psr_checkup *c, size_t from, size_t to, char where[600])
{
    snprintf(where, 600, "%s -> %s", c->hosts[from].host.name, c->hosts[to].host.name);
}

typedef struct tally {
    size_t tried, failed;
    const char *failure; /* the first one's */
} tally;

/* Counts all connections to a host, or from it. */
static tally count_ways(const psr_checkup *c, size_t host, bool to)
{
    tally t = {0, 0, ""};
    for (size_t other = 0; other < c->count; other++) {
        if (other == host)
            continue;
        const psr_checkup_pair *p =
            to ? psr_checkup_pair_of(c, other, host) : psr_checkup_pair_of(c, host, other);
        t.tried += p->tried;
        t.failed += p->tried && !p->connected;
        if (p->tried && !p->connected && t.failure[0] == '\0')
            t.failure = p->connect_failure;
    }
    return t;
}

static void judge_connection(const psr_checkup *c, size_t from, size_t to, psr_findings *f,
                             size_t *told)
{
    char where[600];
    const psr_checkup_pair *p = psr_checkup_pair_of(c, from, to);
    if (from == to || !p->tried || p->connected || ++*told > PAIRS_TOLD)
        return;
    name_way(c, from, to, where);
    psr_findings_add(f, PSR_FINDING_STOPS, "port", where, port_advice(p->connect_failure),
                     "no connection to %s: %s", c->hosts[to].facts.endpoint, p->connect_failure);
}

/* A host that no other host reaches, or that reaches no other, is one finding. ret_to, ret_from: it
 * covers these connections. */
static void judge_isolation(const psr_checkup *c, size_t host, psr_findings *f, bool *ret_to,
                            bool *ret_from)
{
    const tally to = count_ways(c, host, true), from = count_ways(c, host, false);
    *ret_to = to.tried > 1 && to.failed == to.tried;
    *ret_from = from.tried > 1 && from.failed == from.tried;
    const char *name = c->hosts[host].host.name;
    if (*ret_to)
        psr_findings_add(f, PSR_FINDING_STOPS, "port", name, port_advice(to.failure),
                         "none of the %zu other hosts reaches %s there%s: %s", to.tried,
                         c->hosts[host].facts.endpoint,
                         *ret_from ? ", and it reaches none of them" : "", to.failure);
    else if (*ret_from)
        psr_findings_add(f, PSR_FINDING_STOPS, "port", name, port_advice(from.failure),
                         "it reaches none of the %zu other hosts: %s", from.tried, from.failure);
}

/* A host's messages to itself go over loopback, whatever address it has. */
static void judge_itself(const psr_checkup *c, size_t host, psr_findings *f)
{
    const psr_checkup_pair *p = psr_checkup_pair_of(c, host, host);
    if (p->tried && !p->connected)
        psr_findings_add(f, PSR_FINDING_STOPS, "port", c->hosts[host].host.name,
                         "bring its loopback interface up (ip link set lo up), and let its "
                         "firewall allow its own connections over loopback",
                         "it does not reach itself at %s, where its processes meet: %s",
                         c->hosts[host].facts.endpoint, p->connect_failure);
}

static void judge_connections(const psr_checkup *c, psr_findings *f)
{
    bool *told_to = calloc(c->count, sizeof *told_to),
         *told_from = calloc(c->count, sizeof *told_from);
    size_t told = 0;
    f->failed |= told_to == NULL || told_from == NULL;
    for (size_t i = 0; i < c->count && !f->failed; i++)
        judge_isolation(c, i, f, &told_to[i], &told_from[i]);
    for (size_t i = 0; i < c->count * c->count && !f->failed; i++)
        if (!told_from[i / c->count] && !told_to[i % c->count])
            judge_connection(c, i / c->count, i % c->count, f, &told);
    for (size_t i = 0; i < c->count && !f->failed; i++)
        judge_itself(c, i, f);
    if (told > PAIRS_TOLD)
        psr_findings_add(f, PSR_FINDING_STOPS, "port", "other pairs", "--json has all",
                         "%zu more are not connected", told - PAIRS_TOLD);
    free(told_to);
    free(told_from);
}

/* ---- names and routes ---- */

/* All names that a host cannot resolve are reported in one line. They may be defined in ssh's own
 * configuration, and only this machine needs them. */
static void judge_names(const psr_checkup *c, size_t from, psr_findings *f)
{
    size_t lacking = 0;
    const char *first = "";
    for (size_t to = 0; to < c->count; to++) {
        const psr_checkup_pair *p = psr_checkup_pair_of(c, from, to);
        if (from == to || !p->looked_up)
            continue;
        if (p->looked_up_as[0] == '\0' && lacking++ == 0)
            first = c->hosts[to].host.name;
        if (psr_address_is_loopback(p->looked_up_as))
            psr_findings_add(f, PSR_FINDING_NOTE, "names", c->hosts[from].host.name,
                             "mend /etc/hosts there",
                             "there the name %s stands for %s, which is the host itself",
                             c->hosts[to].host.name, p->looked_up_as);
    }
    if (lacking > 0)
        psr_findings_add(f, PSR_FINDING_NOTE, "names", c->hosts[from].host.name, "",
                         "%zu names of other hosts are not found there (%s is the first): psring "
                         "uses addresses, but other programs may need the names",
                         lacking, first);
}

static void judge_route(const psr_checkup *c, size_t from, size_t to, psr_findings *f, size_t *told)
{
    char where[600];
    const psr_checkup_pair *p = psr_checkup_pair_of(c, from, to);
    if (!p->connected || strcmp(p->source, c->hosts[from].facts.address) == 0 ||
        psr_address_is_loopback(p->source) || ++*told > PAIRS_TOLD)
        return;
    name_way(c, from, to, where);
    psr_findings_add(f, PSR_FINDING_NOTE, "route", where,
                     "give routes, or --interface, so that both ways use one network",
                     "it goes out by %s, but listens on %s", p->source,
                     c->hosts[from].facts.address);
}

/* ---- measurements ---- */

static void judge_measurement(const psr_checkup *c, size_t from, size_t to, psr_findings *f,
                              size_t *told)
{
    char where[600];
    const psr_checkup_pair *p = psr_checkup_pair_of(c, from, to);
    if (p->measure_failure[0] == '\0' || ++*told > PAIRS_TOLD)
        return;
    name_way(c, from, to, where);
    psr_findings_add(f, PSR_FINDING_STOPS, "messages", where,
                     "look for a firewall that inspects packets, an MTU that is too large for the "
                     "path, or a busy host",
                     "%s", p->measure_failure);
}

/* Both ways of a pair may have a line: each goes to a port of its own. */
static void judge_sealing(const psr_checkup *c, size_t from, size_t to, psr_findings *f,
                          size_t *told)
{
    char where[600], port[48] = "a second port there";
    const psr_checkup_pair *p = psr_checkup_pair_of(c, from, to);
    if (!p->measured || p->unsealed_ms == 0 || ++*told > PAIRS_TOLD)
        return;
    name_way(c, from, to, where);
    if (p->unsealed_port != 0)
        snprintf(port, sizeof port, "port %" PRIu64 " there", p->unsealed_port);
    psr_findings_add(f, PSR_FINDING_SLOWS, "port", where,
                     "let TCP to all ports through from these hosts: each process listens on two "
                     "that the kernel chooses",
                     "%s did not answer for %.1f s: values go by CURVE instead, at a third of the "
                     "speed or less",
                     port, (double)p->unsealed_ms / 1000);
}

static void count_untested(const psr_checkup *c, psr_findings *f)
{
    size_t wanted = 0, measured = 0;
    for (size_t from = 0; from < c->count; from++)
        for (size_t to = 0; to < c->count; to++) {
            const psr_checkup_pair *p = psr_checkup_pair_of(c, from, to);
            wanted += from != to && psr_checkup_host_probed(&c->hosts[from]) &&
                      psr_checkup_host_probed(&c->hosts[to]);
            measured += p->measured || p->measure_failure[0] != '\0';
        }
    if (measured < wanted)
        psr_findings_add(
            f, PSR_FINDING_UNTESTED, "speed", "pairs", "",
            "%zu of %zu ways were not measured: a connection is missing, or the time was over",
            wanted - measured, wanted);
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* 0: too few to have a middle. */
static uint64_t middle_bandwidth(const psr_checkup *c, psr_findings *f)
{
    uint64_t *values = calloc(c->count * c->count, sizeof *values), middle = 0;
    size_t count = 0;
    if (values == NULL) {
        f->failed = true;
        return 0;
    }
    for (size_t i = 0; i < c->count * c->count; i++)
        if (c->pairs[i].measured)
            values[count++] = c->pairs[i].bytes_per_s;
    qsort(values, count, sizeof *values, by_value);
    if (count >= PAIRS_FOR_MIDDLE)
        middle = values[count / 2];
    free(values);
    return middle;
}

/* With two hosts the median says nothing, and with several all may be slow in one direction. So
 * each direction of a pair is also compared with the other direction. */
static void judge_speed(const psr_checkup *c, size_t from, size_t to, uint64_t middle,
                        psr_findings *f, size_t *told)
{
    char where[600];
    const psr_checkup_pair *p = psr_checkup_pair_of(c, from, to),
                           *back = psr_checkup_pair_of(c, to, from);
    const uint64_t other_way = back->measured ? back->bytes_per_s : 0;
    const bool below_middle = p->bytes_per_s < middle / SLOW_FACTOR;
    if (!p->measured || !(below_middle || p->bytes_per_s < other_way / SLOW_FACTOR) ||
        ++*told > PAIRS_TOLD)
        return;
    name_way(c, from, to, where);
    psr_findings_add(f, PSR_FINDING_SLOWS, "speed", where,
                     "look at cable, port, duplex and what else uses the link",
                     "%.1f MB/s, while %s has %.1f MB/s: a ring goes as fast as its slowest way",
                     (double)p->bytes_per_s * 1e-6,
                     below_middle ? "the middle pair" : "the way back",
                     (double)(below_middle ? middle : other_way) * 1e-6);
}

static void judge_speeds(const psr_checkup *c, psr_findings *f)
{
    const uint64_t middle = middle_bandwidth(c, f);
    size_t told = 0;
    for (size_t from = 0; from < c->count; from++)
        for (size_t to = 0; to < c->count; to++)
            judge_speed(c, from, to, middle, f, &told);
}

void psr_findings_of_ways(const psr_checkup *c, psr_findings *f)
{
    size_t routes = 0, measurements = 0, unsealed = 0;
    judge_connections(c, f);
    for (size_t from = 0; from < c->count; from++)
        for (size_t to = 0; to < c->count; to++) {
            judge_measurement(c, from, to, f, &measurements);
            judge_sealing(c, from, to, f, &unsealed);
            judge_route(c, from, to, f, &routes);
        }
    for (size_t from = 0; from < c->count; from++)
        judge_names(c, from, f);
    judge_speeds(c, f);
    count_untested(c, f);
}
