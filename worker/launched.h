/* A worker that a launcher of somebody else's has started, one of N identical commands: from its place (comm/start/) to the provision with which it
 * joins. Rank 0 starts the scheduler, and where the mode has shards, worker s mod n starts shard s beside itself. One thread, but for what is said. */
#ifndef PSR_WORKER_LAUNCHED_H
#define PSR_WORKER_LAUNCHED_H

#include "worker/arguments.h"
#include "worker/beside.h"

typedef struct psr_launched {
    psr_start start;
    psr_config config; /* of the run, as this process was told it */
    psr_job_folder folder;
    psr_meeting_file meeting;
    psr_beside *beside; /* NULL: nothing is */
} psr_launched;

#define PSR_LAUNCHED_NONE ((psr_launched){.folder = PSR_JOB_FOLDER_NONE, .meeting = PSR_MEETING_FILE_NONE})

/* Takes the place, says it, and starts what this process is to start. lost is psr_beside_new's. USAGE, and what starting gives. launched owns what
 * it has, on failure too: psr_launched_end. ret_provision owns. */
PSR_MUST_CHECK psr_err psr_launched_begin(psr_launched *launched, const psr_worker_arguments *arguments,
                                          const psr_start *start,
                                          void (*lost)(void *context, bool killed, psr_err status,
                                                       const char *line),
                                          void *context, psr_provision *ret_provision);

/* All processes of the run have joined: what they met by goes. */
void psr_launched_joined(psr_launched *launched);

/* Of a process that is no worker: what it started is the scheduler or a shard, and it stays until that has ended. What that came to. */
PSR_MUST_CHECK psr_err psr_launched_stay(psr_launched *launched);

/* All of this process that belongs to the run has ended, with err. Waits for what it started. Returns err, or what the scheduler came to. */
psr_err psr_launched_end(psr_launched *launched, psr_err err);

#endif
