/* Job control: what Ctrl-Z does to the launcher itself. */
#ifndef PSR_DEPLOY_JOB_H
#define PSR_DEPLOY_JOB_H

/* Stops this process as Ctrl-Z would, and its clock; returns when it goes on (fg, bg). If no shell
 * could continue it, the kernel does not stop it, and this returns at once. SIGTSTP must be
 * blocked, not ignored. */
void psr_job_stop(void);

#endif
