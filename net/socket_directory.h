/* The directory that holds a run's ipc:// sockets, when all its processes are on one host: of mode 0700, so that no
 * other user can connect to any of them, or put one in the place of one that died.
 *
 * Several processes know it (launcher, agent, scheduler). Each holds it while it lives, and whoever ends removes it:
 * so it goes however the run ends. What a run left that was killed as a whole is removed by the next that makes one:
 * nobody holds it any more. Any thread. */
#ifndef PSR_NET_SOCKET_DIRECTORY_H
#define PSR_NET_SOCKET_DIRECTORY_H

#include "base/err.h"

#include <stddef.h>

/* A socket's whole path has 107 bytes at most (sun_path); 24 are for "/scheduler-0-01234567". */
#define PSR_SOCKET_DIRECTORY_BYTES 84

typedef struct psr_socket_directory {
    char path[PSR_SOCKET_DIRECTORY_BYTES]; /* "": none */
    int hold;                              /* descriptor with a shared lock; -1: none */
} psr_socket_directory;

#define PSR_SOCKET_DIRECTORY_NONE ((psr_socket_directory){.hold = -1})

/* Makes one below runtime_directory ($XDG_RUNTIME_DIR), or below /tmp when that is NULL, not this user's alone or too
 * long. IO. ret owns: psr_socket_directory_remove. */
PSR_MUST_CHECK psr_err psr_socket_directory_make(const char *runtime_directory,
                                                 psr_socket_directory *ret_directory);

/* Holds the one that another process made. NOT_FOUND: it is gone, or going; USAGE: it is none, or others may use it. ret
 * owns: as above, or psr_socket_directory_release. */
PSR_MUST_CHECK psr_err psr_socket_directory_hold(const char *path, psr_socket_directory *ret_directory);

/* Removes the sockets in it and the directory itself; nothing else that may be there. None: does nothing. */
void psr_socket_directory_remove(psr_socket_directory *directory);

/* Lets go of it without removing it. */
void psr_socket_directory_release(psr_socket_directory *directory);

/* The directory part of "ipc:///run/user/7/psring-x/scheduler-0-01234567". USAGE: not such an endpoint, or too long. */
PSR_MUST_CHECK psr_err psr_socket_directory_of(const char *endpoint,
                                               char ret_path[PSR_SOCKET_DIRECTORY_BYTES]);

#endif
