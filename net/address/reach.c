#include "net/address/reach.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct target {
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } address;
    socklen_t size;
} target;

/* "tcp://10.0.0.2:4242" or "tcp://[::1]:4242", as psr_endpoint_format writes them. */
static bool read_endpoint(const char *endpoint, target *ret_target)
{
    char text[PSR_ADDRESS_BYTES + 8], *end = NULL;
    if (strncmp(endpoint, "tcp://", 6) != 0 || strlen(endpoint + 6) >= sizeof text)
        return false;
    strcpy(text, endpoint + 6);
    char *colon = strrchr(text, ':');
    if (colon == NULL)
        return false;
    *colon = '\0';
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || port == 0 || port > UINT16_MAX)
        return false;
    size_t length = strlen(text);
    *ret_target = (target){.size = sizeof ret_target->address.in};
    if (inet_pton(AF_INET, text, &ret_target->address.in.sin_addr) == 1) {
        ret_target->address.in.sin_family = AF_INET;
        ret_target->address.in.sin_port = htons((uint16_t)port);
        return true;
    }
    if (length < 2 || text[0] != '[' || text[length - 1] != ']')
        return false;
    text[length - 1] = '\0';
    ret_target->size = sizeof ret_target->address.in6;
    ret_target->address.in6.sin6_family = AF_INET6;
    ret_target->address.in6.sin6_port = htons((uint16_t)port);
    return inet_pton(AF_INET6, text + 1, &ret_target->address.in6.sin6_addr) == 1;
}

static void fail(psr_reach *r, int number)
{
    snprintf(r->failure, sizeof r->failure, "%s", strerror(number));
}

static void see_source(psr_reach *r, int fd)
{
    target own = {.size = sizeof own.address};
    if (getsockname(fd, &own.address.any, &own.size) != 0 ||
        getnameinfo(&own.address.any, own.size, r->source, sizeof r->source, NULL, 0,
                    NI_NUMERICHOST) != 0)
        r->source[0] = '\0';
}

/* Returns the descriptor of a connection that is made (*ret_number 0) or is being made
 * (EINPROGRESS); -1: it has failed, *ret_number says why. */
static int begin_connection(const target *to, int *ret_number)
{
    int fd = socket(to->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *ret_number = fd >= 0 && connect(fd, &to->address.any, to->size) == 0 ? 0 : errno;
    if (fd < 0 || *ret_number == 0 || *ret_number == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

/* What has come of one that was being made: 0, or why it has failed. */
static int end_connection(int fd)
{
    int number = 0;
    socklen_t size = sizeof number;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size) == 0 ? number : errno;
}

/* Returns the descriptor of a connection that is being made; -1: it has failed. */
static int begin(psr_reach *r)
{
    target to;
    int number;
    *r = (psr_reach){.endpoint = r->endpoint};
    if (!read_endpoint(r->endpoint, &to)) {
        snprintf(r->failure, sizeof r->failure, "'%.60s' is no endpoint", r->endpoint);
        return -1;
    }
    const int fd = begin_connection(&to, &number);
    if (fd >= 0)
        see_source(r, fd);
    else
        fail(r, number);
    return fd;
}

/* Something has come of it. */
static void end(psr_reach *r, struct pollfd *watched, int64_t taken_us)
{
    const int number = end_connection(watched->fd);
    r->reached = number == 0;
    r->taken_us = r->reached ? taken_us : 0;
    if (number != 0)
        fail(r, number);
    close(watched->fd);
    watched->fd = -1;
}

static void await_all(psr_reach *reaches, struct pollfd *watched, size_t count, int timeout_ms)
{
    const int64_t begin_ns = psr_clock_ns();
    for (;;) {
        size_t open = 0;
        for (size_t i = 0; i < count; i++)
            open += watched[i].fd >= 0;
        int64_t left_ms = timeout_ms - (psr_clock_ns() - begin_ns) / 1000000;
        if (open == 0 || left_ms <= 0)
            return;
        if (poll(watched, count, (int)left_ms) <= 0)
            continue; /* EINTR, or the time is over */
        for (size_t i = 0; i < count; i++)
            if (watched[i].fd >= 0 && watched[i].revents != 0)
                end(&reaches[i], &watched[i], (psr_clock_ns() - begin_ns) / 1000);
    }
}

psr_err psr_reach_all(psr_reach *reaches, size_t count, int timeout_ms)
{
    struct pollfd *watched = calloc(count + 1, sizeof *watched);
    if (watched == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to reach %zu hosts", count);
    for (size_t i = 0; i < count; i++)
        watched[i] = (struct pollfd){.fd = begin(&reaches[i]), .events = POLLOUT};
    await_all(reaches, watched, count, timeout_ms);
    for (size_t i = 0; i < count; i++) {
        if (watched[i].fd < 0)
            continue;
        snprintf(reaches[i].failure, sizeof reaches[i].failure, "no answer within %d ms",
                 timeout_ms);
        close(watched[i].fd);
    }
    free(watched);
    return PSR_OK;
}

static psr_reach_answer answer_of(int number)
{
    return number == 0              ? PSR_REACH_MADE
           : number == EINPROGRESS  ? PSR_REACH_NONE_YET
           : number == ECONNREFUSED ? PSR_REACH_REFUSED
                                    : PSR_REACH_FAILED;
}

psr_reach_answer psr_reach_begin(const char *endpoint, int *ret_fd)
{
    target to;
    int number;
    if (!read_endpoint(endpoint, &to))
        return PSR_REACH_FAILED;
    const int fd = begin_connection(&to, &number);
    const psr_reach_answer answer = answer_of(number);
    if (answer == PSR_REACH_NONE_YET)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return answer;
}

psr_reach_answer psr_reach_look(int fd)
{
    struct pollfd made = {.fd = fd, .events = POLLOUT};
    return poll(&made, 1, 0) == 0 ? PSR_REACH_NONE_YET : answer_of(end_connection(fd));
}

bool psr_reach_end_of(int fd, const char *named, char *ret_endpoint, size_t size)
{
    target end = {.size = sizeof end.address}, own;
    char address[PSR_ADDRESS_BYTES], port[NI_MAXSERV];
    const char *colon = strrchr(named, ':');
    if (read_endpoint(named, &own) || colon == NULL ||
        getpeername(fd, &end.address.any, &end.size) != 0 ||
        getnameinfo(&end.address.any, end.size, address, sizeof address, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0 ||
        strcmp(port, colon + 1) != 0)
        return false;
    psr_endpoint_format(address, (unsigned)strtoul(port, NULL, 10), ret_endpoint, size);
    return true;
}

static bool has_address(const struct ifaddrs *entry, const char *address)
{
    char text[PSR_ADDRESS_BYTES];
    if (entry->ifa_addr == NULL ||
        (entry->ifa_addr->sa_family != AF_INET && entry->ifa_addr->sa_family != AF_INET6))
        return false;
    socklen_t size = entry->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                           : sizeof(struct sockaddr_in6);
    return getnameinfo(entry->ifa_addr, size, text, sizeof text, NULL, 0, NI_NUMERICHOST) == 0 &&
           strcmp(text, address) == 0;
}

static uint32_t mtu_of(const char *name)
{
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    bool told = fd >= 0 && ioctl(fd, SIOCGIFMTU, &request) == 0;
    if (fd >= 0)
        close(fd);
    return told ? (uint32_t)request.ifr_mtu : 0;
}

psr_err psr_interface_of(const char *address, char *name, size_t size, uint32_t *ret_mtu)
{
    struct ifaddrs *list = NULL;
    if (getifaddrs(&list) != 0)
        return psr_fail(PSR_ERR_IO, "the interfaces of this machine cannot be listed: %s",
                        strerror(errno));
    bool found = false;
    for (const struct ifaddrs *entry = list; entry != NULL && !found; entry = entry->ifa_next) {
        if (!has_address(entry, address))
            continue;
        found = true;
        snprintf(name, size, "%s", entry->ifa_name);
        *ret_mtu = mtu_of(entry->ifa_name);
    }
    freeifaddrs(list);
    return found ? PSR_OK
                 : psr_fail(PSR_ERR_NOT_FOUND, "no interface of this machine has %s", address);
}
