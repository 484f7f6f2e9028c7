/* A checkup and its findings for the person: a table of the hosts and two of the ways between them,
 * 100 columns wide at most, and each finding in a line of what, where, and what would be right. The
 * same in a terminal and in a file. One thread. */
#ifndef PSR_DEPLOY_DOCTOR_PICTURE_H
#define PSR_DEPLOY_DOCTOR_PICTURE_H

#include "deploy/doctor/findings/findings.h"

#include <stdio.h>

void psr_picture_print(FILE *to, const psr_checkup *checkup, const psr_findings *findings);

#endif
