/* --metrics-port: where a run's figures are served; --tensorboard-norms: when. */
#include "base/config/config_table.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The part of "9100", "0.0.0.0:9100" or "[::1]:9100" before the port; true: it is an address. */
static bool read_address(const char *text, size_t size, char address[static PSR_ADDRESS_MAX])
{
    struct in6_addr six;
    struct in_addr four;
    const bool bracketed = size > 2 && text[0] == '[' && text[size - 1] == ']';
    if (bracketed) {
        text++;
        size -= 2;
    }
    if (size >= PSR_ADDRESS_MAX)
        return false;
    memcpy(address, text, size);
    address[size] = '\0';
    return bracketed ? inet_pton(AF_INET6, address, &six) == 1
                     : inet_pton(AF_INET, address, &four) == 1;
}

psr_err psr_config_read_metrics_port(psr_config *config, const char *text)
{
    psr_metrics_port at = {.on = text[0] != '\0', .address = "127.0.0.1"};
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    if (at.on && (!psr_parse_u64(colon != NULL ? colon + 1 : text, &port) || port > UINT16_MAX ||
                  (colon != NULL && !read_address(text, (size_t)(colon - text), at.address))))
        return psr_fail(PSR_ERR_USAGE,
                        "'%.64s' is no port; give PORT (9100; 0: a free one), or ADDRESS:PORT for "
                        "others than this host (0.0.0.0:9100, [::]:9100)",
                        text);
    at.port = (uint16_t)port;
    config->metrics_port = at;
    return PSR_OK;
}

void psr_config_print_metrics_port(const psr_config *config, char *text, size_t size)
{
    const psr_metrics_port *at = &config->metrics_port;
    if (!at->on)
        snprintf(text, size, "%s", "");
    else if (strcmp(at->address, "127.0.0.1") == 0)
        snprintf(text, size, "%" PRIu16, at->port);
    else
        psr_metrics_port_text(at, text, size);
}

void psr_metrics_port_text(const psr_metrics_port *at, char *text, size_t size)
{
    const bool six = strchr(at->address, ':') != NULL;
    snprintf(text, size, "%s%s%s:%" PRIu16, six ? "[" : "", at->address, six ? "]" : "", at->port);
}

bool psr_config_norms_due(const psr_config *config, uint64_t steps)
{
    return config->tensorboard_norms > 0 && steps % config->tensorboard_norms == 0;
}
