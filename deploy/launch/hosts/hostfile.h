/* Hostfiles in Open MPI's form, and -H lists: which hosts, how many slots on each.
 *
 *     # comment
 *     node1 slots=2 max_slots=4
 *     user@node2          # one slot
 *     node[03-16]:8       # a word for several hosts, and another way to say slots:
 *                         # deploy/launch/hosts/host_word.h
 *
 * slots is how many processes a host is given as long as others have slots left; max_slots how many
 * it can be given at most, when all slots are taken. Without slots it has max_slots of them,
 * without both one; without max_slots it is given no more than slots. A host named twice adds its
 * slots, up to its max_slots. Open MPI's other words for them (count, cpu, cpus; max-slots,
 * slots_max, slots-max) are the same here. Plain data; any thread. */
#ifndef PSR_DEPLOY_LAUNCH_HOSTS_HOSTFILE_H
#define PSR_DEPLOY_LAUNCH_HOSTS_HOSTFILE_H

#include "deploy/launch/hosts/host_word.h"

#define PSR_HOSTS_MAX 4096

typedef struct psr_host {
    char name[PSR_HOST_NAME_MAX];
    uint32_t slots;
    uint32_t max_slots; /* 0: not given */
} psr_host;

typedef struct psr_hosts {
    psr_host *items;
    size_t count;
} psr_hosts;

/* Parses text (hostile bytes allowed). FORMAT: "FILE line 3: 'slotz=2': ...". name is for messages.
 * The caller owns *ret_hosts. */
PSR_MUST_CHECK psr_err psr_hostfile_parse(const char *name, const char *text, size_t size,
                                          psr_hosts *ret_hosts);
/* Reads FILE. NOT_FOUND, IO, FORMAT; a file that names no host is FORMAT. */
PSR_MUST_CHECK psr_err psr_hostfile_read(const char *path, psr_hosts *ret_hosts);
/* "host:2,node[1-4]:2"; without :N one slot. USAGE. */
PSR_MUST_CHECK psr_err psr_hosts_from_list(const char *list, psr_hosts *ret_hosts);
/* Appends or adds slots. */
PSR_MUST_CHECK psr_err psr_hosts_add(psr_hosts *hosts, const char *name, uint32_t slots);
uint32_t psr_host_room(const psr_host *host);     /* the most processes that it may get */
uint32_t psr_hosts_slots(const psr_hosts *hosts); /* in all */
uint32_t psr_hosts_room(const psr_hosts *hosts);  /* the most processes that all may get */
void psr_hosts_done(psr_hosts *hosts);

#endif
