/* A lab in text, for a person. */
#ifndef PSR_DEPLOY_LAB_PICTURE_H
#define PSR_DEPLOY_LAB_PICTURE_H

#include "deploy/lab/lab.h"

#include <stdio.h>

/* A picture: switches, links, hosts and what each does. */
void psr_lab_picture(const psr_lab *lab, FILE *to);

/* As a lab file that says everything, a line for each host and switch; it reads back as the same
 * lab. */
void psr_lab_print(const psr_lab *lab, FILE *to);

#endif
