/* What the emulator knows of memory. */
#include "tests/emulator/cuda/device.h"
#include "tests/emulator/cuda/emulator.h"
#include "tests/emulator/cuda/faults.h"

#include "model/cuda/kernels/launch.h"
#include "tests/unit/expect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const psr_cuda_api *api;

/* A device with a stream and 100 bytes. */
typedef struct fixture {
    psr_cuda_device *device;
    psr_cuda_stream *stream;
    unsigned char *memory, *pinned;
} fixture;

static void open_fixture(fixture *f)
{
    api = psr_emulator();
    assert_int_equal(api->device_open(0, &f->device), PSR_OK);
    assert_int_equal(api->stream_new(f->device, &f->stream), PSR_OK);
    assert_int_equal(api->memory_new(f->device, 100, (void **)&f->memory), PSR_OK);
    assert_int_equal(api->pinned_new(f->device, 100, (void **)&f->pinned), PSR_OK);
}

static void copies_go_round(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    unsigned char *registered = malloc(100);
    assert_non_null(registered);
    assert_int_equal(api->host_register(f.device, registered, 100), PSR_OK);
    for (int i = 0; i < 100; i++)
        f.pinned[i] = (unsigned char)i;
    memset(registered, 0, 100);
    assert_int_equal(api->copy(f.stream, f.memory, f.pinned, 100), PSR_OK);
    assert_int_equal(api->fill(f.stream, f.memory + 10, 7, 20), PSR_OK);
    assert_int_equal(api->copy(f.stream, registered, f.memory, 100), PSR_OK);
    assert_int_equal(api->stream_synchronize(f.stream), PSR_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(registered[i], i >= 10 && i < 30 ? 7 : i);
    api->host_unregister(f.device, registered);
    free(registered);
    api->device_close(f.device);
}

static void new_memory_holds_no_numbers(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    memset(f.pinned, 0, 100);
    assert_int_equal(api->copy(f.stream, f.pinned, f.memory, 100), PSR_OK);
    assert_int_equal(api->stream_synchronize(f.stream), PSR_OK);
    for (int i = 0; i < 100; i++)
        assert_int_equal(f.pinned[i], 0xff);
    api->device_close(f.device);
}

static void what_is_wanted_and_free_is_said(void **state)
{
    (void)state;
    psr_emulator_settings settings = psr_emulator_default();
    settings.bytes = 1000;
    psr_emulator_set(&settings);
    fixture f;
    open_fixture(&f);
    void *more = NULL;
    assert_int_equal(api->memory_new(f.device, 901, &more), PSR_ERR_NOMEM);
    assert_string_equal(psr_err_detail(), "the device's memory does not suffice: 901 bytes are "
                                          "wanted, 900 are free");
    assert_null(more);
    assert_int_equal(api->memory_new(f.device, 900, &more), PSR_OK);
    psr_cuda_device_facts facts;
    assert_int_equal(api->device_facts(f.device, &facts), PSR_OK);
    assert_int_equal(facts.free_bytes, 0);
    api->memory_free(f.device, more);
    assert_int_equal(api->device_facts(f.device, &facts), PSR_OK);
    assert_int_equal(facts.free_bytes, 900);
    api->device_close(f.device);
    settings = psr_emulator_default();
    psr_emulator_set(&settings);
}

static void kernels_find_their_memory(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        psr_emulator_settings settings = psr_emulator_default();
        settings.seed = seed;
        psr_emulator_set(&settings);
        fixture f;
        open_fixture(&f);
        float *numbers = (float *)(void *)f.pinned;
        for (int i = 0; i < 25; i++)
            numbers[i] = (float)i;
        const psr_cuda_add_args args = {
            .a = f.memory, .b = f.memory, .y = f.memory, .type = PSR_CUDA_FLOAT32, .count = 25};
        expect_ok(api->copy(f.stream, f.memory, f.pinned, 100));
        expect_ok(psr_cuda_kernel_launch(api, f.stream, PSR_CUDA_KERNEL_add, &args));
        expect_ok(api->copy(f.stream, f.pinned, f.memory, 100));
        expect_ok(api->stream_synchronize(f.stream));
        for (int i = 0; i < 25; i++)
            assert_true(numbers[i] == (float)(2 * i));
        api->device_close(f.device);
    }
}

/* ---- what ends the process ---- */

static void touch(void)
{
    fixture f;
    open_fixture(&f);
    fprintf(stderr, "touching\n");
    *(volatile unsigned char *)f.memory = 1;
}

static void copy_too_much(void)
{
    fixture f;
    open_fixture(&f);
    void *more;
    assert_int_equal(api->pinned_new(f.device, 101, &more), PSR_OK);
    (void)!api->copy(f.stream, f.memory, more, 101);
}

static void copy_from_anywhere(void)
{
    fixture f;
    open_fixture(&f);
    const unsigned char local[100] = {0};
    (void)!api->copy(f.stream, f.memory, local, 100);
}

static void fill_from_the_middle(void)
{
    fixture f;
    open_fixture(&f);
    (void)!api->fill(f.stream, f.memory + 60, 0, 41);
}

static void use_freed(void)
{
    fixture f;
    open_fixture(&f);
    api->memory_free(f.device, f.memory);
    (void)!api->fill(f.stream, f.memory, 0, 1);
}

/* Freeing waits for nothing, and the stream has not come so far yet. */
static void free_early(void)
{
    psr_emulator_settings settings = psr_emulator_default();
    settings.streams = PSR_EMULATOR_LAZY;
    psr_emulator_set(&settings);
    fixture f;
    open_fixture(&f);
    (void)!api->fill(f.stream, f.memory, 0, 1);
    api->memory_free(f.device, f.memory);
    (void)!api->stream_synchronize(f.stream);
}

/* Nor does the end of a stream wait. */
static void free_behind_a_stream(void)
{
    psr_emulator_settings settings = psr_emulator_default();
    settings.streams = PSR_EMULATOR_LAZY;
    psr_emulator_set(&settings);
    fixture f;
    open_fixture(&f);
    (void)!api->fill(f.stream, f.memory, 0, 1);
    api->stream_free(f.stream);
    api->memory_free(f.device, f.memory);
    api->device_close(f.device);
}

static void launch_too_far(void)
{
    fixture f;
    open_fixture(&f);
    const psr_cuda_finite_args args = {.x = (float *)(void *)f.memory,
                                       .factor = 2,
                                       .not_finite = (uint32_t *)(void *)f.memory,
                                       .count = 26};
    (void)!api->launch(f.stream, PSR_CUDA_KERNEL_finite, 1, 32, &args, sizeof args);
    (void)!api->stream_synchronize(f.stream);
}

/* As a kernel does that is wrong. */
static void write_behind(size_t byte)
{
    fixture f;
    open_fixture(&f);
    ((unsigned char *)psr_emulator_device_memory(f.memory, 1, "a test"))[byte] = 0;
    const psr_cuda_add_args args = {
        .a = f.memory, .b = f.memory, .y = f.memory, .type = PSR_CUDA_FLOAT32, .count = 1};
    (void)!api->launch(f.stream, PSR_CUDA_KERNEL_add, 1, 32, &args, sizeof args);
    (void)!api->stream_synchronize(f.stream);
}

static void write_just_behind(void)
{
    write_behind(100);
}

static void write_in_the_middle_of_the_rest(void)
{
    write_behind(1000);
}

static void write_at_the_end_of_the_page(void)
{
    write_behind(4095);
}

static void launch_on_the_host(void)
{
    fixture f;
    open_fixture(&f);
    const psr_cuda_add_args args = {
        .a = f.pinned, .b = f.memory, .y = f.memory, .type = PSR_CUDA_FLOAT32, .count = 1};
    (void)!api->launch(f.stream, PSR_CUDA_KERNEL_add, 1, 32, &args, sizeof args);
    (void)!api->stream_synchronize(f.stream);
}

static void misuse_ends_the_process(void **state)
{
    (void)state;
    expect_fault(touch, "touching");
    expect_fault(copy_too_much,
                 "cuda emulator: a copy writes 101 bytes from byte 0 on of 100 bytes "
                 "of device memory");
    expect_fault(copy_from_anywhere, "which is no address of device, pinned or registered memory");
    expect_fault(fill_from_the_middle, "a fill writes 41 bytes from byte 60 on of 100 bytes");
    expect_fault(use_freed, "which is no address of device");
    expect_fault(free_early, "which is no address of device");
    expect_fault(free_behind_a_stream, "which is no address of device");
    expect_fault(launch_too_far, "kernel finite uses, by its x, 104 bytes from byte 0 on of 100");
    expect_fault(write_just_behind, "kernel add wrote 0 bytes behind an allocation of 100 bytes");
    expect_fault(write_in_the_middle_of_the_rest, "kernel add wrote 900 bytes behind");
    expect_fault(write_at_the_end_of_the_page, "kernel add wrote 3995 bytes behind");
    expect_fault(launch_on_the_host, "kernel add uses, by its a, 4 bytes at");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_go_round),
        cmocka_unit_test(new_memory_holds_no_numbers),
        cmocka_unit_test(what_is_wanted_and_free_is_said),
        cmocka_unit_test(kernels_find_their_memory),
        cmocka_unit_test(misuse_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
