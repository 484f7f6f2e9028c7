/* The ranks of a communicator as threads of one process, over real sockets in a folder of their
 * own. */
#ifndef PSR_TESTS_PSRING_RANKS_H
#define PSR_TESTS_PSRING_RANKS_H

#include "comm/psring/psring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In any thread: cmocka's assertions leave by longjmp, which only its own may. */
#define expect(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold; the last failure: %s\n", __FILE__, __LINE__, \
                    #condition, psring_err_detail());                                              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)
#define expect_ok(call) expect((call) == PSRING_OK)
/* got is err, and the line of the last failure in this thread has these words. */
void expect_words(psring_err got, psring_err err, const char *words);

enum { RANKS_MAX = 8 };

/* What a rank does; comm is its own, and it may close it (and null it). */
typedef void ranks_body(psring_comm **comm, int rank, void *context);

/* Joins, runs body and closes, on each of ranks threads. */
void ranks_run(int ranks, ranks_body *body, void *context);
/* The same with another deadline. */
void ranks_run_within(int ranks, int64_t deadline_ms, ranks_body *body, void *context);

/* The last `shards` of the ranks are shards. */
void ranks_run_sharded(int ranks, int shards, int64_t deadline_ms, ranks_body *body, void *context);

/* A folder of this user's alone, and the path of a socket in it. Removed by ranks_folder_remove. */
typedef struct ranks_folder {
    char path[64], scheduler[80];
} ranks_folder;
void ranks_folder_make(ranks_folder *folder);
void ranks_folder_remove(const ranks_folder *folder);
/* Of the sockets that killed processes left. */
void ranks_folder_empty(const ranks_folder *folder);
/* Of one rank there. Rank 0 hosts the scheduler. */
psring_options ranks_options(const ranks_folder *folder, int ranks, int rank, int64_t deadline_ms);

#endif
