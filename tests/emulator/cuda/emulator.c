#include "tests/emulator/cuda/device.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void psr_emulator_fault(const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    fprintf(stderr, "cuda emulator: %s\n", line);
    abort();
}

/* ---- settings ---- */

static psr_emulator_settings settings_now = {.streams = PSR_EMULATOR_THREADS,
                                             .devices = 1,
                                             .other_from = UINT32_MAX,
                                             .bytes = (size_t)4 << 30};

psr_emulator_settings psr_emulator_default(void)
{
    return (psr_emulator_settings){.streams = PSR_EMULATOR_THREADS,
                                   .devices = 1,
                                   .other_from = UINT32_MAX,
                                   .bytes = (size_t)4 << 30};
}

void psr_emulator_set(const psr_emulator_settings *settings)
{
    settings_now = *settings;
}

/* ---- what was made ---- */

void psr_emulator_keep(psr_cuda_device *device, psr_emulator_made_kind kind,
                       psr_emulator_made *made, void (*free)(void *object))
{
    pthread_mutex_lock(&device->lock);
    made->device = device;
    made->free = free;
    made->at = &device->made[kind];
    made->next = device->made[kind];
    if (made->next != NULL)
        made->next->at = &made->next;
    device->made[kind] = made;
    pthread_mutex_unlock(&device->lock);
}

void psr_emulator_forget(psr_emulator_made *made)
{
    pthread_mutex_lock(&made->device->lock);
    *made->at = made->next;
    if (made->next != NULL)
        made->next->at = made->at;
    pthread_mutex_unlock(&made->device->lock);
}

/* ---- devices ---- */

static psr_err device_count(uint32_t *ret_count)
{
    if (settings_now.devices == 0)
        return psr_fail(PSR_ERR_UNSUPPORTED, "the emulator was told to have no device");
    *ret_count = settings_now.devices;
    return PSR_OK;
}

static psr_err device_open(uint32_t index, psr_cuda_device **ret_device)
{
    if (index >= settings_now.devices)
        return psr_fail(PSR_ERR_UNSUPPORTED, "there is no device %u: the emulator has %u", index,
                        settings_now.devices);
    psr_cuda_device *device = calloc(1, sizeof *device);
    if (device == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory is left for a device");
    device->settings = settings_now;
    device->is_other = index >= settings_now.other_from;
    device->random = settings_now.seed;
    pthread_mutex_init(&device->lock, NULL);
    pthread_cond_init(&device->moved, NULL);
    *ret_device = device;
    return PSR_OK;
}

static void device_close(psr_cuda_device *device)
{
    if (device == NULL)
        return;
    for (int kind = 0; kind < PSR_EMULATOR_MADE_COUNT; kind++)
        while (device->made[kind] != NULL)
            device->made[kind]->free(device->made[kind]);
    psr_emulator_free_all_memory(device);
    pthread_cond_destroy(&device->moved);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

static psr_err device_facts(psr_cuda_device *device, psr_cuda_device_facts *ret_facts)
{
    pthread_mutex_lock(&device->lock);
    psr_cuda_device_facts facts = {.name = "emulated GPU",
                                   .architecture = device->is_other ? 80 : 90};
    facts.bytes = device->settings.bytes;
    facts.free_bytes = device->settings.bytes - device->used_bytes;
    snprintf(facts.identity, sizeof facts.identity, "emulated sm_%u", facts.architecture);
    const psr_err err = psr_emulator_failed(device);
    pthread_mutex_unlock(&device->lock);
    if (err == PSR_OK)
        *ret_facts = facts;
    return err;
}

psr_err psr_emulator_failed(const psr_cuda_device *device)
{
    if (device->failed)
        return psr_fail(PSR_ERR_COMPUTE,
                        "the emulated device failed, as it was told to, after %llu "
                        "orders",
                        (unsigned long long)device->settings.fail_after);
    return PSR_OK;
}

bool psr_emulator_count_order(psr_cuda_device *device)
{
    pthread_mutex_lock(&device->lock);
    if (device->settings.fail_after > 0 && device->orders == device->settings.fail_after)
        device->failed = true;
    device->orders++;
    const bool goes_on = !device->failed;
    pthread_mutex_unlock(&device->lock);
    return goes_on;
}

/* splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
uint64_t psr_emulator_random(psr_cuda_device *device)
{
    uint64_t z = device->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static psr_err device_check(psr_cuda_device *device)
{
    pthread_mutex_lock(&device->lock);
    const psr_err err = psr_emulator_failed(device);
    pthread_mutex_unlock(&device->lock);
    return err;
}

/* ---- what streams carry out ---- */

static psr_err give(psr_cuda_stream *stream, const psr_emulator_order *values)
{
    psr_emulator_order *order = psr_emulator_order_new(values->kind);
    if (order == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory is left for an order");
    order->of = values->of;
    return psr_emulator_give(stream, order);
}

/* Memory of the host that no stream may reach is found when the order is given; device memory may
 * be freed until its turn comes, and so is looked up then. */
static psr_err copy(psr_cuda_stream *stream, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return PSR_OK;
    psr_emulator_any_memory(from, bytes, "a copy reads");
    psr_emulator_any_memory(to, bytes, "a copy writes");
    psr_emulator_order order = {.kind = PSR_EMULATOR_COPY};
    order.of.copy.to = to;
    order.of.copy.from = from;
    order.of.copy.bytes = bytes;
    return give(stream, &order);
}

static psr_err fill(psr_cuda_stream *stream, void *to, uint8_t byte, size_t bytes)
{
    if (bytes == 0)
        return PSR_OK;
    psr_emulator_any_memory(to, bytes, "a fill writes");
    psr_emulator_order order = {.kind = PSR_EMULATOR_FILL};
    order.of.fill.to = to;
    order.of.fill.byte = byte;
    order.of.fill.bytes = bytes;
    return give(stream, &order);
}

static psr_err call_host(psr_cuda_stream *stream, void (*call)(void *context), void *context)
{
    psr_emulator_order order = {.kind = PSR_EMULATOR_CALL};
    order.of.call.call = call;
    order.of.call.context = context;
    return give(stream, &order);
}

static psr_err launch(psr_cuda_stream *stream, psr_cuda_kernel kernel, uint32_t blocks,
                      uint32_t threads, const void *arguments, size_t argument_bytes)
{
    if ((unsigned)kernel >= PSR_CUDA_KERNEL_COUNT)
        psr_emulator_fault("kernel %u is launched, which is none", (unsigned)kernel);
    if (argument_bytes != psr_emulator_argument_bytes(kernel))
        psr_emulator_fault("kernel %s takes %zu bytes of arguments, not %zu",
                           psr_emulator_kernel_name(kernel), psr_emulator_argument_bytes(kernel),
                           argument_bytes);
    if (blocks == 0 || blocks > INT32_MAX || threads == 0 || threads > 1024)
        return psr_fail(PSR_ERR_COMPUTE,
                        "kernel %s cannot be launched with %u blocks of %u threads",
                        psr_emulator_kernel_name(kernel), blocks, threads);
    psr_emulator_order order = {.kind = PSR_EMULATOR_LAUNCH};
    order.of.launch.kernel = kernel;
    order.of.launch.blocks = blocks;
    order.of.launch.threads = threads;
    memcpy(order.of.launch.arguments, arguments, argument_bytes);
    return give(stream, &order);
}

psr_err psr_emulator_plan_run(psr_cuda_stream *stream, const psr_cuda_plan *plan,
                              const psr_cuda_plan_tensors *tensors, void *workspace)
{
    psr_emulator_order order = {.kind = PSR_EMULATOR_GRAPH};
    order.of.graph.plan = plan;
    order.of.graph.tensors = *tensors;
    order.of.graph.workspace = workspace;
    return give(stream, &order);
}

psr_err psr_emulator_group_sum(psr_cuda_group *group, psr_cuda_stream *stream, float *values,
                               size_t count)
{
    psr_emulator_order order = {.kind = PSR_EMULATOR_SUM};
    order.of.sum.group = group;
    order.of.sum.values = values;
    order.of.sum.count = count;
    return give(stream, &order);
}

static const psr_cuda_api table = {
    .device_count = device_count,
    .device_open = device_open,
    .device_close = device_close,
    .device_facts = device_facts,
    .device_check = device_check,
    .memory_new = psr_emulator_memory_new,
    .memory_free = psr_emulator_memory_free,
    .pinned_new = psr_emulator_pinned_new,
    .pinned_free = psr_emulator_pinned_free,
    .host_register = psr_emulator_host_register,
    .host_unregister = psr_emulator_host_unregister,
    .stream_new = psr_emulator_stream_new,
    .stream_free = psr_emulator_stream_free,
    .stream_wait = psr_emulator_stream_wait,
    .stream_synchronize = psr_emulator_stream_synchronize,
    .event_new = psr_emulator_event_new,
    .event_new_timed = psr_emulator_event_new_timed,
    .event_free = psr_emulator_event_free,
    .event_record = psr_emulator_event_record,
    .event_passed = psr_emulator_event_passed,
    .event_synchronize = psr_emulator_event_synchronize,
    .event_elapsed = psr_emulator_event_elapsed,
    .copy = copy,
    .fill = fill,
    .call_host = call_host,
    .launch = launch,
    .plan_new = psr_emulator_plan_new,
    .plan_free = psr_emulator_plan_free,
    .plan_workspace = psr_emulator_plan_workspace,
    .plan_engine = psr_emulator_plan_engine,
    .plan_run = psr_emulator_plan_run,
    .record_begin = psr_emulator_record_begin,
    .record_end = psr_emulator_record_end,
    .recording_run = psr_emulator_recording_run,
    .recording_free = psr_emulator_recording_free,
    .group_id = psr_emulator_group_id,
    .group_join = psr_emulator_group_join,
    .group_sum = psr_emulator_group_sum,
    .group_check = psr_emulator_group_check,
    .group_end = psr_emulator_group_end,
};

const psr_cuda_api *psr_emulator(void)
{
    return &table;
}
