/* The namespaces of a lab. Its first process, the keeper, is process 1 of a PID namespace: when it
 * ends, however that happens, the kernel kills all others, and the networks go with the last
 * process that was in them. So nothing outlives a lab, and nothing of it is ever on the disk.
 *
 * Each host has a network, a host name and a view of the file system of its own, all held by one
 * process that does nothing else. All see this machine's files, but /run is the lab's.
 *
 * Not for programs with threads. */
#ifndef PSR_DEPLOY_LAB_NAMESPACES_H
#define PSR_DEPLOY_LAB_NAMESPACES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define PSR_LAB_FOLDER "/run/psring-lab"
#define PSR_LAB_OWN PSR_LAB_FOLDER "/own"     /* of each host; its XDG_RUNTIME_DIR */
#define PSR_LAB_HOSTS PSR_LAB_FOLDER "/hosts" /* the hostfile */
#define PSR_LAB_PS_HOSTS PSR_LAB_FOLDER "/ps-hosts"
#define PSR_LAB_PLACES PSR_LAB_FOLDER "/places" /* a line for each host: NAME PROCESS ADDRESS */

/* In the process that will be the keeper's parent: its next child is process 1 of a PID namespace,
 * in a user namespace of this user's own where this user may make no others. UNSUPPORTED: this
 * kernel lets this user do neither. */
PSR_MUST_CHECK psr_err psr_lab_leave(void);

/* In the keeper: networks, files and names of its own, with an empty PSR_LAB_FOLDER. It dies with
 * its parent. UNSUPPORTED. */
PSR_MUST_CHECK psr_err psr_lab_settle(void);

/* In the keeper: a file in PSR_LAB_FOLDER. IO. */
PSR_MUST_CHECK psr_err psr_lab_write(const char *path, const char *text);
/* In the keeper: this machine's file, which may be missing, has that text for all hosts that are
 * made later. IO. */
PSR_MUST_CHECK psr_err psr_lab_replace(const char *path, const char *own_path, const char *text);

/* In the keeper: makes the host's namespaces, and the process that holds them. IO. */
PSR_MUST_CHECK psr_err psr_lab_hold(const char *name, pid_t *ret_holder);

/* This process joins the network of that host, and with `whole` its files and name too. IO. */
PSR_MUST_CHECK psr_err psr_lab_enter(pid_t holder, bool whole);

/* Runs a program (argv[0]: its path) with input on its standard input, in the network of a host
 * (holder 0: in this process's own). ret_output: all that it printed, which the caller owns:
 * free(); NULL: not wanted. IO: "tc: what it said". */
PSR_MUST_CHECK psr_err psr_lab_tool(pid_t holder, char *const argv[], const char *input,
                                    char **ret_output);

#endif
