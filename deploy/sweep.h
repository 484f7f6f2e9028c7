/* What a scheduler that was killed could not put away itself. One thread. */
#ifndef PSR_DEPLOY_SWEEP_H
#define PSR_DEPLOY_SWEEP_H

/* Removes from the run directory what was written beside and never renamed: checkpoints/.step-N.part, run.json.new-*. For when the
 * scheduler has ended. What cannot be removed stays. */
void psr_sweep_run(const char *out);

#endif
