/* The socket in a run directory by which a person asks for the run's mode and changes it (psring
 * mode): RUN/mode.sock. Only the user of the run can open it (mode 0600, and the kernel says whose
 * a connection is). A connection has one line in and one line out: "tell" or a mode, with "json "
 * before it for an answer in JSON; "ok TEXT" or "no TEXT".
 *
 * A thread of its own takes connections and lines, so that nobody delays the scheduler: at most
 * PSR_RUN_SOCKET_CONNECTIONS at once, and a line of at most PSR_RUN_SOCKET_LINE_MAX bytes within
 * PSR_RUN_SOCKET_WITHIN_MS. The scheduler answers in its own time. */
#ifndef PSR_PS_MODE_SOCKET_H
#define PSR_PS_MODE_SOCKET_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define PSR_RUN_SOCKET_NAME "mode.sock"
#define PSR_RUN_SOCKET_CONNECTIONS 8
#define PSR_RUN_SOCKET_LINE_MAX 64 /* with its newline */
#define PSR_RUN_SOCKET_WITHIN_MS 5000

typedef struct psr_mode_socket psr_mode_socket;

typedef struct psr_mode_request {
    uint64_t id;
    char word[PSR_RUN_SOCKET_LINE_MAX]; /* the line without its newline; printable */
} psr_mode_request;

/* wake: called on the socket's thread when a request has come. IO: no socket can be made in the
 * directory. The caller owns *ret_socket. */
PSR_MUST_CHECK psr_err psr_mode_socket_new(const char *directory, void (*wake)(void *context),
                                           void *context, psr_mode_socket **ret_socket);
/* Ends the thread and the connections, and removes the socket. NULL allowed. */
void psr_mode_socket_free(psr_mode_socket *socket);

/* The next request, without waiting. false: there is none. */
bool psr_mode_socket_next(psr_mode_socket *socket, psr_mode_request *ret_request);
/* Sends the answer and ends the connection. Does nothing if the asker has gone. */
void psr_mode_socket_answer(psr_mode_socket *socket, uint64_t id, bool ok, const char *text);

#endif
