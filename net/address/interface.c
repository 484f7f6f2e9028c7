#include "net/address/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool is_ipv6(const char *address)
{
    return strchr(address, ':') != NULL;
}

/* The numeric text of an interface's address, when it is one that a peer can connect to. */
static bool address_text(const struct ifaddrs *entry, int family, char text[PSR_ADDRESS_BYTES])
{
    if (entry->ifa_addr == NULL || entry->ifa_addr->sa_family != family)
        return false;
    if (family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, entry->ifa_addr, sizeof in);
        return inet_ntop(AF_INET, &in.sin_addr, text, PSR_ADDRESS_BYTES) != NULL;
    }
    struct sockaddr_in6 in6;
    memcpy(&in6, entry->ifa_addr, sizeof in6);
    return !IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr) &&
           inet_ntop(AF_INET6, &in6.sin6_addr, text, PSR_ADDRESS_BYTES) != NULL;
}

/* The first address, IPv4 before IPv6, of the interface called name or that has address name. */
static bool find(const struct ifaddrs *list, const char *name, char ret_address[PSR_ADDRESS_BYTES])
{
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t f = 0; f < 2; f++)
        for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next) {
            char text[PSR_ADDRESS_BYTES];
            if (!address_text(entry, families[f], text))
                continue;
            if (strcmp(entry->ifa_name, name) == 0 || strcmp(text, name) == 0) {
                memcpy(ret_address, text, PSR_ADDRESS_BYTES);
                return true;
            }
        }
    return false;
}

/* "lo (127.0.0.1), eth0 (10.0.0.7)", as far as there is room. */
static void list_all(const struct ifaddrs *list, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (const struct ifaddrs *entry = list; entry != NULL && used < size;
         entry = entry->ifa_next) {
        char address[PSR_ADDRESS_BYTES];
        if (address_text(entry, AF_INET, address))
            used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "",
                                     entry->ifa_name, address);
    }
}

psr_err psr_interface_address(const char *name, char ret_address[PSR_ADDRESS_BYTES])
{
    if (strcmp(name, "*") == 0 || strcmp(name, "0.0.0.0") == 0 || strcmp(name, "::") == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "interface %s: all interfaces at once cannot be told to others: name one",
                        name);
    /* All of 127.0.0.0/8 can be bound, although only 127.0.0.1 is listed. */
    if (psr_address_is_loopback(name) && strlen(name) < PSR_ADDRESS_BYTES) {
        snprintf(ret_address, PSR_ADDRESS_BYTES, "%s", name);
        return PSR_OK;
    }
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return psr_fail(PSR_ERR_IO, "interface %s: the addresses of this machine cannot be had: %s",
                        name, strerror(errno));
    bool found = find(list, name, ret_address);
    char all[256];
    list_all(list, all, sizeof all);
    freeifaddrs(list);
    if (!found)
        return psr_fail(PSR_ERR_USAGE,
                        "interface %s: this machine has none of that name or address: it has %s",
                        name, all);
    return PSR_OK;
}

/* ---- towards other hosts ---- */

/* The first address that this host's name stands for and that an interface of it has. */
static bool address_of_name(const struct ifaddrs *list, char ret_address[PSR_ADDRESS_BYTES])
{
    char name[256] = "", text[PSR_ADDRESS_BYTES];
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    bool is_own = false;
    if (gethostname(name, sizeof name - 1) != 0 || getaddrinfo(name, NULL, &hints, &found) != 0)
        return false;
    for (const struct addrinfo *at = found; at != NULL && !is_own; at = at->ai_next)
        is_own = getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text, NULL, 0,
                             NI_NUMERICHOST) == 0 &&
                 !psr_address_is_loopback(text) && find(list, text, ret_address);
    freeaddrinfo(found);
    return is_own;
}

/* The address that the default route uses: a connected datagram socket has the local address of the
 * path. No packet is sent; the addresses are those reserved for documentation (RFC 5737 and
 * 3849). */
static bool address_of_way(const struct ifaddrs *list, char ret_address[PSR_ADDRESS_BYTES])
{
    static const struct {
        int family;
        const char *far;
    } ways[] = {{AF_INET, "203.0.113.1"}, {AF_INET6, "2001:db8::1"}};
    bool is_own = false;
    for (size_t i = 0; i < sizeof ways / sizeof *ways && !is_own; i++) {
        const struct addrinfo hints = {.ai_family = ways[i].family,
                                       .ai_socktype = SOCK_DGRAM,
                                       .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
        struct addrinfo *to = NULL;
        struct sockaddr_storage own;
        socklen_t size = sizeof own;
        char text[PSR_ADDRESS_BYTES];
        if (getaddrinfo(ways[i].far, "9", &hints, &to) != 0)
            continue;
        int fd = socket(ways[i].family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        is_own = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                 getsockname(fd, (struct sockaddr *)&own, &size) == 0 &&
                 getnameinfo((struct sockaddr *)&own, size, text, sizeof text, NULL, 0,
                             NI_NUMERICHOST) == 0 &&
                 !psr_address_is_loopback(text) && find(list, text, ret_address);
        if (fd >= 0)
            close(fd);
        freeaddrinfo(to);
    }
    return is_own;
}

static bool address_that_is_up(const struct ifaddrs *list, char ret_address[PSR_ADDRESS_BYTES])
{
    for (const struct ifaddrs *entry = list; entry != NULL; entry = entry->ifa_next)
        if ((entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0 &&
            find(list, entry->ifa_name, ret_address))
            return true;
    return false;
}

psr_err psr_interface_to_others(char ret_address[PSR_ADDRESS_BYTES])
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return psr_fail(PSR_ERR_IO, "the addresses of this machine cannot be had: %s",
                        strerror(errno));
    bool found = address_of_name(list, ret_address) || address_of_way(list, ret_address) ||
                 address_that_is_up(list, ret_address);
    freeifaddrs(list);
    return found ? PSR_OK
                 : psr_fail(PSR_ERR_NOT_FOUND,
                            "this host has no address that other hosts could reach");
}

static psr_err bind_and_ask(int fd, const struct addrinfo *to, uint16_t *port)
{
    const int on = 1;
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    char text[8];
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0)
        return psr_fail(PSR_ERR_IO, "a port: %s", strerror(errno));
    if (bind(fd, to->ai_addr, to->ai_addrlen) != 0)
        return psr_fail(errno == EADDRINUSE ? PSR_ERR_USAGE : PSR_ERR_IO, "port %u: %s",
                        (unsigned)*port, strerror(errno));
    if (getsockname(fd, (struct sockaddr *)&own, &size) != 0 ||
        getnameinfo((struct sockaddr *)&own, size, NULL, 0, text, sizeof text, NI_NUMERICSERV) != 0)
        return psr_fail(PSR_ERR_IO, "a port: %s", strerror(errno));
    *port = (uint16_t)strtoul(text, NULL, 10);
    return PSR_OK;
}

psr_err psr_interface_reserve(const char *address, uint16_t *port, int *ret_fd)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *to = NULL;
    char wanted[8];
    snprintf(wanted, sizeof wanted, "%u", (unsigned)*port);
    if (getaddrinfo(address, wanted, &hints, &to) != 0)
        return psr_fail(PSR_ERR_USAGE, "%s is no address", address);
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    psr_err err = bind_and_ask(fd, to, port);
    freeaddrinfo(to);
    if (err == PSR_OK)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "address %s", address);
}

bool psr_address_is_loopback(const char *address)
{
    struct in_addr in;
    if (inet_pton(AF_INET, address, &in) == 1)
        return (ntohl(in.s_addr) >> 24) == 127;
    struct in6_addr in6;
    return inet_pton(AF_INET6, address, &in6) == 1 && IN6_IS_ADDR_LOOPBACK(&in6);
}

static bool is_a_hosts_ipv4(const struct in_addr *in)
{
    const uint32_t number = ntohl(in->s_addr);
    return number >> 24 != 0 && number < 0xe0000000; /* network 0; multicast, reserved, broadcast */
}

static bool is_a_hosts_ipv6(const struct in6_addr *in6)
{
    struct in_addr mapped;
    memcpy(&mapped, in6->s6_addr + 12, sizeof mapped);
    if (IN6_IS_ADDR_V4MAPPED(in6))
        return is_a_hosts_ipv4(&mapped);
    return !IN6_IS_ADDR_UNSPECIFIED(in6) && !IN6_IS_ADDR_MULTICAST(in6);
}

static bool is_interface_name(const char *text)
{
    size_t length = strlen(text);
    return length > 0 && length < IF_NAMESIZE &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               length;
}

bool psr_address_is_a_hosts(const char *text)
{
    char address[PSR_ADDRESS_BYTES];
    struct in_addr in;
    struct in6_addr in6;
    const char *scope = strchr(text, '%');
    const size_t length = scope != NULL ? (size_t)(scope - text) : strlen(text);
    if (length >= sizeof address)
        return false;
    memcpy(address, text, length);
    address[length] = '\0';
    if (inet_pton(AF_INET, address, &in) == 1)
        return scope == NULL && is_a_hosts_ipv4(&in);
    return inet_pton(AF_INET6, address, &in6) == 1 && is_a_hosts_ipv6(&in6) &&
           (scope == NULL || (IN6_IS_ADDR_LINKLOCAL(&in6) && is_interface_name(scope + 1)));
}

void psr_endpoint_format(const char *address, unsigned port, char *endpoint, size_t size)
{
    const char *open = is_ipv6(address) ? "[" : "", *close = is_ipv6(address) ? "]" : "";
    if (port == 0)
        snprintf(endpoint, size, "tcp://%s%s%s:*", open, address, close);
    else
        snprintf(endpoint, size, "tcp://%s%s%s:%u", open, address, close, port);
}

/* The address in an endpoint as psr_endpoint_format writes it. */
static bool address_in(const char *endpoint, char ret_address[PSR_ADDRESS_BYTES])
{
    const char *begin = strncmp(endpoint, "tcp://", 6) == 0 ? endpoint + 6 : NULL;
    if (begin == NULL)
        return false;
    const char *end = *begin == '[' ? strchr(++begin, ']') : strchr(begin, ':');
    if (end == NULL || end - begin >= PSR_ADDRESS_BYTES)
        return false;
    memcpy(ret_address, begin, (size_t)(end - begin));
    ret_address[end - begin] = '\0';
    return true;
}

/* An interface has the address, not merely that name. */
bool psr_endpoint_is_own(const char *endpoint)
{
    char address[PSR_ADDRESS_BYTES], own[PSR_ADDRESS_BYTES];
    struct ifaddrs *list;
    if (!address_in(endpoint, address))
        return false;
    if (psr_address_is_loopback(address))
        return true;
    if (getifaddrs(&list) != 0)
        return false;
    const bool found = find(list, address, own) && strcmp(address, own) == 0;
    freeifaddrs(list);
    return found;
}
