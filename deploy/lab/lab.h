/* A lab: a cluster of emulated hosts on this machine, as its file describes it.
 *
 *     # Four hosts at 100 Mbit/s, two of them behind a slow uplink, and two for the shards.
 *     congestion cubic
 *     default rate=100Mbit queue=256K
 *     switch rack uplink=200Mbit queue=512K
 *     host node[1-2]
 *     host node[3-4] switch=rack slots=2
 *     host ps[1-2] shards=1 rate=1Gbit
 *     host old slow=2
 *
 * A host has one link, to a switch; rate is that of each direction, in bits per second, decimal,
 * counted over Ethernet frames. queue is the switch's queue in front of the link, in bytes: what
 * does not fit is dropped and counted. burst is how many bytes may leave a queue at once. All
 * switches hang on one in the middle, by an uplink of that rate. slots are workers. shards is for
 * hosts that hold parameter servers alone, unless they have slots too. slow is how much longer a
 * worker's computation takes there. loss is the share of the packets towards a host that is lost at
 * random, behind the queue. congestion is TCP's congestion control, of all hosts or of one.
 * A line `default` holds for the hosts and switches below it.
 *
 * Plain data; any thread. */
#ifndef PSR_DEPLOY_LAB_LAB_H
#define PSR_DEPLOY_LAB_LAB_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PSR_LAB_HOSTS_MAX 64
#define PSR_LAB_SWITCHES_MAX 16
#define PSR_LAB_NAME_BYTES 64 /* a host's or a switch's name; the kernel's limit for host names */
#define PSR_LAB_CONGESTION_BYTES 16 /* the kernel's limit too */

typedef struct psr_lab_link {
    uint64_t rate_bits_per_s;
    uint64_t queue_bytes;
    uint64_t burst_bytes;
} psr_lab_link;

typedef struct psr_lab_host {
    char name[PSR_LAB_NAME_BYTES];
    char congestion[PSR_LAB_CONGESTION_BYTES]; /* "": this machine's own */
    psr_lab_link link;
    uint32_t slots, shards; /* one of them is above 0 */
    uint32_t in_switch;     /* index */
    double slow;            /* 1: as fast as the others */
    double loss;            /* 0 to 0.5 */
} psr_lab_host;

typedef struct psr_lab_switch {
    char name[PSR_LAB_NAME_BYTES]; /* "": the one in the middle, which is the first */
    psr_lab_link uplink;           /* not of the first */
} psr_lab_switch;

typedef struct psr_lab {
    psr_lab_host hosts[PSR_LAB_HOSTS_MAX];
    size_t host_count;
    psr_lab_switch switches[PSR_LAB_SWITCHES_MAX];
    size_t switch_count;
} psr_lab;

/* Parses text (hostile bytes allowed). FORMAT: "FILE:3: what". name is for messages. */
PSR_MUST_CHECK psr_err psr_lab_parse(const char *name, const char *text, size_t size,
                                     psr_lab *ret_lab);
/* Reads FILE. NOT_FOUND, IO, FORMAT; a file that names no host with slots is FORMAT. */
PSR_MUST_CHECK psr_err psr_lab_read(const char *path, psr_lab *ret_lab);

/* Divides all rates by factor, at least 1. Queues and bursts stay, in bytes. */
void psr_lab_dilate(psr_lab *lab, double factor);

uint32_t psr_lab_slots(const psr_lab *lab);  /* of all hosts */
uint32_t psr_lab_shards(const psr_lab *lab); /* of all hosts */

/* "10.77.0.3", of the host at index. */
#define PSR_LAB_ADDRESS_BYTES 16
void psr_lab_address(size_t index, char address[PSR_LAB_ADDRESS_BYTES]);

/* A hostfile of its hosts with slots, or with shards. size: of text; NOMEM if it is too small. */
PSR_MUST_CHECK psr_err psr_lab_hostfile(const psr_lab *lab, bool of_shards, char *text,
                                        size_t size);

#endif
