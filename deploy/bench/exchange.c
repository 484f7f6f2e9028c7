/* On other hosts each worker and each shard is a rank of `psring run`. psring-bench-exchange knows
 * its options, so it is asked first whether they are good, and how many ranks there are. */
#include "deploy/bench/exchange.h"

#include "base/system/child.h"
#include "base/text/printable.h"
#include "deploy/bench/places.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char title[] = "psring bench exchange";

typedef struct exchange {
    char path[PATH_MAX], self[PATH_MAX];
    psr_bench_words run, own;
    bool placed, helps;
    const char *ps_hostfile, *ssh; /* NULL: not given */
    char *way;                     /* owned: ssh without its quotes */
    char workers[16], shards[16];
} exchange;

/* ---- the command line ---- */

/* The value of the option at argv[0] of so many words. */
static const char *value_of(char **argv, int words, const char *option)
{
    if (words == 2)
        return argv[1];
    const char *value = argv[0] + strlen(option);
    return *value == '=' ? value + 1 : value;
}

/* psring run takes what says where ranks are. --transport is the exchange's own. */
static psr_err take(exchange *e, int argc, char **argv, int *ret_words)
{
    static const char *const named[] = {"--transport", "--ps-hostfile", "--ssh", "-np", "-n"};
    enum { TRANSPORT, PS_HOSTFILE, SSH, NP, N, NAMED };
    int words = 0, which = 0;
    e->helps = e->helps || strcmp(argv[0], "--help") == 0;
    for (; which < NAMED && words == 0; which++)
        words = psr_bench_option_words(argv[0], named[which]);
    which -= words > 0;
    const int place = psr_bench_place_words(argv[0]);
    *ret_words = words > 0 ? words : place > 0 ? place : 1;
    if (*ret_words > argc)
        return psr_fail(PSR_ERR_USAGE, "%s needs a value", argv[0]);
    const char *value = words > 0 ? value_of(argv, words, named[which]) : NULL;
    if (which == NP || which == N) {
        psr_bench_words_add(&e->own, "--workers");
        psr_bench_words_add(&e->own, value);
        return PSR_OK;
    }
    if (which == PS_HOSTFILE)
        e->ps_hostfile = value;
    if (which == SSH)
        e->ssh = value;
    const bool is_place = place > 0 && which != TRANSPORT;
    e->placed = e->placed || is_place || which == PS_HOSTFILE;
    for (int i = 0; i < *ret_words && which != PS_HOSTFILE; i++)
        psr_bench_words_add(is_place ? &e->run : &e->own, argv[i]);
    return PSR_OK;
}

/* ---- how many ---- */

static psr_err ask(exchange *e, FILE **ret_answer, pid_t *ret_child)
{
    int ends[2];
    if (pipe(ends) != 0)
        return psr_fail(PSR_ERR_IO, "a pipe: %s", strerror(errno));
    *ret_child = fork();
    if (*ret_child == 0) {
        psr_bench_words_add(&e->own, "--tell-ranks");
        if (dup2(ends[1], STDOUT_FILENO) >= 0)
            (void)psr_bench_start(e->path, &e->own);
        _exit(1);
    }
    close(ends[1]);
    *ret_answer = fdopen(ends[0], "r");
    if (*ret_child < 0 || *ret_answer == NULL) {
        close(ends[0]);
        return psr_fail(PSR_ERR_IO, "a process: %s", strerror(errno));
    }
    return PSR_OK;
}

/* *ret_status: other than 0, and the program has said why. */
static psr_err count_ranks(exchange *e, int *ret_status)
{
    FILE *answer = NULL;
    pid_t child = 0;
    int status = 0;
    PSR_TRY(ask(e, &answer, &child));
    const bool told = fscanf(answer, "%15s %15s", e->workers, e->shards) == 2;
    fclose(answer);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    *ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (*ret_status == 0 && !told)
        return psr_fail(PSR_ERR_PEER, "%s told no ranks", e->path);
    return PSR_OK;
}

/* ---- the start ---- */

static psr_err start_there(exchange *e, int *ret_status)
{
    PSR_TRY(count_ranks(e, ret_status));
    if (*ret_status != 0)
        return PSR_OK;
    const bool shards = strcmp(e->shards, "0") != 0;
    if (e->ps_hostfile != NULL && !shards)
        return psr_fail(PSR_ERR_USAGE, "--ps-hostfile is for shards, and there are none; give "
                                       "--mode ps, or leave it out");
    if (strcmp(e->workers, "0") != 0) {
        psr_bench_words_add(&e->run, "-n");
        psr_bench_words_add(&e->run, e->workers);
    }
    if (shards) {
        psr_bench_words_add(&e->run, "--beside");
        psr_bench_words_add(&e->run, e->shards);
    }
    if (e->ps_hostfile != NULL) {
        psr_bench_words_add(&e->run, "--ps-hostfile");
        psr_bench_words_add(&e->run, e->ps_hostfile);
    }
    psr_bench_words_add(&e->run, "--");
    psr_bench_words_add(&e->run, e->path);
    for (size_t i = 1; i < e->own.count; i++)
        psr_bench_words_add(&e->run, e->own.words[i]);
    if (e->ssh != NULL) {
        e->way = psr_bench_unquote(e->ssh);
        if (e->way == NULL)
            return psr_fail(PSR_ERR_NOMEM, "no memory for --ssh");
        psr_bench_words_add(&e->run, "--ssh");
        psr_bench_words_add(&e->run, e->way);
    }
    *ret_status = psr_bench_start(e->self, &e->run);
    return PSR_OK;
}

static psr_err start(exchange *e, int argc, char **argv, int *ret_status)
{
    PSR_TRY(psr_program_path("psring-bench-exchange", e->path, sizeof e->path));
    PSR_TRY(psr_program_path("psring", e->self, sizeof e->self));
    /* -nN becomes two words; both lists may go on one line */
    PSR_TRY(psr_bench_words_init(&e->run, 2 * argc));
    PSR_TRY(psr_bench_words_init(&e->own, 2 * argc));
    psr_bench_words_add(&e->run, e->self);
    psr_bench_words_add(&e->run, "run");
    psr_bench_words_add(&e->own, title);
    for (int i = 1, words = 0; i < argc; i += words)
        PSR_TRY(take(e, argc - i, argv + i, &words));
    if (e->placed && !e->helps)
        return start_there(e, ret_status);
    *ret_status = psr_bench_start(e->path, &e->own);
    return PSR_OK;
}

int psr_bench_exchange(int argc, char **argv)
{
    exchange e = {.placed = false};
    int status = 1;
    const psr_err err = start(&e, argc, argv, &status);
    if (err != PSR_OK) {
        psr_print(stderr, "%s: %s\n", title, psr_err_detail());
        status = psr_err_exit_status(err);
    }
    psr_bench_words_done(&e.run);
    psr_bench_words_done(&e.own);
    free(e.way);
    return status;
}
