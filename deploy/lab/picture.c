#include "deploy/lab/picture.h"

#include "base/text/printable.h"
#include "base/text/text.h"
#include "base/text/units.h"

#include <inttypes.h>
#include <string.h>

static void describe_link(const psr_lab_link *link, char *text, size_t size)
{
    char rate[PSR_RATE_TEXT_BYTES];
    psr_rate_print(link->rate_bits_per_s, rate);
    snprintf(text, size, "%s, queue %" PRIu64 "K, burst %" PRIu64 "K", rate,
             link->queue_bytes >> 10, link->burst_bytes >> 10);
}

static void describe_host(const psr_lab_host *host, size_t index, char *text, size_t size)
{
    psr_text_end end = {text, size};
    char address[PSR_LAB_ADDRESS_BYTES];
    psr_lab_address(index, address);
    psr_text_add(&end, "%s  %s", host->name, address);
    if (host->slots > 0)
        psr_text_add(&end, "  %u worker%s", host->slots, host->slots > 1 ? "s" : "");
    if (host->shards > 0)
        psr_text_add(&end, "  %u shard%s", host->shards, host->shards > 1 ? "s" : "");
    if (host->slow > 1)
        psr_text_add(&end, "  slow %.6g", host->slow);
    if (host->loss > 0)
        psr_text_add(&end, "  %.6g%% lost", 100 * host->loss);
    if (host->congestion[0] != '\0')
        psr_text_add(&end, "  %s", host->congestion);
}

static void draw_switch(const psr_lab *lab, uint32_t index, const char *margin, FILE *to)
{
    char link[96], host[256];
    for (size_t i = 0; i < lab->host_count; i++) {
        if (lab->hosts[i].in_switch != index)
            continue;
        describe_link(&lab->hosts[i].link, link, sizeof link);
        describe_host(&lab->hosts[i], i, host, sizeof host);
        psr_print(to, "%s+--[ %s ]--  %s\n", margin, link, host);
    }
}

void psr_lab_picture(const psr_lab *lab, FILE *to)
{
    char link[96];
    psr_print(to, "switch\n");
    draw_switch(lab, 0, "  ", to);
    for (uint32_t k = 1; k < lab->switch_count; k++) {
        describe_link(&lab->switches[k].uplink, link, sizeof link);
        psr_print(to, "  |\n  +--[ %s ]--  switch %s\n", link, lab->switches[k].name);
        draw_switch(lab, k, "        ", to);
    }
}

static void print_link(const char *key, const psr_lab_link *link, FILE *to)
{
    char rate[PSR_RATE_TEXT_BYTES];
    psr_rate_print(link->rate_bits_per_s, rate);
    psr_print(to, " %s=%s queue=%" PRIu64 " burst=%" PRIu64, key, rate, link->queue_bytes,
              link->burst_bytes);
}

void psr_lab_print(const psr_lab *lab, FILE *to)
{
    for (size_t k = 1; k < lab->switch_count; k++) {
        psr_print(to, "switch %s", lab->switches[k].name);
        print_link("uplink", &lab->switches[k].uplink, to);
        psr_print(to, "\n");
    }
    for (size_t i = 0; i < lab->host_count; i++) {
        const psr_lab_host *host = &lab->hosts[i];
        psr_print(to, "host %s", host->name);
        print_link("rate", &host->link, to);
        psr_print(to, " slots=%u shards=%u slow=%.6g", host->slots, host->shards, host->slow);
        if (host->loss > 0)
            psr_print(to, " loss=%.9g%%", 100 * host->loss);
        if (host->in_switch > 0)
            psr_print(to, " switch=%s", lab->switches[host->in_switch].name);
        if (host->congestion[0] != '\0')
            psr_print(to, " congestion=%s", host->congestion);
        psr_print(to, "\n");
    }
}
