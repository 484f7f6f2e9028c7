/* A child process with pipes on its standard streams, that dies with its parent. Used by launcher,
 * agent and worker alike. One thread (the parent-death signal is tied to the thread that started
 * the child). */
#ifndef PSR_BASE_SYSTEM_CHILD_H
#define PSR_BASE_SYSTEM_CHILD_H

#include "base/system/cpus.h"
#include "base/err.h"
#include "base/text/lines.h"

#include <stdbool.h>
#include <sys/types.h>

typedef struct psr_child {
    pid_t pid; /* 0: none is running, or it has been reaped */
    int pidfd; /* readable when it has ended; -1: none */
    psr_line_writer in;
    psr_line_reader out, err;
    bool ended;
    bool stopped; /* stopped by a signal when psr_child_reap last looked */
    /* signals go to its whole process group, and the rest of the group is killed when it has
     * ended */
    bool group;
    int status; /* from waitpid */
    /* set when it has ended: where its own output ends; a process that it left behind may write
     * more */
    uint64_t out_end, err_end;
} psr_child;

typedef enum psr_child_flags {
    PSR_CHILD_LOSSY_OUTPUT = 1, /* its writes never block; it drops
                                   what a full pipe does not take */
    PSR_CHILD_KEEP_STDERR = 2,  /* shares our standard error */
    PSR_CHILD_KEEP_STDOUT = 16, /* shares our standard output */
    /* is not killed when we die: it sees the end of its standard input, ends its work in order and
     * exits */
    PSR_CHILD_SEES_END = 4,
    PSR_CHILD_LEAVES_TERM = 8, /* ignores SIGTERM, SIGUSR1 and SIGHUP: when all
                                   processes of a job get one, its parent acts on it */
} psr_child_flags;

/* Runs argv[0] (a path) in a process group of its own. NOT_FOUND when it cannot be executed. */
PSR_MUST_CHECK psr_err psr_child_start(char *const argv[], unsigned flags, psr_child *ret_child);

/* What a process is given before its program begins. All borrowed for the call. */
typedef struct psr_child_setting {
    char *const *environment; /* NAME=VALUE.., NULL; NULL: the same as this process's */
    const psr_cpus *cpus; /* the processors that it may run on; NULL: the same as this process's */
} psr_child_setting;

/* The same, with that setting. */
PSR_MUST_CHECK psr_err psr_child_start_with(char *const argv[], unsigned flags,
                                            const psr_child_setting *setting, psr_child *ret_child);

/* What a program that is not ours gets when it begins. Its standard input is /dev/null. */
typedef struct psr_child_surroundings {
    const char *directory; /* its working directory */
    psr_child_setting setting;
    int out, err; /* its standard streams, consumed also on failure; -1: pipes */
    int inherits; /* a descriptor that it inherits with the same number; it stays the caller's */
} psr_child_surroundings;

/* Runs argv[0], a path or a name that is looked up in PATH. It and the processes that it starts are
 * one process group, which is ended as a whole. NOT_FOUND: it or the directory does not exist. */
PSR_MUST_CHECK psr_err psr_child_start_program(char *const argv[],
                                               const psr_child_surroundings *surroundings,
                                               psr_child *ret_child);

/* Reaps the child if it has ended; otherwise updates `stopped`. True if it has ended, now or
 * before. */
bool psr_child_reap(psr_child *child);

/* Blocks until it has ended, and reaps it. For a child of whose output nothing is read. */
void psr_child_wait(psr_child *child);

/* Whether it has ended and all that it printed was read. */
bool psr_child_said_all(const psr_child *child);

/* How it ended, by its status: "killed by signal 9 (Killed)", "exit status 1". */
void psr_child_describe(int status, char *text, size_t size);

/* Sends signo to it by its id (with `group`, to its process group). Does nothing when it has
 * ended. */
void psr_child_signal(const psr_child *child, int signo);

/* Closes pipes; kills and reaps when it still runs. */
void psr_child_done(psr_child *child);

/* The path of one of our programs ("psring-worker"): beside this program as installed, or in its
 * folder of the build tree. NOT_FOUND names what was looked for, and for psring-worker-cuda what to
 * install. */
PSR_MUST_CHECK psr_err psr_program_path(const char *name, char *path, size_t size);

/* This process becomes that program of ours. words: as execv's, and unchanged. Returns only when it
 * fails: NOT_FOUND, as above; IO. */
PSR_MUST_CHECK psr_err psr_program_become(const char *name, char *const *words);

#endif
