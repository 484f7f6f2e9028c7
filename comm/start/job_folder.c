#include "comm/start/job_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define NAME_BYTES 48

psr_err psr_job_folder_enter(const char *directory, psr_job_folder *ret_folder)
{
    psr_job_folder folder = PSR_JOB_FOLDER_NONE;
    if (psr_socket_directory_is_a_jobs(directory))
        PSR_TRY(psr_socket_directory_enter(directory, &folder.directory));
    *ret_folder = folder;
    return PSR_OK;
}

static void name_place(psr_peer peer, char name[static NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "%s-%" PRIu32, psr_role_name(peer.role), peer.rank);
}

static psr_err take(psr_job_folder *folder, psr_peer peer)
{
    const char *word = peer.role == PSR_ROLE_WORKER ? "rank" : psr_role_name(peer.role);
    char name[NAME_BYTES], what[48];
    name_place(peer, name);
    if (peer.role == PSR_ROLE_SCHEDULER)
        snprintf(what, sizeof what, "the scheduler's place");
    else
        snprintf(what, sizeof what, "%s %" PRIu32, word, peer.rank);
    return psr_socket_directory_claim(&folder->directory, name, what, &folder->place);
}

psr_err psr_job_folder_take(psr_job_folder *folder, psr_peer *peer, uint32_t places)
{
    if (folder->directory.hold < 0)
        return PSR_OK;
    if (peer->rank != PSR_RANK_ANY)
        return take(folder, *peer);
    for (uint32_t rank = 0; rank < places; rank++) {
        psr_peer one = {peer->role, rank};
        psr_err err = take(folder, one);
        if (err == PSR_OK)
            *peer = one;
        if (err != PSR_ERR_USAGE)
            return err;
    }
    return psr_fail(PSR_ERR_USAGE,
                    "this job has %" PRIu32 " %ss, and all are there (%s): this is one too many",
                    places, psr_role_name(peer->role), folder->directory.path);
}

void psr_job_folder_leave(psr_job_folder *folder)
{
    if (folder->place >= 0)
        close(folder->place);
    folder->place = -1;
    psr_socket_directory_remove(&folder->directory);
}
