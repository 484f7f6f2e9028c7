#include "deploy/lab/predicted.h"

#include "base/config/config.h"
#include "base/text/text.h"
#include "base/text/units.h"

#include <inttypes.h>

#define FRAME_BYTES 66 /* as tc counts frames: headers of TCP with timestamps, IP and Ethernet */
#define LATENCY_US 20  /* through two network devices of this machine and a bridge */

static psr_err refuse(const char *what)
{
    return psr_fail(PSR_ERR_USAGE, "--lab: %s", what);
}

static psr_err check_hosts(const psr_lab *lab, uint32_t *ret_slots)
{
    uint32_t slots = 0;
    const double loss = lab->hosts[0].loss;
    for (size_t i = 0; i < lab->host_count; i++) {
        const psr_lab_host *h = &lab->hosts[i];
        if (h->shards > 1 || (h->shards > 0 && h->slots > 0))
            return refuse("a host with several shards, or with shards and workers of its own, is "
                          "not predicted");
        if (h->slots > 0 && slots > 0 && h->slots != slots)
            return refuse("hosts with different numbers of workers are not predicted");
        if (h->loss != loss)
            return refuse("hosts with different shares of lost packets are not predicted");
        slots = h->slots > 0 ? h->slots : slots;
    }
    *ret_slots = slots;
    return PSR_OK;
}

static psr_err check_uplinks(const psr_lab *lab)
{
    for (size_t s = 1; s < lab->switch_count; s++) {
        uint64_t below = 0;
        for (size_t i = 0; i < lab->host_count; i++)
            below += lab->hosts[i].in_switch == s ? lab->hosts[i].link.rate_bits_per_s : 0;
        if (lab->switches[s].uplink.rate_bits_per_s < below)
            return refuse(
                "an uplink that carries less than the links of its hosts is not predicted");
    }
    return PSR_OK;
}

static psr_text_end add(psr_lab_predicted *p)
{
    p->words[p->count] = p->texts[p->count];
    return (psr_text_end){p->texts[p->count++], sizeof p->texts[0]};
}

static void add_word(psr_lab_predicted *p, const char *name, uint64_t value)
{
    psr_text_end end = add(p);
    psr_text_add(&end, "--%s=%" PRIu64, name, value);
}

/* Of hosts with workers, then of those with shards; returns how many have workers. */
static uint32_t add_hosts(const psr_lab *lab, psr_lab_predicted *p)
{
    psr_text_end links = add(p), slow = add(p);
    const char *between = "";
    uint32_t hosts = 0;
    psr_text_add(&links, "--host-links=");
    psr_text_add(&slow, "--slow=");
    for (int workers = 1; workers >= 0; workers--)
        for (size_t i = 0; i < lab->host_count; i++) {
            const psr_lab_host *h = &lab->hosts[i];
            char rate[PSR_RATE_TEXT_BYTES];
            if ((h->slots > 0) != workers)
                continue;
            hosts += h->slots > 0;
            psr_rate_print(h->link.rate_bits_per_s, rate);
            psr_text_add(&links, "%s%s", between, rate);
            psr_text_add(&slow, "%s%g", between, h->slow);
            between = ",";
        }
    return hosts;
}

psr_err psr_lab_predict(const psr_lab *lab, uint32_t processors, psr_lab_predicted *ret_predicted)
{
    psr_lab_predicted *p = ret_predicted;
    uint32_t slots = 0;
    PSR_TRY(check_hosts(lab, &slots));
    PSR_TRY(check_uplinks(lab));
    p->count = 0;
    add_word(p, "hosts", add_hosts(lab, p));
    add_word(p, "workers-per-host", slots);
    add_word(p, "processors", processors);
    add_word(p, "frame-bytes", FRAME_BYTES);
    add_word(p, "latency", LATENCY_US);
    psr_text_end loss = add(p), placement = add(p);
    psr_text_add(&loss, "--loss=%.9g", lab->hosts[0].loss);
    if (psr_lab_shards(lab) > 0) {
        psr_text_add(&placement, "--placement=dedicated");
        add_word(p, "shards", psr_lab_shards(lab));
    } else {
        psr_text_add(&placement, "--placement=beside");
    }
    return PSR_OK;
}
