#include "deploy/doctor/visit/rounds.h"

#include <stdint.h>

size_t psr_rounds(size_t hosts)
{
    return hosts < 2 ? 0 : hosts - 1 + hosts % 2;
}

/* The last of an even number stands, the others, whose number is odd, go round; two meet whose
 * numbers add up to the round's, and who would meet itself meets the one who stands. An odd number
 * of hosts has nobody there. */
size_t psr_round_partner(size_t hosts, size_t round, size_t host)
{
    const size_t circle = psr_rounds(hosts);
    /* its double is the round's number */
    size_t partner =
        host == circle ? round * ((circle + 1) / 2) % circle : (circle + round - host) % circle;
    if (partner == host)
        partner = circle;
    return partner < hosts ? partner : SIZE_MAX;
}
