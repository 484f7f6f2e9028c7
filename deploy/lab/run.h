/* Builds a lab, runs a psring command in it, takes it down. */
#ifndef PSR_DEPLOY_LAB_RUN_H
#define PSR_DEPLOY_LAB_RUN_H

#include "deploy/lab/lab.h"

typedef struct psr_lab_run {
    const psr_lab *lab;
    const char *name;   /* of its file, for messages and the result */
    char **command;     /* "train", "--mode", "ps", .. NULL */
    double dilate;      /* what lab's rates were divided by */
    const char *result; /* a file for the result; NULL: none but the run's own lab.json */
} psr_lab_run;

/* Does all of it, and tells on standard error how it went. Returns the exit status: the command's,
 * or 2 with one line if the lab cannot be made. Not for programs with threads. */
int psr_lab_run_command(const psr_lab_run *run);

/* `psring lab-host [OPTION..] HOST COMMAND`: what --ssh runs in a lab. Takes the arguments that ssh
 * would get, goes to that host, and becomes a shell with the command. Returns ssh's status for a
 * failed connection. */
int psr_lab_host_main(int argc, char **argv);

#endif
