/* Sums among processes: each member is one. */
#include "tests/emulator/cuda/emulator.h"

#include "tests/unit/expect.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MEMBERS 3
#define COUNT 1000

typedef struct member {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    psr_cuda_stream *stream;
    psr_cuda_group *group;
    float *values, *pinned;
    uint32_t index;
} member;

/* What a child tells its parent by its exit status. */
enum { SUMMED, FAILED, JOIN_FAILED, WRONG };

static void open_member(member *m, uint32_t index)
{
    m->api = psr_emulator();
    m->index = index;
    expect_ok(m->api->device_open(0, &m->device));
    expect_ok(m->api->stream_new(m->device, &m->stream));
    expect_ok(m->api->memory_new(m->device, COUNT * sizeof(float), (void **)&m->values));
    expect_ok(m->api->pinned_new(m->device, COUNT * sizeof(float), (void **)&m->pinned));
}

static void order_sum(member *m, int round, size_t count)
{
    for (int i = 0; i < COUNT; i++)
        m->pinned[i] = (float)(i + round) / (float)(3 + m->index);
    expect_ok(m->api->copy(m->stream, m->values, m->pinned, COUNT * sizeof(float)));
    expect_ok(m->api->group_sum(m->group, m->stream, m->values, count));
    expect_ok(m->api->copy(m->stream, m->pinned, m->values, COUNT * sizeof(float)));
}

static int sum(member *m, int round, size_t count)
{
    order_sum(m, round, count);
    expect_ok(m->api->stream_synchronize(m->stream));
    if (m->api->group_check(m->group) != PSR_OK)
        return FAILED;
    for (int i = 0; i < COUNT; i++) {
        const float x = (float)(i + round);
        if (m->pinned[i] != x / 3 + x / 4 + x / 5)
            return WRONG;
    }
    return SUMMED;
}

/* ---- what members do ---- */

typedef int (*behaviour)(member *m);

static int sum_all(member *m)
{
    for (int round = 0; round < 3; round++) {
        const int outcome = sum(m, round, COUNT);
        if (outcome != SUMMED)
            return outcome;
    }
    return SUMMED;
}

static int die_if(member *m, uint32_t index)
{
    const int outcome = sum(m, 0, COUNT);
    if (outcome != SUMMED || m->index == index)
        _exit(outcome);
    return sum(m, 1, COUNT);
}

static int hub_dies(member *m)
{
    return die_if(m, 0);
}

static int last_dies(member *m)
{
    return die_if(m, MEMBERS - 1);
}

static int last_sums_less(member *m)
{
    return sum(m, 0, m->index == MEMBERS - 1 ? COUNT - 1 : COUNT);
}

/* ---- processes ---- */

/* Member 0 makes the id and writes it once for each other. */
static int be_member(uint32_t index, const int *ids, uint32_t members_said, behaviour act)
{
    member m;
    uint8_t id[PSR_CUDA_GROUP_ID_BYTES];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_member(&m, index);
    if (index == 0) {
        expect_ok(m.api->group_id(id));
        for (int i = 1; i < MEMBERS; i++)
            assert_int_equal(write(ids[1], id, sizeof id), sizeof id);
    } else {
        assert_int_equal(read(ids[0], id, sizeof id), sizeof id);
    }
    if (m.api->group_join(m.device, id, members_said, index, &m.group) != PSR_OK)
        return JOIN_FAILED;
    const int outcome = act(&m);
    m.api->group_end(m.group);
    m.api->device_close(m.device);
    return outcome;
}

/* The outcome of each. last_says: the number of members that the last one believes in. */
static void play(behaviour act, uint32_t last_says, int outcomes[MEMBERS])
{
    int ids[2];
    pid_t children[MEMBERS];
    assert_int_equal(pipe(ids), 0);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0)
            _exit(be_member(i, ids, i == MEMBERS - 1 ? last_says : MEMBERS, act));
    }
    close(ids[0]);
    close(ids[1]);
    for (int i = 0; i < MEMBERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        outcomes[i] = WEXITSTATUS(status);
    }
}

static void sums_are_the_same_for_all(void **state)
{
    (void)state;
    int outcomes[MEMBERS];
    play(sum_all, MEMBERS, outcomes);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(outcomes[i], SUMMED);
}

static void a_member_that_dies_fails_the_others(void **state)
{
    (void)state;
    int outcomes[MEMBERS];
    play(last_dies, MEMBERS, outcomes);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(outcomes[i], i == MEMBERS - 1 ? SUMMED : FAILED);
    play(hub_dies, MEMBERS, outcomes);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(outcomes[i], i == 0 ? SUMMED : FAILED);
}

static void another_number_of_values_fails_all(void **state)
{
    (void)state;
    int outcomes[MEMBERS];
    play(last_sums_less, MEMBERS, outcomes);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(outcomes[i], FAILED);
}

static void another_number_of_members_is_refused(void **state)
{
    (void)state;
    int outcomes[MEMBERS];
    play(sum_all, MEMBERS + 1, outcomes);
    for (int i = 0; i < MEMBERS; i++)
        assert_int_equal(outcomes[i], JOIN_FAILED);
}

/* ---- threads: the end of a sum that waits ---- */

typedef struct joining {
    member m;
    uint8_t id[PSR_CUDA_GROUP_ID_BYTES];
    uint32_t index;
} joining;

static void *join_group(void *argument)
{
    joining *j = argument;
    open_member(&j->m, j->index);
    expect_ok(j->m.api->group_join(j->m.device, j->id, 2, j->index, &j->m.group));
    return NULL;
}

/* Whichever of the two comes first is the hub: the other then finds that it has gone. */
static void ending_a_group_ends_what_waits(void **state)
{
    (void)state;
    for (uint32_t waiting = 0; waiting < 2; waiting++) {
        joining both[2] = {{.index = 0}, {.index = 1}};
        pthread_t threads[2];
        expect_ok(psr_emulator()->group_id(both[0].id));
        memcpy(both[1].id, both[0].id, sizeof both[1].id);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, join_group, &both[i]), 0);
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        member *m = &both[waiting].m;
        order_sum(m, 0, COUNT);
        m->api->group_end(m->group);
        expect_ok(m->api->stream_synchronize(m->stream));
        assert_true(isnan(m->pinned[0]));
        for (int i = 0; i < 2; i++)
            m->api->device_close(both[i].m.device);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_the_same_for_all),
        cmocka_unit_test(a_member_that_dies_fails_the_others),
        cmocka_unit_test(another_number_of_values_fails_all),
        cmocka_unit_test(another_number_of_members_is_refused),
        cmocka_unit_test(ending_a_group_ends_what_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
