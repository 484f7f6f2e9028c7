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

/* Fills in start->scheduler, "/DIRECTORY/scheduler" or "HOST:PORT"; or else start->meeting, the
 * path of the file that has it (comm/start/meeting_file.h). Both stay "" for one rank without
 * anything to meet by. USAGE. */
PSR_MUST_CHECK psr_err psr_start_meet(psr_start *start);

/* The directory that only this job has on this host. Its processes here meet in it, or share memory
 * in it if they meet others over TCP. start->job or job_here must be known. */
void psr_start_directory(const psr_start *start, char ret_directory[PSR_SOCKET_DIRECTORY_BYTES]);

/* The address of this host on the network that leads to the scheduler's HOST:PORT, to listen on.
 * Sends no packet. USAGE: it is not HOST:PORT, or there is no path to that host. */
PSR_MUST_CHECK psr_err psr_start_interface(const char *scheduler, char ret_address[PSR_HOST_MAX]);

#endif
