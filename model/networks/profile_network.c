/* The network of a profile: of each tensor the name and the size, and none of the layers. */
#include "model/networks/network_build.h"
#include "model/played/profile.h"

#include <inttypes.h>
#include <string.h>

static psr_err check(const psr_profile *profile)
{
    for (size_t i = 0; i < profile->count; i++) {
        const psr_profile_tensor *t = &profile->tensors[i];
        if (t->bytes / sizeof(float) > UINT32_MAX)
            return psr_fail(PSR_ERR_UNSUPPORTED, "tensor %s has %" PRIu64 " bytes: too many",
                            t->name, t->bytes);
        for (size_t k = 0; k < i; k++)
            if (strcmp(t->name, profile->tensors[k].name) == 0)
                return psr_fail(PSR_ERR_FORMAT, "two tensors are called %s", t->name);
    }
    return PSR_OK;
}

void psr_build_profile(psr_network_builder *builder, const char *path)
{
    psr_profile profile;
    uint32_t node = 0;
    if (builder->err == PSR_OK)
        builder->err = psr_profile_read(path, &profile);
    if (builder->err != PSR_OK)
        return;
    builder->err = check(&profile);
    if (builder->err != PSR_OK)
        builder->err = psr_fail_context(builder->err, "%s", path);
    for (size_t i = 0; i < profile.count; i++)
        node = psr_build_tensor(builder, node, profile.tensors[i].name,
                                (uint32_t)(profile.tensors[i].bytes / sizeof(float)));
    psr_profile_done(&profile);
}
