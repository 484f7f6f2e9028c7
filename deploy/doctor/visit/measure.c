#include "deploy/doctor/visit/measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

psr_measure psr_measure_begin(int64_t now_ns, int64_t bytes_ns, int64_t within_ns)
{
    return (psr_measure){
        .phase = PSR_MEASURE_CONNECTING, .end_ns = now_ns + within_ns, .bytes_ns = bytes_ns};
}

bool psr_measure_next(psr_measure *m, int64_t now_ns, uint64_t *ret_number, size_t *ret_bytes)
{
    uint64_t window = 1;
    if (m->phase >= PSR_MEASURE_DONE)
        return false;
    if (m->phase == PSR_MEASURE_BYTES) {
        if (m->large > 0 && now_ns - m->begun_ns >= m->bytes_ns) {
            m->phase = m->sent == m->answered ? PSR_MEASURE_DONE : m->phase;
            return false;
        }
        window = m->large > 0 ? PSR_PROBE_WINDOW : 1;
    }
    if (m->sent - m->answered >= window)
        return false;
    m->sent_ns = now_ns;
    *ret_number = m->sent++;
    *ret_bytes = m->phase == PSR_MEASURE_BYTES ? PSR_PROBE_MESSAGE_BYTES : 0;
    return true;
}

static void take_round(psr_measure *m, int64_t now_ns)
{
    m->rounds_ns[m->rounds++] = now_ns - m->sent_ns;
    if (m->rounds < PSR_MEASURE_ROUND_TRIPS)
        return;
    m->phase = PSR_MEASURE_BYTES;
    m->begun_ns = now_ns;
}

static void take_large(psr_measure *m, int64_t now_ns)
{
    m->large++;
    m->last_ns = now_ns;
    if (m->large == 1)
        m->first_ns = now_ns;
}

bool psr_measure_answered(psr_measure *m, uint64_t number, int64_t now_ns)
{
    if (number != m->answered || number >= m->sent) /* a channel is first-in first-out */
        return false;
    m->answered++;
    switch (m->phase) {
    case PSR_MEASURE_CONNECTING:
        m->phase = PSR_MEASURE_ROUNDS;
        break;
    case PSR_MEASURE_ROUNDS:
        take_round(m, now_ns);
        break;
    case PSR_MEASURE_BYTES:
        take_large(m, now_ns);
        break;
    case PSR_MEASURE_DONE:
    case PSR_MEASURE_FAILED:
        break;
    }
    return true;
}

void psr_measure_tick(psr_measure *m, int64_t now_ns)
{
    if (now_ns >= m->end_ns && m->phase < PSR_MEASURE_DONE)
        m->phase = PSR_MEASURE_FAILED;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static uint64_t median_of(const psr_measure *m)
{
    int64_t sorted[PSR_MEASURE_ROUND_TRIPS];
    memcpy(sorted, m->rounds_ns, sizeof sorted);
    qsort(sorted, PSR_MEASURE_ROUND_TRIPS, sizeof *sorted, by_value);
    return (uint64_t)(sorted[PSR_MEASURE_ROUND_TRIPS / 2 - 1] +
                      sorted[PSR_MEASURE_ROUND_TRIPS / 2]) /
           2;
}

static uint64_t bandwidth_of(const psr_measure *m)
{
    uint64_t messages = m->large > 1 ? m->large - 1 : m->large;
    int64_t taken_ns = m->last_ns - (m->large > 1 ? m->first_ns : m->begun_ns);
    return (uint64_t)((double)messages * PSR_PROBE_MESSAGE_BYTES /
                      ((double)(taken_ns > 0 ? taken_ns : 1) * 1e-9));
}

void psr_measure_result(const psr_measure *m, psr_checkup_pair *ret_pair)
{
    static const char *const what[] = {
        [PSR_MEASURE_CONNECTING] =
            "a connection came about, but no message of psring's was answered",
        [PSR_MEASURE_ROUNDS] = "short messages stopped being answered",
        [PSR_MEASURE_BYTES] = "short messages are answered, but messages of 1 MiB are not",
    };
    ret_pair->measured = m->phase == PSR_MEASURE_DONE;
    if (ret_pair->measured) {
        ret_pair->round_trip_ns = median_of(m);
        ret_pair->bytes_per_s = bandwidth_of(m);
        ret_pair->measure_failure[0] = '\0';
        return;
    }
    psr_measure_phase reached = m->answered == 0                      ? PSR_MEASURE_CONNECTING
                                : m->rounds < PSR_MEASURE_ROUND_TRIPS ? PSR_MEASURE_ROUNDS
                                                                      : PSR_MEASURE_BYTES;
    snprintf(ret_pair->measure_failure, sizeof ret_pair->measure_failure, "%s in time",
             what[reached]);
}
