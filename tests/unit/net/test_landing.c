/* Where values land: by mapping the pages on which they lie, or as a copy. */
#include "played_lender.h"

#include "base/arrays/arena.h"
#include "net/sharing/landing.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The C library's, as UCX (libucm) replaces it in a process that has an MPI library: the fifth
 * argument is lost, and pages go elsewhere. All of these tests hold with it. */
void *mremap(void *from, size_t old_bytes, size_t bytes, int flags, ...)
{
    return (void *)syscall(SYS_mremap, from, old_bytes, bytes, flags & ~MREMAP_FIXED);
}

enum {
    PAGE = 1024,                                      /* floats of one */
    PAGES = PSR_LANDING_LEAST / sizeof(float) / PAGE, /* that are mapped at least */
    FLOATS = (3 * PAGES + 8) * PAGE,
};

/* A lender, an arena of its, and an array in which two runs share a page: both have PAGES whole
 * ones. */
typedef struct landed {
    played_lender lender;
    int fd; /* the lender's end */
    psr_shared_arena arena;
    float *values;
    psr_landing *landing;
} landed;

static const psr_span spans[] = {{PAGE / 2, PAGES *PAGE + PAGE},
                                 {PAGES * PAGE + PAGE + PAGE / 2, (PAGES + 1) * PAGE},
                                 {FLOATS - 100, 100}};

static float value_at(size_t i, float step)
{
    return (float)(i % 8191) + step;
}

/* The lender's next values: a run's, in the arena at `at`. */
static void write_values(landed *l, size_t at, size_t count, float step)
{
    for (size_t i = 0; i < count; i++)
        l->arena.values[at + i] = value_at(i, step);
}

static void begin_lending(landed *l)
{
    assert_ok(psr_shared_arena_new(FLOATS, &l->arena));
    l->fd = greet(&l->lender);
    offer(&l->lender, l->fd, &l->arena);
}

static void end_lending(landed *l)
{
    close(l->fd);
    psr_shared_arena_done(&l->arena);
}

static void open_landing(landed *l)
{
    *l = (landed){0};
    play(&l->lender);
    begin_lending(l);
    assert_ok(psr_arena_new(FLOATS, &l->values));
    assert_ok(psr_landing_new(l->values, FLOATS, sizeof spans / sizeof spans[0], &l->landing));
}

static void close_landing(landed *l)
{
    end_lending(l);
    psr_landing_free(l->landing);
    psr_arena_free(l->values, FLOATS);
    end_play(&l->lender);
}

/* The lender refers to what lies at `at`. */
static psr_message *refer(landed *l, uint32_t run, size_t at)
{
    psr_message *message = NULL;
    assert_ok(take(&l->lender, (psr_reference){0, at * sizeof(float), 1},
                   spans[run].count * sizeof(float), PSR_ENCODING_FLOAT32, &message));
    return message;
}

static void land(landed *l, uint32_t run, size_t at)
{
    psr_message *message = refer(l, run, at);
    assert_ok(psr_landing_take(l->landing, run, spans[run], message));
    psr_message_free(&message);
}

/* It sends them. */
static void land_sent(landed *l, uint32_t run, float step)
{
    float *values = calloc(spans[run].count, sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < spans[run].count; i++)
        values[i] = value_at(i, step);
    const psr_message message = {.payload = values,
                                 .payload_bytes = spans[run].count * sizeof *values};
    assert_ok(psr_landing_take(l->landing, run, spans[run], &message));
    free(values);
}

static void expect_values(const landed *l, uint32_t run, float step)
{
    for (size_t i = 0; i < spans[run].count; i++)
        if (l->values[spans[run].offset + i] != value_at(i, step))
            fail_msg("value %zu of run %u is %g, not %g", i, run,
                     (double)l->values[spans[run].offset + i], (double)value_at(i, step));
}

/* Whether the array has what the lender writes now, without another message. */
static bool is_mapped(landed *l, uint32_t run, size_t at)
{
    const size_t inside = PAGES / 2 * PAGE;
    l->arena.values[at + inside] += 0.25f;
    bool seen = l->values[spans[run].offset + inside] == l->arena.values[at + inside];
    l->arena.values[at + inside] -= 0.25f;
    return seen;
}

static void what_lies_in_anothers_memory_is_mapped_and_then_there_without_a_copy(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    for (uint32_t run = 0; run < 2; run++) {
        write_values(&l, spans[run].offset, spans[run].count, 1);
        land(&l, run, spans[run].offset);
        expect_values(&l, run, 1);
        assert_true(is_mapped(&l, run, spans[run].offset));
    }
    assert_int_equal(psr_landing_mapped(l.landing), 2);
    for (uint32_t run = 0; run < 2; run++) {
        write_values(&l, spans[run].offset, spans[run].count, 2);
        land(&l, run, spans[run].offset);
    }
    expect_values(&l, 0, 2);
    expect_values(&l, 1, 2);
    assert_int_equal(psr_landing_mapped(l.landing), 2);
    close_landing(&l);
}

static void a_run_leaves_its_neighbours_alone(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    for (size_t i = 0; i < FLOATS; i++)
        l.values[i] = -1;
    write_values(&l, 0, FLOATS, 1); /* also where the neighbours lie at the lender's */
    write_values(&l, spans[0].offset, spans[0].count, 1);
    land(&l, 0, spans[0].offset);
    expect_values(&l, 0, 1);
    for (size_t i = 0; i < FLOATS; i++)
        if (i < spans[0].offset || i >= psr_span_end(spans[0]))
            assert_true(l.values[i] == -1);
    l.values[0] = l.values[psr_span_end(spans[0])] = 3; /* they can be written */
    expect_values(&l, 0, 1);
    close_landing(&l);
}

static void what_is_small_is_copied(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    land_sent(&l, 2, 1);
    expect_values(&l, 2, 1);
    assert_int_equal(psr_landing_mapped(l.landing), 0);
    close_landing(&l);
}

static void what_does_not_lie_on_pages_as_the_run_does_is_copied(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    write_values(&l, spans[0].offset + 1, spans[0].count, 1);
    land(&l, 0, spans[0].offset + 1);
    expect_values(&l, 0, 1);
    assert_false(is_mapped(&l, 0, spans[0].offset + 1));
    assert_int_equal(psr_landing_mapped(l.landing), 0);
    close_landing(&l);
}

static void what_comes_from_another_place_is_mapped_from_there(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    const size_t first = spans[0].offset, second = first + PAGES * PAGE;
    write_values(&l, first, spans[0].count, 1);
    land(&l, 0, first);
    write_values(&l, second, spans[0].count, 2);
    land(&l, 0, second);
    expect_values(&l, 0, 2);
    assert_true(is_mapped(&l, 0, second) && !is_mapped(&l, 0, first));
    assert_int_equal(psr_landing_mapped(l.landing), 1);
    close_landing(&l);
}

static void what_is_sent_in_between_has_memory_of_its_own_again(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    write_values(&l, spans[0].offset, spans[0].count, 1);
    land(&l, 0, spans[0].offset);
    land_sent(&l, 0, 2);
    expect_values(&l, 0, 2);
    assert_true(l.arena.values[spans[0].offset] == value_at(0, 1)); /* the lender's is as it was */
    assert_false(is_mapped(&l, 0, spans[0].offset));
    assert_int_equal(psr_landing_mapped(l.landing), 0);
    land(&l, 0, spans[0].offset); /* and once more */
    expect_values(&l, 0, 1);
    assert_true(is_mapped(&l, 0, spans[0].offset));
    close_landing(&l);
}

/* The borrower gives its number once, whatever address, descriptor or place comes again. */
static void the_memory_of_one_who_came_after_is_not_taken_for_the_first_ones(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    write_values(&l, spans[0].offset, spans[0].count, 1);
    land(&l, 0, spans[0].offset);
    end_lending(&l);
    assert_ok(psr_borrower_serve(l.lender.borrower));
    psr_borrower_retire(l.lender.borrower, worker1);
    expect_values(&l, 0, 1); /* what was mapped stays */
    begin_lending(&l);
    write_values(&l, spans[0].offset, spans[0].count, 2);
    land(&l, 0, spans[0].offset);
    expect_values(&l, 0, 2);
    assert_true(is_mapped(&l, 0, spans[0].offset));
    assert_int_equal(psr_landing_mapped(l.landing), 1);
    close_landing(&l);
}

typedef psr_err landing_call(psr_landing *landing, uint32_t run, psr_span span,
                             const psr_message *message);

/* While the kernel refuses this process every further mapping. */
static psr_err call_refused(landed *l, uint32_t run, size_t at, landing_call *call)
{
    struct rlimit before;
    psr_message *message = refer(l, run, at);
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    const struct rlimit less = {.rlim_cur = 1 << 20, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_AS, &less), 0);
    psr_err err = call(l->landing, run, spans[run], message);
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    psr_message_free(&message);
    return err;
}

static psr_err land_refused(landed *l, uint32_t run, size_t at)
{
    return call_refused(l, run, at, psr_landing_take);
}

static void where_the_kernel_maps_nothing_values_are_copied(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    write_values(&l, spans[0].offset, spans[0].count, 1);
    assert_ok(land_refused(&l, 0, spans[0].offset));
    expect_values(&l, 0, 1);
    assert_false(is_mapped(&l, 0, spans[0].offset));
    assert_int_equal(psr_landing_mapped(l.landing), 0);
    land(&l, 0, spans[0].offset); /* as soon as it does, they are not */
    assert_true(is_mapped(&l, 0, spans[0].offset));
    close_landing(&l);
}

/* Nothing is left of what a run had before it was mapped: with no memory to copy to, that is
 * said. */
static void a_mapped_run_that_gets_no_memory_of_its_own_fails(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    land(&l, 0, spans[0].offset);
    assert_fails(land_refused(&l, 0, spans[0].offset + 1), PSR_ERR_NOMEM,
                 "that lay in another process's");
    close_landing(&l);
}

/* The array has values already, which lie at the lender's too. */
static void have_values(landed *l, uint32_t run, float step)
{
    write_values(l, spans[run].offset, spans[run].count, step);
    memcpy(l->values + spans[run].offset, l->arena.values + spans[run].offset,
           spans[run].count * sizeof *l->values);
}

static psr_err show(landed *l, uint32_t run)
{
    psr_message *message = refer(l, run, spans[run].offset);
    psr_err err = psr_landing_show(l->landing, run, spans[run], message);
    psr_message_free(&message);
    return err;
}

static void values_that_are_there_are_mapped_when_they_are_shown(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    have_values(&l, 0, 1);
    have_values(&l, 1, 1);
    l.values[spans[0].offset] = 5; /* on a page that is not only the run's */
    assert_ok(show(&l, 0));
    assert_true(l.values[spans[0].offset] == 5); /* nothing is copied */
    l.values[spans[0].offset] = value_at(0, 1);
    expect_values(&l, 0, 1);
    expect_values(&l, 1, 1);
    assert_true(is_mapped(&l, 0, spans[0].offset) && !is_mapped(&l, 1, spans[1].offset));
    assert_ok(show(&l, 0)); /* once more changes nothing */
    assert_int_equal(psr_landing_mapped(l.landing), 1);
    write_values(&l, spans[0].offset, spans[0].count, 2);
    land(&l, 0, spans[0].offset);
    expect_values(&l, 0, 2);
    close_landing(&l);
}

static void values_that_cannot_be_mapped_stay_where_they_are(void **state)
{
    (void)state;
    landed l;
    open_landing(&l);
    have_values(&l, 0, 1);
    assert_ok(call_refused(&l, 0, spans[0].offset, psr_landing_show));
    l.arena.values[spans[0].offset + PAGE] = -1;
    expect_values(&l, 0, 1);
    assert_int_equal(psr_landing_mapped(l.landing), 0);
    have_values(&l, 2, 3); /* small */
    assert_ok(show(&l, 2));
    expect_values(&l, 2, 3);
    assert_int_equal(psr_landing_mapped(l.landing), 0);
    close_landing(&l);
}

static void so_many_runs_are_mapped_and_no_more(void **state)
{
    (void)state;
    enum { RUNS = PSR_LANDING_RUNS_MAX + 2, COUNT = PAGES * PAGE };
    landed l = {0};
    play(&l.lender);
    begin_lending(&l);
    assert_ok(psr_arena_new((size_t)RUNS * COUNT, &l.values));
    assert_ok(psr_landing_new(l.values, (size_t)RUNS * COUNT, RUNS, &l.landing));
    for (uint32_t run = 0; run < RUNS; run++) {
        psr_message *message = NULL;
        assert_ok(take(&l.lender, (psr_reference){0, 0, run}, COUNT * sizeof(float),
                       PSR_ENCODING_FLOAT32, &message));
        assert_ok(
            psr_landing_take(l.landing, run, (psr_span){(size_t)run * COUNT, COUNT}, message));
        psr_message_free(&message);
    }
    assert_int_equal(psr_landing_mapped(l.landing), PSR_LANDING_RUNS_MAX);
    l.arena.values[5] = 9;
    assert_true(l.values[5] == 9 && l.values[(size_t)(RUNS - 1) * COUNT + 5] == 0);
    end_lending(&l);
    psr_landing_free(l.landing);
    psr_arena_free(l.values, (size_t)RUNS * COUNT);
    end_play(&l.lender);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_in_anothers_memory_is_mapped_and_then_there_without_a_copy),
        cmocka_unit_test(a_run_leaves_its_neighbours_alone),
        cmocka_unit_test(what_is_small_is_copied),
        cmocka_unit_test(what_does_not_lie_on_pages_as_the_run_does_is_copied),
        cmocka_unit_test(what_comes_from_another_place_is_mapped_from_there),
        cmocka_unit_test(what_is_sent_in_between_has_memory_of_its_own_again),
        cmocka_unit_test(the_memory_of_one_who_came_after_is_not_taken_for_the_first_ones),
        cmocka_unit_test(where_the_kernel_maps_nothing_values_are_copied),
        cmocka_unit_test(a_mapped_run_that_gets_no_memory_of_its_own_fails),
        cmocka_unit_test(values_that_are_there_are_mapped_when_they_are_shown),
        cmocka_unit_test(values_that_cannot_be_mapped_stay_where_they_are),
        cmocka_unit_test(so_many_runs_are_mapped_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
