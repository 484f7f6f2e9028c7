/* What is known of a lab when its command has ended: the queues' counts and this machine's load. */
#ifndef PSR_DEPLOY_LAB_RESULT_H
#define PSR_DEPLOY_LAB_RESULT_H

#include "deploy/lab/lab.h"
#include "deploy/lab/load.h"
#include "deploy/lab/network.h"

#include <cjson/cJSON.h>

typedef struct psr_lab_result {
    const psr_lab *lab;
    const char *name; /* of the lab's file */
    double dilate;
    psr_lab_load_figures load;
    /* towards the host at index, and from it */
    psr_lab_count to_host[PSR_LAB_HOSTS_MAX], from_host[PSR_LAB_HOSTS_MAX];
    uint64_t lost[PSR_LAB_HOSTS_MAX]; /* behind that, packets that loss= took */
    /* of a switch's uplink, towards it and from it */
    psr_lab_count to_switch[PSR_LAB_SWITCHES_MAX], from_switch[PSR_LAB_SWITCHES_MAX];
} psr_lab_result;

/* Whether the result is the lab's, as psr_lab_is_valid. */
bool psr_lab_result_is_valid(const psr_lab_result *result, char why[PSR_LAB_WHY_BYTES]);

/* Some lines for a person, on standard error. */
void psr_lab_result_print(const psr_lab_result *result);

/* The same with all counts, for lab.json (docs/lab.md). NULL: no memory. The caller owns it. */
cJSON *psr_lab_result_to_json(const psr_lab_result *result);

#endif
