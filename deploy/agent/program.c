#include "deploy/agent/program.h"

#include "base/system/environment.h"
#include "base/text/json.h"
#include "base/text/secret.h"
#include "comm/view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- between launcher and agent ---- */

static size_t bytes_of(const char *const *texts)
{
    size_t bytes = 0;
    for (size_t i = 0; texts[i] != NULL; i++)
        bytes += strlen(texts[i]) + 1;
    return bytes;
}

static cJSON *array_of(const char *const *texts)
{
    size_t count = 0;
    while (texts[count] != NULL)
        count++;
    return cJSON_CreateStringArray(texts, (int)count);
}

psr_err psr_program_check(const psr_program *program)
{
    size_t bytes = bytes_of(program->words) + bytes_of(program->variables) +
                   strlen(program->directory) + strlen(program->output);
    if (bytes > PSR_PROGRAM_BYTES_MAX)
        return psr_fail(PSR_ERR_USAGE,
                        "the program's arguments and variables have %zu bytes, more than %u; put "
                        "them into a file that it reads",
                        bytes, PSR_PROGRAM_BYTES_MAX);
    return PSR_OK;
}

psr_err psr_program_to_object(const psr_program *program, cJSON **ret_object)
{
    cJSON *object = cJSON_CreateObject();
    bool whole = cJSON_AddItemToObject(object, "words", array_of(program->words)) &&
                 cJSON_AddItemToObject(object, "variables", array_of(program->variables)) &&
                 cJSON_AddStringToObject(object, "directory", program->directory) != NULL &&
                 cJSON_AddStringToObject(object, "output", program->output) != NULL &&
                 cJSON_AddNumberToObject(object, "ranks", program->ranks) != NULL &&
                 cJSON_AddNumberToObject(object, "shards", program->shards) != NULL &&
                 cJSON_AddStringToObject(object, "transport", program->transport) != NULL &&
                 cJSON_AddNumberToObject(object, "deadline_s", program->deadline_s) != NULL;
    if (!whole) {
        cJSON_Delete(object);
        return psr_fail(PSR_ERR_NOMEM, "no memory for a program's arguments");
    }
    *ret_object = object;
    return PSR_OK;
}

/* The caller owns *ret_texts: free(); its texts are borrowed. */
static psr_err read_texts(const cJSON *object, const char *name, const char ***ret_texts)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(object, name), *item;
    if (!cJSON_IsArray(array))
        return psr_fail(PSR_ERR_FORMAT, "field \"%s\" is no array", name);
    const char **texts = calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof *texts);
    if (texts == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a program's arguments");
    size_t count = 0;
    cJSON_ArrayForEach(item, array)
    {
        if (!cJSON_IsString(item)) {
            free(texts);
            return psr_fail(PSR_ERR_FORMAT, "field \"%s\" holds what is no text", name);
        }
        texts[count++] = item->valuestring;
    }
    *ret_texts = texts;
    return PSR_OK;
}

static psr_err read_object(psr_program *program)
{
    const cJSON *object = program->object;
    PSR_TRY(read_texts(object, "words", &program->words_read));
    PSR_TRY(read_texts(object, "variables", &program->variables_read));
    program->words = program->words_read;
    program->variables = program->variables_read;
    program->directory = psr_json_text(object, "directory");
    program->output = psr_json_text(object, "output");
    program->transport = psr_json_text(object, "transport");
    program->deadline_s = psr_json_number(object, "deadline_s", 0);
    if (program->words[0] == NULL || program->directory == NULL || program->output == NULL ||
        program->transport == NULL ||
        !psr_json_count(object, "ranks", UINT32_MAX, &program->ranks) ||
        !psr_json_count(object, "shards", UINT32_MAX, &program->shards) ||
        program->shards > program->ranks || !(program->deadline_s > 0))
        return psr_fail(PSR_ERR_FORMAT,
                        "a field of \"words\", \"directory\", \"output\", \"transport\", "
                        "\"ranks\", \"shards\" and \"deadline_s\" is missing or out of range");
    return PSR_OK;
}

psr_err psr_program_from_object(cJSON *object, psr_program *ret_program)
{
    psr_program program = {.object = object};
    psr_err err = read_object(&program);
    if (err != PSR_OK)
        psr_program_done(&program);
    else
        *ret_program = program;
    return err;
}

void psr_program_done(psr_program *program)
{
    cJSON_Delete(program->object);
    free(program->words_read);
    free(program->variables_read);
    *program = (psr_program){0};
}

/* ---- its environment ---- */

enum {
    PLACE_RANK,
    PLACE_RANKS,
    PLACE_SCHEDULER,
    PLACE_KEY_FILE,
    PLACE_HOST,
    PLACE_INTERFACE,
    PLACE_DEADLINE,
    PLACE_TRANSPORT,
    PLACE_SHARING,
    PLACE_HOST_SCHEDULER,
    PLACE_LOCAL_RANK,
    PLACE_LOCAL_SIZE,
    PLACE_SHARDS,
    PLACE_COUNT
};

typedef struct environment {
    psr_environment all;
    char place[PLACE_COUNT][PSR_ENDPOINT_MAX + 32];
} environment;

/* As psring_init takes it: HOST:PORT, or a socket's path. */
static const char *without_scheme(const char *endpoint)
{
    const char *scheme = strstr(endpoint, "://");
    return scheme != NULL ? scheme + 3 : endpoint;
}

static void set_place(environment *e, const psr_program *program, const psr_provision *provision,
                      const psr_program_place *place, int keys)
{
    const size_t size = sizeof e->place[0];
    snprintf(e->place[PLACE_RANK], size, "PSRING_RANK=%" PRIu32, provision->self.rank);
    snprintf(e->place[PLACE_RANKS], size, "PSRING_RANKS=%" PRIu32, program->ranks);
    snprintf(e->place[PLACE_SCHEDULER], size, "PSRING_SCHEDULER=%s",
             without_scheme(provision->scheduler));
    snprintf(e->place[PLACE_KEY_FILE], size, "PSRING_KEY_FILE=/proc/self/fd/%d", keys);
    snprintf(e->place[PLACE_HOST], size, "PSRING_HOST=%s", provision->host);
    snprintf(e->place[PLACE_INTERFACE], size, "PSRING_INTERFACE=%s", provision->interface);
    snprintf(e->place[PLACE_DEADLINE], size, "PSRING_DEADLINE_MS=%.0f", program->deadline_s * 1000);
    snprintf(e->place[PLACE_TRANSPORT], size, "PSRING_TRANSPORT=%s", program->transport);
    snprintf(e->place[PLACE_SHARING], size, "PSRING_SHARING=%s", provision->sharing);
    snprintf(e->place[PLACE_HOST_SCHEDULER], size, "PSRING_HOST_SCHEDULER=0");
    snprintf(e->place[PLACE_LOCAL_RANK], size, "PSRING_LOCAL_RANK=%" PRIu32, place->local_rank);
    snprintf(e->place[PLACE_LOCAL_SIZE], size, "PSRING_LOCAL_SIZE=%" PRIu32, place->local_ranks);
    snprintf(e->place[PLACE_SHARDS], size, "PSRING_SHARDS=%" PRIu32, program->shards);
    /* a program may have its own */
    for (size_t i = 0; i < PLACE_COUNT - (program->shards == 0); i++)
        psr_environment_set(&e->all, e->place[i]);
    if (place->local_ranks == 0) {
        psr_environment_unset(&e->all, "PSRING_LOCAL_RANK");
        psr_environment_unset(&e->all, "PSRING_LOCAL_SIZE");
    }
    if (provision->interface[0] == '\0')
        psr_environment_unset(&e->all, "PSRING_INTERFACE");
    if (provision->sharing[0] == '\0')
        psr_environment_unset(&e->all, "PSRING_SHARING");
}

static psr_err make_environment(const psr_program *program, const psr_provision *provision,
                                const psr_program_place *place, int keys,
                                environment *ret_environment)
{
    environment *e = ret_environment;
    size_t count = 0;
    while (program->variables[count] != NULL)
        count++;
    PSR_TRY(psr_environment_begin(PLACE_COUNT + count, &e->all));
    for (size_t i = 0; i < count; i++)
        psr_environment_set(&e->all, program->variables[i]);
    set_place(e, program, provision, place, keys);
    return PSR_OK;
}

/* ---- its keys ---- */

static psr_err write_all(int fd, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        ssize_t put = write(fd, text, left);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return psr_fail(PSR_ERR_IO, "memory for a program's keys: %s", strerror(errno));
        text += put;
        left -= (size_t)put;
    }
    return lseek(fd, 0, SEEK_SET) == 0 ? PSR_OK
                                       : psr_fail(PSR_ERR_IO, "lseek: %s", strerror(errno));
}

/* Memory that a process can read like a file if it inherits the descriptor; no other user can. The
 * caller owns *ret_fd: close(). */
static psr_err open_keys(const psr_keys *keys, int *ret_fd)
{
    char *text = NULL;
    PSR_TRY(psr_keys_to_json(keys, &text));
    int fd = memfd_create("psring-keys", MFD_CLOEXEC);
    if (fd >= 0)
        (void)fchmod(fd, 0600); /* psr_keys_load refuses what others can read */
    psr_err err =
        fd >= 0 ? write_all(fd, text) : psr_fail(PSR_ERR_IO, "memfd_create: %s", strerror(errno));
    psr_secret_free(text);
    if (err != PSR_OK && fd >= 0)
        close(fd);
    else if (err == PSR_OK)
        *ret_fd = fd;
    return err;
}

/* ---- its output ---- */

/* With all directories above it. path comes back as it was. */
static psr_err make_directory(char *path)
{
    for (char *at = path + 1;; at++) {
        bool last = *at == '\0';
        if (*at != '/' && !last)
            continue;
        *at = '\0';
        bool there = mkdir(path, 0777) == 0 || errno == EEXIST;
        int why = errno;
        if (!there)
            return psr_fail(PSR_ERR_IO, "--output-filename: %s: %s", path, strerror(why));
        if (last)
            return PSR_OK;
        *at = '/';
    }
}

static psr_err open_file(const char *directory, const char *name, int *ret_fd)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    *ret_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    return *ret_fd >= 0 ? PSR_OK
                        : psr_fail(PSR_ERR_IO, "--output-filename: %s: %s", path, strerror(errno));
}

/* ret_out, ret_err: -1 for pipes. */
static psr_err open_output(const psr_program *program, uint32_t rank, int *ret_out, int *ret_err)
{
    char directory[4096 + 64];
    *ret_out = *ret_err = -1;
    if (program->output[0] == '\0')
        return PSR_OK;
    if (snprintf(directory, 4096, "%s/1/rank.%" PRIu32, program->output, rank) >= 4096)
        return psr_fail(PSR_ERR_USAGE, "--output-filename: longer than 4000 bytes");
    PSR_TRY(make_directory(directory));
    PSR_TRY(open_file(directory, "stdout", ret_out));
    psr_err err = open_file(directory, "stderr", ret_err);
    if (err != PSR_OK)
        close(*ret_out);
    return err;
}

/* ---- one rank ---- */

/* The last ranks are ours. */
static psr_err words_of(const psr_program *program, uint32_t rank, char path[PATH_MAX],
                        const char *shard_words[3], char *const **ret_words)
{
    *ret_words = (char *const *)(uintptr_t)program->words;
    if (rank < program->ranks - program->shards)
        return PSR_OK;
    PSR_TRY(psr_program_path("psring-ps", path, PATH_MAX));
    shard_words[0] = path;
    shard_words[1] = "serve";
    shard_words[2] = NULL;
    *ret_words = (char *const *)(uintptr_t)shard_words;
    return PSR_OK;
}

static psr_err start_with_keys(const psr_program *program, const psr_provision *provision,
                               const psr_program_place *place, int keys, const psr_cpus *cpus,
                               psr_child *ret_child)
{
    environment e;
    char path[PATH_MAX];
    const char *shard_words[3];
    char *const *words = NULL;
    psr_child_surroundings with = {.directory = program->directory, .inherits = keys};
    PSR_TRY(words_of(program, provision->self.rank, path, shard_words, &words));
    PSR_TRY(make_environment(program, provision, place, keys, &e));
    with.setting = (psr_child_setting){e.all.items, cpus};
    psr_err err = open_output(program, provision->self.rank, &with.out, &with.err);
    if (err == PSR_OK)
        err = psr_child_start_program(words, &with, ret_child);
    psr_environment_done(&e.all);
    return err;
}

psr_err psr_program_start(const psr_program *program, const psr_provision *provision,
                          const psr_program_place *place, const psr_cpus *cpus,
                          psr_child *ret_child)
{
    int keys = -1;
    PSR_TRY(open_keys(&provision->keys, &keys));
    psr_err err = start_with_keys(program, provision, place, keys, cpus, ret_child);
    close(keys);
    return err;
}

/* ---- what ranks leave behind ---- */

void psr_program_adopt_strays(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* Kills all children of this process, which has a single thread. false: there are none. */
static bool kill_children(void)
{
    char path[64];
    int pid;
    bool some = false;
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *children = fopen(path, "re");
    while (children != NULL && fscanf(children, "%d", &pid) == 1)
        some |= kill(pid, SIGKILL) == 0;
    if (children != NULL)
        fclose(children);
    return some;
}

/* The children of a killed process become ours, so this is repeated until there are none. */
void psr_program_end_strays(void)
{
    while (kill_children())
        while (waitpid(-1, NULL, 0) < 0 && errno == EINTR)
            continue;
}
