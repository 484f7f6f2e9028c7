/* What psring-worker-cuda links in its emulated build: a GPU that the processor plays. What a whole
 * run's GPUs are like comes by the environment, which its processes inherit:
 *
 *     PSR_CUDA_EMULATOR_SEED         delays before orders; 0 or not set: none
 *     PSR_CUDA_EMULATOR_DEVICES      how many there are; not set: 1
 *     PSR_CUDA_EMULATOR_OTHER_FROM   devices from this number on are of another kind; not set: none
 *     PSR_CUDA_EMULATOR_BYTES        memory of each; not set: 4 GiB
 *     PSR_CUDA_EMULATOR_FAIL_AFTER   orders until it fails; 0 or not set: never */
#include "model/cuda/linked.h"

#include "tests/emulator/cuda/emulator.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static psr_emulator_settings settings_of_environment(void)
{
    psr_emulator_settings settings = psr_emulator_default();
    settings.seed = number_of("PSR_CUDA_EMULATOR_SEED", 0);
    settings.devices = (uint32_t)number_of("PSR_CUDA_EMULATOR_DEVICES", settings.devices);
    settings.other_from = (uint32_t)number_of("PSR_CUDA_EMULATOR_OTHER_FROM", settings.other_from);
    settings.bytes = (size_t)number_of("PSR_CUDA_EMULATOR_BYTES", settings.bytes);
    settings.fail_after = number_of("PSR_CUDA_EMULATOR_FAIL_AFTER", 0);
    return settings;
}

const psr_cuda_api *psr_cuda_linked(void)
{
    const psr_emulator_settings settings = settings_of_environment();
    psr_emulator_set(&settings);
    return psr_emulator();
}

void psr_cuda_look(psr_cuda_devices *ret_devices)
{
    const psr_emulator_settings settings = settings_of_environment();
    *ret_devices = (psr_cuda_devices){.libraries = "emulated"};
    if (settings.devices > 0)
        snprintf(ret_devices->devices, sizeof ret_devices->devices, "%u x emulated GPU",
                 settings.devices);
    else
        snprintf(ret_devices->missing, sizeof ret_devices->missing,
                 "the emulator was told to have no device");
}

/* What is played of a device's properties. */
psr_err psr_cuda_properties(uint32_t index, char **ret_json)
{
    const psr_cuda_api *api = psr_cuda_linked();
    psr_cuda_device *device = NULL;
    psr_cuda_device_facts facts;
    PSR_TRY(api->device_open(index, &device));
    const psr_err err = api->device_facts(device, &facts);
    api->device_close(device);
    if (err != PSR_OK)
        return err;
    if (asprintf(ret_json, "{\"deviceName\": \"%s\", \"deviceVer\": %u, \"totalGlobalMem\": %zu}",
                 facts.name, 10 * facts.architecture, facts.bytes) < 0)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a device's properties");
    return PSR_OK;
}
