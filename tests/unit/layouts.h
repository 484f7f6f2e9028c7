/* Layouts and buckets to test with. */
#ifndef PSR_TESTS_UNIT_LAYOUTS_H
#define PSR_TESTS_UNIT_LAYOUTS_H

#include "tests/unit/expect.h"

#include "model/networks/network.h"

/* A layout of vectors of these lengths. */
#define LAYOUT_OF(...)                                                                             \
    layout_of((const uint32_t[]){__VA_ARGS__},                                                     \
              sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static inline psr_layout layout_of(const uint32_t *counts, size_t tensor_count)
{
    psr_layout layout = {0};
    for (size_t i = 0; i < tensor_count; i++)
        expect_ok(psr_layout_add(&layout, "t", 1, &counts[i]));
    return layout;
}

/* A network as some data set makes it, in buckets of the size that auto comes to. */
typedef struct sized_net {
    psr_network *net;
    psr_buckets buckets;
    uint64_t bucket_bytes;
} sized_net;

static inline sized_net make_sized(const char *model, uint32_t classes, uint32_t channels,
                                   uint32_t side)
{
    sized_net s = {0};
    expect_ok(psr_network_new(model, classes, channels, side, side, PSR_SHORTCUT_A, &s.net));
    s.bucket_bytes = psr_bucket_bytes(&s.net->params, 0);
    expect_ok(psr_buckets_plan(&s.net->params, s.bucket_bytes, &s.buckets));
    return s;
}

static inline void free_sized(sized_net *s)
{
    psr_buckets_done(&s->buckets);
    psr_network_free(s->net);
}

#endif
