#include "deploy/report/runs.h"

#include <stdio.h>
#include <string.h>

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
