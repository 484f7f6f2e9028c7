/* The keeper of a lab: process 1 of its PID namespace, which builds the lab, starts the command in
 * the first host with workers, watches this machine's load meanwhile, and counts at the end. */
#ifndef PSR_DEPLOY_LAB_KEEPER_H
#define PSR_DEPLOY_LAB_KEEPER_H

#include "deploy/lab/run.h"
#include "deploy/lab/words.h"

typedef struct psr_lab_tools {
    char ip[64], tc[64]; /* paths */
} psr_lab_tools;

/* NOT_FOUND: one is not installed. */
PSR_MUST_CHECK psr_err psr_lab_tools_find(psr_lab_tools *ret_tools);

/* Returns the exit status. lifeline: a descriptor that reaches its end when the parent is gone. */
int psr_lab_keep(const psr_lab_run *run, const psr_lab_words *words, const psr_lab_tools *tools,
                 int lifeline);

#endif
