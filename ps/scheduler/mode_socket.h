/* The socket in a run directory by which a person asks for the run's mode and changes it (psring
 * mode): RUN/mode.sock, which only the user of the run can open (mode 0600, and the kernel says
 * whose a connection is).
 *
 * One line in, one line out, then the connection ends: "tell", or a mode; "ok TEXT" or "no TEXT". A
 * thread of its own takes connections and lines, so that nobody holds the scheduler up: at most
 * PSR_RUN_SOCKET_CONNECTIONS at once, a line of at most PSR_RUN_SOCKET_LINE_MAX bytes within
 * PSR_RUN_SOCKET_WITHIN_MS. The answer is the scheduler's, in its own time. */
#ifndef PSR_PS_MODE_SOCKET_H
#define PSR_PS_MODE_SOCKET_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define PSR_RUN_SOCKET_NAME "mode.sock"
#define PSR_RUN_SOCKET_CONNECTIONS 8
#define PSR_RUN_SOCKET_LINE_MAX 64 /* with its end */
#define PSR_RUN_SOCKET_WITHIN_MS 5000

typedef struct psr_mode_socket psr_mode_socket;

typedef struct psr_mode_request {
    uint64_t id;
    char word[PSR_RUN_SOCKET_LINE_MAX]; /* the line, without its end; printable */
} psr_mode_request;

/* wake: called on the socket's thread when a request has come. IO: directory takes no socket. ret
 * owns. */
PSR_MUST_CHECK psr_err psr_mode_socket_new(const char *directory, void (*wake)(void *context),
                                           void *context, psr_mode_socket **ret_socket);
/* Ends the thread, the connections and the socket's name. NULL allowed. */
void psr_mode_socket_free(psr_mode_socket *socket);

/* The next request, without waiting. false: there is none. */
bool psr_mode_socket_next(psr_mode_socket *socket, psr_mode_request *ret_request);
/* Answers it, and ends its connection. Nothing where whoever asked has gone. */
void psr_mode_socket_answer(psr_mode_socket *socket, uint64_t id, bool ok, const char *text);

#endif
