#include "net/interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

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
    for (const struct ifaddrs *entry = list; entry != NULL && used < size; entry = entry->ifa_next) {
        char address[PSR_ADDRESS_BYTES];
        if (address_text(entry, AF_INET, address))
            used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "", entry->ifa_name,
                                     address);
    }
}

psr_err psr_interface_address(const char *name, char ret_address[PSR_ADDRESS_BYTES])
{
    if (strcmp(name, "*") == 0 || strcmp(name, "0.0.0.0") == 0 || strcmp(name, "::") == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "interface %s: all interfaces at once cannot be told to others: name one", name);
    /* All of 127.0.0.0/8 can be bound, although only 127.0.0.1 is listed. */
    if (psr_address_is_loopback(name) && strlen(name) < PSR_ADDRESS_BYTES) {
        snprintf(ret_address, PSR_ADDRESS_BYTES, "%s", name);
        return PSR_OK;
    }
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return psr_fail(PSR_ERR_IO, "interface %s: the addresses of this machine cannot be had: %s", name,
                        strerror(errno));
    bool found = find(list, name, ret_address);
    char all[256];
    list_all(list, all, sizeof all);
    freeifaddrs(list);
    if (!found)
        return psr_fail(PSR_ERR_USAGE,
                        "interface %s: this machine has none of that name or address: it has %s", name, all);
    return PSR_OK;
}

bool psr_address_is_loopback(const char *address)
{
    struct in_addr in;
    if (inet_pton(AF_INET, address, &in) == 1)
        return (ntohl(in.s_addr) >> 24) == 127;
    struct in6_addr in6;
    return inet_pton(AF_INET6, address, &in6) == 1 && IN6_IS_ADDR_LOOPBACK(&in6);
}

void psr_endpoint_format(const char *address, unsigned port, char *endpoint, size_t size)
{
    const char *open = is_ipv6(address) ? "[" : "", *close = is_ipv6(address) ? "]" : "";
    if (port == 0)
        snprintf(endpoint, size, "tcp://%s%s%s:*", open, address, close);
    else
        snprintf(endpoint, size, "tcp://%s%s%s:%u", open, address, close, port);
}
