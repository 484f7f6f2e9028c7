/* The directory that holds a run's ipc:// sockets when all its processes are on one host. Its mode
 * is 0700, so no other user can connect to a socket in it, or put a socket in the place of one
 * whose process died.
 *
 * Several processes know it (launcher, agent, scheduler). Each holds it by a shared lock while it
 * lives, and each removes it when it ends, so it goes however the run ends. Its path contains a
 * random number and is chosen before the directory is made, so no other user can make it first.
 * It is made once: after that its name can be seen, and another user could be quicker. The launcher
 * chooses the path, the agent makes the directory, and the scheduler, which is started after that,
 * takes what is there; if it is gone, so is the run. The launcher makes nothing itself, since it
 * may be killed at any moment. If a whole run was killed, its directory stays, held by nobody,
 * until the next run that makes one removes it. Any thread. */
#ifndef PSR_NET_ADDRESS_SOCKET_DIRECTORY_H
#define PSR_NET_ADDRESS_SOCKET_DIRECTORY_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A socket's whole path has 107 bytes at most (sun_path); 24 are for "/scheduler-0-01234567". */
#define PSR_SOCKET_DIRECTORY_BYTES 84

typedef struct psr_socket_directory {
    char path[PSR_SOCKET_DIRECTORY_BYTES]; /* "": none */
    int hold;                              /* descriptor with a shared lock; -1: none */
} psr_socket_directory;

#define PSR_SOCKET_DIRECTORY_NONE ((psr_socket_directory){.hold = -1})

/* Makes one below runtime_directory ($XDG_RUNTIME_DIR), or below /tmp when that is NULL, is open to
 * other users, or is too long. IO. The caller owns *ret_directory: psr_socket_directory_remove. */
PSR_MUST_CHECK psr_err psr_socket_directory_make(const char *runtime_directory,
                                                 psr_socket_directory *ret_directory);
/* Makes the one that psr_socket_directory_of_run has named, and fails if anything is there. For the
 * one process of the run that makes it, once. USAGE, IO. The caller owns it likewise. */
PSR_MUST_CHECK psr_err psr_socket_directory_make_named(const char *path,
                                                       psr_socket_directory *ret_directory);

/* Holds a directory that exists. NOT_FOUND: it is gone, or being removed; USAGE: it is no such
 * directory, or others may use it. The caller owns *ret_directory: as above, or
 * psr_socket_directory_release. */
PSR_MUST_CHECK psr_err psr_socket_directory_hold(const char *path,
                                                 psr_socket_directory *ret_directory);

/* ---- a run or a job without a launcher of ours ----
 *
 * All its processes know a number that no other run or job has. */

/* "/run/user/7/psring-job-0123456789abcdef", for a number that tells this job from others; the
 * directory above is chosen as psr_socket_directory_make does. Makes nothing. */
void psr_socket_directory_of_job(const char *runtime_directory, uint64_t job,
                                 char ret_path[PSR_SOCKET_DIRECTORY_BYTES]);
/* "/run/user/7/psring-run-0123456789abcdef", likewise, of a number that nobody can know. IO. */
PSR_MUST_CHECK psr_err psr_socket_directory_of_run(const char *runtime_directory,
                                                   char ret_path[PSR_SOCKET_DIRECTORY_BYTES]);
/* Whether a path was named by psr_socket_directory_of_job. */
bool psr_socket_directory_is_a_jobs(const char *path);

/* Holds the directory that another process of the same job or run has made. A job's is made if it
 * is not there; a run's never is. NOT_FOUND: as psr_socket_directory_hold. USAGE: what is there is
 * another user's, is no directory, or others may use it. IO. The caller owns *ret_directory:
 * psr_socket_directory_remove. */
PSR_MUST_CHECK psr_err psr_socket_directory_enter(const char *path,
                                                  psr_socket_directory *ret_directory);

/* Takes a name ("rank-3") for this process alone, among those that hold the directory, until the
 * descriptor is closed. USAGE: another process has it; the line begins with `what` ("rank 3") and
 * says which process. The caller owns *ret_fd: close(). */
PSR_MUST_CHECK psr_err psr_socket_directory_claim(const psr_socket_directory *directory,
                                                  const char *name, const char *what, int *ret_fd);

/* ---- turns ---- */

/* Waits until this process may have a name that only one process at a time has, among all that hold
 * the directory, and writes `holder` into the file that tells the others who has it. The turn lasts
 * until the descriptor is closed or the process ends, however that happens. IO. The caller owns
 * *ret_fd: close(). */
PSR_MUST_CHECK psr_err psr_socket_directory_turn(const psr_socket_directory *directory,
                                                 const char *name, const char *holder, int *ret_fd);
/* Where that file is. size: of ret_path; a path that does not fit is "". */
void psr_socket_directory_turn_path(const psr_socket_directory *directory, const char *name,
                                    char *ret_path, size_t size);

/* ---- the end ---- */

/* Removes the sockets in it and the directory itself, and no other file. A job's directory goes
 * when the last process that holds it calls this. On PSR_SOCKET_DIRECTORY_NONE it does nothing. */
void psr_socket_directory_remove(psr_socket_directory *directory);

/* Lets go of it without removing it. */
void psr_socket_directory_release(psr_socket_directory *directory);

/* A path in that directory that no other socket of the run has or had, so that no socket is bound
 * over another one: "DIRECTORY/worker-1-01234567" for "worker 1". USAGE: it does not fit into size
 * bytes. IO. */
PSR_MUST_CHECK psr_err psr_socket_directory_name(const char *directory, const char *of, size_t size,
                                                 char *ret_path);

/* The directory part of "ipc:///run/user/7/psring-x/scheduler-0-01234567". USAGE: not such an
 * endpoint, or too long. */
PSR_MUST_CHECK psr_err psr_socket_directory_of(const char *endpoint,
                                               char ret_path[PSR_SOCKET_DIRECTORY_BYTES]);

#endif
