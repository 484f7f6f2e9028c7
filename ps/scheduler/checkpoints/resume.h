/* --resume: finds, verifies and distributes the checkpoint from which a run continues. One
 * thread. */
#ifndef PSR_PS_SCHEDULER_CHECKPOINTS_RESUME_H
#define PSR_PS_SCHEDULER_CHECKPOINTS_RESUME_H

#include "model/loss_scale.h"
#include "net/transport.h"
#include "ps/scheduler/checkpoints/sections.h"

typedef struct psr_resume psr_resume;

/* path: a checkpoint (a directory with model.safetensors and state.safetensors), or a run
 * directory; of that the newest complete checkpoint is taken, and skipped (may be NULL) gets a line
 * about each incomplete one. Everything is verified. The caller owns *ret_resume. NOT_FOUND: there
 * is no checkpoint; FORMAT: it is damaged, or not made by this program; USAGE: its run had another
 * model or optimizer. */
PSR_MUST_CHECK psr_err psr_resume_open(const char *path, const psr_config *config,
                                       void (*skipped)(void *context, const char *line),
                                       void *context, psr_resume **ret_resume);
/* NULL allowed. */
void psr_resume_free(psr_resume *resume);

/* Steps completed when it was written. */
uint64_t psr_resume_step(const psr_resume *resume);
/* The directory in which it was found. Borrowed. */
const char *psr_resume_path(const psr_resume *resume);

/* The run's pace from there on. deal: how this run deals out epochs. If the checkpoint's run did so
 * too, it goes on as that would have. Otherwise the rest of the epoch is dealt out anew. */
psr_pace psr_resume_pace(const psr_resume *resume, const psr_deal *deal);
/* The scale of the loss; zeros if its run had none. Borrowed. */
const psr_loss_scale *psr_resume_loss_scale(const psr_resume *resume);
/* Whether its weights were evaluated on the test set. */
bool psr_resume_evaluated(const psr_resume *resume);
/* The index-th line about what differs from the checkpoint's run and is not simply continued:
 * workers, batch size, samples, seed, order, augmentation. false: there are no more. pace: what
 * psr_resume_pace returned. */
bool psr_resume_changes(const psr_resume *resume, const psr_config *config, const psr_pace *pace,
                        uint32_t index, char *line, size_t size);

/* Checks that all sections are there in the shapes of this run. FORMAT or NOT_FOUND; names file and
 * tensor. USAGE: its run had other tensors frozen (--freeze). */
PSR_MUST_CHECK psr_err psr_resume_check(const psr_resume *resume, const psr_sections *sections);

/* true: the checkpoint has residuals of its workers (--compress) that this run cannot use; the line
 * says so. In the opposite case, or with another compression, the run continues with the residuals
 * it finds, or with zeros. Likewise of the weights that shards updated (--compress-weights) beside
 * those that workers had: without the former, the run continues with the latter. */
bool psr_resume_drops(const psr_resume *resume, const psr_sections *sections, char *line,
                      size_t size);

/* Sends every section to the worker that needs it, tensor by tensor, as RESTORE messages: a rank's
 * residual to that rank, all else to worker 0. A rank that the checkpoint's run did not have gets
 * the averaged batch-norm statistics, and owes nothing. Each tensor is read and verified again
 * before any of it is sent: IO or FORMAT if somebody has cut or changed the file since it was
 * opened. */
PSR_MUST_CHECK psr_err psr_resume_send(const psr_resume *resume, const psr_sections *sections,
                                       psr_transport *transport);

#endif
