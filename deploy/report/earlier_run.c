#include "deploy/report/earlier_run.h"

#include "base/attempts.h"
#include "base/system/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RUN_JSON_BYTES_MAX (1u << 20)

static bool is_directory(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool exists_in(const char *directory, const char *name)
{
    char path[PSR_PATH_MAX + 64];
    struct stat status;
    int length = snprintf(path, sizeof path, "%s/%s", directory, name);
    return length > 0 && (size_t)length < sizeof path && stat(path, &status) == 0;
}

static psr_err print_path(const char *option, const char *directory, const char *name,
                          char path[PSR_PATH_MAX + 64])
{
    int length = snprintf(path, PSR_PATH_MAX + 64, "%s%s", directory, name);
    if (length < 0 || length >= PSR_PATH_MAX)
        return psr_fail(PSR_ERR_USAGE, "--%s: a path of %d bytes, should be below %d", option,
                        length, PSR_PATH_MAX);
    return PSR_OK;
}

/* Finds the run of a checkpoint: RUN of RUN/checkpoints/step-N. false: the checkpoint is not in a
 * run. */
static bool run_of_checkpoint(const char *checkpoint, char run[PATH_MAX])
{
    if (realpath(checkpoint, run) == NULL)
        return false;
    char *step = strrchr(run, '/');
    if (step == NULL || strncmp(step, "/step-", 6) != 0)
        return false;
    *step = '\0';
    char *folder = strrchr(run, '/');
    if (folder == NULL || strcmp(folder, "/checkpoints") != 0)
        return false;
    *folder = '\0';
    return true;
}

/* Finds the run.json of --resume; "" if the checkpoint is not in a run. */
static psr_err find_resumed(const char *resume, char path[PSR_PATH_MAX + 64])
{
    char run[PATH_MAX];
    path[0] = '\0';
    if (exists_in(resume, "model.safetensors")) {
        if (run_of_checkpoint(resume, run) && exists_in(run, "run.json"))
            return print_path("resume", run, "/run.json", path);
        return PSR_OK;
    }
    if (exists_in(resume, "run.json"))
        return print_path("resume", resume, "/run.json", path);
    if (exists_in(resume, "checkpoints"))
        return PSR_OK;
    if (errno == EACCES)
        return psr_fail(PSR_ERR_IO, "--resume %s: its contents cannot be listed: %s", resume,
                        strerror(errno));
    return psr_fail(PSR_ERR_NOT_FOUND,
                    "--resume %s: neither a checkpoint (model.safetensors and state.safetensors) "
                    "nor a run directory with one in checkpoints/",
                    resume);
}

static psr_err read_file(const char *option, const char *path, psr_config *config)
{
    uint8_t *text = NULL;
    size_t size = 0;
    psr_err err = psr_file_read(path, RUN_JSON_BYTES_MAX, &text, &size);
    if (err != PSR_OK)
        return psr_fail_context(err, "--%s", option);
    err = psr_config_from_json(config, (const char *)text, size);
    free(text);
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "--%s %s", option, path);
}

psr_err psr_earlier_run_read(const char *config, const char *resume, psr_earlier_run *ret_run)
{
    psr_earlier_run run = {.path = ""};
    psr_config_defaults(&run.config);
    if (config != NULL)
        PSR_TRY(print_path("config", config, is_directory(config) ? "/run.json" : "", run.path));
    else if (resume != NULL && resume[0] != '\0' && strcmp(resume, PSR_RESUME_AUTO) != 0)
        PSR_TRY(find_resumed(resume, run.path));
    if (run.path[0] != '\0')
        PSR_TRY(read_file(config != NULL ? "config" : "resume", run.path, &run.config));
    run.file = run.config;
    run.config.out[0] = '\0';
    psr_config_protect(&run.config);
    *ret_run = run;
    return PSR_OK;
}

void psr_earlier_run_left_out(const psr_earlier_run *run, const psr_config *config, char *line,
                              size_t size)
{
    char words[256];
    line[0] = '\0';
    if (run->path[0] == '\0')
        return;
    psr_config_left_out(&run->file, config, words, sizeof words);
    if (words[0] != '\0')
        snprintf(line, size, "%s has %s, which only the command line can set: it is ignored",
                 run->path, words);
}

psr_err psr_earlier_run_fit(const psr_earlier_run *run, const psr_given_options *given,
                            psr_config *config)
{
    if (run->path[0] == '\0')
        return PSR_OK;
    if (run->config.fault_point[0] != '\0' && !given->fault_point)
        return psr_fail(PSR_ERR_USAGE,
                        "%s has --fault-point %s, which stops a process: only the command line can "
                        "set that; give --fault-point= to run without it",
                        run->path, run->config.fault_point);
    if (given->steps && !given->epochs)
        config->epochs = 0;
    if (given->epochs && !given->steps)
        config->steps = 0;
    if (given->resume && !given->init)
        config->init[0] = '\0';
    if (given->init && !given->resume)
        config->resume[0] = '\0';
    if (given->eval && !given->eval_every && !config->eval)
        config->eval_every = (psr_duration){0};
    if (given->eval_every && !given->eval)
        config->eval = true;
    if (given->data && !given->resume && !given->data_content)
        config->data_content[0] = '\0';
    psr_config_fit_mode(config, &run->config);
    return PSR_OK;
}
