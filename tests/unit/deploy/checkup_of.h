/* A checkup of hosts that are well, for tests to break: node1, node2, .. with two slots each, all
 * reached and measured. */
#ifndef PSR_TESTS_CHECKUP_OF_H
#define PSR_TESTS_CHECKUP_OF_H

#include "tests/unit/expect.h"

#include "deploy/doctor/checkup.h"

#include <stdio.h>

static inline psr_host_facts facts_of(size_t host)
{
    psr_host_facts f = {.interface = "eth0",
                        .mtu_bytes = 1500,
                        .congestion = "cubic",
                        .identity = "onednn 3.7.2 cpu_isa_avx2 openmp",
                        .library = "libzmq 4.3.5",
                        .processor = "A processor",
                        .cores = 8,
                        .cores_allowed = 8,
                        .cpu_limit_milli = PSR_FACT_UNLIMITED,
                        .l1_bytes = 32 << 10,
                        .l2_bytes = 1 << 20,
                        .l3_bytes = 32 << 20,
                        .memory_bytes = (uint64_t)16 << 30,
                        .memory_free_bytes = (uint64_t)12 << 30,
                        .files_max = 524288,
                        .locked_bytes_max = 8 << 20,
                        .huge_pages = "madvise",
                        .shm_free_bytes = 1 << 30};
    snprintf(f.hostname, sizeof f.hostname, "node%zu", host + 1);
    snprintf(f.address, sizeof f.address, "10.0.0.%zu", host + 1);
    snprintf(f.own_address, sizeof f.own_address, "10.0.0.%zu", host + 1);
    snprintf(f.endpoint, sizeof f.endpoint, "tcp://10.0.0.%zu:4242", host + 1);
    return f;
}

/* psr_checkup_done it. */
static inline psr_checkup checkup_of(size_t count)
{
    psr_hosts hosts = {0};
    psr_checkup c;
    char name[32];
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "node%zu", i + 1);
        expect_ok(psr_hosts_add(&hosts, name, 2));
    }
    expect_ok(psr_checkup_init(&hosts, &c));
    psr_hosts_done(&hosts);
    for (size_t i = 0; i < count; i++) {
        psr_checkup_host *h = &c.hosts[i];
        h->stage = PSR_DOCTOR_PROBED;
        h->facts = facts_of(i);
        h->clock_known = true;
        h->clock_within_s = 0.001;
        snprintf(h->machine, sizeof h->machine, "machine-%zu", i);
        for (size_t k = 0; k < count; k++) {
            psr_checkup_pair *p = psr_checkup_pair_of(&c, i, k);
            p->looked_up = true;
            snprintf(p->looked_up_as, sizeof p->looked_up_as, "10.0.0.%zu", k + 1);
            p->tried = p->connected = true;
            snprintf(p->source, sizeof p->source, "10.0.0.%zu", i + 1);
            if (k == i)
                continue;
            p->measured = true;
            p->round_trip_ns = 90000;
            p->bytes_per_s = 1000000000;
        }
    }
    return c;
}

/* The way from one host to another is closed. */
static inline void close_way(psr_checkup *c, size_t from, size_t to, const char *failure)
{
    psr_checkup_pair *p = psr_checkup_pair_of(c, from, to);
    p->connected = p->measured = false;
    snprintf(p->connect_failure, sizeof p->connect_failure, "%s", failure);
}

#endif
