#include "deploy/doctor/picture.h"

#include "base/text/printable.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HOST_WIDTH_MAX 18
#define ADDRESS_WIDTH_MAX 15
#define PROCESSOR_WIDTH 46
#define BACK_END_WIDTH_MAX 26
#define HOSTS_IN_TABLE 9 /* a table of more hosts would not fit 80 columns */
#define GIB ((double)(1 << 30))

/* ---- hosts ---- */

/* "avx512_core_amx, 2.6.3" of "onednn 2.6.3 cpu_isa_avx512_core_amx openmp" */
static void describe_back_end(const psr_host_facts *f, char text[40])
{
    char version[16] = "", isa[32] = "";
    if (sscanf(f->identity, "onednn %15s %31s", version, isa) != 2)
        snprintf(text, 40, "%.39s", f->identity[0] ? f->identity : "no psring-worker");
    else
        snprintf(text, 40, "%s, %s", strncmp(isa, "cpu_isa_", 8) == 0 ? isa + 8 : isa, version);
}

/* How many cores may be used, and how many there are. */
static void describe_cores(const psr_host_facts *f, char text[32])
{
    double limit = (double)f->cpu_limit_milli / 1000, allowed = (double)f->cores_allowed;
    double usable = limit < allowed ? limit : allowed;
    if (usable < (double)f->cores)
        snprintf(text, 32, "%.3g/%" PRIu64, usable, f->cores);
    else
        snprintf(text, 32, "%" PRIu64, f->cores);
}

static void describe_clock(const psr_checkup_host *h, char text[32])
{
    if (h->clock_known)
        /* not -0.0000 */
        snprintf(text, 32, "%+.4f", fabs(h->clock_s) < 0.00005 ? 0.0 : h->clock_s);
    else
        snprintf(text, 32, "?");
}

static int width_of_names(const psr_checkup *c)
{
    int width = 4;
    for (size_t i = 0; i < c->count; i++) {
        int length = (int)strlen(c->hosts[i].host.name);
        width = length > width ? length : width;
    }
    return width < HOST_WIDTH_MAX ? width : HOST_WIDTH_MAX;
}

static void print_host(FILE *to, const psr_checkup *c, size_t i, int width)
{
    const psr_checkup_host *h = &c->hosts[i];
    char cores[32], clock[32];
    psr_print(to, "%3zu  %-*.*s", i, width, width, h->host.name);
    if (h->stage != PSR_DOCTOR_PROBED) {
        psr_print(to, "  %5" PRIu32 "  no answer, see below\n", h->host.slots);
        return;
    }
    describe_cores(&h->facts, cores);
    describe_clock(h, clock);
    psr_print(to, "  %5" PRIu32 "  %-*.*s  %6.6s  %8.1f  %9.9s\n", h->host.slots, ADDRESS_WIDTH_MAX,
              ADDRESS_WIDTH_MAX, h->facts.address, cores, (double)h->facts.memory_free_bytes / GIB,
              clock);
}

static void print_hosts(FILE *to, const psr_checkup *c)
{
    const int width = width_of_names(c);
    psr_print(to, "     %-*s  slots  %-*s   cores  free GiB   clock, s\n", width, "host",
              ADDRESS_WIDTH_MAX, "address");
    for (size_t i = 0; i < c->count; i++)
        print_host(to, c, i, width);
}

/* Prints data and memory as the first host reports them. If hosts differ, a finding says so. */
static void print_planned(FILE *to, const psr_checkup *c)
{
    for (size_t i = 0; i < c->count && c->data != NULL; i++) {
        const psr_host_facts *f = &c->hosts[i].facts;
        if (f->data[0] == '\0')
            continue;
        psr_print(to, "     data: %s\n", f->data);
        if (f->fixed_bytes > 0)
            psr_print(
                to,
                "     memory: about %.2f GiB for each slot, a worker of %s with batches of %" PRIu32
                "\n",
                (double)psr_checkup_worker_bytes(c, &c->hosts[i]) / GIB, c->model, c->batch_size);
        return;
    }
}

/* ---- what the hosts are ---- */

static void describe_bytes(uint64_t bytes, char text[16])
{
    if (bytes >= PSR_FACT_UNLIMITED)
        snprintf(text, 16, "any");
    else if (bytes >= 10ull << 30)
        snprintf(text, 16, "%" PRIu64 "G", bytes >> 30);
    else if (bytes >= 1 << 20)
        snprintf(text, 16, "%" PRIu64 "M", bytes >> 20);
    else
        snprintf(text, 16, "%" PRIu64 "K", bytes >> 10);
}

#define KIND_BYTES 224

/* Two lines, so that both fit 80 columns. */
static void describe_kind(const psr_host_facts *f, char text[KIND_BYTES])
{
    char back_end[40], l1[16], l2[16], l3[16], locked[16], files[24] = "any";
    describe_back_end(f, back_end);
    describe_bytes(f->l1_bytes, l1);
    describe_bytes(f->l2_bytes, l2);
    describe_bytes(f->l3_bytes, l3);
    describe_bytes(f->locked_bytes_max, locked);
    if (f->files_max < PSR_FACT_UNLIMITED)
        snprintf(files, sizeof files, "%" PRIu64, f->files_max);
    const char *zmq = strncmp(f->library, "libzmq ", 7) == 0 ? f->library + 7 : f->library;
    snprintf(text, KIND_BYTES,
             "%-*.*s  %.*s\n     %4.4s  %4.4s  %4.4s  %8.8s  %6.6s  %-7.7s  %-5.5s  %.6s",
             PROCESSOR_WIDTH, PROCESSOR_WIDTH, f->processor, BACK_END_WIDTH_MAX, back_end, l1, l2,
             l3, files, locked, f->huge_pages[0] ? f->huge_pages : "none", f->congestion, zmq);
}

/* The hosts from first on, up to last, are like the one above; SIZE_MAX: none is. */
static void print_alike(FILE *to, size_t first, size_t last)
{
    if (first == last)
        psr_print(to, "%3zu  as the one above\n", first);
    else if (first != SIZE_MAX)
        psr_print(to, "%3zu  to %zu as the one above\n", first, last);
}

/* Devices and libraries of CUDA, as far as 100 columns hold them; findings have what is missing. */
static void describe_gpus(const psr_host_facts *f, char text[KIND_BYTES])
{
    const char *none = f->cuda_libraries[0] ? "none" : f->cuda_missing[0] ? f->cuda_missing : "?";
    snprintf(text, KIND_BYTES, "%.94s%s%.94s", f->cuda_devices[0] ? f->cuda_devices : none,
             f->cuda_libraries[0] ? "\n     " : "", f->cuda_libraries);
}

static void print_rows(FILE *to, const psr_checkup *c,
                       void (*describe)(const psr_host_facts *f, char text[KIND_BYTES]))
{
    char kind[KIND_BYTES], before[KIND_BYTES] = "";
    size_t first = SIZE_MAX, last = 0;
    for (size_t i = 0; i < c->count; i++) {
        const bool probed = c->hosts[i].stage == PSR_DOCTOR_PROBED;
        if (probed)
            describe(&c->hosts[i].facts, kind);
        if (probed && strcmp(kind, before) == 0) {
            first = first == SIZE_MAX ? i : first;
            last = i;
            continue;
        }
        print_alike(to, first, last);
        first = SIZE_MAX;
        if (!probed)
            continue;
        psr_print(to, "%3zu  %s\n", i, kind);
        strcpy(before, kind);
    }
    print_alike(to, first, last);
}

static void print_kinds(FILE *to, const psr_checkup *c)
{
    psr_print(to, "\n     %-*s  %s\n", PROCESSOR_WIDTH, "processor", "back end");
    psr_print(to, "     %4s  %4s  %4s  %8s  %6s  %-7s  %-5s  %s\n", "L1", "L2", "L3", "files",
              "locked", "pages", "tcp", "libzmq");
    print_rows(to, c, describe_kind);
    psr_print(to, "\n     GPUs (psring computes on processors alone)\n");
    print_rows(to, c, describe_gpus);
}

/* ---- ways ---- */

static double round_trip_ms(const psr_checkup_pair *p)
{
    return (double)p->round_trip_ns * 1e-6;
}

static double megabytes_per_s(const psr_checkup_pair *p)
{
    return (double)p->bytes_per_s * 1e-6;
}

static void describe_way(const psr_checkup_pair *p, double value, char cell[16])
{
    if (p->measured)
        snprintf(cell, 16, value < 10 ? "%.2f" : value < 100 ? "%.1f" : "%.0f", value);
    else
        snprintf(cell, 16, "%s",
                 p->tried && !p->connected       ? "closed"
                 : p->measure_failure[0] != '\0' ? "fails"
                                                 : "?");
}

static void print_table(FILE *to, const psr_checkup *c,
                        double (*value_of)(const psr_checkup_pair *p))
{
    char cell[16];
    psr_print(to, "   ");
    for (size_t i = 0; i < c->count; i++)
        psr_print(to, " %7zu", i);
    psr_print(to, "\n");
    for (size_t from = 0; from < c->count; from++) {
        psr_print(to, "%3zu", from);
        for (size_t k = 0; k < c->count; k++) {
            const psr_checkup_pair *p = psr_checkup_pair_of(c, from, k);
            describe_way(p, value_of(p), cell);
            psr_print(to, " %7s", from == k ? "-" : cell);
        }
        psr_print(to, "\n");
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* For more hosts than a table has room for. Without memory it is left out. */
static void print_range(FILE *to, const psr_checkup *c,
                        double (*value_of)(const psr_checkup_pair *p))
{
    double *values = calloc(c->count * c->count, sizeof *values);
    size_t count = 0;
    for (size_t i = 0; i < c->count * c->count && values != NULL; i++)
        if (c->pairs[i].measured)
            values[count++] = value_of(&c->pairs[i]);
    if (count > 0) {
        qsort(values, count, sizeof *values, by_value);
        psr_print(to, "     least %.3g, middle %.3g, most %.3g of %zu ways; --json has each\n",
                  values[0], values[count / 2], values[count - 1], count);
    }
    free(values);
}

static void print_ways(FILE *to, const psr_checkup *c)
{
    void (*print)(FILE * to, const psr_checkup *c, double (*value_of)(const psr_checkup_pair *p)) =
        c->count <= HOSTS_IN_TABLE ? print_table : print_range;
    bool tried = false;
    for (size_t i = 0; i < c->count * c->count; i++)
        tried |= c->pairs[i].tried && i / c->count != i % c->count;
    if (!tried)
        return;
    psr_print(to, "\nround trip of a message without payload, ms (row to column and back)\n");
    print(to, c, round_trip_ms);
    psr_print(to, "\nbandwidth of encrypted messages of 1 MiB, %d at once, MB/s (row to column)\n",
              PSR_PROBE_WINDOW);
    print(to, c, megabytes_per_s);
}

/* ---- findings ---- */

static void print_findings(FILE *to, const psr_findings *f)
{
    static const char *const titles[] = {"would stop a run", "would slow a run down, or mislead",
                                         "could not be tested", "good to know"};
    for (size_t i = 0; i < f->count; i++) {
        const psr_finding *finding = &f->items[i];
        if (i == 0 || f->items[i - 1].level != finding->level)
            psr_print(to, "\n%s\n", titles[finding->level]);
        psr_print(to, "  %-13s  %s: %s\n", finding->check, finding->where, finding->what);
        if (finding->right[0] != '\0')
            psr_print(to, "  %-13s  -> %s\n", "", finding->right);
    }
}

static void print_verdict(FILE *to, const psr_findings *f)
{
    const size_t stops = psr_findings_at(f, PSR_FINDING_STOPS),
                 slows = psr_findings_at(f, PSR_FINDING_SLOWS);
    if (stops + slows == 0)
        psr_print(to, "\nNothing was found that would stop a run or slow it down.\n");
    else
        psr_print(to,
                  "\n%zu would stop a run, %zu would slow it down or mislead; docs/doctor.md has "
                  "each check.\n",
                  stops, slows);
}

void psr_picture_print(FILE *to, const psr_checkup *checkup, const psr_findings *findings)
{
    psr_print(to, "psring %s   %zu host%s, %" PRIu32 " slot%s\n\n", PSR_VERSION, checkup->count,
              checkup->count == 1 ? "" : "s", psr_checkup_slots(checkup),
              psr_checkup_slots(checkup) == 1 ? "" : "s");
    print_hosts(to, checkup);
    print_planned(to, checkup);
    print_kinds(to, checkup);
    print_ways(to, checkup);
    print_findings(to, findings);
    print_verdict(to, findings);
}
