#include "tests/unit/psring/ranks.h"

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

enum { DEADLINE_MS = 20000 };

void expect_words(psring_err got, psring_err err, const char *words)
{
    if (got == err && strstr(psring_err_detail(), words) != NULL)
        return;
    fprintf(stderr, "%s: %s; not %s with \"%s\"\n", psring_err_name(got), psring_err_detail(),
            psring_err_name(err), words);
    abort();
}

void ranks_folder_make(ranks_folder *folder)
{
    strcpy(folder->path, "/tmp/psring-ranks-XXXXXX");
    expect(mkdtemp(folder->path) != NULL);
    snprintf(folder->scheduler, sizeof folder->scheduler, "%s/scheduler", folder->path);
}

void ranks_folder_empty(const ranks_folder *folder)
{
    DIR *entries = opendir(folder->path);
    expect(entries != NULL);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (entry->d_name[0] != '.')
            expect(unlinkat(dirfd(entries), entry->d_name, 0) == 0);
    closedir(entries);
}

void ranks_folder_remove(const ranks_folder *folder)
{
    expect(rmdir(folder->path) == 0); /* every socket in it has been removed by who made it */
}

psring_options ranks_options(const ranks_folder *folder, int ranks, int rank, int64_t deadline_ms)
{
    return (psring_options){.size = sizeof(psring_options),
                            .ranks = ranks,
                            .rank = rank,
                            .scheduler = folder->scheduler,
                            .host_scheduler = rank == 0,
                            .deadline_ms = deadline_ms,
                            .join_deadline_ms = DEADLINE_MS};
}

typedef struct one_rank {
    psring_options options;
    ranks_body *body;
    void *context;
} one_rank;

static void *run(void *context)
{
    one_rank *one = context;
    psring_comm *comm = NULL;
    expect_ok(psring_init(&one->options, &comm));
    one->body(&comm, one->options.rank, one->context);
    expect_ok(psring_close(&comm));
    return NULL;
}

void ranks_run_within(int ranks, int64_t deadline_ms, ranks_body *body, void *context)
{
    ranks_run_sharded(ranks, 0, deadline_ms, body, context);
}

void ranks_run_sharded(int ranks, int shards, int64_t deadline_ms, ranks_body *body, void *context)
{
    ranks_folder folder;
    one_rank each[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    ranks_folder_make(&folder);
    for (int r = 0; r < ranks; r++) {
        each[r] = (one_rank){ranks_options(&folder, ranks, r, deadline_ms), body, context};
        each[r].options.shards = shards;
        expect(pthread_create(&threads[r], NULL, run, &each[r]) == 0);
    }
    for (int r = 0; r < ranks; r++)
        expect(pthread_join(threads[r], NULL) == 0);
    ranks_folder_remove(&folder);
}

void ranks_run(int ranks, ranks_body *body, void *context)
{
    ranks_run_within(ranks, DEADLINE_MS, body, context);
}
