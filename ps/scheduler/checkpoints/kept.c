#include "ps/scheduler/checkpoints/kept.h"

#include "ps/scheduler/checkpoints/checkpoint_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES (PSR_PATH_MAX + 64)
#define EVALUATED_MAX                                                                              \
    8 /* evaluations whose checkpoint is still on its way to the disk; at most two */

struct psr_kept {
    char directory[PSR_PATH_MAX + 16];
    uint32_t keep; /* 0: all */
    bool keep_best;
    uint64_t *steps; /* [count]: those in place, ascending, with room for capacity */
    size_t count, capacity;
    struct {
        uint64_t step;
        double accuracy;
    } evaluated[EVALUATED_MAX];
    size_t evaluations; /* of all time; the last EVALUATED_MAX are there */
    bool has_best;
    uint64_t best_step;
    double best_accuracy;
};

psr_err psr_kept_new(const psr_config *config, const char *directory, psr_kept **ret_kept)
{
    psr_kept *kept = calloc(1, sizeof *kept);
    if (kept == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a list of checkpoints");
    snprintf(kept->directory, sizeof kept->directory, "%s", directory);
    kept->keep = config->keep;
    kept->keep_best = config->keep_best;
    *ret_kept = kept;
    return PSR_OK;
}

void psr_kept_free(psr_kept *kept)
{
    if (kept == NULL)
        return;
    free(kept->steps);
    free(kept);
}

void psr_kept_evaluated(psr_kept *kept, uint64_t step, double accuracy)
{
    const size_t at = kept->evaluations++ % EVALUATED_MAX;
    kept->evaluated[at].step = step;
    kept->evaluated[at].accuracy = accuracy;
}

/* ---- the best ---- */

/* The new link is made beside the old one and renamed over it, so that there always is one. */
static psr_err link_best(const psr_kept *kept, const char *target)
{
    char path[PATH_BYTES], beside[PATH_BYTES];
    snprintf(path, sizeof path, "%s/best", kept->directory);
    snprintf(beside, sizeof beside, "%s/.best.part", kept->directory);
    (void)unlink(beside);
    if (symlink(target, beside) != 0 || rename(beside, path) != 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
    return PSR_OK;
}

static psr_err see_best(psr_kept *kept, uint64_t step)
{
    for (size_t i = 0; kept->keep_best && i < EVALUATED_MAX && i < kept->evaluations; i++) {
        const double accuracy = kept->evaluated[i].accuracy;
        if (kept->evaluated[i].step != step || (kept->has_best && accuracy <= kept->best_accuracy))
            continue;
        kept->has_best = true;
        kept->best_step = step;
        kept->best_accuracy = accuracy;
        char target[40];
        snprintf(target, sizeof target, "step-%" PRIu64, step);
        return link_best(kept, target);
    }
    return PSR_OK;
}

psr_err psr_kept_resumed(psr_kept *kept, const char *path, uint64_t step, double accuracy)
{
    char *whole = kept->keep_best ? realpath(path, NULL) : NULL;
    if (whole == NULL)
        return kept->keep_best ? psr_fail(PSR_ERR_IO, "%s: %s", path, strerror(errno)) : PSR_OK;
    kept->has_best = true;
    kept->best_step = step;
    kept->best_accuracy = accuracy;
    psr_err err = link_best(kept, whole);
    free(whole);
    return err;
}

bool psr_kept_best(const psr_kept *kept, uint64_t *ret_step, double *ret_accuracy)
{
    if (!kept->has_best)
        return false;
    *ret_step = kept->best_step;
    *ret_accuracy = kept->best_accuracy;
    return true;
}

/* ---- the newest ---- */

static psr_err add_step(psr_kept *kept, uint64_t step)
{
    if (kept->count == kept->capacity) {
        const size_t capacity = 2 * kept->capacity + 8;
        uint64_t *steps = realloc(kept->steps, capacity * sizeof *steps);
        if (steps == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for a list of %zu checkpoints", capacity);
        kept->steps = steps;
        kept->capacity = capacity;
    }
    kept->steps[kept->count++] = step;
    return PSR_OK;
}

psr_err psr_kept_put(psr_kept *kept, uint64_t step)
{
    PSR_TRY(see_best(kept, step));
    if (kept->keep == 0)
        return PSR_OK;
    PSR_TRY(add_step(kept, step));
    size_t left = 0;
    for (size_t i = 0; i < kept->count; i++) {
        const bool newest = i + kept->keep >= kept->count,
                   best = kept->has_best && kept->steps[i] == kept->best_step;
        if (newest || best)
            kept->steps[left++] = kept->steps[i];
        else
            PSR_TRY(psr_checkpoint_remove(kept->directory, kept->steps[i]));
    }
    kept->count = left;
    return PSR_OK;
}
