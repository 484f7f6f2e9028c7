#include "net/sharing/sharing.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS 64 /* events taken in one turn */

typedef struct lending {
    psr_lender *lender;
    psr_peer peer;
} lending;

struct psr_sharing {
    psr_sharing_options options;
    char path[PSR_SHARE_PATH_BYTES];
    /* data of a lender's descriptor: its index in lendings plus one; of the borrower's: zero */
    int epoll;
    const psr_shared_arena *arenas[PSR_SHARED_ARENAS_MAX];
    uint32_t arena_count;
    lending *lendings; /* lender NULL: the place is free */
    size_t count;
    psr_borrower *borrower;
    psr_pipes_in *pipes; /* NULL: this system has no memory for its board */
};

static void say_shared(const psr_sharing *sharing, psr_peer peer)
{
    char line[64];
    snprintf(line, sizeof line, "shares memory with %s %" PRIu32, psr_role_name(peer.role),
             peer.rank);
    sharing->options.say(sharing->options.context, true, line);
}

/* Tells why, by the last failure. */
static void say_why_not(const psr_sharing *sharing, psr_peer peer)
{
    char line[512];
    snprintf(line, sizeof line, "shares no memory with %s %" PRIu32 ", messages go to it: %s",
             psr_role_name(peer.role), peer.rank, psr_err_detail());
    sharing->options.say(sharing->options.context, false, line);
}

/* ---- lending ---- */

psr_err psr_sharing_add(psr_sharing *sharing, const psr_shared_arena *arena)
{
    if (sharing->arena_count == PSR_SHARED_ARENAS_MAX)
        return psr_fail(PSR_ERR_USAGE, "%d arenas are shared already", PSR_SHARED_ARENAS_MAX);
    sharing->arenas[sharing->arena_count++] = arena;
    for (size_t i = 0; i < sharing->count; i++)
        if (sharing->lendings[i].lender != NULL &&
            psr_lender_offer(sharing->lendings[i].lender, arena) != PSR_OK)
            say_why_not(sharing, sharing->lendings[i].peer);
    return PSR_OK;
}

void psr_sharing_remove(psr_sharing *sharing, const psr_shared_arena *arena)
{
    uint32_t left = 0;
    for (uint32_t a = 0; a < sharing->arena_count; a++)
        if (sharing->arenas[a] != arena)
            sharing->arenas[left++] = sharing->arenas[a];
    sharing->arena_count = left;
    for (size_t i = 0; i < sharing->count; i++)
        if (sharing->lendings[i].lender != NULL)
            psr_lender_withdraw(sharing->lendings[i].lender, arena);
}

/* A free place; makes one if there is none. NULL: no memory. */
static lending *make_place(psr_sharing *sharing)
{
    for (size_t i = 0; i < sharing->count; i++)
        if (sharing->lendings[i].lender == NULL)
            return &sharing->lendings[i];
    lending *grown = realloc(sharing->lendings, (sharing->count + 1) * sizeof *grown);
    if (grown == NULL)
        return NULL;
    sharing->lendings = grown;
    grown[sharing->count] = (lending){0};
    return &grown[sharing->count++];
}

static psr_err open_lender(psr_sharing *sharing, psr_peer peer, const char *path,
                           const uint8_t id[PSR_ROUTING_ID_BYTES], psr_lender **ret_lender)
{
    if (!psr_share_path_is_beside(sharing->path, path))
        return psr_fail(PSR_ERR_DENIED,
                        "it says that it listens at %s, which is not in the directory of %s", path,
                        sharing->path);
    lending *place = make_place(sharing);
    if (place == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to share memory");
    psr_lender *lender = NULL;
    PSR_TRY(psr_lender_new(peer, path, sharing->options.user, id, &lender));
    psr_err err = PSR_OK;
    if (sharing->pipes != NULL && peer.role != PSR_ROLE_SCHEDULER)
        psr_lender_pass_pipe(lender);
    for (uint32_t a = 0; a < sharing->arena_count && err == PSR_OK; a++)
        err = psr_lender_offer(lender, sharing->arenas[a]);
    struct epoll_event event = {.events = EPOLLIN,
                                .data.u64 = (uint64_t)(place - sharing->lendings) + 1};
    if (err == PSR_OK &&
        epoll_ctl(sharing->epoll, EPOLL_CTL_ADD, psr_lender_fd(lender), &event) != 0)
        err = psr_fail(PSR_ERR_IO, "its socket cannot be watched: %s", strerror(errno));
    if (err != PSR_OK) {
        psr_lender_free(lender);
        return err;
    }
    *place = (lending){lender, peer};
    *ret_lender = lender;
    return PSR_OK;
}

psr_lender *psr_sharing_connect(psr_sharing *sharing, psr_peer peer, const char *path,
                                const uint8_t id[PSR_ROUTING_ID_BYTES])
{
    psr_lender *lender = NULL;
    if (open_lender(sharing, peer, path, id, &lender) != PSR_OK)
        say_why_not(sharing, peer);
    return lender;
}

void psr_sharing_disconnect(psr_sharing *sharing, psr_lender *lender)
{
    for (size_t i = 0; lender != NULL && i < sharing->count; i++)
        if (sharing->lendings[i].lender == lender)
            sharing->lendings[i].lender = NULL;
    psr_lender_free(lender);
}

/* ---- what comes ---- */

static psr_err serve_lender(psr_sharing *sharing, const lending *l)
{
    if (l->lender == NULL)
        return PSR_OK;
    bool lent_before = psr_lender_has_taker(l->lender);
    psr_err err = psr_lender_serve(l->lender);
    if (!lent_before && psr_lender_has_taker(l->lender))
        say_shared(sharing, l->peer);
    /* What it had no room for, it may have now. */
    for (uint32_t a = 0; a < sharing->arena_count && err == PSR_OK; a++)
        err = psr_lender_offer(l->lender, sharing->arenas[a]);
    if (err == PSR_ERR_IO) {
        say_why_not(sharing, l->peer);
        return PSR_OK;
    }
    return err == PSR_OK
               ? PSR_OK
               : psr_fail_context(err, "%s %" PRIu32, psr_role_name(l->peer.role), l->peer.rank);
}

psr_err psr_sharing_serve(psr_sharing *sharing)
{
    struct epoll_event events[EVENTS];
    const int count = epoll_wait(sharing->epoll, events, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        const uint64_t data = events[i].data.u64;
        if (data == 0 || (data & PSR_BORROWER_EVENT) != 0)
            PSR_TRY(psr_borrower_serve_one(sharing->borrower, data));
        else
            PSR_TRY(serve_lender(sharing, &sharing->lendings[data - 1]));
    }
    if (count > 0 && sharing->pipes != NULL)
        psr_pipes_in_woken(sharing->pipes);
    return PSR_OK;
}

int psr_sharing_fd(const psr_sharing *sharing)
{
    return sharing->epoll;
}

psr_borrower *psr_sharing_borrower(psr_sharing *sharing)
{
    return sharing->borrower;
}

psr_pipes_in *psr_sharing_pipes(const psr_sharing *sharing)
{
    return sharing->pipes;
}

/* ---- beginning and end ---- */

static psr_err open_all(psr_sharing *sharing)
{
    const psr_sharing_options *o = &sharing->options;
    sharing->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (sharing->epoll < 0)
        return psr_fail(PSR_ERR_IO, "no descriptor to wait on: %s", strerror(errno));
    if (o->no_pipes || psr_pipes_in_new(&sharing->pipes) != PSR_OK)
        sharing->pipes = NULL; /* small messages go by sockets */
    const psr_borrower_options borrower = {.path = sharing->path,
                                           .user = o->user,
                                           .epoll = sharing->epoll,
                                           .pipes = sharing->pipes,
                                           .context = o->context,
                                           .known = o->known,
                                           .stranger = o->stranger};
    return psr_borrower_new(&borrower, &sharing->borrower);
}

psr_err psr_sharing_new(const psr_sharing_options *options, psr_sharing **ret_sharing)
{
    if (strlen(options->path) >= PSR_SHARE_PATH_BYTES)
        return psr_fail(PSR_ERR_IO, "the path %s is too long for a socket", options->path);
    psr_sharing *sharing = calloc(1, sizeof *sharing);
    if (sharing == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory to share memory");
    sharing->options = *options;
    strcpy(sharing->path, options->path);
    sharing->options.path = sharing->path;
    sharing->epoll = -1;
    psr_err err = open_all(sharing);
    if (err != PSR_OK) {
        psr_sharing_free(sharing);
        return err;
    }
    *ret_sharing = sharing;
    return PSR_OK;
}

void psr_sharing_free(psr_sharing *sharing)
{
    if (sharing == NULL)
        return;
    for (size_t i = 0; i < sharing->count; i++)
        psr_lender_free(sharing->lendings[i].lender);
    psr_borrower_free(sharing->borrower);
    psr_pipes_in_free(sharing->pipes);
    free(sharing->lendings);
    if (sharing->epoll >= 0)
        close(sharing->epoll);
    free(sharing);
}
