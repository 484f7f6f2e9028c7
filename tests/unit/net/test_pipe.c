/* Pipes through shared memory: what is written comes whole and in order, nobody sleeps for good,
 * and what no honest side does is noticed. Writer and reader are two threads here, on the same
 * memory; thread sanitizer sees both (-Db_sanitize=thread). */
#include "tests/unit/expect.h"

#include "net/sharing/pipes_in.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 64, FRAMES_AT = 16, HEAD = 48 };

/* A pipe with both its ends, and the reader's board. */
typedef struct pipe_pair {
    uint8_t *ring;
    psr_board *board;
    psr_pipe_writer writer;
    psr_pipe_reader reader;
} pipe_pair;

static pipe_pair open_pipe(void)
{
    pipe_pair p = {.ring = aligned_alloc(LINE, PSR_PIPE_BYTES),
                   .board = aligned_alloc(LINE, sizeof(psr_board))};
    assert_true(p.ring != NULL && p.board != NULL);
    memset(p.ring, 0, PSR_PIPE_BYTES);
    memset(p.board, 0, sizeof *p.board);
    p.writer = (psr_pipe_writer){.ring = p.ring, .board = p.board, .place = 3};
    p.reader = (psr_pipe_reader){.ring = p.ring, .place = &p.board->places[3]};
    return p;
}

static void close_pipe(pipe_pair *p)
{
    free(p->ring);
    free(p->board);
}

/* ---- what is written ---- */

/* The k-th message: its lengths and its bytes follow from k. */
static size_t first_bytes_of(uint32_t k)
{
    return 1 + k % 160;
}

static size_t second_bytes_of(uint32_t k)
{
    const uint32_t mixed = k * 2654435761u >> 16;
    return k % 3 == 0 ? 0 : k % 7 == 0 ? mixed % 8000 : mixed % 100;
}

static void fill(uint8_t *bytes, size_t count, uint32_t k)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(k + i * 7);
}

static bool put(pipe_pair *p, uint32_t k)
{
    uint8_t first[160], second[8000];
    fill(first, first_bytes_of(k), k);
    fill(second, second_bytes_of(k), ~k);
    return psr_pipe_put(&p->writer, first, first_bytes_of(k), second, second_bytes_of(k)) ==
           PSR_PIPE_PUT;
}

static void expect_message(const psr_pipe_record *record, uint32_t k)
{
    uint8_t first[160], second[8000];
    fill(first, first_bytes_of(k), k);
    fill(second, second_bytes_of(k), ~k);
    assert_int_equal(record->first_bytes, first_bytes_of(k));
    assert_int_equal(record->second_bytes, second_bytes_of(k));
    assert_memory_equal(record->first, first, record->first_bytes);
    if (record->second_bytes > 0)
        assert_memory_equal(record->second, second, record->second_bytes);
    assert_int_equal((uintptr_t)record->second % 8, 0);
}

static bool take(pipe_pair *p, uint32_t k)
{
    psr_pipe_record record;
    const psr_pipe_look_result result = psr_pipe_look(&p->reader, &record);
    assert_true(result != PSR_PIPE_BROKEN);
    if (result == PSR_PIPE_EMPTY)
        return false;
    assert_true(psr_pipe_any(&p->reader));
    expect_message(&record, k);
    psr_pipe_next(&p->reader, &record);
    return true;
}

static void what_is_written_comes_whole_and_in_order(void **state)
{
    (void)state;
    pipe_pair p = open_pipe();
    uint32_t written = 0, read = 0;
    /* As full as it gets, then as empty; many laps, with every length at the ring's end. */
    for (int lap = 0; lap < 400; lap++) {
        while (put(&p, written))
            written++;
        assert_true(written - read > 4);
        for (uint32_t left = (uint32_t)lap % 4; written - read > left; read++)
            assert_true(take(&p, read));
    }
    while (read < written)
        assert_true(take(&p, read++));
    assert_false(take(&p, read));
    assert_true(p.writer.written > 100 * PSR_PIPE_BYTES);
    close_pipe(&p);
}

static void a_message_that_never_fits_is_not_put(void **state)
{
    (void)state;
    pipe_pair p = open_pipe();
    static uint8_t bytes[2 * PSR_PIPE_RECORD_MAX];
    const size_t most = PSR_PIPE_RECORD_MAX - FRAMES_AT - HEAD;
    psr_pipe_record record;
    assert_int_equal(psr_pipe_put(&p.writer, bytes, HEAD, bytes, most + 1), PSR_PIPE_FULL);
    assert_int_equal(psr_pipe_put(&p.writer, bytes, HEAD, bytes, sizeof bytes), PSR_PIPE_FULL);
    assert_int_equal(psr_pipe_put(&p.writer, bytes, SIZE_MAX, bytes, SIZE_MAX), PSR_PIPE_FULL);
    assert_int_equal(psr_pipe_look(&p.reader, &record), PSR_PIPE_EMPTY);
    for (int i = 0; i < 100; i++) { /* the largest one fits wherever the ring stands */
        assert_int_equal(psr_pipe_put(&p.writer, bytes, HEAD, bytes, most), PSR_PIPE_PUT);
        assert_int_equal(psr_pipe_look(&p.reader, &record), PSR_PIPE_RECORD);
        assert_int_equal(record.second_bytes, most);
        psr_pipe_next(&p.reader, &record);
        assert_int_equal(psr_pipe_put(&p.writer, bytes, 1, NULL, 0), PSR_PIPE_PUT);
        assert_int_equal(psr_pipe_look(&p.reader, &record), PSR_PIPE_RECORD);
        psr_pipe_next(&p.reader, &record);
    }
    close_pipe(&p);
}

/* A message whose words are all the stamp that will be looked for next. */
static void old_bytes_are_never_taken_for_a_record(void **state)
{
    (void)state;
    pipe_pair p = open_pipe();
    uint64_t words[512];
    psr_pipe_record record;
    for (int i = 0; i < 2000; i++) {
        /* Where this ring position is looked at one lap later. */
        const uint64_t at = p.writer.written + PSR_PIPE_BYTES;
        const size_t bytes = (size_t)(1 + i % 60) * LINE;
        for (size_t w = 0; w < bytes / sizeof *words; w++)
            words[w] = at / LINE * LINE + (FRAMES_AT + 8 + w * 8) / LINE * LINE + 1;
        assert_int_equal(psr_pipe_put(&p.writer, "", 1, words, bytes), PSR_PIPE_PUT);
        assert_int_equal(psr_pipe_look(&p.reader, &record), PSR_PIPE_RECORD);
        psr_pipe_next(&p.reader, &record);
        assert_int_equal(psr_pipe_look(&p.reader, &record), PSR_PIPE_EMPTY);
        assert_false(psr_pipe_any(&p.reader));
    }
    close_pipe(&p);
}

/* ---- two threads ---- */

enum { MESSAGES = 20000 };

static void *write_all(void *context)
{
    pipe_pair *p = context;
    for (uint32_t k = 0; k < MESSAGES;)
        if (put(p, k))
            k++;
    return NULL;
}

static void two_threads_need_nothing_else(void **state)
{
    (void)state;
    pipe_pair p = open_pipe();
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, write_all, &p), 0);
    for (uint32_t k = 0; k < MESSAGES;)
        k += take(&p, k);
    pthread_join(writer, NULL);
    close_pipe(&p);
}

/* ---- sleeping ---- */

/* A reader that sleeps in a read of a descriptor, which the writer writes to wake it. */
typedef struct sleepers {
    psr_pipes_in *pipes;
    psr_pipe_writer writer;
    int bell[2];
    _Atomic uint32_t read;
} sleepers;

static const uint8_t channel[PSR_ROUTING_ID_BYTES] = "a channel", other[PSR_ROUTING_ID_BYTES] = "b";

static psr_pipe_writer writer_of(const psr_pipes_in *pipes, uint8_t *ring, uint32_t place)
{
    return (psr_pipe_writer){.ring = ring,
                             .board = (const psr_board *)(void *)psr_pipes_in_board(pipes)->values,
                             .place = place};
}

static uint8_t *new_ring(void)
{
    uint8_t *ring = aligned_alloc(LINE, PSR_PIPE_BYTES);
    assert_non_null(ring);
    memset(ring, 0, PSR_PIPE_BYTES);
    return ring;
}

static void put_one(psr_pipe_writer *writer)
{
    assert_int_equal(psr_pipe_put(writer, "x", 1, NULL, 0), PSR_PIPE_PUT);
}

static void ring_bell(const sleepers *s)
{
    assert_int_equal(write(s->bell[1], "!", 1), 1);
}

/* One message at a time, so that every one may find the reader asleep. */
static void *wake_for_each(void *context)
{
    sleepers *s = context;
    for (uint32_t k = 0; k < MESSAGES; k++) {
        put_one(&s->writer);
        if (psr_pipe_must_wake(&s->writer))
            ring_bell(s);
        while (k % 3 == 0 && atomic_load(&s->read) <= k)
            ;
    }
    return NULL;
}

static void nobody_sleeps_while_there_is_something(void **state)
{
    (void)state;
    sleepers s = {0};
    uint32_t place;
    uint8_t *ring = new_ring();
    expect_ok(psr_pipes_in_new(&s.pipes));
    expect_ok(psr_pipes_in_add(s.pipes, ring, channel, &place));
    s.writer = writer_of(s.pipes, ring, place);
    assert_int_equal(pipe(s.bell), 0);
    pthread_t writer;
    assert_int_equal(pthread_create(&writer, NULL, wake_for_each, &s), 0);
    while (atomic_load(&s.read) < MESSAGES) {
        psr_piped piped;
        char bell;
        if (psr_pipes_in_look(s.pipes, &piped) == PSR_PIPE_RECORD) {
            psr_pipes_in_next(s.pipes, &piped);
            atomic_fetch_add(&s.read, 1);
            continue;
        }
        if (psr_pipes_in_sleep(
                s.pipes)) { /* a wake that does not come lets the test run for ever */
            assert_int_equal(read(s.bell[0], &bell, 1), 1);
            psr_pipes_in_woken(s.pipes);
        }
        psr_pipes_in_awake(s.pipes);
    }
    pthread_join(writer, NULL);
    psr_pipes_in_free(s.pipes);
    close(s.bell[0]);
    close(s.bell[1]);
    free(ring);
}

static void a_sleep_is_told_once_and_again_when_another_took_the_wake(void **state)
{
    (void)state;
    psr_pipes_in *pipes;
    psr_piped piped;
    uint32_t place;
    uint8_t *ring = new_ring();
    expect_ok(psr_pipes_in_new(&pipes));
    expect_ok(psr_pipes_in_add(pipes, ring, channel, &place));
    psr_pipe_writer writer = writer_of(pipes, ring, place);
    put_one(&writer);
    assert_false(psr_pipe_must_wake(&writer)); /* it is awake */
    assert_false(psr_pipes_in_sleep(pipes));   /* there is something */
    psr_pipes_in_awake(pipes);
    assert_int_equal(psr_pipes_in_look(pipes, &piped), PSR_PIPE_RECORD);
    psr_pipes_in_next(pipes, &piped);

    assert_true(psr_pipes_in_sleep(pipes));
    put_one(&writer);
    assert_true(psr_pipe_must_wake(&writer));
    put_one(&writer);
    assert_false(psr_pipe_must_wake(&writer)); /* it is on its way */
    psr_pipes_in_woken(pipes);                 /* another thread took it; that one sleeps on */
    put_one(&writer);
    assert_true(psr_pipe_must_wake(&writer));
    assert_false(psr_pipes_in_sleep(pipes)); /* a second one would not sleep */
    psr_pipes_in_awake(pipes);
    put_one(&writer);
    assert_true(psr_pipe_must_wake(&writer)); /* the first one still does */
    psr_pipes_in_awake(pipes);
    put_one(&writer);
    assert_false(psr_pipe_must_wake(&writer));
    psr_pipes_in_woken(pipes); /* nobody sleeps: nothing to do */
    put_one(&writer);
    assert_false(psr_pipe_must_wake(&writer));
    psr_pipes_in_free(pipes);
    free(ring);
}

/* ---- several pipes ---- */

static void pipes_take_turns_and_one_that_is_held_up_keeps_nobody_awake(void **state)
{
    (void)state;
    psr_pipes_in *pipes;
    psr_piped piped;
    uint32_t places[2];
    uint8_t *rings[] = {new_ring(), new_ring()};
    expect_ok(psr_pipes_in_new(&pipes));
    assert_false(psr_pipes_in_are(pipes));
    expect_ok(psr_pipes_in_add(pipes, rings[0], channel, &places[0]));
    expect_ok(psr_pipes_in_add(pipes, rings[1], other, &places[1]));
    psr_pipe_writer first = writer_of(pipes, rings[0], places[0]),
                    second = writer_of(pipes, rings[1], places[1]);
    for (int i = 0; i < 3; i++)
        put_one(&first);
    put_one(&second);
    unsigned of_second = 0;
    for (int i = 0; i < 2; i++) { /* who writes much keeps nobody waiting */
        assert_int_equal(psr_pipes_in_look(pipes, &piped), PSR_PIPE_RECORD);
        of_second += memcmp(piped.id, other, sizeof other) == 0;
        psr_pipes_in_next(pipes, &piped);
    }
    assert_int_equal(of_second, 1);
    psr_pipes_in_hold_up(pipes, places[0]);
    assert_false(psr_pipes_in_any(pipes));
    assert_int_equal(psr_pipes_in_look(pipes, &piped), PSR_PIPE_EMPTY);
    assert_true(psr_pipes_in_sleep(pipes));
    psr_pipes_in_awake(pipes);
    assert_int_equal(psr_pipes_in_look_at(pipes, channel, &piped), PSR_PIPE_RECORD);
    assert_int_equal(psr_pipes_in_look_at(pipes, other, &piped), PSR_PIPE_EMPTY);
    psr_pipes_in_go_on(pipes);
    assert_true(psr_pipes_in_any(pipes));
    psr_pipes_in_remove(pipes, places[0]);
    assert_false(psr_pipes_in_any(pipes));
    assert_int_equal(psr_pipes_in_look_at(pipes, channel, &piped), PSR_PIPE_EMPTY);
    assert_true(psr_pipes_in_are(pipes));
    psr_pipes_in_free(pipes);
    free(rings[0]);
    free(rings[1]);
}

static void so_many_pipes_are_read_and_no_more(void **state)
{
    (void)state;
    psr_pipes_in *pipes;
    uint32_t place;
    uint8_t *ring = new_ring();
    expect_ok(psr_pipes_in_new(&pipes));
    for (int i = 0; i < PSR_PIPES_MAX; i++) {
        expect_ok(psr_pipes_in_add(pipes, ring, channel, &place));
        psr_pipes_in_remove(pipes, place); /* a place is not given again: its old writer may live */
    }
    expect_failure(psr_pipes_in_add(pipes, ring, channel, &place), PSR_ERR_NOMEM,
                   "1024 pipes were read already");
    psr_pipes_in_free(pipes);
    free(ring);
}

/* ---- liars ---- */

static void a_reader_that_has_read_what_was_not_written_is_noticed(void **state)
{
    (void)state;
    const uint64_t lies[] = {PSR_PIPE_BYTES * 2, UINT64_MAX, 1ull << 63};
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        pipe_pair p = open_pipe();
        uint32_t k = 0;
        while (put(&p, k))
            k++;
        atomic_store(&p.board->places[3].read, lies[i]);
        assert_int_equal(psr_pipe_put(&p.writer, "x", 1, (uint8_t[8000]){0}, 8000),
                         PSR_PIPE_READER_LIES);
        close_pipe(&p);
    }
}

static void a_reader_that_goes_back_is_noticed(void **state)
{
    (void)state;
    pipe_pair p = open_pipe();
    uint32_t k = 0, read = 0;
    while (put(&p, k))
        k++;
    while (read < 2)
        assert_true(take(&p, read++));
    uint8_t large[8000] = {0};
    while (psr_pipe_put(&p.writer, "x", 1, large, sizeof large) == PSR_PIPE_PUT)
        assert_true(take(&p, read++) || true);
    assert_true(p.writer.read > 0);
    atomic_store(&p.board->places[3].read, 0);
    assert_int_equal(psr_pipe_put(&p.writer, "x", 1, large, sizeof large), PSR_PIPE_READER_LIES);
    close_pipe(&p);
}

typedef struct word {
    size_t at;
    uint64_t value;
} word;

static void set(uint8_t *ring, word w)
{
    memcpy(ring + w.at, &w.value, sizeof w.value);
}

static void what_is_no_record_is_noticed(void **state)
{
    (void)state;
    const uint64_t skip = UINT64_MAX;
    const struct {
        uint64_t read; /* by the reader so far */
        word words[4];
    } lies[] = {
        {0, {{0, 1}, {8, (uint64_t)(PSR_PIPE_RECORD_MAX + 1) << 32}}},
        {0, {{0, 1}, {8, PSR_PIPE_RECORD_MAX}}}, /* with its stamp it is larger */
        {0, {{0, 1}, {8, UINT32_MAX}}},
        {0, {{0, 1}, {8, (uint64_t)UINT32_MAX << 32}}},
        {0, {{0, 1}, {8, skip - 1}}},
        {0, {{0, 1}, {8, skip}}}, /* round and round */
        /* reaches beyond the ring */
        {PSR_PIPE_BYTES - LINE,
         {{PSR_PIPE_BYTES - LINE, PSR_PIPE_BYTES - LINE + 1}, {PSR_PIPE_BYTES - LINE + 8, 49}}},
        /* skips to nothing, and to another skip */
        {PSR_PIPE_BYTES - LINE,
         {{PSR_PIPE_BYTES - LINE, PSR_PIPE_BYTES - LINE + 1}, {PSR_PIPE_BYTES - LINE + 8, skip}}},
        {PSR_PIPE_BYTES - LINE,
         {{PSR_PIPE_BYTES - LINE, PSR_PIPE_BYTES - LINE + 1},
          {PSR_PIPE_BYTES - LINE + 8, skip},
          {0, PSR_PIPE_BYTES + 1},
          {8, skip}}},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        pipe_pair p = open_pipe();
        psr_pipe_record record;
        atomic_store(&p.board->places[3].read, lies[i].read);
        for (size_t w = 0; w < 4; w++)
            if (lies[i].words[w].value != 0)
                set(p.ring, lies[i].words[w]);
        if (psr_pipe_look(&p.reader, &record) != PSR_PIPE_BROKEN)
            fail_msg("lie %zu is believed", i);
        close_pipe(&p);
    }
}

/* Whatever a writer's memory holds, a record lies in the ring. */
static void no_bytes_lead_out_of_the_ring(void **state)
{
    (void)state;
    uint64_t seed = 7;
    pipe_pair p = open_pipe();
    for (int i = 0; i < 200000; i++) {
        psr_pipe_record record;
        const uint64_t at = (seed >> 20) % (PSR_PIPE_BYTES / LINE) * LINE;
        uint64_t words[2] = {at + 1, seed >> (seed % 61)};
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        memcpy(p.ring + at, words, sizeof words);
        atomic_store(&p.board->places[3].read, at);
        if (psr_pipe_look(&p.reader, &record) != PSR_PIPE_RECORD)
            continue;
        assert_true(record.first >= p.ring && record.second >= record.first + record.first_bytes);
        assert_true(record.second + record.second_bytes <= p.ring + PSR_PIPE_BYTES);
        assert_true(record.end > at && record.end <= at + 2 * PSR_PIPE_BYTES);
    }
    close_pipe(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_whole_and_in_order),
        cmocka_unit_test(a_message_that_never_fits_is_not_put),
        cmocka_unit_test(old_bytes_are_never_taken_for_a_record),
        cmocka_unit_test(two_threads_need_nothing_else),
        cmocka_unit_test(nobody_sleeps_while_there_is_something),
        cmocka_unit_test(a_sleep_is_told_once_and_again_when_another_took_the_wake),
        cmocka_unit_test(pipes_take_turns_and_one_that_is_held_up_keeps_nobody_awake),
        cmocka_unit_test(so_many_pipes_are_read_and_no_more),
        cmocka_unit_test(a_reader_that_has_read_what_was_not_written_is_noticed),
        cmocka_unit_test(a_reader_that_goes_back_is_noticed),
        cmocka_unit_test(what_is_no_record_is_noticed),
        cmocka_unit_test(no_bytes_lead_out_of_the_ring),
    };
    return cmocka_run_group_tests_name("pipe", tests, NULL, NULL);
}
