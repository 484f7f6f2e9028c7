/* --resume: finds, verifies and hands out the checkpoint that a run goes on from. One thread. */
#ifndef PSR_PS_SCHEDULER_CHECKPOINTS_RESUME_H
#define PSR_PS_SCHEDULER_CHECKPOINTS_RESUME_H

#include "net/transport.h"
#include "ps/scheduler/checkpoints/sections.h"

typedef struct psr_resume psr_resume;

/* path: a checkpoint (a directory with model.safetensors and state.safetensors in it), or a run
 * directory, of which the newest checkpoint that is whole is taken; skipped (may be NULL) is told
 * of each that is not, in words. Everything is verified. ret owns. NOT_FOUND: no checkpoint there;
 * FORMAT: damaged, or not of this program's making; USAGE: of a run with another model or number of
 * workers. */
PSR_MUST_CHECK psr_err psr_resume_open(const char *path, const psr_config *config,
                                       void (*skipped)(void *context, const char *line),
                                       void *context, psr_resume **ret_resume);
/* NULL allowed. */
void psr_resume_free(psr_resume *resume);

/* Steps completed when it was written. */
uint64_t psr_resume_step(const psr_resume *resume);
/* The directory it was found in. Borrowed. */
const char *psr_resume_path(const psr_resume *resume);

/* That all sections are there in the shapes of this run: FORMAT or NOT_FOUND, naming file and
 * tensor. */
PSR_MUST_CHECK psr_err psr_resume_check(const psr_resume *resume, const psr_sections *sections);

/* The checkpoint has what its workers owed (--compress), which this run has no place for: the line
 * says so. Where it is the other way round, or the compression is another one, the run goes on with
 * what is owed, or with zeros. */
bool psr_resume_drops(const psr_resume *resume, const psr_sections *sections, char *line,
                      size_t size);

/* Every section to the worker that takes it: worker 0, but what a rank owes to itself; tensor by
 * tensor, as RESTORE messages. Each tensor is read and verified again before any of it is sent: IO
 * or FORMAT when somebody has cut or changed the file since it was opened. */
PSR_MUST_CHECK psr_err psr_resume_send(const psr_resume *resume, const psr_sections *sections,
                                       psr_transport *transport);

#endif
