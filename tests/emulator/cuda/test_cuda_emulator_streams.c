/* Streams, events, recordings: what holds in each way of carrying out orders, and which mistakes of
 * a program show. */
#include "tests/emulator/cuda/emulator.h"
#include "tests/emulator/cuda/faults.h"

#include "tests/unit/expect.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS 50

/* Two streams, two pieces of device memory and three of pinned. */
#define BYTES 64
typedef struct fixture {
    const psr_cuda_api *api;
    psr_cuda_device *device;
    psr_cuda_stream *a, *b;
    psr_cuda_event *first, *second;
    unsigned char *x, *y;            /* device */
    unsigned char *in, *other, *out; /* pinned */
} fixture;

static void open_fixture(fixture *f, psr_emulator_streams streams, uint64_t seed)
{
    psr_emulator_settings settings = psr_emulator_default();
    settings.streams = streams;
    settings.seed = seed;
    psr_emulator_set(&settings);
    const psr_cuda_api *api = f->api = psr_emulator();
    assert_int_equal(api->device_open(0, &f->device), PSR_OK);
    psr_cuda_stream **const made[] = {&f->a, &f->b};
    for (int i = 0; i < 2; i++)
        assert_int_equal(api->stream_new(f->device, made[i]), PSR_OK);
    assert_int_equal(api->event_new(f->device, &f->first), PSR_OK);
    assert_int_equal(api->event_new(f->device, &f->second), PSR_OK);
    unsigned char **const device[] = {&f->x, &f->y};
    for (int i = 0; i < 2; i++)
        assert_int_equal(api->memory_new(f->device, BYTES, (void **)device[i]), PSR_OK);
    unsigned char **const pinned[] = {&f->in, &f->other, &f->out};
    for (int i = 0; i < 3; i++)
        assert_int_equal(api->pinned_new(f->device, BYTES, (void **)pinned[i]), PSR_OK);
    memset(f->in, 1, BYTES);
    memset(f->other, 2, BYTES);
    memset(f->out, 9, BYTES);
}

static void close_fixture(fixture *f)
{
    f->api->device_close(f->device);
    const psr_emulator_settings settings = psr_emulator_default();
    psr_emulator_set(&settings);
}

#define OK(call) assert_int_equal(f->api->call, PSR_OK)

/* ---- programs: each is right, and each has mistakes ---- */

typedef enum mistake {
    NONE,
    NO_WAIT,       /* the second stream does not wait for the first */
    NO_RECORD,     /* it waits for an event that was never recorded */
    REUSED_EARLY,  /* the host writes to what a copy still reads */
    OVERWRITTEN,   /* a stream writes to what another still reads */
    NO_SYNCHRONIZE /* the host reads without waiting */
} mistake;

/* in -> x by a; x -> y by b, which waits; other -> x by a, which waits for b; y -> out by b. */
static void order_program(fixture *f, mistake made)
{
    OK(copy(f->a, f->x, f->in, BYTES));
    if (made != NO_RECORD)
        OK(event_record(f->first, f->a));
    if (made != NO_WAIT)
        OK(stream_wait(f->b, f->first));
    OK(copy(f->b, f->y, f->x, BYTES));
    OK(event_record(f->second, f->b));
    if (made != OVERWRITTEN)
        OK(stream_wait(f->a, f->second));
    OK(copy(f->a, f->x, f->other, BYTES));
    OK(copy(f->b, f->out, f->y, BYTES));
    if (made == REUSED_EARLY)
        memset(f->in, 5, BYTES);
    if (made != NO_SYNCHRONIZE)
        OK(stream_synchronize(f->b));
}

static bool is_right(const fixture *f)
{
    for (int i = 0; i < BYTES; i++)
        if (f->out[i] != 1)
            return false;
    return true;
}

typedef void (*program)(fixture *f, mistake made);

static void run_recorded(fixture *f, mistake made)
{
    psr_cuda_recording *recording;
    OK(record_begin(f->a));
    OK(copy(f->a, f->x, f->in, BYTES));
    OK(event_record(f->first, f->a));
    OK(stream_wait(f->b, f->first));
    OK(fill(f->b, f->y, 3, BYTES));
    if (made != NO_WAIT) {
        OK(event_record(f->second, f->b));
        OK(stream_wait(f->a, f->second));
    }
    OK(copy(f->a, f->y, f->x, BYTES));
    if (made == NO_WAIT) {
        OK(event_record(f->second, f->b));
        OK(stream_wait(f->a, f->second));
    }
    OK(copy(f->a, f->out, f->y, BYTES));
    OK(record_end(f->a, &recording));
    assert_int_equal(f->out[0], 9);
    OK(recording_run(f->a, recording));
    OK(stream_synchronize(f->a));
    memset(f->out, 9, BYTES);
    OK(recording_run(f->b, recording));
    OK(stream_synchronize(f->b));
}

static void in_all_ways(program run)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (int way = PSR_EMULATOR_THREADS; way <= PSR_EMULATOR_LAZY; way++) {
            fixture f;
            open_fixture(&f, (psr_emulator_streams)way, seed);
            run(&f, NONE);
            assert_true(is_right(&f));
            close_fixture(&f);
        }
    }
}

/* The seeds of lazy streams under which it gives other numbers. */
static int shown_by(program run, mistake made)
{
    int shown = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        fixture f;
        open_fixture(&f, PSR_EMULATOR_LAZY, seed);
        run(&f, made);
        shown += !is_right(&f);
        close_fixture(&f);
    }
    return shown;
}

static void right_programs_are_right(void **state)
{
    (void)state;
    in_all_ways(order_program);
    in_all_ways(run_recorded);
}

static void mistakes_show(void **state)
{
    (void)state;
    static const char *const names[] = {"none",         "no wait",     "no record",
                                        "reused early", "overwritten", "no synchronize"};
    for (int made = NONE; made <= NO_SYNCHRONIZE; made++) {
        const int shown = shown_by(order_program, (mistake)made);
        print_message("# %s: shown by %d of %d seeds\n", names[made], shown, SEEDS);
        assert_true(made == NONE ? shown == 0 : shown > 0);
    }
    const int shown = shown_by(run_recorded, NO_WAIT);
    print_message("# no wait in a recording: shown by %d of %d seeds\n", shown, SEEDS);
    assert_true(shown > 0);
}

static void seeds_repeat(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        unsigned char out[2][BYTES];
        for (int i = 0; i < 2; i++) {
            fixture f;
            open_fixture(&f, PSR_EMULATOR_LAZY, seed);
            order_program(&f, NO_WAIT);
            memcpy(out[i], f.out, BYTES);
            close_fixture(&f);
        }
        assert_memory_equal(out[0], out[1], BYTES);
    }
}

static void lazy_streams_do_nothing_unasked(void **state)
{
    (void)state;
    fixture fix, *f = &fix;
    open_fixture(f, PSR_EMULATOR_LAZY, 0);
    OK(copy(f->a, f->out, f->in, BYTES));
    OK(copy(f->b, f->x, f->in, BYTES));
    OK(stream_synchronize(f->b));
    assert_int_equal(f->out[0], 9);
    OK(stream_synchronize(f->a));
    assert_int_equal(f->out[0], 1);
    close_fixture(f);
}

/* ---- events and calls ---- */

static void events_pass(void **state)
{
    (void)state;
    for (int way = PSR_EMULATOR_THREADS; way <= PSR_EMULATOR_LAZY; way++) {
        fixture fix, *f = &fix;
        open_fixture(f, (psr_emulator_streams)way, 0);
        bool passed = false;
        OK(event_passed(f->first, &passed));
        assert_true(passed); /* never recorded */
        OK(event_synchronize(f->first));
        OK(copy(f->a, f->out, f->in, BYTES));
        OK(event_record(f->first, f->a));
        passed = false;
        for (int asked = 0; way == PSR_EMULATOR_LAZY && asked < 3; asked++)
            OK(event_passed(f->first, &passed));
        assert_true(passed == (way == PSR_EMULATOR_LAZY));
        OK(event_synchronize(f->first));
        OK(event_passed(f->first, &passed));
        assert_true(passed);
        assert_int_equal(f->out[0], 1);
        close_fixture(f);
    }
}

static void timed_events_know_when_they_passed(void **state)
{
    (void)state;
    for (int way = PSR_EMULATOR_THREADS; way <= PSR_EMULATOR_LAZY; way++) {
        fixture fix, *f = &fix;
        psr_cuda_event *begins = NULL, *ends = NULL;
        psr_cuda_recording *recording = NULL;
        int64_t ns = -1, back_ns = 1;
        open_fixture(f, (psr_emulator_streams)way, 5);
        OK(event_new_timed(f->device, &begins));
        OK(event_new_timed(f->device, &ends));
        assert_int_equal(f->api->event_elapsed(begins, ends, &ns), PSR_ERR_COMPUTE);
        OK(event_record(begins, f->a));
        OK(copy(f->a, f->x, f->in, BYTES));
        OK(event_record(ends, f->a));
        OK(stream_synchronize(f->a));
        OK(event_elapsed(begins, ends, &ns));
        OK(event_elapsed(ends, begins, &back_ns));
        assert_true(ns >= 0 && back_ns == -ns);
        OK(event_record(f->first, f->a));
        OK(stream_synchronize(f->a));
        assert_int_equal(f->api->event_elapsed(begins, f->first, &ns), PSR_ERR_COMPUTE);
        OK(record_begin(f->a));
        OK(event_record(ends, f->a));
        OK(record_end(f->a, &recording));
        assert_int_equal(f->api->event_elapsed(begins, ends, &ns), PSR_ERR_COMPUTE);
        close_fixture(f);
    }
}

static void count(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

static void calls_come_in_order_and_also_after_a_failure(void **state)
{
    (void)state;
    for (int way = PSR_EMULATOR_THREADS; way <= PSR_EMULATOR_LAZY; way++) {
        fixture fix, *f = &fix;
        open_fixture(f, (psr_emulator_streams)way, 0);
        psr_emulator_settings settings = psr_emulator_default();
        settings.streams = (psr_emulator_streams)way;
        settings.fail_after = 2;
        psr_emulator_set(&settings);
        psr_cuda_device *failing;
        psr_cuda_stream *stream;
        psr_cuda_event *event;
        OK(device_open(0, &failing));
        OK(stream_new(failing, &stream));
        OK(event_new(failing, &event));
        atomic_int called = 0;
        OK(stream_wait(stream, event));
        OK(copy(f->b, f->x, f->in, BYTES));
        OK(stream_synchronize(f->b));
        for (int i = 0; i < 2 && f->api->call_host(stream, count, &called) == PSR_OK; i++)
            ;
        assert_true(f->api->stream_synchronize(stream) == PSR_OK);
        assert_int_equal(called, 2);
        OK(device_check(failing));
        OK(call_host(stream, count, &called));
        assert_int_equal(f->api->stream_synchronize(stream), PSR_ERR_COMPUTE);
        assert_int_equal(called, 3);
        assert_int_equal(f->api->device_check(failing), PSR_ERR_COMPUTE);
        assert_int_equal(f->api->event_record(event, stream), PSR_ERR_COMPUTE);
        assert_int_equal(f->api->event_synchronize(event), PSR_ERR_COMPUTE);
        void *memory;
        assert_int_equal(f->api->memory_new(failing, 1, &memory), PSR_ERR_COMPUTE);
        f->api->device_close(failing);
        close_fixture(f);
    }
}

/* ---- recordings ---- */

static void recordings_refuse_what_cuda_does(void **state)
{
    (void)state;
    fixture fix, *f = &fix;
    open_fixture(f, PSR_EMULATOR_LAZY, 0);
    psr_cuda_recording *recording = NULL;
    OK(event_record(f->second, f->b));
    OK(record_begin(f->a));
    assert_int_equal(f->api->record_begin(f->a), PSR_ERR_COMPUTE);
    assert_int_equal(f->api->stream_wait(f->a, f->second), PSR_ERR_COMPUTE);
    assert_int_equal(f->api->stream_synchronize(f->a), PSR_ERR_COMPUTE);
    OK(event_record(f->first, f->a));
    assert_int_equal(f->api->event_synchronize(f->first), PSR_ERR_COMPUTE);
    OK(stream_wait(f->b, f->first));
    OK(fill(f->b, f->x, 0, BYTES));
    assert_int_equal(f->api->record_end(f->b, &recording), PSR_ERR_COMPUTE);
    assert_int_equal(f->api->record_end(f->a, &recording), PSR_ERR_COMPUTE);
    assert_string_equal(psr_err_detail(),
                        "a recording ends without waiting for a stream that joined it");
    assert_null(recording);
    assert_int_equal(f->api->stream_wait(f->b, f->first), PSR_ERR_COMPUTE);
    OK(copy(f->b, f->out, f->in, BYTES)); /* no longer kept */
    OK(stream_synchronize(f->b));
    assert_int_equal(f->out[0], 1);
    close_fixture(f);
}

/* ---- mutants ---- */

static void a_dropped_call_is_counted_and_left_out(void **state)
{
    (void)state;
    fixture fix, *f = &fix;
    open_fixture(f, PSR_EMULATOR_LAZY, 0);
    f->api = psr_emulator_dropping(PSR_EMULATOR_STREAM_WAIT, 0);
    order_program(f, NONE);
    assert_false(is_right(f));
    assert_int_equal(psr_emulator_calls(PSR_EMULATOR_STREAM_WAIT), 2);
    assert_int_equal(psr_emulator_calls(PSR_EMULATOR_EVENT_RECORD), 2);
    assert_int_equal(psr_emulator_calls(PSR_EMULATOR_SYNCHRONIZE), 1);
    close_fixture(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_programs_are_right),
        cmocka_unit_test(mistakes_show),
        cmocka_unit_test(seeds_repeat),
        cmocka_unit_test(lazy_streams_do_nothing_unasked),
        cmocka_unit_test(events_pass),
        cmocka_unit_test(timed_events_know_when_they_passed),
        cmocka_unit_test(calls_come_in_order_and_also_after_a_failure),
        cmocka_unit_test(recordings_refuse_what_cuda_does),
        cmocka_unit_test(a_dropped_call_is_counted_and_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
