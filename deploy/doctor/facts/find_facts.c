#include "deploy/doctor/facts/find_facts.h"

#include "base/text/printable.h"
#include "base/system/child.h"
#include "base/text/json_fields.h"
#include "deploy/doctor/facts/ask.h"
#include "net/address/lookup.h"
#include "net/sharing/shared_arena.h"
#include "net/address/socket_directory.h"

#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- files of one line, or of "name value" ---- */

/* Without the newline; "" when it cannot be read. */
static void read_line(const char *path, char *line, size_t size)
{
    FILE *file = fopen(path, "re");
    line[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(line, (int)size, file) == NULL)
        line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    psr_printable_line(line, strlen(line));
}

/* The text after the colon of the first line that begins with name. */
static void read_field(const char *path, const char *name, char *value, size_t size)
{
    char line[512];
    FILE *file = fopen(path, "re");
    value[0] = '\0';
    while (file != NULL && value[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, name, strlen(name)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    }
    if (file != NULL)
        fclose(file);
    psr_printable_line(value, strlen(value));
}

static uint64_t kib_of(const char *name)
{
    char value[64];
    read_field("/proc/meminfo", name, value, sizeof value);
    return strtoull(value, NULL, 10) << 10;
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

/* ---- the control group ---- */

uint64_t psr_find_cpu_max(const char *text)
{
    uint64_t quota_us = 0, period_us = 0;
    if (sscanf(text, "%" SCNu64 " %" SCNu64, &quota_us, &period_us) != 2 || period_us == 0 ||
        quota_us > UINT64_MAX / 1000)
        return PSR_FACT_UNLIMITED;
    return at_most(quota_us * 1000 / period_us, PSR_FACT_UNLIMITED);
}

static void limit_cpu(const char *directory, psr_host_facts *f)
{
    char path[PATH_MAX + 32], text[128];
    snprintf(path, sizeof path, "%s/cpu.max", directory);
    read_line(path, text, sizeof text);
    f->cpu_limit_milli = at_most(f->cpu_limit_milli, psr_find_cpu_max(text));
}

static void limit_memory(const char *directory, const char *limit_file, const char *used_file,
                         psr_host_facts *f)
{
    char path[PATH_MAX + 32], max[64], now[64];
    snprintf(path, sizeof path, "%s/%s", directory, limit_file);
    read_line(path, max, sizeof max);
    snprintf(path, sizeof path, "%s/%s", directory, used_file);
    read_line(path, now, sizeof now);
    if (max[0] < '0' || max[0] > '9') /* "max", or no such file */
        return;
    uint64_t limit = strtoull(max, NULL, 10), used = strtoull(now, NULL, 10);
    f->memory_bytes = at_most(f->memory_bytes, limit);
    f->memory_free_bytes = at_most(f->memory_free_bytes, limit > used ? limit - used : 0);
}

/* The limit of a process is the least of the limits of its group and of all groups above. */
static void find_group_limits(psr_host_facts *f)
{
    static const char top[] = "/sys/fs/cgroup";
    char group[PATH_MAX], directory[PATH_MAX + sizeof top], quota[64], period[64], both[160];
    f->cpu_limit_milli = PSR_FACT_UNLIMITED;
    read_field("/proc/self/cgroup", "0:", group, sizeof group);
    const char *path = strchr(group, ':'); /* "0::/a/b" */
    snprintf(directory, sizeof directory, "%s%s", top, path != NULL ? path + 1 : "");
    while (strlen(directory) >= sizeof top - 1) {
        limit_cpu(directory, f);
        limit_memory(directory, "memory.max", "memory.current", f);
        *strrchr(directory, '/') = '\0';
    }
    /* In version 1, "no limit" is a number that is larger than any memory. */
    limit_memory("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", f);
    read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", quota, sizeof quota);
    read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", period, sizeof period);
    snprintf(both, sizeof both, "%s %s", quota, period);
    if (quota[0] != '-')
        f->cpu_limit_milli = at_most(f->cpu_limit_milli, psr_find_cpu_max(both));
}

/* ---- processor, memory, limits ---- */

static uint64_t cache_bytes(int name)
{
    long bytes = sysconf(name);
    return bytes > 0 ? (uint64_t)bytes : 0;
}

static void find_processor(psr_host_facts *f)
{
    cpu_set_t allowed;
    read_field("/proc/cpuinfo", "model name", f->processor, sizeof f->processor);
    f->cores = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    f->cores_allowed = sched_getaffinity(0, sizeof allowed, &allowed) == 0
                           ? (uint64_t)CPU_COUNT(&allowed)
                           : f->cores;
    f->l1_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE);
    f->l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE);
    f->l3_bytes = cache_bytes(_SC_LEVEL3_CACHE_SIZE);
}

/* The hard limit: psring's processes raise their own limits to it. */
static uint64_t hard_limit(const struct rlimit *limit)
{
    return limit->rlim_max == RLIM_INFINITY ? PSR_FACT_UNLIMITED
                                            : at_most(limit->rlim_max, PSR_FACT_UNLIMITED);
}

/* Of "always [madvise] never" the word in brackets. */
static void find_huge_pages(psr_host_facts *f)
{
    char line[128];
    read_line("/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof line);
    const char *begin = strchr(line, '[');
    if (begin != NULL)
        snprintf(f->huge_pages, sizeof f->huge_pages, "%.*s", (int)strcspn(begin + 1, "]"),
                 begin + 1);
}

static void find_limits(psr_host_facts *f)
{
    struct statvfs shm;
    struct rlimit files, locked;
    char filter[16];
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        f->files_max = hard_limit(&files);
    if (getrlimit(RLIMIT_MEMLOCK, &locked) == 0)
        f->locked_bytes_max = hard_limit(&locked);
    find_huge_pages(f);
    if (statvfs("/dev/shm", &shm) == 0)
        f->shm_free_bytes = at_most((uint64_t)shm.f_bavail * shm.f_frsize, PSR_FACT_UNLIMITED);
    read_field("/proc/self/status", "Seccomp:", filter, sizeof filter);
    f->seccomp = strtoull(filter, NULL, 10);
    read_line("/proc/sys/net/ipv4/tcp_congestion_control", f->congestion, sizeof f->congestion);
    read_line("/proc/sys/net/ipv4/tcp_allowed_congestion_control", f->congestion_allowed,
              sizeof f->congestion_allowed);
}

/* As a run does it. */
static void try_sharing(psr_host_facts *f)
{
    psr_shared_arena arena = PSR_SHARED_ARENA_NONE;
    if (psr_shared_arena_new(1, &arena) != PSR_OK)
        snprintf(f->sharing_failure, sizeof f->sharing_failure, "%s", psr_err_detail());
    psr_shared_arena_done(&arena);
    psr_socket_directory directory = PSR_SOCKET_DIRECTORY_NONE;
    if (psr_socket_directory_make(getenv("XDG_RUNTIME_DIR"), &directory) != PSR_OK)
        snprintf(f->sockets_failure, sizeof f->sockets_failure, "%s", psr_err_detail());
    psr_socket_directory_remove(&directory);
}

/* ---- programs ---- */

/* Takes a text of the worker's answer. If it does not fit or is not a text, `to` stays "". */
static void take_text(const cJSON *answer, const char *name, char *to, size_t size)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, name));
    if (text != NULL)
        snprintf(to, size, "%s", text);
    psr_printable_line(to, strlen(to));
}

static void take_count(const cJSON *answer, const char *name, uint64_t *to)
{
    if (psr_fields_number(answer, name, PSR_FACT_UNLIMITED, to) != PSR_OK)
        *to = 0;
}

static psr_err ask_worker(const psr_planned *planned, int within_ms, char *answer, size_t size)
{
    char path[PATH_MAX], word[] = "examine";
    PSR_TRY(psr_program_path("psring-worker", path, sizeof path));
    char *argv[] = {path, word, (char *)(uintptr_t)planned->data,
                    (char *)(uintptr_t)planned->options, NULL};
    return psr_ask_program(argv, within_ms, answer, size);
}

static void examine_worker(const psr_planned *planned, int within_ms, psr_host_facts *f)
{
    char answer[4096];
    if (ask_worker(planned, within_ms, answer, sizeof answer) != PSR_OK) {
        snprintf(f->worker_failure, sizeof f->worker_failure, "%s", psr_err_detail());
        psr_printable_line(f->worker_failure, strlen(f->worker_failure));
        return;
    }
    cJSON *json = cJSON_Parse(answer);
    take_text(json, "identity", f->identity, sizeof f->identity);
    take_text(json, "library", f->library, sizeof f->library);
    take_text(json, "data", f->data, sizeof f->data);
    take_text(json, "data_failure", f->data_failure, sizeof f->data_failure);
    take_text(json, "model_failure", f->model_failure, sizeof f->model_failure);
    take_count(json, "fixed_bytes", &f->fixed_bytes);
    take_count(json, "sample_bytes", &f->sample_bytes);
    take_count(json, "data_bytes", &f->data_bytes);
    const char *version = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "version"));
    if (version == NULL || strcmp(version, PSR_VERSION) != 0)
        snprintf(f->worker_failure, sizeof f->worker_failure,
                 "psring-worker beside psring %s is of another version: '%.100s'", PSR_VERSION,
                 answer);
    cJSON_Delete(json);
}

/* What is missing is told as one line even where all is: nothing of psring is for GPUs there. */
static void examine_gpus(int within_ms, psr_host_facts *f)
{
    char path[PATH_MAX], word[] = "devices", answer[4096];
    char *argv[] = {path, word, NULL};
    if (psr_program_path("psring-worker-cuda", path, sizeof path) != PSR_OK) {
        snprintf(f->cuda_missing, sizeof f->cuda_missing,
                 "none looked for: the package psring-cuda is not installed");
        return;
    }
    if (psr_ask_program(argv, within_ms, answer, sizeof answer) != PSR_OK) {
        snprintf(f->cuda_missing, sizeof f->cuda_missing, "psring-worker-cuda: %.460s",
                 psr_err_detail());
        psr_printable_line(f->cuda_missing, strlen(f->cuda_missing));
        return;
    }
    cJSON *json = cJSON_Parse(answer);
    take_text(json, "devices", f->cuda_devices, sizeof f->cuda_devices);
    take_text(json, "libraries", f->cuda_libraries, sizeof f->cuda_libraries);
    take_text(json, "missing", f->cuda_missing, sizeof f->cuda_missing);
    const char *version = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, "version"));
    if (version == NULL || strcmp(version, PSR_VERSION) != 0)
        snprintf(f->cuda_missing, sizeof f->cuda_missing,
                 "psring-worker-cuda beside psring %s is of another version", PSR_VERSION);
    cJSON_Delete(json);
}

void psr_find_data_content(const char *data, int within_ms,
                           char ret_content[PSR_CONTENT_TEXT_BYTES], char ret_failure[512])
{
    char path[PATH_MAX], word[] = "read", answer[4096];
    ret_content[0] = ret_failure[0] = '\0';
    psr_err err = psr_program_path("psring-worker", path, sizeof path);
    char *argv[] = {path, word, (char *)(uintptr_t)data, NULL};
    if (err == PSR_OK)
        err = psr_ask_program(argv, within_ms, answer, sizeof answer);
    if (err == PSR_ERR_TIMEOUT) {
        snprintf(ret_failure, 512, "its files could not be read to their end within %d s",
                 within_ms / 1000);
        return;
    }
    cJSON *json = err == PSR_OK ? cJSON_Parse(answer) : NULL;
    take_text(json, "content", ret_content, PSR_CONTENT_TEXT_BYTES);
    take_text(json, "failure", ret_failure, 512);
    cJSON_Delete(json);
    if (ret_content[0] == '\0' && ret_failure[0] == '\0')
        snprintf(ret_failure, 512, "%s",
                 err != PSR_OK ? psr_err_detail() : "psring-worker did not say");
    psr_printable_line(ret_failure, strlen(ret_failure));
}

/* The psring that the shell finds first; false: none, or it is this one. */
static bool find_in_path(char path[PATH_MAX])
{
    char own[PATH_MAX], found[PATH_MAX], directories[8192], *rest = NULL;
    const char *all = getenv("PATH");
    snprintf(directories, sizeof directories, "%s", all != NULL ? all : "");
    for (char *d = strtok_r(directories, ":", &rest); d != NULL; d = strtok_r(NULL, ":", &rest)) {
        snprintf(path, PATH_MAX, "%.*s/psring", PATH_MAX - 16, d);
        if (access(path, X_OK) == 0)
            return realpath("/proc/self/exe", own) != NULL && realpath(path, found) != NULL &&
                   strcmp(own, found) != 0;
    }
    return false;
}

static void examine_path(int within_ms, psr_host_facts *f)
{
    char path[PATH_MAX], option[] = "--version", answer[256] = "";
    if (!find_in_path(path))
        return;
    char *argv[] = {path, option, NULL};
    snprintf(f->path_program, sizeof f->path_program, "%.255s", path);
    psr_printable_line(f->path_program, strlen(f->path_program));
    const bool answers = psr_ask_program(argv, within_ms, answer, sizeof answer) == PSR_OK;
    if (!answers || sscanf(answer, "psring %63s", f->path_version) != 1)
        snprintf(f->path_version, sizeof f->path_version, "unknown");
    psr_printable_line(f->path_version, strlen(f->path_version));
}

/* ---- all ---- */

static void find_names(int within_ms, psr_host_facts *f)
{
    if (gethostname(f->hostname, sizeof f->hostname - 1) != 0)
        return;
    psr_lookup own = {.name = f->hostname};
    if (psr_lookup_all(&own, 1, within_ms) == PSR_OK)
        snprintf(f->own_address, sizeof f->own_address, "%s", own.address);
    psr_printable_line(f->hostname, strlen(f->hostname));
}

void psr_find_host_facts(const psr_planned *planned, int within_ms, psr_host_facts *ret_facts)
{
    psr_host_facts f = {.memory_bytes = kib_of("MemTotal:"),
                        .memory_free_bytes = kib_of("MemAvailable:")};
    find_names(within_ms / 4, &f);
    find_processor(&f);
    find_group_limits(&f);
    find_limits(&f);
    try_sharing(&f);
    examine_worker(planned, within_ms / 4, &f);
    examine_gpus(within_ms / 4, &f);
    examine_path(within_ms / 4, &f);
    *ret_facts = f;
}
