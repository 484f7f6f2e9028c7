#include "deploy/doctor/visit/rounds.h"

#include <stdint.h>

size_t psr_rounds(size_t hosts)
{
    return hosts < 2 ? 0 : hosts - 1 + hosts % 2;
}

/* The circle method of round-robin tournaments. With an even number of hosts, the last host stands
 * still, and the others, whose number is odd, go round a circle. Two hosts of the circle meet if
 * their numbers add up to the round's number (modulo the circle). A host that would meet itself
 * meets the host that stands still. With an odd number of hosts that place is empty, and the host
 * has no partner. */
size_t psr_round_partner(size_t hosts, size_t round, size_t host)
{
    const size_t circle = psr_rounds(hosts);
    /* the host whose number, doubled, is the round's number */
    size_t partner =
        host == circle ? round * ((circle + 1) / 2) % circle : (circle + round - host) % circle;
    if (partner == host)
        partner = circle;
    return partner < hosts ? partner : SIZE_MAX;
}
