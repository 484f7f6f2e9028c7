/* A worker that a launcher other than psring's has started, as one of N identical commands. This
 * code finds its place (comm/start/) and makes the provision with which it joins. Rank 0 starts the
 * scheduler; where the mode has shards, worker s mod n starts shard s beside itself. One thread,
 * except where another is named. */
#ifndef PSR_WORKER_START_LAUNCHED_H
#define PSR_WORKER_START_LAUNCHED_H

#include "comm/members/provision.h"
#include "comm/start/job_folder.h"
#include "comm/start/meeting_file.h"
#include "comm/start/start.h"
#include "worker/start/arguments.h"
#include "worker/start/beside.h"

typedef struct psr_launched {
    psr_start start;
    psr_config config;   /* the run's configuration, as this process was given it */
    const char *command; /* the command line; borrowed while it begins */
    psr_job_folder folder;
    psr_meeting_file meeting;
    psr_beside *beside; /* NULL: it starts no process */
} psr_launched;

#define PSR_LAUNCHED_NONE                                                                          \
    ((psr_launched){.folder = PSR_JOB_FOLDER_NONE, .meeting = PSR_MEETING_FILE_NONE})

/* Finds the place, logs it, and starts the processes that this one has to start. lost: see
 * psr_beside_new. USAGE, and the errors of starting. Call psr_launched_end afterwards, on failure
 * too. The caller owns *ret_provision. */
PSR_MUST_CHECK psr_err psr_launched_begin(
    psr_launched *launched, const psr_worker_arguments *arguments, const psr_start *start,
    void (*lost)(void *context, bool killed, psr_err status, const char *line), void *context,
    psr_provision *ret_provision);

/* All processes of the run have joined: removes the file or folder by which they met, and takes the
 * launcher's signals from now on (worker/start/end_signals.h). */
void psr_launched_joined(psr_launched *launched);

/* For a process that is not a worker, but has started the scheduler or a shard: takes the
 * launcher's signals, waits until that process has ended, and returns its result. */
PSR_MUST_CHECK psr_err psr_launched_stay(psr_launched *launched);

/* Must be called when everything else of the run has ended in this process, with that result in
 * err. Waits for the processes that it started. Returns err, or the scheduler's result. */
psr_err psr_launched_end(psr_launched *launched, psr_err err);

#endif
