/* Hostfiles in Open MPI's form, and -H lists: which hosts, how many slots on each.
 *
 *     # comment
 *     node1 slots=2
 *     user@node2        # one slot
 *
 * A host named twice adds its slots. Names are checked, since they go to ssh's command line: letters, digits,
 * '.', '-', '_', ':' and one '@', not beginning with '-'. Plain data; any thread. */
#ifndef PSR_DEPLOY_HOSTFILE_H
#define PSR_DEPLOY_HOSTFILE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define PSR_HOST_NAME_MAX 256
#define PSR_HOSTS_MAX 4096
#define PSR_SLOTS_MAX 1024

typedef struct psr_host {
    char name[PSR_HOST_NAME_MAX];
    uint32_t slots;
} psr_host;

typedef struct psr_hosts {
    psr_host *items;
    size_t count;
} psr_hosts;

/* Parses text (hostile bytes allowed). FORMAT: "FILE line 3: 'slotz=2': ...". name is for messages. ret owns. */
PSR_MUST_CHECK psr_err psr_hostfile_parse(const char *name, const char *text, size_t size,
                                          psr_hosts *ret_hosts);
/* Reads FILE. NOT_FOUND, IO, FORMAT; a file that names no host is FORMAT. */
PSR_MUST_CHECK psr_err psr_hostfile_read(const char *path, psr_hosts *ret_hosts);
/* "host:2,host:2"; without :N one slot. USAGE. */
PSR_MUST_CHECK psr_err psr_hosts_from_list(const char *list, psr_hosts *ret_hosts);
/* Appends or adds slots. */
PSR_MUST_CHECK psr_err psr_hosts_add(psr_hosts *hosts, const char *name, uint32_t slots);
uint32_t psr_hosts_slots(const psr_hosts *hosts); /* in all */
void psr_hosts_done(psr_hosts *hosts);

#endif
