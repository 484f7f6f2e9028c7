/* Packets that the network loses at random, as a bad cable or a radio link does: before a host
 * takes a packet from its link, a program in the kernel throws it away with the given probability
 * (XDP; bpf(2)). So it has passed the link and its queue. A device with such a program gets frames
 * that fit the link, one by one, so each is lost by itself. Only root may give the kernel
 * programs. */
#ifndef PSR_DEPLOY_LAB_LOSS_H
#define PSR_DEPLOY_LAB_LOSS_H

#include "base/err.h"

#include <stdint.h>
#include <sys/types.h>

typedef struct psr_lab_loss {
    int link, counter; /* owned; the program goes when link is closed, or this process ends */
} psr_lab_loss;

/* In the keeper (deploy/lab/namespaces.h): from now on the host that this process holds loses that
 * share, above 0, of what comes to its eth0. UNSUPPORTED: the kernel lets this user not do it, or
 * cannot. IO. In place; there is nothing to free on failure. */
PSR_MUST_CHECK psr_err psr_lab_loss_begin(pid_t holder, double share, psr_lab_loss *ret_loss);
/* How many packets were lost. IO. */
PSR_MUST_CHECK psr_err psr_lab_loss_count(const psr_lab_loss *loss, uint64_t *ret_packets);

#endif
