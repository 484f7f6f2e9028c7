#include "net/zmq/inbox/inbox_private.h"

#include "net/zmq/sockets.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CURVE_BYTES 64    /* more than encryption adds to a frame, which is 33 */
#define REFUSALS_QUEUED 4 /* most refusals that wait for one connection */
/* Messages read ahead from one connection: further ones stay with their sender, and nothing is
 * dropped. A rank that sends as much as it may without an answer (64 operations of 8 slices,
 * comm/collectives/group.h) is not held up by it. */
#define MESSAGES_READ_AHEAD 512

/* ---- taking ---- */

static void frames_move(psr_frames *to, psr_frames *from)
{
    zmq_msg_t *const into[] = {&to->id, &to->head, &to->payload};
    zmq_msg_t *const out_of[] = {&from->id, &from->head, &from->payload};
    for (size_t i = 0; i < 3; i++) {
        zmq_msg_init(into[i]);
        zmq_msg_move(into[i], out_of[i]);
    }
    to->count = from->count;
}

/* Receives all frames of the next message: id, head, payload; further ones are counted and thrown
 * away. false: there is none. */
static bool frames_receive(void *router, psr_frames *f)
{
    zmq_msg_t *const kept[] = {&f->id, &f->head, &f->payload};
    for (size_t i = 0; i < 3; i++)
        zmq_msg_init(kept[i]);
    f->count = 0;
    if (!psr_zmq_receive_frame(router, &f->id))
        return false;
    bool more = zmq_msg_more(&f->id);
    for (f->count = 1; more; f->count++) {
        zmq_msg_t extra;
        zmq_msg_t *into = f->count < 3 ? kept[f->count] : &extra;
        if (into == &extra)
            zmq_msg_init(&extra);
        /* a message is there completely or not at all */
        bool ok = psr_zmq_receive_frame(router, into);
        more = ok && zmq_msg_more(into);
        if (into == &extra)
            zmq_msg_close(&extra);
    }
    return true;
}

static psr_err take_frames(psr_inbox *inbox, bool *ret_there, psr_message **ret_message)
{
    psr_frames f;
    *ret_there = frames_receive(inbox->router, &f);
    psr_err err =
        *ret_there ? psr_inbox_handle(inbox, &f, true, &inbox->any_kept, ret_message) : PSR_OK;
    if (inbox->any_kept) {
        frames_move(&inbox->kept, &f);
        inbox->kept_after = 0;
    }
    psr_frames_close(&f);
    return err;
}

psr_err psr_inbox_take(psr_inbox *inbox, psr_message **ret_message)
{
    psr_message *message = NULL;
    psr_err err = PSR_OK;
    unsigned empty = 0;
    while (empty < 2 && err == PSR_OK && message == NULL) {
        bool there = false;
        if (inbox->due != NULL) {
            err = psr_inbox_take_due(inbox, &message);
            continue;
        }
        if (inbox->any_kept) {
            err = psr_inbox_take_kept(inbox, &message);
            continue;
        }
        inbox->sealed_first = !inbox->sealed_first;
        if (!inbox->sealed_first)
            err = take_frames(inbox, &there, &message);
        else if (inbox->sealed != NULL)
            err = psr_inbox_take_sealed(inbox, &there, &message);
        empty = there ? 0 : empty + 1;
    }
    if (err == PSR_OK)
        *ret_message = message;
    return err;
}

void psr_inbox_borrow_by(psr_inbox *inbox, psr_borrower *borrower, psr_pipes_in *pipes)
{
    inbox->borrower = borrower;
    inbox->pipes = pipes;
}

/* ---- sockets ---- */

void *psr_inbox_socket(const psr_inbox *inbox)
{
    return inbox->router;
}

void *psr_inbox_sealed_socket(const psr_inbox *inbox)
{
    return inbox->sealed != NULL ? psr_sealed_in_socket(inbox->sealed) : NULL;
}

void *psr_inbox_strangers_socket(const psr_inbox *inbox)
{
    return psr_admission_refusals(inbox->admission);
}

const char *psr_inbox_endpoint(const psr_inbox *inbox)
{
    return inbox->endpoint;
}

/* ---- beginning and end ---- */

/* libzmq would bind over any file. Only a socket on which nobody listens any more may be replaced:
 * a killed process has left it. */
static psr_err check_free(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return psr_fail(PSR_ERR_USAGE, "the path of socket %s is too long", path);
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return psr_fail(PSR_ERR_IO, "no descriptor for a socket: %s", strerror(errno));
    bool free_now = connect(fd, (const struct sockaddr *)&address, sizeof address) != 0 &&
                    (errno == ENOENT || errno == ECONNREFUSED);
    close(fd);
    return free_now ? PSR_OK : psr_fail(PSR_ERR_IO, "socket %s is in use: choose another", path);
}

/* The name that was asked for. */
static psr_err take_name(psr_inbox *inbox)
{
    const psr_zmq_options *o = &inbox->options;
    char path[sizeof inbox->file];
    int length = snprintf(path, sizeof path, "%s/%s", o->directory, o->socket);
    if (length >= (int)sizeof path)
        return psr_fail(PSR_ERR_USAGE, "the path of socket %s is too long", o->socket);
    PSR_TRY(check_free(path));
    memcpy(inbox->file, path, sizeof path);
    return PSR_OK;
}

static psr_err name_socket(psr_inbox *inbox)
{
    char name[PSR_ADMISSION_NAME_BYTES];
    if (inbox->options.socket != NULL)
        return take_name(inbox);
    psr_admission_name(inbox->options.self, name);
    return psr_socket_directory_name(inbox->options.directory, name, sizeof inbox->file,
                                     inbox->file);
}

/* The directory keeps other users out; where something else let them in, their number does not
 * pass. */
static psr_err bind_in_directory(psr_inbox *inbox)
{
    uid_t uid = geteuid();
    char wanted[sizeof inbox->file + 8];
    PSR_TRY(name_socket(inbox));
    PSR_TRY(psr_zmq_set(inbox->router, ZMQ_SNDHWM, REFUSALS_QUEUED, "ZMQ_SNDHWM"));
    snprintf(wanted, sizeof wanted, "ipc://%s", inbox->file);
    if (zmq_setsockopt(inbox->router, ZMQ_IPC_FILTER_UID, &uid, sizeof uid) != 0)
        return psr_zmq_failed("ZMQ_IPC_FILTER_UID");
    if (zmq_bind(inbox->router, wanted) != 0)
        return psr_fail(PSR_ERR_IO, "cannot listen on %s: %s", wanted, zmq_strerror(zmq_errno()));
    snprintf(inbox->endpoint, sizeof inbox->endpoint, "%s", wanted);
    return PSR_OK;
}

static psr_err bind_to_address(psr_inbox *inbox, const char *address)
{
    void *router = inbox->router;
    PSR_TRY(psr_zmq_set_tcp(router, strchr(address, ':') != NULL));
    PSR_TRY(psr_zmq_set(router, ZMQ_SNDHWM, REFUSALS_QUEUED, "ZMQ_SNDHWM"));
    char wanted[sizeof inbox->endpoint];
    psr_endpoint_format(address, inbox->options.port, wanted, sizeof wanted);
    if (zmq_bind(router, wanted) != 0 && zmq_errno() == EADDRINUSE)
        return psr_fail(
            PSR_ERR_IO,
            "port %u of %s is in use: choose another, or none and the kernel gives a free one",
            inbox->options.port, address);
    size_t size = sizeof inbox->endpoint;
    if (zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, inbox->endpoint, &size) != 0 ||
        inbox->endpoint[0] == '\0')
        return psr_fail(PSR_ERR_IO, "cannot listen on %s: %s", wanted, zmq_strerror(zmq_errno()));
    return PSR_OK;
}

/* address: NULL for an ipc socket. */
static psr_err bind_router(psr_inbox *inbox, const char *address)
{
    void *router = inbox->router;
    PSR_TRY(psr_zmq_set(router, ZMQ_RCVHWM, MESSAGES_READ_AHEAD, "ZMQ_RCVHWM"));
    PSR_TRY(psr_zmq_set(router, ZMQ_LINGER, 0, "ZMQ_LINGER"));
    PSR_TRY(psr_zmq_set(router, ZMQ_BACKLOG, 1024, "ZMQ_BACKLOG"));
    /* for a member that connects again */
    PSR_TRY(psr_zmq_set(router, ZMQ_ROUTER_HANDOVER, 1, "ZMQ_ROUTER_HANDOVER"));
    PSR_TRY(psr_zmq_set_largest(router, PSR_PAYLOAD_BYTES_MAX + CURVE_BYTES));
    return address == NULL ? bind_in_directory(inbox) : bind_to_address(inbox, address);
}

psr_err psr_inbox_new(void *zmq_ctx, const psr_zmq_options *options, const char *address,
                      psr_inbox **ret_inbox)
{
    psr_inbox *inbox = calloc(1, sizeof *inbox);
    if (inbox == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for an inbox");
    inbox->options = *options;
    inbox->router = zmq_socket(zmq_ctx, ZMQ_ROUTER);
    psr_err err = inbox->router != NULL ? PSR_OK : psr_zmq_failed("making a socket");
    /* to the scheduler nothing comes sealed: all that it hears goes by CURVE */
    if (err == PSR_OK && address != NULL && options->keys->curve &&
        options->self.role != PSR_ROLE_SCHEDULER)
        err = psr_sealed_in_new(zmq_ctx, &inbox->sealed);
    if (err == PSR_OK)
        err = psr_admission_new(zmq_ctx, inbox->router, psr_inbox_sealed_socket(inbox),
                                options->keys, &inbox->admission);
    if (err == PSR_OK && options->members_look)
        psr_admission_members_look(inbox->admission);
    if (err == PSR_OK)
        err = bind_router(inbox, address);
    if (err == PSR_OK && inbox->sealed != NULL)
        err = psr_sealed_in_bind(inbox->sealed, address, inbox->admission);
    if (err != PSR_OK) {
        psr_inbox_free(inbox, 0);
        return err;
    }
    *ret_inbox = inbox;
    return PSR_OK;
}

void psr_inbox_free(psr_inbox *inbox, int linger_ms)
{
    if (inbox == NULL)
        return;
    psr_admission_free(inbox->admission);
    if (inbox->any_kept)
        psr_frames_close(&inbox->kept);
    if (inbox->refused)
        (void)zmq_setsockopt(inbox->router, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    if (inbox->router != NULL)
        zmq_close(inbox->router);
    if (inbox->file[0] != '\0')
        /* libzmq does not remove it; whoever removes the directory may have */
        (void)unlink(inbox->file);
    psr_sealed_in_free(inbox->sealed);
    psr_bindings_done(&inbox->bindings);
    free(inbox);
}
