/* Removes what a scheduler that was killed could not remove itself. One thread. */
#ifndef PSR_DEPLOY_LEFTOVERS_H
#define PSR_DEPLOY_LEFTOVERS_H

/* Removes from the run directory what was written and never renamed: checkpoints/.step-N.part,
 * run.json.new-*. Call it when the scheduler has ended. What cannot be removed stays. */
void psr_leftovers_remove(const char *out);

#endif
