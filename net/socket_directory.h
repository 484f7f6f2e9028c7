/* The directory that holds a run's ipc:// sockets, when all its processes are on one host: of mode
 * 0700, so that no other user can connect to any of them, or put one in the place of one that died.
 *
 * Several processes know it (launcher, agent, scheduler). Each holds it while it lives, and whoever
 * ends removes it: so it goes however the run ends. Its path is chosen before it is made, by a
 * number that nobody can know, so no other user can be there first; whoever comes first of those
 * who are told makes it. A launcher tells its agent and its scheduler, which outlive it, and makes
 * nothing itself: it may be killed at any moment. What a run left that was killed as a whole is
 * removed by the next that makes one: nobody holds it any more. Any thread. */
#ifndef PSR_NET_SOCKET_DIRECTORY_H
#define PSR_NET_SOCKET_DIRECTORY_H

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

/* Makes one below runtime_directory ($XDG_RUNTIME_DIR), or below /tmp when that is NULL, not this user's alone or too
 * long. IO. ret owns: psr_socket_directory_remove. */
PSR_MUST_CHECK psr_err psr_socket_directory_make(const char *runtime_directory,
                                                 psr_socket_directory *ret_directory);

/* Holds one that is there. NOT_FOUND: it is gone, or going; USAGE: it is none, or others may use
 * it. ret owns: as above, or psr_socket_directory_release. */
PSR_MUST_CHECK psr_err psr_socket_directory_hold(const char *path, psr_socket_directory *ret_directory);

/* ---- of a run, or of a job, whose processes have no launcher of ours and all know something that tells it from others ---- */

/* "/run/user/7/psring-job-0123456789abcdef", for a number that tells this job from others; the directory above is chosen as
 * psr_socket_directory_make does. Makes nothing. */
void psr_socket_directory_of_job(const char *runtime_directory, uint64_t job,
                                 char ret_path[PSR_SOCKET_DIRECTORY_BYTES]);
/* "/run/user/7/psring-run-0123456789abcdef", likewise, of a number that nobody can know. IO. */
PSR_MUST_CHECK psr_err psr_socket_directory_of_run(const char *runtime_directory,
                                                   char ret_path[PSR_SOCKET_DIRECTORY_BYTES]);
/* Whether a path is of a job. */
bool psr_socket_directory_is_a_jobs(const char *path);

/* Makes it, or takes the one that another process of the job or the run has made, and holds it.
 * USAGE: somebody else's is there, or something else, or others may use it. IO. ret owns:
 * psr_socket_directory_remove. */
PSR_MUST_CHECK psr_err psr_socket_directory_enter(const char *path, psr_socket_directory *ret_directory);

/* Takes a name ("rank-3") for this process alone, of those that hold the directory, until the descriptor is closed. USAGE: another
 * process has it; the line says which, and begins with what: "rank 3". ret owns: close(). */
PSR_MUST_CHECK psr_err psr_socket_directory_claim(const psr_socket_directory *directory, const char *name,
                                                  const char *what, int *ret_fd);

/* The process that has taken a name in the job's directory at path. NOT_FOUND: none has, or it is not known. ret owns: a
 * pidfd, readable once the process has ended; close(). */
PSR_MUST_CHECK psr_err psr_socket_directory_holder(const char *path, const char *name, int *ret_pidfd);

/* ---- turns ---- */

/* Waits until it is this process's turn at a name, among all that hold the directory, and writes holder into the file that says whose
 * it is: until the descriptor is closed, or the process ends, however that happens. IO. ret owns: close(). */
PSR_MUST_CHECK psr_err psr_socket_directory_turn(const psr_socket_directory *directory, const char *name,
                                                 const char *holder, int *ret_fd);
/* Where that file is. size: of ret_path; a path that does not fit is "". */
void psr_socket_directory_turn_path(const psr_socket_directory *directory, const char *name, char *ret_path,
                                    size_t size);

/* ---- the end ---- */

/* Removes the sockets in it and the directory itself; nothing else that may be there. A job's goes
 * when the last process that holds it does so. None: does nothing. */
void psr_socket_directory_remove(psr_socket_directory *directory);

/* Lets go of it without removing it. */
void psr_socket_directory_release(psr_socket_directory *directory);

/* A path in that directory that no other socket of the run has or had, so that none is ever bound over another:
 * "DIRECTORY/worker-1-01234567" of "worker 1". USAGE: it is not shorter than size. IO. */
PSR_MUST_CHECK psr_err psr_socket_directory_name(const char *directory, const char *of, size_t size,
                                                 char *ret_path);

/* The directory part of "ipc:///run/user/7/psring-x/scheduler-0-01234567". USAGE: not such an endpoint, or too long. */
PSR_MUST_CHECK psr_err psr_socket_directory_of(const char *endpoint,
                                               char ret_path[PSR_SOCKET_DIRECTORY_BYTES]);

#endif
