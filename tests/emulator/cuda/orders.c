/* What an order does. */
#include "tests/emulator/cuda/device.h"
#include "tests/emulator/cuda/emulated_kernel.h"

#include <stdio.h>
#include <string.h>

static void carry_out_copy(const psr_emulator_order *order)
{
    const size_t bytes = order->of.copy.bytes;
    const unsigned char *from = psr_emulator_any_memory(order->of.copy.from, bytes, "a copy reads");
    unsigned char *to = psr_emulator_any_memory(order->of.copy.to, bytes, "a copy writes");
    if (from < to + bytes && to < from + bytes)
        psr_emulator_fault("a copy of %zu bytes goes to memory that it reads", bytes);
    memcpy(to, from, bytes);
}

static void carry_out_fill(const psr_emulator_order *order)
{
    const size_t bytes = order->of.fill.bytes;
    memset(psr_emulator_any_memory(order->of.fill.to, bytes, "a fill writes"), order->of.fill.byte,
           bytes);
}

static void carry_out_launch(const psr_emulator_order *order, uint64_t seed)
{
    _Alignas(16) unsigned char arguments[PSR_EMULATOR_ARGUMENT_BYTES];
    memcpy(arguments, order->of.launch.arguments, sizeof arguments);
    psr_emulator_translate_arguments(order->of.launch.kernel, arguments);
    psr_emulated_kernel(order->of.launch.kernel, order->of.launch.blocks, order->of.launch.threads,
                        arguments, seed);
    char who[64];
    snprintf(who, sizeof who, "kernel %s", psr_emulator_kernel_name(order->of.launch.kernel));
    psr_emulator_check_ends(who);
}

static void carry_out_sum(const psr_emulator_order *order)
{
    const size_t count = order->of.sum.count;
    psr_emulator_group_carry_out(order->of.sum.group,
                                 psr_emulator_device_memory(order->of.sum.values,
                                                            count * sizeof(float),
                                                            "a sum of a group uses"),
                                 count);
}

void psr_emulator_carry_out(psr_cuda_device *device, const psr_emulator_order *order, uint64_t seed)
{
    const bool goes_on = psr_emulator_count_order(device);
    if (order->kind == PSR_EMULATOR_CALL)
        order->of.call.call(order->of.call.context);
    if (!goes_on)
        return;
    switch (order->kind) {
    case PSR_EMULATOR_COPY:
        carry_out_copy(order);
        break;
    case PSR_EMULATOR_FILL:
        carry_out_fill(order);
        break;
    case PSR_EMULATOR_LAUNCH:
        carry_out_launch(order, seed);
        break;
    case PSR_EMULATOR_GRAPH:
        psr_emulator_graph_carry_out(order->of.graph.plan, &order->of.graph.tensors,
                                     order->of.graph.workspace);
        break;
    case PSR_EMULATOR_SUM:
        carry_out_sum(order);
        break;
    default: /* the streams' own, and calls */
        break;
    }
}
