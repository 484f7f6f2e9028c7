/* Job control: what Ctrl-Z does to the launcher itself. */
#ifndef PSR_DEPLOY_JOB_H
#define PSR_DEPLOY_JOB_H

/* Stops this process as Ctrl-Z would, and its clock; returns when it goes on (fg, bg). Where no
 * shell could let it go on the kernel does not stop it, and this returns at once. SIGTSTP is
 * blocked, and not ignored. */
void psr_job_stop(void);

#endif
