#include "bench/emulation/processors.h"

#include <math.h>
#include <stdlib.h>

void psr_processors_init(psr_processors *processors, uint32_t count)
{
    *processors = (psr_processors){.count = count};
}

void psr_processors_done(psr_processors *processors)
{
    free(processors->heap);
    *processors = (psr_processors){.heap = NULL};
}

/* How fast each job gets on. */
static double speed(const psr_processors *p)
{
    return p->threads > p->count ? p->count / p->threads : 1;
}

static void pass(psr_processors *p, double now_ns)
{
    if (now_ns <= p->now_ns)
        return;
    p->shared_ns += (now_ns - p->now_ns) * speed(p);
    p->now_ns = now_ns;
}

static int ends_earlier(const psr_processor_job *a, const psr_processor_job *b)
{
    return a->ends_at_ns != b->ends_at_ns ? a->ends_at_ns < b->ends_at_ns : a->number < b->number;
}

static void swap(psr_processor_job *a, psr_processor_job *b)
{
    const psr_processor_job t = *a;
    *a = *b;
    *b = t;
}

psr_err psr_processors_begin(psr_processors *p, double now_ns, double work_ns,
                             const psr_processor_job *job)
{
    if (p->jobs == p->capacity) {
        const size_t capacity = p->capacity > 0 ? 2 * p->capacity : 64;
        psr_processor_job *heap = realloc(p->heap, capacity * sizeof *heap);
        if (heap == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for %zu jobs", capacity);
        p->heap = heap;
        p->capacity = capacity;
    }
    pass(p, now_ns);
    size_t i = p->jobs++;
    p->heap[i] = *job;
    p->heap[i].ends_at_ns = p->shared_ns + work_ns;
    p->heap[i].number = p->numbers++;
    p->threads += job->threads;
    for (; i > 0 && ends_earlier(&p->heap[i], &p->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&p->heap[i], &p->heap[(i - 1) / 2]);
    return PSR_OK;
}

double psr_processors_next_ns(const psr_processors *p)
{
    if (p->jobs == 0)
        return INFINITY;
    const double left_ns = p->heap[0].ends_at_ns - p->shared_ns;
    return p->now_ns + (left_ns > 0 ? left_ns / speed(p) : 0);
}

psr_processor_job psr_processors_end(psr_processors *p)
{
    const psr_processor_job first = p->heap[0];
    pass(p, psr_processors_next_ns(p));
    p->threads -= first.threads;
    p->heap[0] = p->heap[--p->jobs];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2; child++)
            if (child < p->jobs && ends_earlier(&p->heap[child], &p->heap[least]))
                least = child;
        if (least == i)
            return first;
        swap(&p->heap[i], &p->heap[least]);
        i = least;
    }
}
