/* What --mode nccl sums by (worker/exchange/engines/gpu_sums.h), on the emulated GPU: each member's
 * thread is its own, so that all can be in one process. */
#include "tests/emulator/cuda/emulator.h"
#include "worker/exchange/engines/gpu_sums.h"

#include "tests/unit/expect.h"

#include <pthread.h>
#include <string.h>

#define MEMBERS 3
#define BUCKETS 4
#define LENGTH 1000

/* Of different lengths, and one that is empty but for one value. */
static const struct {
    size_t first, count;
} buckets[BUCKETS] = {{0, 1}, {64, 300}, {400, 99}, {512, 488}};

typedef struct member {
    psr_gpu_sums *sums;
    float arena[LENGTH];
    uint32_t index;
    pthread_mutex_t mutex;
    pthread_cond_t condition;
    uint32_t changes; /* how often changed was called and not waited for */
    /* As a back end keeps its gradients: on a device that it has opened itself. */
    psr_cuda_device *opened;
    psr_cuda_stream *stream;
    float *on_device;
} member;

static member members[MEMBERS];
static uint8_t id[PSR_CUDA_GROUP_ID_BYTES];

static void changed(void *context)
{
    member *m = context;
    pthread_mutex_lock(&m->mutex);
    m->changes++;
    pthread_cond_signal(&m->condition);
    pthread_mutex_unlock(&m->mutex);
}

static void wait_for_change(member *m)
{
    pthread_mutex_lock(&m->mutex);
    while (m->changes == 0)
        pthread_cond_wait(&m->condition, &m->mutex);
    m->changes = 0;
    pthread_mutex_unlock(&m->mutex);
}

static void start(uint32_t index, uint32_t device, bool shares, bool stays)
{
    member *m = &members[index];
    memset(m, 0, sizeof *m);
    pthread_mutex_init(&m->mutex, NULL);
    pthread_cond_init(&m->condition, NULL);
    m->index = index;
    const psr_gpu_sums_options options = {.api = psr_emulator(),
                                          .device = device,
                                          .shares_devices = shares,
                                          .id = id,
                                          .processes = MEMBERS,
                                          .process = index,
                                          .most = BUCKETS,
                                          .arena = m->arena,
                                          .length = LENGTH,
                                          .on_device = stays ? &m->on_device : NULL,
                                          .context = m,
                                          .changed = changed};
    expect_ok(psr_gpu_sums_new(&options, &m->sums));
}

static void start_member(uint32_t index, uint32_t device, bool shares)
{
    start(index, device, shares, false);
}

static void end_member(uint32_t index)
{
    psr_gpu_sums_free(members[index].sums, 10000);
    members[index].sums = NULL;
}

static int setup(void **state)
{
    psr_emulator_settings settings = psr_emulator_default();
    settings.devices = 2;
    settings.seed = 7;
    psr_emulator_set(&settings);
    (void)state;
    return psr_emulator()->group_id(id) == PSR_OK ? 0 : -1;
}

/* ---- sums ---- */

static float value_of(uint32_t index, size_t i, int step)
{
    return (float)(i + (size_t)step) / (float)(3 + index);
}

/* Between the arena and what stays on the device. */
static void copy_arena(member *m, bool back)
{
    const psr_cuda_api *api = psr_emulator();
    void *device = m->on_device, *host = m->arena;
    expect_ok(api->copy(m->stream, back ? host : device, back ? device : host, sizeof m->arena));
    expect_ok(api->stream_synchronize(m->stream));
}

static void order_step(member *m, int step)
{
    for (size_t i = 0; i < LENGTH; i++)
        m->arena[i] = value_of(m->index, i, step);
    if (m->on_device != NULL)
        copy_arena(m, false);
    for (uint32_t b = 0; b < BUCKETS; b++)
        expect_ok(psr_gpu_sums_start(m->sums, b, buckets[b].first, buckets[b].count));
}

static psr_err take_one(member *m, uint32_t *ret_bucket)
{
    for (;;) {
        bool any = false;
        PSR_TRY(psr_gpu_sums_take(m->sums, &any, ret_bucket));
        if (any)
            return PSR_OK;
        wait_for_change(m);
    }
}

static bool is_of_a_bucket(size_t i)
{
    for (uint32_t b = 0; b < BUCKETS; b++)
        if (i >= buckets[b].first && i < buckets[b].first + buckets[b].count)
            return true;
    return false;
}

static void check_step(const member *m, int step)
{
    for (size_t i = 0; i < LENGTH; i++) {
        const float sum = value_of(0, i, step) + value_of(1, i, step) + value_of(2, i, step);
        const float wanted = is_of_a_bucket(i) ? sum : value_of(m->index, i, step);
        if (m->arena[i] != wanted)
            fail_msg("member %u, step %d, value %zu: %g, not %g", m->index, step, i,
                     (double)m->arena[i], (double)wanted);
    }
}

static void sum_steps(void)
{
    for (int step = 0; step < 3; step++) {
        for (uint32_t i = 0; i < MEMBERS; i++)
            order_step(&members[i], step);
        for (uint32_t i = 0; i < MEMBERS; i++)
            for (uint32_t b = 0, taken = 99; b < BUCKETS; b++) {
                expect_ok(take_one(&members[i], &taken));
                assert_int_equal(taken, b);
            }
        for (uint32_t i = 0; i < MEMBERS; i++) {
            if (members[i].on_device != NULL)
                copy_arena(&members[i], true);
            check_step(&members[i], step);
        }
    }
}

static void buckets_are_summed_in_their_order_and_nothing_else_is(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        start_member(i, i, true); /* the third shares the first one's device */
    sum_steps();
    for (uint32_t i = 0; i < MEMBERS; i++)
        end_member(i);
}

/* The address is known when all have begun, and nothing but the sums touches what is there. */
static void what_stays_on_the_device_is_summed_there(void **state)
{
    (void)state;
    const psr_cuda_api *api = psr_emulator();
    for (uint32_t i = 0; i < MEMBERS; i++)
        start(i, i, true, true);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member *m = &members[i];
        expect_ok(api->device_open(i % 2, &m->opened));
        expect_ok(api->stream_new(m->opened, &m->stream));
        expect_ok(api->host_register(m->opened, m->arena, sizeof m->arena));
        expect_ok(api->memory_new(m->opened, sizeof m->arena, (void **)&m->on_device));
    }
    sum_steps();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        end_member(i);
        api->host_unregister(members[i].opened, members[i].arena);
        api->device_close(members[i].opened);
    }
}

static void more_sums_than_agreed_are_refused(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        start_member(i, 0, false);
    order_step(&members[0], 0);
    assert_int_equal(psr_gpu_sums_start(members[0].sums, 0, 0, 1), PSR_ERR_USAGE);
    for (uint32_t i = 0; i < MEMBERS; i++)
        end_member(i);
}

/* ---- failures ---- */

static void a_member_that_is_lost_ends_the_sums_of_the_others(void **state)
{
    uint32_t bucket = 99;
    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        start_member(i, i, true);
    for (uint32_t i = 0; i < MEMBERS; i++)
        order_step(&members[i], 0);
    for (uint32_t i = 0; i < MEMBERS; i++) /* all have joined */
        for (uint32_t b = 0; b < BUCKETS; b++)
            expect_ok(take_one(&members[i], &bucket));
    order_step(&members[0], 1);
    order_step(&members[1], 1);
    end_member(2);
    assert_int_equal(take_one(&members[0], &bucket), PSR_ERR_COMPUTE);
    assert_non_null(strstr(psr_err_detail(), "--mode nccl: "));
    assert_int_equal(take_one(&members[1], &bucket), PSR_ERR_COMPUTE);
    end_member(0);
    end_member(1);
}

static void sums_under_way_are_ended(void **state)
{
    uint32_t bucket = 99;
    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        start_member(i, i, true);
    for (uint32_t i = 0; i < MEMBERS; i++)
        order_step(&members[i], 0);
    for (uint32_t i = 0; i < MEMBERS; i++)
        for (uint32_t b = 0; b < BUCKETS; b++)
            expect_ok(take_one(&members[i], &bucket));
    order_step(&members[0], 1); /* the others never do */
    for (uint32_t i = 0; i < MEMBERS; i++)
        end_member(i);
}

static void a_device_that_is_not_there_is_told(void **state)
{
    uint32_t bucket = 99;
    (void)state;
    start_member(0, 5, false);
    assert_int_equal(take_one(&members[0], &bucket), PSR_ERR_UNSUPPORTED);
    end_member(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(buckets_are_summed_in_their_order_and_nothing_else_is, setup),
        cmocka_unit_test_setup(what_stays_on_the_device_is_summed_there, setup),
        cmocka_unit_test_setup(more_sums_than_agreed_are_refused, setup),
        cmocka_unit_test_setup(a_member_that_is_lost_ends_the_sums_of_the_others, setup),
        cmocka_unit_test_setup(sums_under_way_are_ended, setup),
        cmocka_unit_test_setup(a_device_that_is_not_there_is_told, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
