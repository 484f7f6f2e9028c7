#include "deploy/report/runs.h"

#include "deploy/report/bench_file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A directory's own name, without the path before it. */
static void print_own_name(const char *directory, char *text, size_t size)
{
    size_t end = strlen(directory), begin;
    while (end > 1 && directory[end - 1] == '/')
        end--;
    for (begin = end; begin > 0 && directory[begin - 1] != '/'; begin--)
        ;
    snprintf(text, size, "%.*s", (int)(end - begin), directory + begin);
}

/* ---- directories ---- */

static psr_err add_directory(psr_runs *r, const char *directory)
{
    if (r->count == PSR_RUNS_MAX)
        return psr_fail(PSR_ERR_USAGE, "more than %d runs; give fewer", PSR_RUNS_MAX);
    r->directories[r->count++] = directory;
    return PSR_OK;
}

static int is_visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Consumes found. */
static psr_err add_named(psr_runs *r, char *found)
{
    psr_err err = add_directory(r, found);
    if (err == PSR_OK)
        r->found[r->found_count++] = found;
    else
        free(found);
    return err;
}

static psr_err add_found(psr_runs *r, const char *directory, const char *name)
{
    char *found = NULL;
    if (asprintf(&found, "%s/%s", directory, name) < 0)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a run's name");
    return add_named(r, found);
}

static psr_err add_line(psr_runs *r, const psr_bench_file *file, size_t i)
{
    char *name = NULL;
    PSR_TRY(psr_bench_file_name(file, i, &name));
    PSR_TRY(add_named(r, name));
    return psr_bench_file_record(file, i, name, &r->items[r->count - 1]);
}

/* What the file says of the runs whose directories it has not kept. */
static psr_err add_lines(psr_runs *r, const char *path)
{
    psr_bench_file *file = NULL;
    PSR_TRY(psr_bench_file_read(path, &file));
    psr_err err = psr_bench_file_count(file) > 0
                      ? PSR_OK
                      : psr_fail(PSR_ERR_USAGE, "%s has no repetition yet", path);
    for (size_t i = 0; err == PSR_OK && i < psr_bench_file_count(file); i++)
        err = add_line(r, file, i);
    psr_bench_file_free(file);
    return err;
}

static psr_err add_bench(psr_runs *r, const char *file)
{
    char directory[PSR_RUNS_NAME_BYTES];
    struct dirent **entries = NULL;
    snprintf(directory, sizeof directory, "%s.runs", file);
    int count = scandir(directory, &entries, is_visible, alphasort);
    psr_err err = count <= 0 ? add_lines(r, file) : PSR_OK;
    for (int i = 0; i < count; i++) {
        if (err == PSR_OK)
            err = add_found(r, directory, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return err;
}

psr_err psr_runs_add(psr_runs *r, const char *path)
{
    struct stat status;
    bool is_file = stat(path, &status) == 0 && S_ISREG(status.st_mode);
    PSR_TRY(is_file ? add_bench(r, path) : add_directory(r, path));
    r->given[r->given_count++] = path; /* no more than runs */
    return PSR_OK;
}

bool psr_runs_read(psr_runs *r)
{
    bool readable = true;
    for (size_t i = 0; i < r->count; i++) {
        if (r->items[i].json == NULL)
            psr_run_record_read(r->directories[i], &r->items[i]);
        readable = readable && r->items[i].status != PSR_RUN_UNREADABLE;
    }
    return readable;
}

void psr_runs_done(psr_runs *r)
{
    for (size_t i = 0; i < r->count; i++)
        psr_run_record_done(&r->items[i]);
    for (size_t i = 0; i < r->found_count; i++)
        free(r->found[i]);
    cJSON_Delete(r->differing);
    cJSON_Delete(r->predicted);
    *r = (psr_runs){0};
}

/* ---- what is shown ---- */

void psr_runs_name(const psr_runs *r, size_t i, char *text, size_t size)
{
    char own[PSR_RUNS_NAME_BYTES], other[PSR_RUNS_NAME_BYTES];
    print_own_name(r->directories[i], own, sizeof own);
    bool tells = own[0] != '\0' && own[0] != '.';
    for (size_t k = 0; k < r->count && tells; k++) {
        print_own_name(r->directories[k], other, sizeof other);
        tells = k == i || strcmp(own, other) != 0;
    }
    snprintf(text, size, "%s", tells ? own : r->directories[i]);
}

size_t psr_runs_hashes(const psr_runs *r, bool *ret_equal)
{
    const char *one = NULL;
    size_t count = 0;
    *ret_equal = true;
    for (size_t i = 0; i < r->count; i++) {
        const char *hash = psr_run_record_hash(&r->items[i]);
        if (hash == NULL)
            continue;
        count++;
        *ret_equal = *ret_equal && (one == NULL || strcmp(one, hash) == 0);
        one = hash;
    }
    return count;
}
