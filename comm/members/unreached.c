#include "comm/members/unreached.h"

#include "net/address/reach.h"

#include <stdio.h>
#include <string.h>

/* at least this long, so that a process that was too busy to connect does not probe whoever
 * listens */
#define PATIENCE_LEAST_MS 2000
#define PATIENCE_MOST_MS 10000
#define REACH_MS 1000
#define ADVICE                                                                                     \
    "choose a network that all hosts share by --interface NAME|ADDRESS (or PSRING_INTERFACE)"

int64_t psr_unreached_patience_ms(int64_t deadline_ms)
{
    int64_t half_ms = deadline_ms / 2;
    return half_ms > PATIENCE_MOST_MS    ? PATIENCE_MOST_MS
           : half_ms < PATIENCE_LEAST_MS ? PATIENCE_LEAST_MS
                                         : half_ms;
}

void psr_unreached_describe(const psr_unreached *u, const char *who, char *line, size_t size)
{
    bool came = u->came_from[0] != '\0', from = u->from[0] != '\0';
    snprintf(line, size, "%s listens at %s, which cannot be reached from %s (%s)%s%s: " ADVICE, who,
             u->endpoint, from ? u->from : "here", u->why, came ? "; it has connected from " : "",
             u->came_from);
}

void psr_unanswered_describe(const char *scheduler, const char *own_endpoint, char *line,
                             size_t size)
{
    psr_reach reach = {.endpoint = scheduler};
    if (strncmp(scheduler, "tcp://", 6) != 0 || strncmp(own_endpoint, "tcp://", 6) != 0 ||
        psr_reach_all(&reach, 1, REACH_MS) != PSR_OK)
        return;
    bool from = reach.source[0] != '\0';
    if (reach.reached)
        snprintf(line, size,
                 "something listens there and says nothing: it is stopped, or cannot reach %s, "
                 "where this process listens; " ADVICE,
                 own_endpoint);
    else
        snprintf(
            line, size,
            "it cannot be reached from %s (%s): it is not there, or of another network; " ADVICE,
            from ? reach.source : "here", reach.failure);
}
