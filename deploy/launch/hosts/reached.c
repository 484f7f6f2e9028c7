#include "deploy/launch/hosts/reached.h"

#include <stddef.h>

const char *psr_reached_interface(const char *named, const psr_reached *at,
                                  const psr_reached *elsewhere)
{
    if (named != NULL)
        return named;
    if (at != NULL && !at->here)
        return at->address;
    /* On this machine: the address from which the first remote host sees us, else loopback. */
    return elsewhere != NULL ? elsewhere->launcher_address : "127.0.0.1";
}
