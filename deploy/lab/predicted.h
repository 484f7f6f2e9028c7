/* What psring predict is told of a lab: the options that describe its cluster. Pure. */
#ifndef PSR_DEPLOY_LAB_PREDICTED_H
#define PSR_DEPLOY_LAB_PREDICTED_H

#include "deploy/lab/lab.h"

enum { PSR_LAB_PREDICTED_WORDS = 11 };

typedef struct psr_lab_predicted {
    const char *words[PSR_LAB_PREDICTED_WORDS]; /* into texts */
    size_t count;
    char texts[PSR_LAB_PREDICTED_WORDS][2048];
} psr_lab_predicted;

/* "--hosts=4", "--host-links=100Mbit,..", and so on. processors: of the machine on which the lab
 * is. USAGE: what is not predicted: hosts with different numbers of workers, two shards or more on
 * one host or beside workers in some places, an uplink that carries less than the links of its
 * hosts, hosts that lose different shares of their packets. */
PSR_MUST_CHECK psr_err psr_lab_predict(const psr_lab *lab, uint32_t processors,
                                       psr_lab_predicted *ret_predicted);

#endif
