#include "ps/scheduler/rundir.h"

#include "base/attempts.h"
#include "base/system/file.h"
#include "base/text/printable.h"
#include "ps/roster.h"
#include "ps/scheduler/about.h"
#include "ps/scheduler/metrics/metrics_file.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATH_BYTES (PSR_PATH_MAX + 64)
#define NAMES_MAX 1000             /* how many names of the series other runs took first */
#define EARLY_BYTES_MAX (1u << 20) /* bytes of log lines that wait for the directory */

typedef struct log_file {
    psr_peer peer;
    FILE *file;
    struct log_file *next;
} log_file;

typedef struct early_line {
    psr_peer peer;
    struct early_line *next;
    char text[];
} early_line;

struct psr_rundir {
    bool has_best; /* of the checkpoints, by --keep-best */
    uint64_t best_step;
    double best_accuracy;
    psr_config config;
    const char *series, *command; /* borrowed */
    bool there;
    psr_facts facts;
    psr_computing computing;          /* zeros until it is known */
    char *roster_json, *resumed_from; /* owned */
    char started[40], ended[40];
    cJSON *outcome;           /* owned */
    uint64_t link_bits_per_s; /* 0: not measured */
    char link_from[PSR_HOST_MAX], link_to[PSR_HOST_MAX];
    char metrics_url[PSR_ADDRESS_MAX + 32]; /* --metrics-port; "": none */
    psr_metrics_file *metrics;
    log_file *logs;
    early_line *early, **early_end;
    size_t early_bytes;
    uint64_t lines_lost;
};

/* ---- whether it can be made ---- */

/* Checks that we may write in the nearest existing directory above path. may_be_there: path itself
 * may exist, since then another name is taken. */
static psr_err check_can_be_made(const char *path, bool may_be_there)
{
    struct stat status;
    if (!may_be_there && lstat(path, &status) == 0)
        return psr_fail(PSR_ERR_USAGE,
                        "--out %s exists already; name a directory that a run can make", path);
    char above[PATH_BYTES];
    snprintf(above, sizeof above, "%s", path);
    for (;;) {
        char *slash = strrchr(above, '/');
        if (slash == NULL)
            strcpy(above, ".");
        else if (slash == above)
            strcpy(above, "/");
        else
            *slash = '\0';
        if (stat(above, &status) == 0)
            break;
        if (errno != ENOENT || strcmp(above, ".") == 0 || strcmp(above, "/") == 0)
            return psr_fail(PSR_ERR_IO, "--out %s cannot be made: %s: %s", path, above,
                            strerror(errno));
    }
    if (!S_ISDIR(status.st_mode))
        return psr_fail(PSR_ERR_IO, "--out %s cannot be made: %s is no directory", path, above);
    if (access(above, W_OK | X_OK) != 0)
        return psr_fail(PSR_ERR_IO, "--out %s cannot be made: %s: %s", path, above,
                        strerror(errno));
    return PSR_OK;
}

psr_err psr_rundir_new(const psr_config *config, const char *series, const char *command,
                       psr_rundir **ret_rundir)
{
    if (config->out[0] == '\0')
        return psr_fail(PSR_ERR_USAGE, "--out is empty; name a directory that a run can make");
    PSR_TRY(check_can_be_made(config->out, series != NULL));
    psr_rundir *rundir = calloc(1, sizeof *rundir);
    if (rundir == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a run directory");
    rundir->config = *config;
    rundir->series = series;
    rundir->command = command;
    rundir->early_end = &rundir->early;
    *ret_rundir = rundir;
    return PSR_OK;
}

void psr_rundir_free(psr_rundir *rundir)
{
    if (rundir == NULL)
        return;
    while (rundir->logs != NULL) {
        log_file *next = rundir->logs->next;
        if (rundir->logs->file != NULL)
            fclose(rundir->logs->file);
        free(rundir->logs);
        rundir->logs = next;
    }
    while (rundir->early != NULL) {
        early_line *next = rundir->early->next;
        free(rundir->early);
        rundir->early = next;
    }
    psr_metrics_file_free(rundir->metrics);
    cJSON_Delete(rundir->outcome);
    free(rundir->roster_json);
    free(rundir->resumed_from);
    free(rundir);
}

/* ---- run.json ---- */

static void print_time(char text[static 40])
{
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, 40, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

static bool add(cJSON *object, const char *name, cJSON *item)
{
    if (item != NULL && cJSON_AddItemToObject(object, name, item))
        return true;
    cJSON_Delete(item);
    return false;
}

/* The hosts of the roster, each once. */
static cJSON *hosts_of(const cJSON *roster)
{
    cJSON *hosts = cJSON_CreateArray();
    const cJSON *entry, *known;
    cJSON_ArrayForEach(entry, roster)
    {
        const char *host = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "host"));
        bool listed = host == NULL;
        cJSON_ArrayForEach(known, hosts) listed = listed || strcmp(known->valuestring, host) == 0;
        if (!listed)
            cJSON_AddItemToArray(hosts, cJSON_CreateString(host));
    }
    return hosts;
}

static cJSON *describe_links(const psr_rundir *rundir)
{
    cJSON *links = cJSON_CreateObject();
    if (cJSON_AddNumberToObject(links, "slowest_bits_per_s", (double)rundir->link_bits_per_s) !=
            NULL &&
        cJSON_AddStringToObject(links, "from", rundir->link_from) != NULL &&
        cJSON_AddStringToObject(links, "to", rundir->link_to) != NULL)
        return links;
    cJSON_Delete(links);
    return NULL;
}

/* What is "" is left out. */
static bool add_computing(cJSON *run, const psr_computing *computing)
{
    const struct {
        const char *name, *text;
    } fields[] = {{"algorithms", computing->algorithms},
                  {"engines", computing->engines},
                  {"loops", computing->loops},
                  {"input", computing->input}};
    bool whole = true;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].text[0] != '\0')
            whole = whole && cJSON_AddStringToObject(run, fields[i].name, fields[i].text) != NULL;
    return whole;
}

static bool fill_run(const psr_rundir *rundir, cJSON *run)
{
    char *config = NULL, *facts = NULL;
    bool whole = psr_config_to_json(&rundir->config, &config) == PSR_OK &&
                 psr_facts_to_json(&rundir->facts, &facts) == PSR_OK;
    cJSON *roster = cJSON_Parse(rundir->roster_json);
    whole = whole && cJSON_AddStringToObject(run, "version", PSR_VERSION) != NULL &&
            add(run, "versions", psr_about_versions(&rundir->facts)) &&
            cJSON_AddStringToObject(run, "command", rundir->command) != NULL &&
            add(run, "config", cJSON_Parse(config)) && add(run, "facts", cJSON_Parse(facts)) &&
            add(run, "hosts", hosts_of(roster)) &&
            cJSON_AddStringToObject(run, "started", rundir->started) != NULL;
    if (!add(run, "roster", roster))
        whole = false;
    if (rundir->link_bits_per_s > 0)
        whole = whole && add(run, "measured_links", describe_links(rundir));
    if (rundir->metrics_url[0] != '\0')
        whole = whole && cJSON_AddStringToObject(run, "metrics_url", rundir->metrics_url) != NULL;
    if (!add_computing(run, &rundir->computing))
        whole = false;
    if (rundir->resumed_from != NULL)
        whole = whole && cJSON_AddStringToObject(run, "resumed_from", rundir->resumed_from) != NULL;
    if (rundir->ended[0])
        whole = whole && cJSON_AddStringToObject(run, "ended", rundir->ended) != NULL;
    if (rundir->outcome != NULL)
        whole = whole && add(run, "outcome", cJSON_Duplicate(rundir->outcome, true));
    free(config);
    free(facts);
    return whole;
}

void psr_rundir_links(psr_rundir *rundir, uint64_t bits_per_s, const char *from, const char *to)
{
    rundir->link_bits_per_s = bits_per_s;
    snprintf(rundir->link_from, sizeof rundir->link_from, "%s", from);
    snprintf(rundir->link_to, sizeof rundir->link_to, "%s", to);
}

void psr_rundir_metrics_url(psr_rundir *rundir, const char *url)
{
    snprintf(rundir->metrics_url, sizeof rundir->metrics_url, "%s", url);
}

static psr_err write_run(const psr_rundir *rundir)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/run.json", rundir->config.out);
    cJSON *run = cJSON_CreateObject();
    char *text = run != NULL && fill_run(rundir, run) ? cJSON_Print(run) : NULL;
    cJSON_Delete(run);
    if (text == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for %s", path);
    size_t size = strlen(text);
    text[size] = '\n'; /* replaces the zero: the size is known */
    psr_err err = psr_file_write_atomic(path, text, size + 1);
    free(text);
    return err;
}

/* ---- logs ---- */

static void log_path(const psr_rundir *rundir, psr_peer peer, char path[static PATH_BYTES])
{
    /* A worker's file is named by its rank. */
    const char *name = peer.role == PSR_ROLE_WORKER ? "rank" : psr_role_name(peer.role);
    if (peer.role == PSR_ROLE_SCHEDULER)
        snprintf(path, PATH_BYTES, "%s/log/%s.log", rundir->config.out, name);
    else
        snprintf(path, PATH_BYTES, "%s/log/%s-%" PRIu32 ".log", rundir->config.out, name,
                 peer.rank);
}

/* NULL: errno says why. */
static FILE *open_to_append(const char *path)
{
    FILE *file = fopen(path, "ae");
    for (unsigned attempt = 0; file == NULL && psr_file_try_again(attempt); attempt++)
        file = fopen(path, "ae");
    return file;
}

static void write_log(psr_rundir *rundir, psr_peer peer, const char *line)
{
    log_file *log = rundir->logs;
    while (log != NULL && !psr_peer_equal(log->peer, peer))
        log = log->next;
    if (log == NULL) {
        log = calloc(1, sizeof *log);
        if (log == NULL) {
            rundir->lines_lost++;
            return;
        }
        char path[PATH_BYTES];
        log_path(rundir, peer, path);
        *log = (log_file){.peer = peer, .file = open_to_append(path), .next = rundir->logs};
        rundir->logs = log;
    }
    if (log->file == NULL || fprintf(log->file, "%s\n", line) < 0)
        rundir->lines_lost++;
}

static void keep_early(psr_rundir *rundir, psr_peer peer, const char *line)
{
    size_t size = strlen(line) + 1;
    early_line *early =
        rundir->early_bytes + size <= EARLY_BYTES_MAX ? malloc(sizeof *early + size) : NULL;
    if (early == NULL) {
        rundir->lines_lost++;
        return;
    }
    early->peer = peer;
    early->next = NULL;
    memcpy(early->text, line, size);
    *rundir->early_end = early;
    rundir->early_end = &early->next;
    rundir->early_bytes += size;
}

void psr_rundir_log(psr_rundir *rundir, psr_peer peer, const char *line)
{
    /* The line may come from another host, and somebody will read the log on a terminal. */
    char *printable = strdup(line);
    if (printable == NULL) {
        rundir->lines_lost++;
        return;
    }
    psr_printable_line(printable, strlen(printable));
    if (rundir->there)
        write_log(rundir, peer, printable);
    else
        keep_early(rundir, peer, printable);
    free(printable);
}

/* ---- begin, metrics, end ---- */

static psr_err make_directory(const char *path)
{
    if (mkdir(path, 0777) != 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
    return PSR_OK;
}

/* The next name of its series. */
static psr_err take_next_name(psr_rundir *rundir)
{
    if (rundir->series[0] != '\0')
        return psr_attempts_name(rundir->series, rundir->config.out);
    psr_config_name_out(&rundir->config);
    return PSR_OK;
}

/* Other runs may find the name free at the same time. The run whose mkdir succeeds gets it. */
static psr_err claim_name(psr_rundir *rundir)
{
    for (int tries = 0; mkdir(rundir->config.out, 0777) != 0; tries++) {
        if (errno != EEXIST || rundir->series == NULL || tries == NAMES_MAX)
            return psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", rundir->config.out,
                            strerror(errno));
        PSR_TRY(take_next_name(rundir));
    }
    return PSR_OK;
}

static psr_err make_directories(psr_rundir *rundir)
{
    const char *out = rundir->config.out;
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s", out);
    char *slash = strrchr(path, '/');
    if (slash != NULL && slash != path) {
        *slash = '\0';
        PSR_TRY(psr_mkdirs(path));
    }
    PSR_TRY(claim_name(rundir));
    snprintf(path, sizeof path, "%s/log", out);
    PSR_TRY(make_directory(path));
    snprintf(path, sizeof path, "%s/checkpoints", out);
    return make_directory(path);
}

psr_err psr_rundir_begin(psr_rundir *rundir, uint64_t bucket_bytes, const psr_facts *facts,
                         const char *roster_json, const char *resumed_from)
{
    rundir->config.bucket_bytes = bucket_bytes;
    rundir->facts = *facts;
    if (facts->content.train[0] != '\0')
        snprintf(rundir->config.data_content, sizeof rundir->config.data_content, "%s-%s",
                 facts->content.train, facts->content.test);
    rundir->roster_json = strdup(roster_json);
    rundir->resumed_from = resumed_from != NULL ? strdup(resumed_from) : NULL;
    if (rundir->roster_json == NULL || (resumed_from != NULL && rundir->resumed_from == NULL))
        return psr_fail(PSR_ERR_NOMEM, "no memory for a run directory");
    print_time(rundir->started);
    PSR_TRY(make_directories(rundir));
    rundir->there = true;
    PSR_TRY(write_run(rundir));
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/metrics.jsonl", rundir->config.out);
    PSR_TRY(psr_metrics_file_new(path, psr_roster_of(&rundir->config).ranks,
                                 rundir->config.metrics_every, &rundir->metrics));
    for (const early_line *early = rundir->early; early != NULL; early = early->next)
        write_log(rundir, early->peer, early->text);
    return PSR_OK;
}

const char *psr_rundir_path(const psr_rundir *rundir)
{
    return rundir->config.out;
}

psr_err psr_rundir_computing(psr_rundir *rundir, const psr_computing *computing)
{
    rundir->computing = *computing;
    /* timing again could choose other algorithms */
    if (strcmp(rundir->config.algorithms, "timed") == 0 && computing->algorithms[0] != '\0')
        strcpy(rundir->config.algorithms, computing->algorithms);
    return write_run(rundir);
}

psr_err psr_rundir_mode(psr_rundir *rundir, const psr_config *config)
{
    return psr_config_take_stretches(&rundir->config, config) ? write_run(rundir) : PSR_OK;
}

psr_err psr_rundir_metrics(psr_rundir *rundir, const psr_metrics_line *line)
{
    return psr_metrics_file_put(rundir->metrics, line);
}

psr_err psr_rundir_flush(psr_rundir *rundir)
{
    for (const log_file *log = rundir->logs; log != NULL; log = log->next)
        if (log->file != NULL && fflush(log->file) != 0)
            rundir->lines_lost++;
    return rundir->metrics != NULL ? psr_metrics_file_flush(rundir->metrics) : PSR_OK;
}

void psr_rundir_best(psr_rundir *rundir, uint64_t step, double accuracy)
{
    rundir->has_best = true;
    rundir->best_step = step;
    rundir->best_accuracy = accuracy;
}

psr_err psr_rundir_end(psr_rundir *rundir, psr_err status, const char *line,
                       const char *outcome_json)
{
    if (!rundir->there)
        return PSR_OK;
    print_time(rundir->ended);
    cJSON *outcome = outcome_json != NULL ? cJSON_Parse(outcome_json) : NULL;
    if (!cJSON_IsObject(outcome)) {
        cJSON_Delete(outcome);
        outcome = cJSON_CreateObject();
    }
    cJSON_Delete(rundir->outcome);
    rundir->outcome = outcome;
    if (outcome == NULL ||
        cJSON_AddStringToObject(outcome, "status", psr_err_name(status)) == NULL ||
        cJSON_AddNumberToObject(outcome, "exit_status", psr_err_exit_status(status)) == NULL ||
        cJSON_AddStringToObject(outcome, "line", line) == NULL ||
        (rundir->has_best &&
         (cJSON_AddNumberToObject(outcome, "best_step", (double)rundir->best_step) == NULL ||
          cJSON_AddNumberToObject(outcome, "best_accuracy", rundir->best_accuracy) == NULL)) ||
        (rundir->lines_lost > 0 &&
         cJSON_AddNumberToObject(outcome, "log_lines_lost", (double)rundir->lines_lost) == NULL))
        return psr_fail(PSR_ERR_NOMEM, "no memory for a run's outcome");
    psr_err flushed = rundir->metrics != NULL ? psr_metrics_file_end(rundir->metrics) : PSR_OK;
    if (flushed == PSR_OK)
        flushed = psr_rundir_flush(rundir);
    psr_err written = write_run(rundir);
    return flushed != PSR_OK ? flushed : written;
}

void psr_rundir_discard(psr_rundir *rundir)
{
    if (!rundir->there)
        return;
    const char *out = rundir->config.out;
    char path[PATH_BYTES];
    rundir->there = false;
    while (rundir->logs != NULL) {
        log_file *next = rundir->logs->next;
        if (rundir->logs->file != NULL)
            fclose(rundir->logs->file);
        log_path(rundir, rundir->logs->peer, path);
        (void)unlink(path);
        free(rundir->logs);
        rundir->logs = next;
    }
    psr_metrics_file_free(rundir->metrics);
    rundir->metrics = NULL;
    static const char *const files[] = {"run.json", "metrics.jsonl"}, *const directories[] = {
                                                                          "/log", "/checkpoints",
                                                                          ""};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/%s", out, files[i]);
        (void)unlink(path);
    }
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
        snprintf(path, sizeof path, "%s%s", out, directories[i]);
        (void)rmdir(path); /* fails if anything in it is not ours */
    }
}
