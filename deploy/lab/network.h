/* The network of a lab, as the commands of ip and tc that make it (iproute2, `ip -batch` and
 * `tc -batch`), and the counts that tc has of it afterwards. Pure.
 *
 * The keeper's own network holds the switches: bridges br0 (the middle), br1 .. . Host i hangs by
 * the port "port<i>", whose other end is its eth0; switch k by "down<k>" in the middle and "up<k>"
 * in itself, two ends of one cable.
 *
 * What leaves a switch waits in a queue of its size behind a token bucket, and what does not fit is
 * dropped. What leaves a host waits behind a token bucket of the same rate, in a queue that TCP
 * cannot fill: the kernel lets a connection have little in it (tcp(7), TCP small queues), and holds
 * back the sender instead. */
#ifndef PSR_DEPLOY_LAB_NETWORK_H
#define PSR_DEPLOY_LAB_NETWORK_H

#include "deploy/lab/lab.h"

#include <stdio.h>
#include <sys/types.h>

/* To the keeper's network; holders: the process of each host. */
void psr_lab_network_links(const psr_lab *lab, const pid_t *holders, FILE *to);
void psr_lab_network_queues(const psr_lab *lab, FILE *to);
/* To the network of the host at index. */
void psr_lab_network_host_links(const psr_lab *lab, size_t index, FILE *to);
void psr_lab_network_host_queues(const psr_lab *lab, size_t index, FILE *to);

/* What has left one queue, and what it has dropped. */
typedef struct psr_lab_count {
    uint64_t sent_bytes, sent_packets, dropped_packets;
} psr_lab_count;

/* Of the device, in what `tc -s -j qdisc show` printed. FORMAT: it is not there. */
PSR_MUST_CHECK psr_err psr_lab_network_count(const char *tc_json, const char *device,
                                             psr_lab_count *ret_count);

#endif
