/* The table over NVIDIA's libraries. */
#include "model/cuda/linked.h"
#include "model/cuda/nvidia/device.h"
#include "model/cuda/nvidia/properties.h"

static const psr_cuda_api api = {
    .device_count = psr_nvidia_device_count,
    .device_open = psr_nvidia_device_open,
    .device_close = psr_nvidia_device_close,
    .device_facts = psr_nvidia_device_facts,
    .device_check = psr_nvidia_device_check,
    .memory_new = psr_nvidia_memory_new,
    .memory_free = psr_nvidia_disown,
    .pinned_new = psr_nvidia_pinned_new,
    .pinned_free = psr_nvidia_disown,
    .host_register = psr_nvidia_host_register,
    .host_unregister = psr_nvidia_disown,
    .stream_new = psr_nvidia_stream_new,
    .stream_free = psr_nvidia_stream_free,
    .stream_wait = psr_nvidia_stream_wait,
    .stream_synchronize = psr_nvidia_stream_synchronize,
    .event_new = psr_nvidia_event_new,
    .event_new_timed = psr_nvidia_event_new_timed,
    .event_free = psr_nvidia_event_free,
    .event_record = psr_nvidia_event_record,
    .event_passed = psr_nvidia_event_passed,
    .event_synchronize = psr_nvidia_event_synchronize,
    .event_elapsed = psr_nvidia_event_elapsed,
    .copy = psr_nvidia_copy,
    .fill = psr_nvidia_fill,
    .call_host = psr_nvidia_call_host,
    .launch = psr_nvidia_launch,
    .plan_new = psr_nvidia_plan_new,
    .plan_free = psr_nvidia_plan_free,
    .plan_workspace = psr_nvidia_plan_workspace,
    .plan_engine = psr_nvidia_plan_engine,
    .plan_run = psr_nvidia_plan_run,
    .record_begin = psr_nvidia_record_begin,
    .record_end = psr_nvidia_record_end,
    .recording_run = psr_nvidia_recording_run,
    .recording_free = psr_nvidia_recording_free,
    .group_id = psr_nvidia_group_id,
    .group_join = psr_nvidia_group_join,
    .group_sum = psr_nvidia_group_sum,
    .group_check = psr_nvidia_group_check,
    .group_end = psr_nvidia_group_end,
};

const psr_cuda_api *psr_cuda_linked(void)
{
    return &api;
}

/* The device is open meanwhile, so that what refuses a run on it refuses this in the same words. */
psr_err psr_cuda_properties(uint32_t index, char **ret_json)
{
    psr_cuda_device *device = NULL;
    PSR_TRY(psr_nvidia_device_open(index, &device));
    const psr_cudnn_plan_target target = {.index = (int32_t)index};
    const psr_err err = psr_cudnn_properties_read(psr_nvidia_wall(), &target, ret_json);
    psr_nvidia_device_close(device);
    return err;
}
