/* GPUs that sum together, by NCCL. Its communicator does not block: a call that waits for others
 * says so and returns, and is asked about until it is through. NCCL has nothing to be woken by. So
 * a wait can be ended by another thread, which a blocking call cannot. */
#include "model/cuda/nvidia/device.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

#define ASK_AGAIN_NS 50000 /* joining takes 100 ms and more, and sums seldom wait at all */

struct psr_cuda_group {
    psr_cuda_device *device;
    ncclComm_t comm;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool ends;      /* group_end was called */
    uint32_t users; /* calls under way */
};

_Static_assert(sizeof(ncclUniqueId) <= PSR_CUDA_GROUP_ID_BYTES, "NCCL's id fits");

/* ---- use and end ---- */

static bool enter(psr_cuda_group *group)
{
    pthread_mutex_lock(&group->mutex);
    const bool may = !group->ends;
    group->users += may;
    pthread_mutex_unlock(&group->mutex);
    return may;
}

static void leave(psr_cuda_group *group)
{
    pthread_mutex_lock(&group->mutex);
    group->users--;
    pthread_cond_broadcast(&group->changed);
    pthread_mutex_unlock(&group->mutex);
}

/* Waits for the group's end, as long as NCCL is left alone between two questions. */
static bool is_ending(psr_cuda_group *group)
{
    const struct timespec until = psr_clock_after_ns(ASK_AGAIN_NS);
    pthread_mutex_lock(&group->mutex);
    int status = 0;
    while (!group->ends && status == 0)
        status = pthread_cond_clockwait(&group->changed, &group->mutex, CLOCK_MONOTONIC, &until);
    const bool ends = group->ends;
    pthread_mutex_unlock(&group->mutex);
    return ends;
}

/* Aborting, rather than destroying, waits for no other member, and ends sums on the device that
 * wait for one. */
static void end_group(psr_cuda_device *device, void *what)
{
    psr_cuda_group *group = what;
    pthread_mutex_lock(&group->mutex);
    group->ends = true;
    pthread_cond_broadcast(&group->changed);
    while (group->users > 0)
        pthread_cond_wait(&group->changed, &group->mutex);
    pthread_mutex_unlock(&group->mutex);
    if (group->comm != NULL)
        (void)device->wall->ncclCommAbort(group->comm);
    pthread_cond_destroy(&group->changed);
    pthread_mutex_destroy(&group->mutex);
    free(group);
}

/* Until the call is through. */
static psr_err wait_for(psr_cuda_group *group, ncclResult_t status, const char *call)
{
    const psr_cuda_wall *wall = group->device->wall;
    while (status == ncclInProgress) {
        if (is_ending(group))
            return psr_fail(PSR_ERR_COMPUTE, "%s: the group was ended", call);
        PSR_TRY(psr_nccl_check(wall, wall->ncclCommGetAsyncError(group->comm, &status), group->comm,
                               "ncclCommGetAsyncError"));
    }
    return psr_nccl_check(wall, status, group->comm, call);
}

/* ---- the table's ---- */

psr_err psr_nvidia_group_id(uint8_t ret_id[PSR_CUDA_GROUP_ID_BYTES])
{
    ncclUniqueId id;
    PSR_TRY(psr_nvidia_load_nccl());
    PSR_TRY(psr_nccl_check(psr_nvidia_wall(), psr_nvidia_wall()->ncclGetUniqueId(&id), NULL,
                           "ncclGetUniqueId"));
    memset(ret_id, 0, PSR_CUDA_GROUP_ID_BYTES);
    memcpy(ret_id, &id, sizeof id);
    return PSR_OK;
}

static psr_err join(psr_cuda_group *group, const uint8_t *id, uint32_t members, uint32_t member)
{
    const psr_cuda_wall *wall = group->device->wall;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId unique;
    config.blocking = 0;
    memcpy(&unique, id, sizeof unique);
    return wait_for(
        group,
        wall->ncclCommInitRankConfig(&group->comm, (int)members, unique, (int)member, &config),
        "ncclCommInitRankConfig");
}

psr_err psr_nvidia_group_join(psr_cuda_device *device, const uint8_t id[PSR_CUDA_GROUP_ID_BYTES],
                              uint32_t members, uint32_t member, psr_cuda_group **ret_group)
{
    PSR_TRY(psr_nvidia_load_nccl());
    PSR_TRY(psr_nvidia_enter(device));
    psr_cuda_group *group = calloc(1, sizeof *group);
    if (group == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a group of GPUs");
    group->device = device;
    pthread_mutex_init(&group->mutex, NULL);
    pthread_cond_init(&group->changed, NULL);
    const psr_err err = join(group, id, members, member);
    if (err != PSR_OK) {
        end_group(device, group);
        return err;
    }
    PSR_TRY(psr_nvidia_own(device, group, end_group));
    *ret_group = group;
    return PSR_OK;
}

static psr_err sum(psr_cuda_group *group, psr_cuda_stream *stream, float *values, size_t count)
{
    const psr_cuda_wall *wall = group->device->wall;
    return wait_for(group,
                    wall->ncclAllReduce(values, values, count, ncclFloat32, ncclSum, group->comm,
                                        stream->stream),
                    "ncclAllReduce");
}

psr_err psr_nvidia_group_sum(psr_cuda_group *group, psr_cuda_stream *stream, float *values,
                             size_t count)
{
    PSR_TRY(psr_nvidia_enter(group->device));
    if (!enter(group))
        return psr_fail(PSR_ERR_COMPUTE, "ncclAllReduce: the group was ended");
    const psr_err err = sum(group, stream, values, count);
    leave(group);
    return err;
}

psr_err psr_nvidia_group_check(psr_cuda_group *group)
{
    const psr_cuda_wall *wall = group->device->wall;
    ncclResult_t status = ncclSuccess;
    if (!enter(group))
        return psr_fail(PSR_ERR_COMPUTE, "NCCL: the group was ended");
    psr_err err = psr_nccl_check(wall, wall->ncclCommGetAsyncError(group->comm, &status),
                                 group->comm, "ncclCommGetAsyncError");
    if (err == PSR_OK)
        err = psr_nccl_check(wall, status, group->comm, "NCCL");
    leave(group);
    return err;
}

void psr_nvidia_group_end(psr_cuda_group *group)
{
    if (group != NULL)
        psr_nvidia_disown(group->device, group);
}
