#include "comm/start/start.h"

#include "comm/start/variables.h"
#include "comm/start/ways/ways.h"
#include "net/address/interface.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* From the innermost level to the outermost (psr_start_level): the first that is found counts. */
static psr_start_reader *const readers[] = {
    psr_start_by_psring,  psr_start_by_torch, psr_start_by_mxnet, psr_start_by_mindspore,
    psr_start_by_openmpi, psr_start_by_hydra, psr_start_by_slurm};
enum { WAYS = sizeof readers / sizeof *readers };

psr_start psr_start_blank(void)
{
    return (psr_start){
        .role = PSR_ROLE_WORKER,
        .rank = PSR_RANK_ANY,
        .local_rank = PSR_START_UNTOLD,
        .local_ranks = PSR_START_UNTOLD,
        .node = PSR_START_UNTOLD,
        .nodes = PSR_START_UNTOLD,
        .shards = PSR_START_UNTOLD,
    };
}

/* ---- several sources ---- */

/* "RANK=3 and WORLD_SIZE=8 say rank 3 of 8" */
static void quote(const psr_start *s, char *text, size_t size)
{
    if (s->rank == PSR_RANK_ANY || s->role != PSR_ROLE_WORKER) {
        psr_start_describe(s, text, size);
        return;
    }
    const char *rank = psr_variable(s->rank_variable), *ranks = psr_variable(s->ranks_variable);
    if (rank == NULL || ranks == NULL) /* by options */
        snprintf(text, size, "%s and %s say rank %" PRIu32 " of %" PRIu32, s->rank_variable,
                 s->ranks_variable, s->rank, s->ranks);
    else
        snprintf(text, size, "%s=%.20s and %s=%.20s say rank %" PRIu32 " of %" PRIu32,
                 s->rank_variable, rank, s->ranks_variable, ranks, s->rank, s->ranks);
}

/* Whether what outer says can be true of the same process: it gives the same place, or it started a
 * process on each of several hosts that started ranks itself. */
static bool agree(const psr_start *inner, const psr_start *outer)
{
    if (inner->by_launcher && outer->level < inner->level)
        return true;
    if (outer->rank == PSR_RANK_ANY || inner->rank == PSR_RANK_ANY ||
        inner->role != PSR_ROLE_WORKER)
        return outer->level < inner->level; /* on one level they are two frameworks */
    if (outer->ranks == inner->ranks)
        return outer->rank == inner->rank;
    return outer->level < inner->level && outer->ranks < inner->ranks &&
           inner->ranks % outer->ranks == 0;
}

static psr_err check_agreement(const psr_start *inner, const psr_start *outer)
{
    char one[160], other[160];
    if (agree(inner, outer))
        return PSR_OK;
    quote(inner, one, sizeof one);
    quote(outer, other, sizeof other);
    return psr_fail(PSR_ERR_USAGE, "%s, but %s: unset those that are not meant", one, other);
}

/* ---- what every launcher has ---- */

static psr_err read_common(psr_start *s)
{
    PSR_TRY(psr_variable_copy("PSRING_SCHEDULER", s->scheduler, sizeof s->scheduler));
    PSR_TRY(psr_variable_copy("PSRING_KEY_FILE", s->key_file, sizeof s->key_file));
    PSR_TRY(psr_variable_copy("PSRING_HOST", s->host, sizeof s->host));
    PSR_TRY(psr_variable_copy("PSRING_INTERFACE", s->interface, sizeof s->interface));
    PSR_TRY(psr_variable_copy("PSRING_TRANSPORT", s->transport, sizeof s->transport));
    PSR_TRY(psr_variable_copy("PSRING_SHARING", s->sharing, sizeof s->sharing));
    int64_t port = s->port;
    PSR_TRY(psr_variable_copy("PSRING_MEETING", s->meeting_folder, sizeof s->meeting_folder));
    PSR_TRY(psr_variable_number("PSRING_PORT", 1, UINT16_MAX, &port));
    s->port_is_told = psr_variable("PSRING_PORT") != NULL;
    s->port = (uint16_t)port;
    return psr_variable_number("PSRING_DEADLINE_MS", 1, INT32_MAX, &s->deadline_ms);
}

/* Finds all, from the innermost to the outermost. but: one that is not asked, or NULL. */
static psr_err find_all(psr_start_reader *but, psr_start found[WAYS], size_t *ret_count)
{
    size_t count = 0;
    for (size_t i = 0; i < WAYS; i++) {
        if (readers[i] == but)
            continue;
        found[count] = psr_start_blank();
        psr_err err = readers[i](&found[count]);
        if (err != PSR_OK && err != PSR_ERR_NOT_FOUND)
            return err;
        count += err == PSR_OK;
    }
    *ret_count = count;
    return PSR_OK;
}

psr_err psr_start_complete(psr_start *start)
{
    psr_start found[WAYS];
    size_t count = 0;
    PSR_TRY(find_all(psr_start_by_torch, found, &count));
    for (size_t i = 0; i < count; i++)
        PSR_TRY(check_agreement(start, &found[i]));
    return read_common(start);
}

psr_err psr_start_read(psr_start *ret_start)
{
    psr_start found[WAYS];
    size_t count = 0;
    PSR_TRY(find_all(NULL, found, &count));
    if (count == 0)
        return psr_fail(
            PSR_ERR_NOT_FOUND,
            "the environment gives this process no rank: start it by psring run -n RANKS -- "
            "PROGRAM, by another launcher, or set PSRING_RANK and PSRING_RANKS");
    for (size_t i = 1; i < count; i++)
        PSR_TRY(check_agreement(&found[0], &found[i]));
    PSR_TRY(read_common(&found[0]));
    *ret_start = found[0];
    return PSR_OK;
}

psr_err psr_start_alone(psr_start *ret_start)
{
    static const char *const of_others[] = {"PSRING_RANK", "PSRING_SHARDS", "PSRING_SCHEDULER",
                                            "PSRING_HOST_SCHEDULER", "PSRING_MEETING"};
    for (size_t i = 0; i < sizeof of_others / sizeof *of_others; i++)
        if (psr_variable(of_others[i]) != NULL)
            return psr_fail(PSR_ERR_NOT_FOUND,
                            "the environment gives this process no rank, and %s is of one among "
                            "others: set PSRING_RANK and PSRING_RANKS, or unset it",
                            of_others[i]);
    psr_start s = psr_start_blank();
    s.way = "no launcher";
    s.level = PSR_START_OWN;
    s.rank = 0;
    s.ranks = 1;
    s.shards = 0;
    PSR_TRY(read_common(&s));
    *ret_start = s;
    return PSR_OK;
}

psr_err psr_start_input(char ret_path[PSR_START_LINE_MAX])
{
    ret_path[0] = '\0';
    return psr_variable_copy("DATA_PATH", ret_path, PSR_START_LINE_MAX);
}

/* ---- for lines ---- */

void psr_start_describe(const psr_start *s, char *line, size_t size)
{
    const char *name = s->role == PSR_ROLE_WORKER ? "rank" : psr_role_name(s->role);
    const char *and = s->rank_variable != NULL && s->ranks_variable != NULL ? " and " : "";
    char who[64];
    if (s->role == PSR_ROLE_SCHEDULER)
        snprintf(who, sizeof who, "the scheduler of %" PRIu32, s->ranks);
    else if (s->rank == PSR_RANK_ANY)
        snprintf(who, sizeof who, "one %s of %" PRIu32, name,
                 s->role == PSR_ROLE_SHARD ? s->shards : s->ranks);
    else
        snprintf(who, sizeof who, "%s %" PRIu32 " of %" PRIu32, name, s->rank,
                 s->role == PSR_ROLE_SHARD ? s->shards : s->ranks);
    snprintf(line, size, "%s from %s%s%s (%s)", who,
             s->rank_variable != NULL ? s->rank_variable : "", and,
             s->ranks_variable != NULL ? s->ranks_variable : "", s->way);
}

bool psr_start_is_on_one_host(const psr_start *s)
{
    return s->ranks == 1 || s->local_ranks == s->ranks || s->nodes == 1 ||
           strcmp(s->address, "localhost") == 0 || psr_address_is_loopback(s->address);
}
