#include "net/sharing/landing.h"

#include "net/sharing/borrower.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22 /* Linux 5.14 */
#endif

typedef struct run {
    bool own;                 /* its pages are the array's own; otherwise: */
    psr_borrowed_place place; /* the payload whose pages are mapped */
} run;

struct psr_landing {
    float *values;
    run *runs;
    uint32_t mapped; /* runs with pages that are not their own */
    size_t page_bytes;
};

/* The whole pages of a run. */
typedef struct pages {
    uint8_t *begin;
    size_t bytes;
} pages;

static pages pages_of(const psr_landing *landing, uint8_t *begin, size_t bytes)
{
    size_t before = -(uintptr_t)begin % landing->page_bytes;
    return before < bytes ? (pages){begin + before,
                                    (bytes - before) / landing->page_bytes * landing->page_bytes}
                          : (pages){begin, 0};
}

/* ---- mapping ---- */

static void set_own(psr_landing *landing, run *r, bool own)
{
    if (r->own && !own)
        landing->mapped++;
    if (!r->own && own)
        landing->mapped--;
    r->own = own;
}

/* The kernel's own. UCX, which MPI libraries bring into a process, replaces the C library's by one
 * that takes four arguments: without the new place, pages go elsewhere and the call succeeds
 * (libucm 1.13). */
static void *move_pages(void *from, size_t old_bytes, pages to, int flags)
{
    return (void *)syscall(SYS_mremap, from, old_bytes, to.bytes, flags, to.begin);
}

/* Whether the pages at `from`, another process's memory, are those of the run now. A mapping that
 * fails where others are may have taken these away; so the new one is made where nothing is, with
 * its pages at hand, and then moved. It is a second one of what the borrower has mapped already,
 * rather than one of the descriptor, of which every arena of every member would need one for
 * life. */
static bool map(psr_landing *landing, run *r, pages to, const void *from, psr_borrowed_place place)
{
    void *made = move_pages((void *)(uintptr_t)from, 0, to, MREMAP_MAYMOVE);
    if (made == MAP_FAILED)
        return false;
    /* Where the kernel cannot, whoever reads them first faults. */
    (void)madvise(made, to.bytes, MADV_POPULATE_READ);
    set_own(landing, r, false);
    r->place = PSR_BORROWED_NOWHERE;
    if (move_pages(made, to.bytes, to, MREMAP_MAYMOVE | MREMAP_FIXED) == MAP_FAILED) {
        munmap(made, to.bytes);
        return false;
    }
    r->place = place;
    return true;
}

/* So that the run can be written. */
static psr_err own(psr_landing *landing, run *r, pages to)
{
    if (r->own)
        return PSR_OK;
    if (mmap(to.begin, to.bytes, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %zu bytes that lay in another process's: %s",
                        to.bytes, strerror(errno));
    (void)madvise(to.begin, to.bytes, MADV_NOHUGEPAGE);
    set_own(landing, r, true);
    return PSR_OK;
}

/* ---- taking ---- */

/* Whether the payload lies so that its pages can be the run's. */
static bool fits(const psr_landing *landing, const run *r, pages to, const uint8_t *begin,
                 const psr_message *message, psr_borrowed_place *ret_place)
{
    bool aligned = ((uintptr_t)message->payload - (uintptr_t)begin) % landing->page_bytes == 0;
    bool room = !r->own || landing->mapped < PSR_LANDING_RUNS_MAX;
    return to.bytes >= PSR_LANDING_LEAST && aligned && room &&
           psr_borrowed_place_of(message, ret_place);
}

static bool lies_there(const run *r, psr_borrowed_place place)
{
    return !r->own && r->place.arena == place.arena && r->place.offset == place.offset;
}

psr_err psr_landing_take(psr_landing *landing, uint32_t index, psr_span span,
                         const psr_message *message)
{
    run *r = &landing->runs[index];
    uint8_t *begin = (uint8_t *)(landing->values + span.offset);
    const uint8_t *payload = message->payload;
    size_t bytes = span.count * sizeof(float);
    assert(message->payload_bytes == bytes);
    pages to = pages_of(landing, begin, bytes);
    size_t before = (size_t)(to.begin - begin), after = before + to.bytes;
    psr_borrowed_place place;
    if (fits(landing, r, to, begin, message, &place) &&
        (lies_there(r, place) || map(landing, r, to, payload + before, place))) {
        memcpy(begin, payload, before);
        memcpy(begin + after, payload + after, bytes - after);
        return PSR_OK;
    }
    PSR_TRY(own(landing, r, to));
    memcpy(begin, payload, bytes);
    return PSR_OK;
}

psr_err psr_landing_show(psr_landing *landing, uint32_t index, psr_span span,
                         const psr_message *message)
{
    run *r = &landing->runs[index];
    uint8_t *begin = (uint8_t *)(landing->values + span.offset);
    assert(message->payload_bytes == span.count * sizeof(float));
    pages to = pages_of(landing, begin, message->payload_bytes);
    psr_borrowed_place place;
    if (!r->own || !fits(landing, r, to, begin, message, &place) ||
        map(landing, r, to, (const uint8_t *)message->payload + (to.begin - begin), place))
        return PSR_OK;
    return r->own ? PSR_OK
                  : psr_fail(PSR_ERR_NOMEM, "%zu bytes were to be mapped, and are gone: %s",
                             to.bytes, strerror(errno));
}

uint32_t psr_landing_mapped(const psr_landing *landing)
{
    return landing->mapped;
}

/* ---- beginning and end ---- */

psr_err psr_landing_new(float *values, size_t count, uint32_t runs, psr_landing **ret_landing)
{
    psr_landing *landing = calloc(1, sizeof *landing);
    run *items = calloc((size_t)runs + 1, sizeof *items);
    if (landing == NULL || items == NULL) {
        free(landing);
        free(items);
        return psr_fail(PSR_ERR_NOMEM, "no memory for %u runs", (unsigned)runs);
    }
    for (uint32_t i = 0; i < runs; i++)
        items[i].own = true;
    *landing =
        (psr_landing){.values = values, .runs = items, .page_bytes = (size_t)sysconf(_SC_PAGESIZE)};
    /* The kernel keeps all of a huge page while any part of it is in use: here for what is copied
     * at the ends of runs. */
    (void)madvise(values, count * sizeof *values, MADV_NOHUGEPAGE);
    *ret_landing = landing;
    return PSR_OK;
}

void psr_landing_free(psr_landing *landing)
{
    if (landing == NULL)
        return;
    free(landing->runs);
    free(landing);
}
