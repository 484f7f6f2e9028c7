#include "comm/start/meeting_file.h"

#include "base/clock.h"
#include "base/text/secret.h"
#include "net/address/interface.h"
#include "net/trust/keys/keys.h"
#include "net/address/reach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_FIRST_MS 10
#define LOOK_LAST_MS 500
#define REACH_MS 1000 /* how long to wait for a connection before the file is read again */

/* What the file says besides the keys. */
typedef struct meeting {
    char job[256];                    /* psr_start.job */
    char host[PSR_HOST_MAX];          /* name of rank 0's host */
    char scheduler[PSR_ENDPOINT_MAX]; /* HOST:PORT, as in psr_start */
} meeting;

/* ---- rank 0 ---- */

static psr_err to_text(const meeting *m, uint32_t workers, uint32_t shards, char **ret_text)
{
    psr_keys *sets = NULL;
    size_t count = 0;
    char *keys = NULL, *text = NULL;
    PSR_TRY(psr_keys_generate(workers, shards, true, &sets, &count));
    psr_err err = psr_keys_to_shared_json(sets, &keys);
    for (size_t i = 0; i < count; i++)
        psr_keys_done(&sets[i]);
    free(sets);
    if (err != PSR_OK)
        return err;
    cJSON *json = cJSON_Parse(keys);
    psr_secret_free(keys);
    if (cJSON_AddStringToObject(json, "job", m->job) != NULL &&
        cJSON_AddStringToObject(json, "host", m->host) != NULL &&
        cJSON_AddStringToObject(json, "scheduler", m->scheduler) != NULL)
        text = psr_secret_print(json);
    psr_secret_delete(json);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the meeting of %u workers", workers);
    *ret_text = text;
    return PSR_OK;
}

/* Chooses where the scheduler will listen, and keeps the port for it. */
static psr_err choose_scheduler(const psr_start *s, meeting *m, psr_meeting_file *file)
{
    char address[PSR_ADDRESS_BYTES], endpoint[PSR_ADDRESS_BYTES + 16];
    uint16_t port = s->port_is_told ? s->port : 0;
    if (s->interface[0] != '\0')
        PSR_TRY(psr_interface_address(s->interface, address));
    else
        PSR_TRY(psr_interface_to_others(address));
    PSR_TRY(psr_interface_reserve(address, &port, &file->port));
    psr_endpoint_format(address, port, endpoint, sizeof endpoint);
    snprintf(m->scheduler, sizeof m->scheduler, "%s", endpoint + strlen("tcp://"));
    if (s->host[0] != '\0')
        snprintf(m->host, sizeof m->host, "%s", s->host);
    else if (gethostname(m->host, sizeof m->host - 1) != 0)
        m->host[0] = '\0';
    return PSR_OK;
}

static psr_err write_file(psr_start *s, uint32_t workers, uint32_t shards, psr_meeting_file *file)
{
    meeting m = {.host = ""};
    char *text = NULL;
    snprintf(m.job, sizeof m.job, "%s", s->job);
    PSR_TRY(choose_scheduler(s, &m, file));
    PSR_TRY(to_text(&m, workers, shards, &text));
    psr_err err = psr_keys_write_private(text, s->meeting);
    psr_secret_free(text);
    if (err != PSR_OK)
        return psr_fail_context(err, "the file by which this job's hosts meet, in a folder that "
                                     "all of them see (--meeting DIR names another)");
    snprintf(file->path, sizeof file->path, "%s", s->meeting);
    memcpy(s->scheduler, m.scheduler, sizeof s->scheduler);
    return PSR_OK;
}

/* ---- the others ---- */

static psr_err read_text(const cJSON *json, const char *name, char *to, size_t size)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, name));
    if (text == NULL || strlen(text) >= size)
        return psr_fail(PSR_ERR_FORMAT, "\"%s\" is no text of at most %zu bytes", name, size - 1);
    strcpy(to, text);
    return PSR_OK;
}

static psr_err parse(const char *text, const char *job, meeting *ret_meeting)
{
    cJSON *json = cJSON_Parse(text);
    meeting m;
    psr_err err = read_text(json, "job", m.job, sizeof m.job);
    if (err == PSR_OK)
        err = read_text(json, "host", m.host, sizeof m.host);
    if (err == PSR_OK)
        err = read_text(json, "scheduler", m.scheduler, sizeof m.scheduler);
    psr_secret_delete(json);
    if (err == PSR_OK && strcmp(m.job, job) != 0)
        err = psr_fail(PSR_ERR_FORMAT, "it is another job's (%.80s)", m.job);
    if (err == PSR_OK)
        *ret_meeting = m;
    return err;
}

/* NOT_FOUND: it is not there yet. Opening the folder first makes a network file system ask its
 * server what it contains. */
static psr_err look(const psr_start *s, meeting *ret_meeting)
{
    char folder[PSR_START_LINE_MAX], *text = NULL;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(s->meeting, '/') - s->meeting),
             s->meeting);
    int fd = open(folder[0] != '\0' ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return psr_fail(PSR_ERR_USAGE, "the folder in which this job's hosts meet, %s: %s", folder,
                        strerror(errno));
    close(fd);
    errno = 0;
    psr_err err = psr_keys_read_private(s->meeting, &text);
    if (err == PSR_ERR_IO && errno == ESTALE) /* the file was replaced while it was read */
        return PSR_ERR_NOT_FOUND;
    if (err != PSR_OK)
        return err;
    err = parse(text, s->job, ret_meeting);
    psr_secret_free(text);
    return err == PSR_OK ? PSR_OK : psr_fail_context(err, "%s", s->meeting);
}

/* Whether somebody listens at that address. */
static psr_err try(const meeting *m, psr_reach *ret_reach)
{
    char endpoint[PSR_ENDPOINT_MAX + 8];
    snprintf(endpoint, sizeof endpoint, "tcp://%s", m->scheduler);
    *ret_reach = (psr_reach){.endpoint = endpoint};
    psr_err err = psr_reach_all(ret_reach, 1, REACH_MS);
    ret_reach->endpoint = NULL;
    return err;
}

static psr_err refuse(const psr_start *s, const meeting *m, const psr_reach *reach,
                      int64_t deadline_ms)
{
    double deadline_s = (double)deadline_ms / 1000;
    if (m->scheduler[0] == '\0')
        return psr_fail(PSR_ERR_TIMEOUT,
                        "rank 0 has not written %s within %g s: this host may not see its folder; "
                        "name one that all hosts see by --meeting DIR or PSRING_MEETING, or say by "
                        "PSRING_SCHEDULER=HOST:PORT and PSRING_KEY_FILE where the scheduler is",
                        s->meeting, deadline_s);
    return psr_fail(PSR_ERR_TIMEOUT,
                    "the scheduler on host %s, at %s as %s says, was not reached within %g s: %s; "
                    "if that host has another network, name it by --interface or PSRING_INTERFACE",
                    m->host, m->scheduler, s->meeting, deadline_s, reach->failure);
}

static void pause_ms(int64_t ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    (void)nanosleep(&pause, NULL);
}

static psr_err wait_for_file(psr_start *s, int64_t deadline_ms)
{
    const int64_t end_ms = psr_clock_ms() + deadline_ms;
    int64_t next_ms = LOOK_FIRST_MS;
    meeting m = {.host = ""};
    psr_reach reach = {0};
    for (;;) {
        psr_err err = look(s, &m);
        if (err == PSR_OK)
            PSR_TRY(try(&m, &reach));
        else if (err != PSR_ERR_NOT_FOUND)
            return err;
        if (err == PSR_OK && reach.failure[0] == '\0')
            break;
        int64_t left_ms = end_ms - psr_clock_ms();
        if (left_ms <= 0)
            return refuse(s, &m, &reach, deadline_ms);
        pause_ms(next_ms < left_ms ? next_ms : left_ms);
        next_ms = 2 * next_ms < LOOK_LAST_MS ? 2 * next_ms : LOOK_LAST_MS;
    }
    memcpy(s->scheduler, m.scheduler, sizeof s->scheduler);
    return PSR_OK;
}

/* ---- both ---- */

psr_err psr_meeting_file_meet(psr_start *s, uint32_t workers, uint32_t shards, int64_t deadline_ms,
                              psr_meeting_file *ret_file)
{
    psr_meeting_file file = PSR_MEETING_FILE_NONE;
    if (s->meeting[0] == '\0')
        return PSR_OK;
    psr_err err =
        s->starts_scheduler ? write_file(s, workers, shards, &file) : wait_for_file(s, deadline_ms);
    if (err != PSR_OK) {
        psr_meeting_file_remove(&file);
        return err;
    }
    memcpy(s->key_file, s->meeting, sizeof s->key_file);
    *ret_file = file;
    return PSR_OK;
}

void psr_meeting_file_remove(psr_meeting_file *file)
{
    if (file->path[0] != '\0')
        (void)unlink(file->path); /* it may be gone already */
    if (file->port >= 0)
        close(file->port);
    *file = PSR_MEETING_FILE_NONE;
}
