#include "net/address/tcp_congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define NEAR_US 5000

typedef union address {
    struct sockaddr any;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
} address;

/* Both ends have one address: there is no link between them. */
static bool is_to_own(int fd)
{
    address own = {.any.sa_family = AF_UNSPEC}, other = own;
    socklen_t own_size = sizeof own, other_size = sizeof other;
    if (getsockname(fd, &own.any, &own_size) != 0 || getpeername(fd, &other.any, &other_size) != 0)
        return true; /* it is not connected */
    if (own.any.sa_family == AF_INET)
        return own.in.sin_addr.s_addr == other.in.sin_addr.s_addr;
    return own.any.sa_family != AF_INET6 ||
           memcmp(&own.in6.sin6_addr, &other.in6.sin6_addr, sizeof own.in6.sin6_addr) == 0;
}

static bool is_near(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_rtt < NEAR_US;
}

bool psr_tcp_leave_bbr(int fd)
{
    static const char *const instead[] = {"cubic", "reno"};
    char name[16] = "";
    socklen_t size = sizeof name - 1;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size) != 0 ||
        strncmp(name, "bbr", 3) != 0 || is_to_own(fd) || !is_near(fd))
        return false;
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, instead[i],
                       (socklen_t)strlen(instead[i])) == 0)
            return true;
    return false;
}
