#include "data/files/cifar.h"

#include <inttypes.h>

const psr_cifar_kind psr_cifar_10 = {.prefix_bytes = 0, .prefix_classes = 0, .classes = 10};
const psr_cifar_kind psr_cifar_100 = {.prefix_bytes = 1, .prefix_classes = 20, .classes = 100};

static psr_err check_class(const psr_source *source, const char *what, uint32_t found,
                           uint32_t classes, uint32_t record, uint64_t at)
{
    if (found < classes)
        return PSR_OK;
    return psr_fail(PSR_ERR_FORMAT,
                    "%s: %s %" PRIu32 " of sample %" PRIu32 " at byte %" PRIu64
                    ", should be 0..%" PRIu32,
                    psr_source_path(source), what, found, record, at, classes - 1);
}

psr_err psr_cifar_read(psr_source *source, const psr_cifar_kind *kind, uint32_t count,
                       uint8_t *pixels, uint32_t *labels)
{
    uint64_t record_bytes = kind->prefix_bytes + 1 + PSR_CIFAR_IMAGE_BYTES;
    uint64_t whole_size = count * record_bytes;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t head[2];
        PSR_TRY(psr_source_read(source, head, kind->prefix_bytes + 1, whole_size));
        if (kind->prefix_bytes > 0)
            PSR_TRY(check_class(source, "coarse label", head[0], kind->prefix_classes, i,
                                i * record_bytes));
        labels[i] = head[kind->prefix_bytes];
        PSR_TRY(check_class(source, "label", labels[i], kind->classes, i,
                            i * record_bytes + kind->prefix_bytes));
        PSR_TRY(psr_source_read(source, pixels + (size_t)i * PSR_CIFAR_IMAGE_BYTES,
                                PSR_CIFAR_IMAGE_BYTES, whole_size));
    }
    return psr_source_end(source);
}
