/* A checkup and its findings for a person: a table of the hosts, two tables of the connections
 * between them, at most 100 columns wide, and each finding as a line with what, where, and what to
 * do. The same on a terminal and in a file. One thread. */
#ifndef PSR_DEPLOY_DOCTOR_PICTURE_H
#define PSR_DEPLOY_DOCTOR_PICTURE_H

#include "deploy/doctor/findings/findings.h"

#include <stdio.h>

void psr_picture_print(FILE *to, const psr_checkup *checkup, const psr_findings *findings);

#endif
