#include "bench/exchange/launched.h"

#include "bench/exchange/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 640 };

/* ---- hosts ---- */

/* The number of a rank's host: hosts count from that of rank 0 on. */
static uint32_t number_of(const bench_run *b, uint32_t rank, uint32_t *hosts)
{
    for (uint32_t r = 0; r < rank; r++)
        if (strcmp(bench_meeting_host(b->meeting, r), bench_meeting_host(b->meeting, rank)) == 0)
            return b->host_of[bench_member_of_rank(b, r)];
    return (*hosts)++;
}

psr_err bench_launch_find_hosts(bench_run *b)
{
    const uint32_t size = bench_meeting_size(b->meeting);
    if (size != b->members)
        return psr_fail(PSR_ERR_USAGE,
                        "--workers: the launch has %u processes, and %u workers and %u shards were "
                        "asked for",
                        size, b->config.workers, b->members - b->config.workers);
    b->host_of = calloc(size, sizeof *b->host_of);
    if (b->host_of == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for the hosts of %u processes", size);
    b->hosts = 0;
    for (uint32_t r = 0; r < size; r++)
        b->host_of[bench_member_of_rank(b, r)] = number_of(b, r, &b->hosts);
    b->own = bench_member_of_rank(b, bench_meeting_rank(b->meeting));
    const psr_transport_kind transport = b->config.transport;
    if (b->hosts > 1 && (transport == PSR_TRANSPORT_IPC || transport == PSR_TRANSPORT_SHM))
        return psr_fail(PSR_ERR_USAGE,
                        "--transport: %s stays within a host, and there are %u; "
                        "give auto or tcp",
                        transport == PSR_TRANSPORT_IPC ? "ipc" : "shm", b->hosts);
    return PSR_OK;
}

/* ---- keys and directories ---- */

/* What each rank tells all others. In the clear (--no-encrypt) tokens are as public as the rest:
 * token[i] is what this member and member i show each other. */
typedef struct card {
    char directory[PSR_SOCKET_DIRECTORY_BYTES];
    char public_key[PSR_KEY_Z85];
    char tokens[][PSR_KEY_Z85]; /* [members]; of the two ends of a pair the lower one's counts */
} card;

static size_t card_bytes(const bench_run *b)
{
    return sizeof(card) + b->members * sizeof(((card *)NULL)->tokens[0]);
}

/* Index 0 of the keys is the scheduler's, which there is none of. */
static void take_keys(bench_run *b, const char *all)
{
    psr_keys *own = &b->keys[1 + b->own];
    for (uint32_t r = 0; r < b->members; r++) {
        const uint32_t other = bench_member_of_rank(b, r);
        const card *theirs = (const card *)(const void *)(all + r * card_bytes(b));
        if (other == b->own)
            continue;
        const char *key = own->curve       ? theirs->public_key
                          : other < b->own ? theirs->tokens[b->own]
                                           : own->members[1 + other].public_key;
        memmove(own->members[1 + other].public_key, key, PSR_KEY_Z85);
        own->members[1 + other].public_key[PSR_KEY_Z85 - 1] = '\0';
    }
}

static bool is_first_of_host(const bench_run *b)
{
    for (uint32_t r = 0; r < bench_meeting_rank(b->meeting); r++)
        if (b->host_of[bench_member_of_rank(b, r)] == b->host_of[b->own])
            return false;
    return true;
}

/* The first rank of each host has made one. */
static void take_directory(bench_run *b, const char *all)
{
    for (uint32_t r = 0; r < b->members && b->sharing[0] == '\0'; r++)
        if (b->host_of[bench_member_of_rank(b, r)] == b->host_of[b->own])
            memcpy(b->sharing, all + r * card_bytes(b), sizeof b->sharing - 1);
}

static psr_err make_directory(bench_run *b)
{
    b->sockets = calloc(1, sizeof *b->sockets);
    if (b->sockets == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a directory's name");
    *b->sockets = PSR_SOCKET_DIRECTORY_NONE;
    if ((!bench_shares_memory(b) && b->config.transport != PSR_TRANSPORT_IPC) ||
        !is_first_of_host(b))
        return PSR_OK;
    return psr_socket_directory_make(NULL, b->sockets);
}

psr_err bench_launch_meet(bench_run *b)
{
    const psr_keys *own = &b->keys[1 + b->own];
    PSR_TRY(make_directory(b));
    card *told = calloc(1, card_bytes(b));
    char *all = calloc(b->members, card_bytes(b));
    psr_err err = told != NULL && all != NULL
                      ? PSR_OK
                      : psr_fail(PSR_ERR_NOMEM, "no memory for %u cards", b->members);
    if (err == PSR_OK) {
        memcpy(told->directory, b->sockets->path, sizeof told->directory);
        if (own->curve)
            memcpy(told->public_key, own->public_key, PSR_KEY_Z85);
        for (uint32_t i = 0; !own->curve && i < b->members; i++)
            memcpy(told->tokens[i], own->members[1 + i].public_key, PSR_KEY_Z85);
        bench_meeting_gather(b->meeting, told, card_bytes(b), all);
        take_keys(b, all);
        take_directory(b, all);
    }
    free(told);
    free(all);
    return err;
}

/* ---- failures ---- */

typedef struct outcome {
    psr_err err;
    char line[LINE_BYTES];
} outcome;

psr_err bench_launch_agree(const bench_run *b, psr_err err)
{
    outcome own = {.err = err}, *all = calloc(b->members, sizeof *all);
    if (all == NULL)
        bench_die("memory");
    if (err != PSR_OK)
        snprintf(own.line, sizeof own.line, "%s: %.500s",
                 bench_meeting_host(b->meeting, bench_meeting_rank(b->meeting)), psr_err_detail());
    bench_meeting_gather(b->meeting, &own, sizeof own, all);
    err = PSR_OK;
    for (uint32_t r = 0; r < b->members && err == PSR_OK; r++)
        if (all[r].err != PSR_OK)
            err = psr_fail(all[r].err, "%.600s", all[r].line);
    free(all);
    return err;
}
