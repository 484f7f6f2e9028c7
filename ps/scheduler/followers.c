#include "ps/scheduler/followers.h"

#include "ps/roster.h"
#include "ps/scheduler/prometheus/endpoint.h"
#include "ps/scheduler/tensorboard/tensorboard.h"

#include <stdio.h>
#include <string.h>

/* ---- life ---- */

psr_err psr_followers_init(psr_followers *f, const psr_config *config)
{
    f->config = config;
    if (config->tensorboard)
        PSR_TRY(psr_tensorboard_check());
    if (!config->metrics_port.on)
        return PSR_OK;
    PSR_TRY(psr_endpoint_check());
    PSR_TRY(psr_exposition_new(psr_roster_of(config).ranks, &f->exposition));
    return psr_endpoint_new(&config->metrics_port, f->exposition, &f->endpoint);
}

void psr_followers_done(psr_followers *f)
{
    psr_endpoint_free(f->endpoint); /* its thread reads the exposition */
    psr_exposition_free(f->exposition);
    psr_tensorboard_free(f->tensorboard);
}

const char *psr_followers_url(const psr_followers *f)
{
    return f->endpoint != NULL ? psr_endpoint_url(f->endpoint) : NULL;
}

/* ---- the run ---- */

psr_err psr_followers_joined(psr_followers *f, const char *directory, uint64_t first_step,
                             uint64_t total_steps)
{
    const psr_roster roster = psr_roster_of(f->config);
    const psr_exposition_about about = {
        .run = directory,
        .mode = psr_mode_name(psr_config_mode_at(f->config, first_step)),
        .model = f->config->model,
        .workers = roster.ranks,
        .shards = roster.shards,
        .planned_steps = total_steps};
    return f->exposition != NULL ? psr_exposition_begin(f->exposition, &about) : PSR_OK;
}

/* The directory of the run that a checkpoint is of (RUN/checkpoints/step-N), if it is of one. */
static bool run_of(const char *checkpoint, char run[static PSR_PATH_MAX])
{
    static const char folder[] = "/checkpoints/step-";
    snprintf(run, PSR_PATH_MAX, "%s", checkpoint);
    char *at = NULL;
    for (char *next = run; (next = strstr(next, folder)) != NULL; next++)
        at = next;
    if (at != NULL)
        *at = '\0';
    return at != NULL;
}

psr_err psr_followers_begin(psr_followers *f, const char *directory, const psr_resume *resume)
{
    char earlier[PSR_PATH_MAX];
    if (!f->config->tensorboard)
        return PSR_OK;
    const bool of_run = resume != NULL && run_of(psr_resume_path(resume), earlier);
    const psr_tensorboard_options options = {.directory = directory,
                                             .earlier = of_run ? earlier : NULL,
                                             .ranks = psr_roster_of(f->config).ranks,
                                             .every = f->config->metrics_every,
                                             .first_step =
                                                 resume != NULL ? psr_resume_step(resume) : 0};
    return psr_tensorboard_new(&options, &f->tensorboard);
}

psr_err psr_followers_take(psr_followers *f, const psr_metrics_line *line)
{
    if (f->exposition != NULL)
        psr_exposition_take(f->exposition, line);
    return f->tensorboard != NULL ? psr_tensorboard_take(f->tensorboard, line) : PSR_OK;
}

psr_err psr_followers_norms(psr_followers *f, const psr_metrics_line *line)
{
    return f->tensorboard != NULL ? psr_tensorboard_norms(f->tensorboard, line) : PSR_OK;
}

void psr_followers_made_up(psr_followers *f, const psr_metrics_line *line)
{
    if (f->exposition != NULL)
        psr_exposition_take(f->exposition, line);
}

psr_err psr_followers_flush(psr_followers *f)
{
    return f->tensorboard != NULL ? psr_tensorboard_flush(f->tensorboard) : PSR_OK;
}

psr_err psr_followers_end(psr_followers *f)
{
    return f->tensorboard != NULL ? psr_tensorboard_end(f->tensorboard) : PSR_OK;
}
