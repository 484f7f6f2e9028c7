/* Compares a host's memory with what its workers need, as far as the network is known. */
#include "deploy/doctor/findings/findings_private.h"

#include <inttypes.h>
#include <stdio.h>

/* free memory for each slot; less than this is too little for any network */
#define MEMORY_LEAST_BYTES ((uint64_t)512 << 20)

/* Writes which batch size would fit into this much memory for each slot. */
static void advise_memory(const psr_checkup *c, const psr_checkup_host *h, uint64_t bytes,
                          bool never, char right[200])
{
    const uint64_t fixed = h->facts.fixed_bytes, sample = h->facts.sample_bytes,
                   share = bytes / h->host.slots;
    const uint64_t batch = share > fixed && sample > 0 ? (share - fixed) / sample : 0;
    const uint64_t slots = bytes / psr_checkup_worker_bytes(c, h);
    char fewer[48] = "", smaller[64] = "";
    if (slots > 0)
        snprintf(fewer, sizeof fewer, "give it %" PRIu64 " slot%s, or ", slots,
                 slots == 1 ? "" : "s");
    if (batch > 0)
        snprintf(smaller, sizeof smaller, "--batch-size %" PRIu64 " or less, or ", batch);
    snprintf(right, 200, "%s%s%s", fewer, smaller,
             never ? "a smaller --model, or another host" : "free some");
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* What is left of a host's memory beside the data, which lie there once. */
static uint64_t beside_data(const psr_host_facts *facts, uint64_t bytes)
{
    return bytes > facts->data_bytes ? bytes - facts->data_bytes : 0;
}

/* Compares with what the network's workers need. If the network is not known, compares with the
 * least that any network needs. */
void psr_findings_of_memory(const psr_checkup *c, const psr_checkup_host *h, psr_findings *f)
{
    const psr_host_facts *facts = &h->facts;
    const uint64_t worker = psr_checkup_worker_bytes(c, h),
                   for_workers = beside_data(facts, facts->memory_free_bytes),
                   most = beside_data(facts, facts->memory_bytes),
                   share = for_workers / h->host.slots;
    char right[200], data[40] = "";
    if (facts->model_failure[0] != '\0')
        psr_findings_add(f, PSR_FINDING_STOPS, "model", h->host.name,
                         "name another --model or image size, or other --data", "%s",
                         facts->model_failure);
    if (worker == 0 && share < MEMORY_LEAST_BYTES)
        psr_findings_add(f, PSR_FINDING_SLOWS, "memory", h->host.name,
                         "free some, or give it fewer slots",
                         "%.1f GiB of memory are free for %" PRIu32 " slots",
                         gib(facts->memory_free_bytes), h->host.slots);
    if (worker <= share)
        return;
    const bool never = worker > most / h->host.slots;
    advise_memory(c, h, never ? most : for_workers, never, right);
    if (gib(facts->data_bytes) >= 0.05)
        snprintf(data, sizeof data, ", the data %.1f GiB", gib(facts->data_bytes));
    psr_findings_add(
        f, never ? PSR_FINDING_STOPS : PSR_FINDING_SLOWS, "memory", h->host.name, right,
        "a worker of %s with batches of %" PRIu32 " takes about %.1f GiB, %" PRIu32
        " slot%s %.1f GiB%s; of %.1f GiB %.1f are free",
        c->model, c->batch_size, gib(worker), h->host.slots, h->host.slots == 1 ? "" : "s",
        gib(worker) * h->host.slots, data, gib(facts->memory_bytes), gib(facts->memory_free_bytes));
}
