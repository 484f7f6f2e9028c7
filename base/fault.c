#include "base/fault.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    atomic_bool armed;
    char phase[32];
    uint64_t step;
} point;

/* One decimal number that is all of text. */
static bool read_number(const char *text, uint64_t *ret_value)
{
    if (text[0] < '0' || text[0] > '9')
        return false;
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*end != '\0')
        return false;
    *ret_value = value;
    return true;
}

psr_err psr_fault_point_set(const char *text, const char *role, uint32_t rank)
{
    atomic_store(&point.armed, false);
    if (text[0] == '\0')
        return PSR_OK;

    char copy[128];
    char *part[4] = {copy};
    size_t parts = 1;
    bool good = snprintf(copy, sizeof copy, "%s", text) < (int)sizeof copy;
    for (char *c = copy; good && *c != '\0'; c++) {
        if (*c != ':')
            continue;
        *c = '\0';
        good = parts < 4;
        if (good)
            part[parts++] = c + 1;
    }
    uint64_t of_rank, step;
    if (!good || parts != 4 || part[2][0] == '\0' || strlen(part[2]) >= sizeof point.phase ||
        !read_number(part[1], &of_rank) || !read_number(part[3], &step))
        return psr_fail(
            PSR_ERR_USAGE,
            "--fault-point: \"%s\" is not ROLE:RANK:PHASE:STEP, such as worker:1:push:3", text);
    if (strcmp(part[0], role) != 0 || of_rank != rank)
        return PSR_OK;
    snprintf(point.phase, sizeof point.phase, "%s", part[2]);
    point.step = step;
    atomic_store(&point.armed, true);
    return PSR_OK;
}

void psr_fault_point(const char *phase, uint64_t step)
{
    if (!atomic_load_explicit(&point.armed, memory_order_acquire))
        return;
    if (step != point.step || strcmp(phase, point.phase) != 0 ||
        !atomic_exchange(&point.armed, false))
        return;
    /* Not through the log, which may drop a line: the test waits for this one. */
    char line[96];
    int length = snprintf(line, sizeof line, "fault-point %s:%" PRIu64 " reached\n", phase, step);
    ssize_t written = write(STDERR_FILENO, line, (size_t)length);
    (void)written;
    raise(SIGSTOP);
}
