/* Small messages between transports of one host go through pipes: in one order with those that go
 * by the socket, whatever the ends do; and whoever passes or writes what it may not is named. */
#include "played_lender.h"

#include "net/sharing/lender.h"
#include "net/sharing/pipe.h"
#include "net/zmq/transport_zmq_private.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FLOATS = 1 << 16, LARGE = 20000 };

/* ---- two members ---- */

typedef struct members {
    bool tcp;
    run_keys keys;
    psr_socket_directory directory;
    psr_transport *from, *to; /* worker 0, worker 1 */
    psr_shared_arena arena;   /* worker 0's */
    atomic_int returned;
} members;

static psr_transport *open_in(const members *m, psr_peer self)
{
    const psr_zmq_options options = {.self = self,
                                     .keys = keys_of(&m->keys, self),
                                     .directory = m->tcp ? NULL : m->directory.path,
                                     .sharing = m->tcp ? m->directory.path : NULL,
                                     .log_stranger = note_stranger};
    psr_transport *transport;
    assert_ok(psr_transport_zmq_new(&options, &transport));
    assert_ok(psr_transport_share(transport, NULL, NULL));
    return transport;
}

static void connect_and_lend(psr_transport *from, psr_peer peer, psr_transport *to)
{
    join_to(from, peer, to);
    psr_transport_lend_to(from, peer, psr_transport_share_path(to));
}

static psr_lender *lender_of(const members *m)
{
    return psr_zmq_channel_of((const psr_zmq_transport *)m->from, worker1)->lender;
}

static void serve(psr_transport *transport)
{
    psr_message *message = NULL;
    assert_fails(psr_transport_recv(transport, 1, &message), PSR_ERR_TIMEOUT, "");
}

/* state: NULL, or over TCP. Returns when the pipe from worker 0 to worker 1 is there. */
static void open_members(members *m, void *const *state)
{
    *m = (members){.tcp = *state != NULL, .keys = make_keys(*state != NULL)};
    assert_ok(psr_socket_directory_make(NULL, &m->directory));
    m->from = open_in(m, worker0);
    m->to = open_in(m, worker1);
    assert_ok(psr_shared_arena_new(FLOATS, &m->arena));
    assert_ok(psr_transport_lend_from(m->from, &m->arena));
    connect_and_lend(m->from, worker1, m->to);
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS;
         !psr_lender_has_pipe(lender_of(m)) || !psr_transport_lends_to(m->from, worker1);
         assert_true(psr_clock_ms() < end_ms)) {
        serve(m->to);
        serve(m->from);
    }
}

static void close_members(members *m)
{
    psr_transport_free(&m->from, 0);
    psr_transport_free(&m->to, 0);
    psr_shared_arena_done(&m->arena);
    free_keys(&m->keys);
    psr_socket_directory_remove(&m->directory);
}

static uint64_t bytes_lent(const psr_transport *transport)
{
    psr_transport_counts counts;
    psr_transport_counts_get(transport, &counts);
    return counts.bytes_lent;
}

/* ---- what goes which way ---- */

/* Copied bytes, which say which message they are of. */
static void send_bytes(psr_transport *transport, psr_peer to, uint32_t number, size_t bytes)
{
    static _Thread_local uint8_t values[LARGE];
    for (size_t i = 0; i < bytes; i++)
        values[i] = (uint8_t)(number + i);
    const psr_head head = {
        .type = PSR_MSG_RING, .encoding = PSR_ENCODING_BYTES, .tag.round = number};
    assert_ok(
        psr_transport_send(transport, to, &head, &(psr_payload){.data = values, .bytes = bytes}));
}

static void expect_bytes(psr_message **message, uint32_t number, size_t bytes)
{
    const uint8_t *values = (*message)->payload;
    assert_int_equal((*message)->head.tag.round, number);
    assert_int_equal((*message)->payload_bytes, bytes);
    assert_true(bytes == 0 || (uintptr_t)values % _Alignof(double) == 0);
    for (size_t i = 0; i < bytes; i++)
        if (values[i] != (uint8_t)(number + i))
            fail_msg("message %u: byte %zu is wrong", number, i);
    psr_message_free(message);
}

static void count_release(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

static void a_small_payload_needs_no_socket_and_is_given_back_at_once(void **state)
{
    members m;
    static float values[64];
    open_members(&m, state);
    /* Before it come offers of a key over TCP, which go by the socket. */
    send_number(m.from, worker1, 0);
    receive_number(m.to, worker0, 0);
    const psr_head head = {.type = PSR_MSG_RING, .encoding = PSR_ENCODING_FLOAT32};
    const psr_payload lent = {values, sizeof values, count_release, &m.returned};
    values[0] = 3;
    /* over TCP perhaps a greeting, which goes by another socket */
    const size_t waiting = psr_transport_waiting(m.from, worker1);
    assert_ok(psr_transport_send(m.from, worker1, &head, &lent));
    assert_int_equal(m.returned, 1);
    assert_true(psr_transport_waiting(m.from, worker1) <= waiting);
    assert_int_equal(bytes_lent(m.from), sizeof values);
    values[0] = 4;
    psr_message *message = NULL; /* it is there already */
    assert_ok(psr_transport_recv(m.to, 0, &message));
    assert_true(psr_peer_equal(message->from, worker0) && message->payload_bytes == sizeof values &&
                *(const float *)message->payload == 3);
    psr_message_free(&message);
    close_members(&m);
}

static size_t bytes_of(uint32_t number)
{
    static const size_t sizes[] = {0, 4, 100, 5000, 1, LARGE, 333, 0, 8000, 12};
    return sizes[(number * 2654435761u >> 20) % (sizeof sizes / sizeof *sizes)];
}

/* Some go by the socket for their size, some because the pipe is full; some stay in the arena. */
static void messages_come_in_their_order_whichever_way_each_goes(void **state)
{
    enum { MESSAGES = 6000, BURST = 150, BY_REFERENCE = 2048 };
    members m;
    uint32_t sent = 0, received = 0;
    open_members(&m, state);
    const uint64_t lent_before = bytes_lent(m.from);
    /* after HELLO, and offers of a key over TCP: one a second */
    const uint64_t first = psr_zmq_channel_of((const psr_zmq_transport *)m.from, worker1)->sequence;
    const psr_head of_arena = {.type = PSR_MSG_RING, .encoding = PSR_ENCODING_FLOAT32};
    for (; received < MESSAGES; received++) {
        const uint32_t most = received + BURST * (received / BURST % 3);
        for (; sent < MESSAGES && sent <= most; sent++) {
            if (sent % 11 != 0) {
                send_bytes(m.from, worker1, sent, bytes_of(sent));
                continue;
            }
            psr_head head = of_arena;
            head.tag.round = sent;
            assert_ok(
                psr_transport_send(m.from, worker1, &head,
                                   &(psr_payload){m.arena.values, BY_REFERENCE * sizeof(float),
                                                  count_release, &m.returned}));
        }
        psr_message *message = receive(m.to);
        assert_int_equal(message->head.sequence, first + received);
        if (received % 11 != 0) {
            expect_bytes(&message, received, bytes_of(received));
            continue;
        }
        assert_int_equal(message->head.tag.round, received);
        assert_int_equal(message->payload_bytes, BY_REFERENCE * sizeof(float));
        psr_message_free(&message);
    }
    assert_true(bytes_lent(m.from) > lent_before);
    close_members(&m);
    assert_int_equal(m.returned, (MESSAGES + 10) / 11);
}

static void a_full_pipe_is_waited_for_by_nobody(void **state)
{
    enum { MESSAGES = 500, BYTES = 1000 };
    members m;
    open_members(&m, state);
    for (uint32_t k = 0; k < MESSAGES; k++)
        send_bytes(m.from, worker1, k, BYTES);
    const uint64_t lent = bytes_lent(m.from);
    assert_true(lent > PSR_PIPE_BYTES / 2 && lent < PSR_PIPE_BYTES);
    for (uint32_t k = 0; k < MESSAGES; k++) {
        psr_message *message = receive(m.to);
        expect_bytes(&message, k, BYTES);
    }
    send_bytes(m.from, worker1, MESSAGES, BYTES); /* there is room again */
    assert_int_equal(bytes_lent(m.from), lent + BYTES);
    psr_message *message = receive(m.to);
    expect_bytes(&message, MESSAGES, BYTES);
    close_members(&m);
}

static void what_a_member_wrote_before_it_ended_is_read(void **state)
{
    members m;
    open_members(&m, state);
    for (uint32_t k = 0; k < 20; k++)
        send_bytes(m.from, worker1, k, k);
    psr_transport_free(&m.from, 0);
    for (uint32_t k = 0; k < 20; k++) {
        psr_message *message = receive(m.to);
        expect_bytes(&message, k, k);
    }
    close_members(&m);
}

static void after_its_channel_has_ended_a_member_begins_another_one(void **state)
{
    members m;
    open_members(&m, state);
    send_bytes(m.from, worker1, 1, 10);
    psr_message *message = receive(m.to);
    expect_bytes(&message, 1, 10);
    psr_transport_disconnect(m.from, worker1);
    psr_transport_retire(m.to, worker0);
    connect_and_lend(m.from, worker1, m.to);
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; !psr_lender_has_pipe(lender_of(&m));
         assert_true(psr_clock_ms() < end_ms)) {
        serve(m.to);
        serve(m.from);
    }
    send_bytes(m.from, worker1, 2, 10);
    message = receive(m.to);
    expect_bytes(&message, 2, 10);
    close_members(&m);
}

static void of_a_member_that_has_left_nothing_is_read(void **state)
{
    members m;
    open_members(&m, state);
    send_bytes(m.from, worker1, 1, 10);
    psr_transport_retire(m.to, worker0);
    serve(m.to);
    close_members(&m);
}

/* ---- who sleeps is woken ---- */

enum { TURNS = 3000 };

/* Answers every message, and sleeps in between. */
static void *answer_all(void *context)
{
    psr_transport *transport = context;
    for (uint32_t k = 0; k < TURNS; k++) {
        psr_message *message = receive(transport);
        expect_bytes(&message, k, bytes_of(k));
        send_bytes(transport, worker0, k, bytes_of(k));
    }
    return NULL;
}

static void *wait_again_and_again(void *context)
{
    members *m = context;
    while (atomic_load(&m->returned) == 0)
        psr_transport_wait(m->from, WAIT_MS);
    return NULL;
}

/* With a wake that is lost, one of them would sleep for WAIT_MS. A third thread sleeps beside, and
 * may take nobody's wake. */
static void nobody_sleeps_on_while_a_message_is_there(void **state)
{
    members m;
    pthread_t answers, sleeps;
    open_members(&m, state);
    connect_and_lend(m.to, worker0, m.from);
    assert_int_equal(pthread_create(&answers, NULL, answer_all, m.to), 0);
    assert_int_equal(pthread_create(&sleeps, NULL, wait_again_and_again, &m), 0);
    for (uint32_t k = 0; k < TURNS; k++) {
        const int64_t begin_ms = psr_clock_ms();
        send_bytes(m.from, worker1, k, bytes_of(k));
        psr_message *message = receive(m.from);
        expect_bytes(&message, k, bytes_of(k));
        assert_true(psr_clock_ms() - begin_ms < WAIT_MS);
    }
    pthread_join(answers, NULL);
    atomic_store(&m.returned, 1);
    psr_transport_wake(m.from);
    pthread_join(sleeps, NULL);
    close_members(&m);
}

static void who_looks_finds_a_small_message_and_a_wake(void **state)
{
    members m;
    psr_message *message = NULL;
    open_members(&m, state);
    assert_false(psr_transport_look(m.from)); /* nobody writes to it */
    assert_false(psr_transport_look(m.to));   /* nothing has come */
    send_bytes(m.from, worker1, 7, 4);
    assert_true(psr_transport_look(m.to));
    message = receive(m.to);
    expect_bytes(&message, 7, 4);
    psr_transport_wake(m.to);
    assert_true(psr_transport_look(m.to));
    assert_fails(psr_transport_recv(m.to, 0, &message), PSR_ERR_CANCELLED, "");
    close_members(&m);
}

/* ---- a member that writes what it may not ---- */

/* Puts both frames into the pipe of worker 0. */
static void forge(const members *m, const void *head, size_t head_bytes, const void *payload,
                  size_t payload_bytes)
{
    bool put;
    assert_ok(psr_lender_put(lender_of(m), head, head_bytes, payload, payload_bytes, &put));
    assert_true(put);
}

static void forge_head(const members *m, psr_head head, uint64_t announced, const void *payload,
                       size_t payload_bytes)
{
    uint8_t bytes[PSR_HEAD_BYTES_MAX];
    size_t size;
    psr_head_encode(&head, announced, bytes, &size);
    forge(m, bytes, size, payload, payload_bytes);
}

static void a_member_that_writes_what_it_may_not_is_named(void **state)
{
    static const uint8_t bytes[PSR_HEAD_BYTES_MAX + 8];
    const psr_head good = {.type = PSR_MSG_RING, .encoding = PSR_ENCODING_FLOAT32, .sequence = 1};
    const char *const words[] = {
        "does not begin with PSRG",
        "wrote a head of 168 bytes",
        "sent message 0 twice",
        "introduces itself in a pipe",
        "announced a payload of 8 bytes and wrote 4",
        "announced a payload of 0 bytes and wrote 4",
        "announced a payload of 8192 bytes and wrote 24",
        "refers to an arena 9 that it has not shared",
        "a message announces a payload of 1099511627776 bytes",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        members m;
        uint8_t reference[PSR_REFERENCE_BYTES];
        psr_head head = good;
        psr_message *message = NULL;
        open_members(&m, state);
        psr_reference_encode(&(psr_reference){.arena = 9}, reference);
        switch (i) {
        case 0:
            forge(&m, bytes, PSR_HEAD_BYTES_MAX, NULL, 0);
            break;
        case 1:
            forge(&m, bytes, sizeof bytes, NULL, 0);
            break;
        case 2:
            head.sequence = 0;
            forge_head(&m, head, 0, NULL, 0);
            break;
        case 3:
            head = psr_msg_hello_head(worker0);
            head.sequence = 1;
            forge_head(&m, head, 0, NULL, 0);
            break;
        case 4:
        case 5:
            forge_head(&m, head, i == 4 ? 8 : 0, bytes, 4);
            break;
        case 6:
            forge_head(&m, head, 8192, bytes, sizeof reference);
            break;
        case 7:
            forge_head(&m, head, 8192, reference, sizeof reference);
            break;
        default:
            forge_head(&m, head, UINT64_C(1) << 40, reference, sizeof reference);
        }
        assert_fails(psr_transport_recv(m.to, WAIT_MS, &message), PSR_ERR_PROTOCOL, words[i]);
        assert_memory_equal(psr_err_detail(), "worker 0", 8);
        close_members(&m);
    }
}

/* It claims that messages come before by the socket. Nobody is kept awake by that, and what comes
 * by the socket shows that they are missing. */
static void what_is_never_sent_is_missed_when_the_next_message_comes(void **state)
{
    members m;
    psr_message *message = NULL;
    open_members(&m, state);
    forge_head(&m, (psr_head){.type = PSR_MSG_RING, .sequence = 5}, 0, NULL, 0);
    serve(m.to);
    assert_false(psr_pipes_in_any(psr_zmq_pipes((const psr_zmq_transport *)m.to)));
    assert_false(psr_transport_look(m.to));
    psr_zmq_channel *c = psr_zmq_channel_of((const psr_zmq_transport *)m.from, worker1);
    c->sequence = 3;
    send_bytes(m.from, worker1, 0, LARGE);
    assert_fails(psr_transport_recv(m.to, WAIT_MS, &message), PSR_ERR_PEER,
                 "its connection broke and 2 messages were lost");
    close_members(&m);
}

/* ---- boards and pipes that are passed ---- */

/* A lender towards the test, which has accepted. */
typedef struct towards_test {
    psr_socket_directory directory;
    int listener, fd;
    psr_lender *lender;
} towards_test;

static psr_record read_passed(int fd, int *ret_passed)
{
    psr_record_stream stream = psr_record_stream_of(fd);
    psr_record record = {0};
    assert_int_equal(psr_record_read(&stream, &record, ret_passed), PSR_RECORD_COMPLETE);
    return record;
}

static void pass_pipe_to_test(towards_test *t)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int passed;
    assert_ok(psr_socket_directory_make(NULL, &t->directory));
    assert_true((size_t)snprintf(address.sun_path, sizeof address.sun_path, "%s/worker-1.fd",
                                 t->directory.path) < sizeof address.sun_path);
    t->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(t->listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(t->listener, 1), 0);
    assert_ok(psr_lender_new(worker1, address.sun_path, geteuid(), known_id, &t->lender));
    psr_lender_pass_pipe(t->lender);
    t->fd = accept(t->listener, NULL, NULL);
    assert_int_equal(answer_to(t->fd).kind, PSR_RECORD_HELLO);
    const psr_record pipe = read_passed(t->fd, &passed);
    assert_true(pipe.kind == PSR_RECORD_PIPE && pipe.value >= PSR_PIPE_BYTES && passed >= 0);
    assert_true(mmap(NULL, PSR_PIPE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, passed, 0) ==
                MAP_FAILED); /* it is the writer's alone */
    close(passed);
}

static void end_towards_test(towards_test *t)
{
    psr_lender_free(t->lender);
    close(t->fd);
    close(t->listener);
    psr_socket_directory_remove(&t->directory);
}

static void expect_no_pipe(towards_test *t)
{
    bool put;
    assert_false(psr_lender_has_pipe(t->lender));
    assert_ok(psr_lender_put(t->lender, "x", 1, NULL, 0, &put));
    assert_false(put);
}

static void a_board_that_is_none_is_a_breach(void **state)
{
    (void)state;
    psr_shared_arena board;
    const int plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(plain, sizeof(psr_board) / 4096 * 4096 + 4096), 0);
    assert_ok(psr_shared_arena_new(sizeof(psr_board) / sizeof(float), &board));
    const uint64_t bytes = board.bytes;
    const struct {
        psr_record record;
        int pass;
        const char *words;
    } lies[] = {
        {{PSR_RECORD_BOARD, .arena = PSR_PIPES_MAX, .value = bytes}, board.fd, "with place 1024"},
        {{PSR_RECORD_BOARD, .value = 4096}, board.fd, "shows a board of 4096 bytes"},
        {{PSR_RECORD_BOARD, .value = bytes + 4096}, board.fd, "has 69632 bytes, not 73728"},
        {{PSR_RECORD_BOARD, .value = bytes}, plain, "not sealed against another size"},
        {{.kind = PSR_RECORD_TAKEN}, board.fd, "passes a descriptor"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        towards_test t;
        pass_pipe_to_test(&t);
        say(t.fd, lies[i].record, lies[i].pass);
        assert_fails(psr_lender_serve(t.lender), PSR_ERR_PROTOCOL, lies[i].words);
        expect_no_pipe(&t);
        end_towards_test(&t);
    }
    close(plain);
    psr_shared_arena_done(&board);
}

static void a_peer_reads_a_pipe_says_so_once_and_is_woken(void **state)
{
    (void)state;
    towards_test t;
    psr_shared_arena memory;
    bool put;
    pass_pipe_to_test(&t);
    expect_no_pipe(&t); /* not before it has shown its board */
    assert_ok(psr_shared_arena_new(sizeof(psr_board) / sizeof(float), &memory));
    psr_board *board = (psr_board *)(void *)memory.values;
    const psr_record shown = {PSR_RECORD_BOARD, .arena = 1, .value = memory.bytes};
    say(t.fd, shown, memory.fd);
    assert_ok(psr_lender_serve(t.lender));
    assert_ok(psr_lender_put(t.lender, "x", 1, NULL, 0, &put));
    assert_true(put);
    atomic_store(&board->asleep, 5);
    for (int i = 0; i < 2; i++)
        assert_ok(psr_lender_put(t.lender, "x", 1, NULL, 0, &put));
    assert_int_equal(answer_to(t.fd).kind, PSR_RECORD_WAKE);
    atomic_store(&board->places[1].read, UINT64_MAX); /* a lie, which shows when there is no room */
    psr_err err;
    do
        err = psr_lender_put(t.lender, "x", 1, NULL, 0, &put);
    while (err == PSR_OK);
    assert_fails(err, PSR_ERR_PROTOCOL, "worker 1 says that it has read what was not written");
    say(t.fd, shown, memory.fd);
    assert_fails(psr_lender_serve(t.lender), PSR_ERR_PROTOCOL, "was passed no pipe");
    end_towards_test(&t);
    psr_shared_arena_done(&memory);
}

static void a_peer_that_reads_no_pipe_gets_messages(void **state)
{
    (void)state;
    towards_test t;
    pass_pipe_to_test(&t);
    say(t.fd, (psr_record){.kind = PSR_RECORD_BOARD}, -1);
    assert_ok(psr_lender_serve(t.lender));
    expect_no_pipe(&t);
    end_towards_test(&t);
}

static void a_pipe_that_is_none_is_a_breach(void **state)
{
    (void)state;
    psr_shared_arena small;
    played_lender p;
    assert_ok(psr_shared_arena_new(1024, &small));
    const int plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(plain, PSR_PIPE_BYTES), 0);
    const struct {
        uint64_t bytes;
        int pass;
        const char *words;
    } lies[] = {
        {small.bytes, small.fd, "passes a pipe of"},
        {PSR_PIPE_BYTES, small.fd, "bytes, not 65536"},
        {UINT64_MAX, small.fd, "bytes, not 18446744073709551615"},
        {PSR_PIPE_BYTES, plain, "not sealed against another size"},
    };
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        psr_pipes_in *pipes;
        assert_ok(psr_pipes_in_new(&pipes));
        play_with(&p, geteuid(), pipes);
        const int fd = greet(&p);
        say(fd, (psr_record){.kind = PSR_RECORD_PIPE, .value = lies[i].bytes}, lies[i].pass);
        assert_fails(psr_borrower_serve(p.borrower), PSR_ERR_PROTOCOL, lies[i].words);
        assert_false(psr_pipes_in_are(pipes));
        close(fd);
        end_play(&p);
        psr_pipes_in_free(pipes);
    }
    close(plain);
    psr_shared_arena_done(&small);
}

static void a_pipe_is_taken_once_and_only_where_pipes_are_read(void **state)
{
    (void)state;
    psr_shared_arena ring;
    assert_ok(psr_shared_arena_new(PSR_PIPE_BYTES / sizeof(float), &ring));
    const psr_record passes = {.kind = PSR_RECORD_PIPE, .value = ring.bytes};
    for (int reads = 0; reads < 2; reads++) {
        psr_pipes_in *pipes = NULL;
        played_lender p;
        int passed;
        if (reads)
            assert_ok(psr_pipes_in_new(&pipes));
        play_with(&p, geteuid(), pipes);
        const int fd = greet(&p);
        say(fd, passes, ring.fd);
        assert_ok(psr_borrower_serve(p.borrower));
        const psr_record board = read_passed(fd, &passed);
        assert_int_equal(board.kind, PSR_RECORD_BOARD);
        assert_true(reads ? passed >= 0 && board.value >= sizeof(psr_board)
                          : passed < 0 && board.value == 0);
        if (passed >= 0)
            close(passed);
        say(fd, (psr_record){.kind = PSR_RECORD_WAKE}, -1);
        assert_ok(psr_borrower_serve(p.borrower));
        say(fd, passes, ring.fd);
        assert_fails(psr_borrower_serve(p.borrower), PSR_ERR_PROTOCOL, "passes a second pipe");
        close(fd);
        end_play(&p);
        psr_pipes_in_free(pipes);
    }
    psr_shared_arena_done(&ring);
}

#define over_tcp(test)                                                                             \
    {                                                                                              \
#test "_over_tcp", test, NULL, NULL, (void *)(uintptr_t)1                                  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_payload_needs_no_socket_and_is_given_back_at_once),
        over_tcp(a_small_payload_needs_no_socket_and_is_given_back_at_once),
        cmocka_unit_test(messages_come_in_their_order_whichever_way_each_goes),
        over_tcp(messages_come_in_their_order_whichever_way_each_goes),
        cmocka_unit_test(a_full_pipe_is_waited_for_by_nobody),
        over_tcp(a_full_pipe_is_waited_for_by_nobody),
        cmocka_unit_test(what_a_member_wrote_before_it_ended_is_read),
        cmocka_unit_test(after_its_channel_has_ended_a_member_begins_another_one),
        cmocka_unit_test(of_a_member_that_has_left_nothing_is_read),
        cmocka_unit_test(nobody_sleeps_on_while_a_message_is_there),
        over_tcp(nobody_sleeps_on_while_a_message_is_there),
        cmocka_unit_test(who_looks_finds_a_small_message_and_a_wake),
        cmocka_unit_test(a_member_that_writes_what_it_may_not_is_named),
        cmocka_unit_test(what_is_never_sent_is_missed_when_the_next_message_comes),
        cmocka_unit_test(a_board_that_is_none_is_a_breach),
        cmocka_unit_test(a_peer_reads_a_pipe_says_so_once_and_is_woken),
        cmocka_unit_test(a_peer_that_reads_no_pipe_gets_messages),
        cmocka_unit_test(a_pipe_that_is_none_is_a_breach),
        cmocka_unit_test(a_pipe_is_taken_once_and_only_where_pipes_are_read),
    };
    return cmocka_run_group_tests_name("piped_messages", tests, NULL, NULL);
}
