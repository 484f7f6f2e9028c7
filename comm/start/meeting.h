/* The meeting: how processes that were started by identical commands find their scheduler. One
 * function, and the same answer in all of them.
 *
 *     what is known                             the scheduler listens at
 *     PSRING_SCHEDULER                          what that says
 *     a key file or folder                      address:port of the start, over TCP with CURVE
 *     none, and all are on this host            the ipc socket "scheduler" in a directory that the
 *                                               job alone has
 *     none, several hosts, of mpirun or srun    what the job's file says, in --meeting,
 *                                               PSRING_MEETING or the working folder
 *     none, several hosts, and a folder named   the same
 *     none, and there may be several hosts      refused: it names what is missing
 *
 * The job's directory is $XDG_RUNTIME_DIR/psring-job-H, or /tmp/psring-job-H where that is not this
 * user's alone; H is a hash of psr_start.job, job_here and the user's number. It has mode 0700 and
 * is this user's, or nobody goes in: whoever put something else there, a link too, is named
 * (net/address/socket_directory.h). No state. Any thread. */
#ifndef PSR_COMM_MEETING_H
#define PSR_COMM_MEETING_H

#include "comm/start/start.h"
#include "net/address/socket_directory.h"

/* Fills start->scheduler, "/DIRECTORY/scheduler" or "HOST:PORT", or else start->meeting, the path
 * of the file that says more (comm/start/meeting_file.h). With one rank and nothing to meet by both
 * stay "". USAGE. */
PSR_MUST_CHECK psr_err psr_start_meet(psr_start *start);

/* The directory that the job alone has on this host: its processes here meet in it, or share memory
 * in it where they meet others over TCP. Of a start whose job, or job_here, is known. */
void psr_start_directory(const psr_start *start, char ret_directory[PSR_SOCKET_DIRECTORY_BYTES]);

/* The address that this host has towards the scheduler's HOST:PORT, to listen on: of the network
 * that leads there. No packet is sent. USAGE: it is not HOST:PORT, or there is no way to that
 * host. */
PSR_MUST_CHECK psr_err psr_start_interface(const char *scheduler, char ret_address[PSR_HOST_MAX]);

#endif
