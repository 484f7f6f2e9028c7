#include "base/attempts.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ATTEMPTS_MAX 1000

bool psr_attempts_are_asked_for(const psr_config *config)
{
    return strcmp(config->resume, PSR_RESUME_AUTO) == 0;
}

/* false: it does not fit. */
static bool name_attempt(const char *out, int attempt, char name[PSR_PATH_MAX])
{
    int stem = (int)strlen(out);
    while (stem > 1 && out[stem - 1] == '/') /* "DIR/" */
        stem--;
    int length = attempt == 1 ? snprintf(name, PSR_PATH_MAX, "%s", out)
                              : snprintf(name, PSR_PATH_MAX, "%.*s-%d", stem, out, attempt);
    return length < PSR_PATH_MAX;
}

static psr_err refuse_more(const char *out)
{
    return psr_fail(PSR_ERR_USAGE,
                    "--resume auto: at most %d attempts are possible, and their names may have at "
                    "most %d bytes: %s",
                    ATTEMPTS_MAX, PSR_PATH_MAX - 1, out);
}

psr_err psr_attempts_name(const char *out, char ret_name[PSR_PATH_MAX])
{
    char name[PSR_PATH_MAX];
    struct stat status;
    for (int attempt = 1; attempt <= ATTEMPTS_MAX && name_attempt(out, attempt, name); attempt++)
        if (lstat(name, &status) != 0) {
            memcpy(ret_name, name, sizeof name);
            return PSR_OK;
        }
    return refuse_more(out);
}

/* A checkpoint is renamed into place when it is whole; one that was being written has another
 * name. */
static bool has_checkpoint(const char *run)
{
    char path[PSR_PATH_MAX + 16];
    bool found = false;
    snprintf(path, sizeof path, "%s/checkpoints", run);
    DIR *entries = opendir(path);
    if (entries == NULL)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(entries)) != NULL;) {
        size_t digits =
            strncmp(entry->d_name, "step-", 5) == 0 ? strspn(entry->d_name + 5, "0123456789") : 0;
        found = digits > 0 && entry->d_name[5 + digits] == '\0';
    }
    closedir(entries);
    return found;
}

psr_err psr_attempts_resolve(psr_config *config)
{
    char name[PSR_PATH_MAX], last[PSR_PATH_MAX] = "";
    struct stat status;
    if (!psr_attempts_are_asked_for(config))
        return PSR_OK;
    for (int attempt = 1; attempt <= ATTEMPTS_MAX && name_attempt(config->out, attempt, name);
         attempt++) {
        if (lstat(name, &status) != 0) {
            strcpy(config->out, name);
            strcpy(config->resume, last);
            if (last[0] != '\0')
                config->init[0] = '\0';
            return PSR_OK;
        }
        if (has_checkpoint(name))
            strcpy(last, name);
    }
    return refuse_more(config->out);
}
