/* Sharing memory with processes of this host: where they meet, and arenas that are lent and
 * borrowed. */
#include "net/zmq/transport_zmq_private.h"

#include "net/trust/admission.h"
#include "net/address/socket_directory.h"

#include <assert.h>
#include <string.h>
#include <unistd.h>

/* A process that shares memory is known by its channel, which may introduce itself after its memory
 * has come. */
psr_err psr_zmq_see_introductions(psr_zmq_transport *transport)
{
    uint64_t introductions = psr_inbox_introductions(transport->inbox);
    if (transport->sharing == NULL || introductions == transport->introductions)
        return PSR_OK;
    transport->introductions = introductions;
    return psr_borrower_serve(psr_sharing_borrower(transport->sharing));
}

psr_pipes_in *psr_zmq_pipes(const psr_zmq_transport *transport)
{
    return transport->sharing != NULL ? psr_sharing_pipes(transport->sharing) : NULL;
}

/* There is no message. What was freed is given back, and what came beside the messages is taken. */
psr_err psr_zmq_serve_sharing(psr_zmq_transport *transport)
{
    if (transport->sharing == NULL)
        return PSR_OK;
    psr_borrower_settle(psr_sharing_borrower(transport->sharing));
    return psr_sharing_serve(transport->sharing);
}

static bool known_to_inbox(void *context, const uint8_t id[PSR_ROUTING_ID_BYTES],
                           psr_peer *ret_peer)
{
    return psr_inbox_knows(((const psr_zmq_transport *)context)->inbox, id, ret_peer);
}

static void say_stranger(void *context, const char *line)
{
    psr_inbox_log_stranger(((psr_zmq_transport *)context)->inbox, line);
}

static void say_shared(void *context, bool shared, const char *line)
{
    const psr_zmq_transport *transport = context;
    if (transport->say != NULL)
        transport->say(transport->say_context, shared, line);
}

/* Over TCP. */
static bool may_share(const psr_zmq_options *options)
{
    return options->sharing != NULL && options->sharing[0] != '\0';
}

/* Where others of this host reach this process to share memory. Stays "" where there is no
 * directory for that, or no room for a name. */
void psr_zmq_name_share_path(psr_zmq_transport *transport)
{
    const psr_zmq_options *o = &transport->options;
    char name[PSR_ADMISSION_NAME_BYTES], path[PSR_SHARE_PATH_BYTES];
    psr_admission_name(o->self, name);
    if (psr_zmq_is_ipc(o) && psr_share_path(psr_inbox_endpoint(transport->inbox), path))
        memcpy(transport->share_path, path, sizeof path);
    else if (!psr_zmq_is_ipc(o) && may_share(o) &&
             psr_socket_directory_name(o->sharing, name, sizeof path - strlen(".fd"), path) ==
                 PSR_OK)
        strcpy(transport->share_path, strcat(path, ".fd"));
}

const char *psr_zmq_transport_share_path(const psr_transport *base)
{
    return ((const psr_zmq_transport *)base)->share_path;
}

/* Is it this user's alone? Whoever made it holds it. */
psr_err psr_zmq_check_directory(const char *path)
{
    psr_socket_directory directory;
    PSR_TRY(psr_socket_directory_hold(path, &directory));
    psr_socket_directory_release(&directory);
    return PSR_OK;
}

psr_err psr_zmq_transport_share(psr_transport *base,
                                void (*say)(void *context, bool shared, const char *line),
                                void *context)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    bool ipc = psr_zmq_is_ipc(&transport->options);
    if (!ipc && !may_share(&transport->options))
        return psr_fail(
            PSR_ERR_UNSUPPORTED,
            "this process listens on TCP, and was given no directory to share memory in");
    if (transport->share_path[0] == '\0')
        return psr_fail(PSR_ERR_IO, "there is no room for a socket's name in its directory");
    PSR_TRY(
        psr_zmq_check_directory(ipc ? transport->options.directory : transport->options.sharing));
    const psr_sharing_options options = {.path = transport->share_path,
                                         .user = (unsigned)geteuid(),
                                         .no_pipes = transport->self.role == PSR_ROLE_SCHEDULER,
                                         .context = transport,
                                         .known = known_to_inbox,
                                         .stranger = say_stranger,
                                         .say = say_shared};
    transport->say = say;
    transport->say_context = context;
    PSR_TRY(psr_sharing_new(&options, &transport->sharing));
    psr_inbox_borrow_by(transport->inbox, psr_sharing_borrower(transport->sharing),
                        psr_sharing_pipes(transport->sharing));
    transport->watched[PSR_ZMQ_WATCHED_SHARED] =
        (struct pollfd){.fd = psr_sharing_fd(transport->sharing), .events = POLLIN};
    return PSR_OK;
}

void psr_zmq_transport_lend_to(psr_transport *base, psr_peer peer, const char *path)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    psr_zmq_channel *c = psr_zmq_channel_of(transport, peer);
    if (transport->sharing != NULL && c != NULL && c->lender == NULL)
        c->lender = psr_sharing_connect(transport->sharing, peer, path, c->id);
}

bool psr_zmq_transport_lends_to(const psr_transport *base, psr_peer peer)
{
    const psr_zmq_channel *c = psr_zmq_channel_of((const psr_zmq_transport *)base, peer);
    return c != NULL && c->lender != NULL && psr_lender_has_taker(c->lender);
}

psr_err psr_zmq_transport_lend_from(psr_transport *base, const psr_shared_arena *arena)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    if (transport->sharing == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "no memory is shared");
    return psr_sharing_add(transport->sharing, arena);
}

void psr_zmq_transport_give_back(psr_transport *base)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    if (transport->sharing != NULL)
        psr_borrower_settle(psr_sharing_borrower(transport->sharing));
}

void psr_zmq_transport_lend_no_more(psr_transport *base, const psr_shared_arena *arena)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    if (transport->sharing != NULL)
        psr_sharing_remove(transport->sharing, arena);
}

psr_err psr_zmq_transport_lend_copies(psr_transport *base)
{
    psr_zmq_transport *transport = (psr_zmq_transport *)base;
    assert(transport->stage == NULL);
    if (transport->sharing == NULL)
        return psr_fail(PSR_ERR_UNSUPPORTED, "no memory is shared");
    psr_stage *stage = NULL;
    PSR_TRY(psr_stage_new(&stage));
    psr_err err = psr_sharing_add(transport->sharing, psr_stage_arena(stage));
    if (err != PSR_OK)
        psr_stage_free(stage);
    else
        transport->stage = stage;
    return err;
}
