/* Strangers at an inbox, and members that break the protocol: bytes over plain TCP, and libzmq
 * sockets that speak what they should not. */
#include "tests/unit/network_fixture.h"

#include "net/trust/admission.h"
#include "net/zmq/inbox/half_open.h"
#include "net/address/socket_directory.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

/* Beside a run's others, at an ipc socket in that directory. */
static psr_transport *open_in(const psr_socket_directory *directory, const run_keys *keys,
                              psr_peer self)
{
    psr_zmq_options options = {.self = self,
                               .keys = keys_of(keys, self),
                               .directory = directory->path,
                               .log_stranger = note_stranger};
    psr_transport *transport;
    assert_ok(psr_transport_zmq_new(&options, &transport));
    return transport;
}

static psr_transport *open_scheduler(const run_keys *keys)
{
    stranger_lines[0] = '\0';
    return open_member(keys, scheduler);
}

/* ---- plain sockets ---- */

static int dial_path(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail_msg("%s: %s", path, strerror(errno));
    return fd;
}

static int dial(const psr_transport *to)
{
    if (strncmp(psr_transport_endpoint(to), "ipc://", 6) == 0)
        return dial_path(psr_transport_endpoint(to) + 6);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port =
        htons((uint16_t)strtoul(strrchr(psr_transport_endpoint(to), ':') + 1, NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0)
        fail_msg("connect: %s", strerror(errno));
    return fd;
}

static void say(int fd, const void *bytes, size_t size)
{
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
}

/* Waits until the other side has closed the connection, whatever it says before. */
static void await_hang_up(int fd)
{
    char bytes[512];
    for (;;) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&item, 1, WAIT_MS), 1);
        ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        if (got == 0 || (got < 0 && errno == ECONNRESET))
            return;
        assert_true(got > 0);
    }
}

/* https://rfc.zeromq.org/spec/23/: signature, version 3.0, mechanism in 20 bytes, as-server,
 * filler. */
static void greet(int fd, const char *mechanism)
{
    uint8_t greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0};
    memcpy(greeting + 12, mechanism, strlen(mechanism));
    say(fd, greeting, sizeof greeting);
}

static void assert_a_member_gets_through(const run_keys *keys, psr_transport *s)
{
    psr_transport *w = open_member(keys, worker0);
    join_to(w, scheduler, s);
    send_number(w, scheduler, 4711);
    receive_number(s, worker0, 4711);
    psr_transport_free(&w, 0);
}

static void garbage_is_turned_away(void **state)
{
    (void)state;
    run_keys keys = make_keys(false);
    psr_transport *s = open_scheduler(&keys);
    static const char http[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    uint8_t noise[4096];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)(i * 167 + 13);
    int a = dial(s), b = dial(s), c = dial(s);
    say(a, http, sizeof http - 1);
    say(b, noise, sizeof noise);
    noise[0] = 0xff; /* as a greeting begins */
    noise[9] = 0x7f;
    say(c, noise, sizeof noise);
    await_hang_up(a);
    await_hang_up(b);
    await_hang_up(c);
    await_strangers(s, 3);
    await_line(s, "turned away a stranger: ");
    close(a);
    close(b);
    close(c);
    assert_a_member_gets_through(&keys, s);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void half_a_greeting_is_given_up(void **state)
{
    (void)state;
    run_keys keys = make_keys(false);
    psr_transport *s = open_scheduler(&keys);
    int nothing = dial(s), half = dial(s), gone = dial(s);
    uint8_t signature[10] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f};
    say(half, signature, sizeof signature);
    say(gone, signature, 5);
    close(gone);
    await_strangers(s, 1);
    assert_a_member_gets_through(&keys, s);
    await_hang_up(nothing); /* when PSR_HANDSHAKE_MS are over */
    await_hang_up(half);
    await_strangers(s, 3);
    close(nothing);
    close(half);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

/* libzmq tells only that some connection has ended. */
static void a_member_that_ends_while_another_is_in_its_handshake_is_no_stranger(void **state)
{
    (void)state;
    run_keys keys = make_keys(false);
    psr_transport *s = open_scheduler(&keys);
    int silent = dial(s);
    assert_a_member_gets_through(&keys, s);
    await_hang_up(silent);
    await_line(s, "it went away or fell silent in the handshake");
    assert_null(strstr(stranger_lines, "what it sends is not our protocol"));
    close(silent);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void a_frame_that_claims_gigabytes_is_turned_away(void **state)
{
    (void)state;
    run_keys keys = make_keys(false);
    psr_transport *s = open_scheduler(&keys);
    static const uint8_t claims[][9] = {
        {0x06, 0x00, 0x00, 0x01, 0, 0, 0, 0, 0},                /* a command of a terabyte */
        {0x02, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, /* a frame of 2^64 - 1 */
        {0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x41}, /* one byte more than is allowed */
    };
    for (size_t i = 0; i < 3; i++) {
        int fd = dial(s);
        greet(fd, "PLAIN");
        say(fd, claims[i], sizeof claims[i]);
        await_hang_up(fd);
        close(fd);
    }
    await_strangers(s, 3);
    assert_a_member_gets_through(&keys, s);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void another_mechanism_is_turned_away(void **state)
{
    (void)state;
    static const char *const mechanisms[] = {"NULL", "CURVE", "GSSAPI", "NONSENSE"};
    run_keys keys = make_keys(false);
    psr_transport *s = open_scheduler(&keys);
    for (size_t i = 0; i < 4; i++) {
        int fd = dial(s);
        greet(fd, mechanisms[i]);
        await_hang_up(fd);
        close(fd);
    }
    await_strangers(s, 4);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

/* Those of fds that the other side has not closed. */
static int count_open(const int *fds, int count)
{
    int open = 0;
    for (int i = 0; i < count; i++) {
        char bytes[512];
        ssize_t got;
        do
            got = recv(fds[i], bytes, sizeof bytes, MSG_DONTWAIT);
        while (got > 0);
        open += got < 0 && errno != ECONNRESET;
    }
    return open;
}

static void flood_the_scheduler(const run_keys *keys, psr_transport *s, psr_transport *w)
{
    enum { COUNT = 400 };
    int fds[COUNT];
    bool curve = keys->sets[0].curve;
    join_to(w, scheduler, s);
    send_number(w, scheduler, 1);
    receive_number(s, worker1, 1);
    /* Handshakes that time out would take longer than all this may: 64 in PSR_HANDSHAKE_MS. */
    int64_t end_ms = psr_clock_ms() + WAIT_MS;
    for (int i = 0; i < COUNT; i++) {
        fds[i] = dial(s);
        greet(fds[i], curve ? "CURVE" : "PLAIN");
        for (int open; (open = count_open(fds, i + 1)) > PSR_HALF_OPEN_MAX;) {
            if (psr_clock_ms() > end_ms)
                fail_msg("%d are held", open);
            await_strangers(s, (uint64_t)(i + 1 - PSR_HALF_OPEN_MAX));
        }
    }
    assert_int_equal(count_open(fds, COUNT / 2), 0); /* the oldest went first */
    send_number(w, scheduler, 2);                    /* over the connection that it has:
                                                        a lost message would be told */
    receive_number(s, worker1, 2);
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
}

static void
of_many_half_open_connections_the_newest_64_are_held_and_members_are_left_alone(bool curve)
{
    run_keys keys = make_keys(curve);
    psr_transport *s = open_scheduler(&keys), *w = open_member(&keys, worker1);
    flood_the_scheduler(&keys, s, w);
    assert_a_member_gets_through(&keys, s);
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void of_many_half_open_connections_few_are_held_without_curve(void **state)
{
    (void)state;
    of_many_half_open_connections_the_newest_64_are_held_and_members_are_left_alone(false);
}

static void of_many_half_open_connections_few_are_held_with_curve(void **state)
{
    (void)state;
    of_many_half_open_connections_the_newest_64_are_held_and_members_are_left_alone(true);
}

static void of_many_half_open_connections_few_are_held_over_ipc(void **state)
{
    (void)state;
    run_keys keys = make_keys(false);
    psr_socket_directory directory;
    assert_ok(psr_socket_directory_make(NULL, &directory));
    stranger_lines[0] = '\0';
    psr_transport *s = open_in(&directory, &keys, scheduler),
                  *w = open_in(&directory, &keys, worker1);
    flood_the_scheduler(&keys, s, w);
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    psr_socket_directory_remove(&directory);
    free_keys(&keys);
}

/* ---- connections of a member, which has the right token ---- */

static void say_command(int fd, const char *name, const void *body, size_t size)
{
    uint8_t frame[256] = {4, (uint8_t)(1 + strlen(name) + size), (uint8_t)strlen(name)};
    memcpy(frame + 3, name, strlen(name));
    memcpy(frame + 3 + strlen(name), body, size);
    say(fd, frame, 3 + strlen(name) + size);
}

/* Whether it hears that command before it is hung up on. */
static bool hears(int fd, const char *name)
{
    char heard[1024];
    for (size_t size = 0; size < sizeof heard;) {
        struct pollfd item = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&item, 1, WAIT_MS), 1);
        ssize_t got = recv(fd, heard + size, sizeof heard - size, 0);
        if (got <= 0)
            return false;
        size += (size_t)got;
        if (memmem(heard, size, name, strlen(name)) != NULL)
            return true;
    }
    return false;
}

/* rfc.zeromq.org/spec/24. Whether it is let in. */
static bool enter(int fd, const char *name, const char *token)
{
    uint8_t hello[128] = {(uint8_t)strlen(name)};
    memcpy(hello + 1, name, strlen(name));
    hello[1 + strlen(name)] = (uint8_t)strlen(token);
    memcpy(hello + 2 + strlen(name), token, strlen(token));
    greet(fd, "PLAIN");
    say_command(fd, "HELLO", hello, 2 + strlen(name) + strlen(token));
    static const char type[] = "\x0bSocket-Type\0\0\0\x06"
                               "DEALER";
    if (!hears(fd, "WELCOME"))
        return false;
    say_command(fd, "INITIATE", type, sizeof type - 1);
    return hears(fd, "READY");
}

/* Serves the transport until the other side has closed all of them. */
static void await_all_hung_up(psr_transport *s, const int *fds, int count)
{
    int64_t end_ms = psr_clock_ms() + WAIT_MS;
    while (count_open(fds, count) > 0) {
        psr_message *message = NULL;
        assert_fails(psr_transport_recv(s, 20, &message), PSR_ERR_TIMEOUT, "");
        if (psr_clock_ms() > end_ms)
            fail_msg("%d are held", count_open(fds, count));
    }
}

static void of_a_members_connections_one_is_held_and_the_others_are_hung_up_on(void **state)
{
    (void)state;
    enum {
        /* who is put off is hung up on when its handshake's time is over */
        COUNT = PSR_UNKNOWN_MAX + 2
    };
    int fds[COUNT], held[PSR_UNKNOWN_MAX];
    run_keys keys = make_keys(false);
    psr_transport *s = open_scheduler(&keys), *w = open_member(&keys, worker1),
                  *other = open_member(&keys, worker0);
    join_to(w, scheduler, s);
    send_number(w, scheduler, 1);
    receive_number(s, worker1, 1);
    int let_in = 0;
    for (int i = 0; i < COUNT; i++) {
        fds[i] = dial(s);
        if (enter(fds[i], "worker 1", psr_keys_of(keys_of(&keys, worker1), scheduler))) {
            assert_in_range(let_in, 0, PSR_UNKNOWN_MAX - 1);
            held[let_in++] = fds[i];
        }
    }
    assert_int_equal(let_in, PSR_UNKNOWN_MAX);
    join_to(other, scheduler, s); /* whose place is its own */
    send_number(other, scheduler, 1);
    receive_number(s, worker0, 1);
    await_all_hung_up(s, held, let_in);
    send_number(w, scheduler, 2); /* as silent as they were, and known:
                                     a lost message would be told */
    receive_number(s, worker1, 2);
    send_number(other, scheduler, 2);
    receive_number(s, worker0, 2);
    int again = dial(s);
    assert_true(enter(again, "worker 1", psr_keys_of(keys_of(&keys, worker1), scheduler)));
    close(again);
    for (int i = 0; i < COUNT; i++)
        close(fds[i]);
    psr_transport_free(&other, 0);
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

/* A busy owner has not read what it said. */
static void who_waits_for_a_busy_owner_is_not_hung_up_on(void **state)
{
    (void)state;
    run_keys keys = make_keys(false);
    psr_transport *s = open_scheduler(&keys), *w = open_member(&keys, worker1);
    join_to(w, scheduler, s);
    send_number(w, scheduler, 1);
    int silent = dial(s);
    assert_true(enter(silent, "worker 0", psr_keys_of(keys_of(&keys, worker0), scheduler)));
    struct pollfd item = {.fd = silent, .events = POLLIN};
    /* nobody is hung up on while it is busy */
    assert_int_equal(poll(&item, 1, PSR_SILENT_MS + 1000), 0);
    receive_number(s, worker1, 1);
    await_all_hung_up(s, &silent, 1);
    await_strangers(s, 1);
    await_line(s, "it was let in and said nothing that a member would say");
    send_number(w, scheduler, 2);
    receive_number(s, worker1, 2);
    close(silent);
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void where_admission_has_ended_nobody_comes_in(void **state)
{
    (void)state;
    run_keys keys = make_keys(true);
    void *ctx = zmq_ctx_new(), *router = zmq_socket(ctx, ZMQ_ROUTER),
         *dealer = zmq_socket(ctx, ZMQ_DEALER);
    void *news = zmq_socket(ctx, ZMQ_PAIR);
    psr_admission *admission;
    assert_ok(psr_admission_new(ctx, router, NULL, keys_of(&keys, scheduler), &admission));
    assert_int_equal(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
    char endpoint[64];
    size_t size = sizeof endpoint;
    assert_int_equal(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &size), 0);
    psr_admission_free(admission);
    assert_ok(psr_admission_apply(keys_of(&keys, worker0), worker0, dealer,
                                  keys_of(&keys, scheduler)->public_key));
    int events = ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                 ZMQ_EVENT_DISCONNECTED;
    assert_int_equal(zmq_socket_monitor(dealer, "inproc://news", events), 0);
    assert_int_equal(zmq_connect(news, "inproc://news"), 0);
    assert_int_equal(zmq_connect(dealer, endpoint), 0);
    uint8_t event[6];
    assert_int_equal(zmq_recv(news, event, sizeof event, 0), sizeof event);
    uint16_t what;
    memcpy(&what, event, sizeof what);
    assert_int_not_equal(what, ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
    int none = 0;
    zmq_setsockopt(dealer, ZMQ_LINGER, &none, sizeof none);
    zmq_socket_monitor(dealer, NULL, 0);
    zmq_close(news);
    zmq_close(dealer);
    zmq_close(router);
    zmq_ctx_term(ctx);
    free_keys(&keys);
}

static void thousands_of_connections_keep_no_member_out(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static int fds[COUNT];
    run_keys keys = make_keys(false);
    const int64_t begin_ms = psr_clock_ms();
    psr_transport *s = open_scheduler(&keys);
    psr_transport *w = open_member(&keys, worker1);
    join_to(w, scheduler, s);
    /* Both ends of each are this process's. */
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int count = limit.rlim_cur < 2 * COUNT + 200 ? ((int)limit.rlim_cur - 200) / 2 : COUNT;
    assert_true(count > 300);
    for (int i = 0; i < count; i++) {
        fds[i] = dial(s);
        if (i % 3 == 0)
            greet(fds[i], "PLAIN");
        if (i % 500 == 0) {
            send_number(w, scheduler, (uint64_t)i);
            receive_number(s, worker1, (uint64_t)i);
        }
    }
    assert_a_member_gets_through(&keys, s);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    await_strangers(s, (uint64_t)count);
    /* The log stays short: ten lines in ten seconds. */
    size_t lines = 0;
    for (const char *at = stranger_lines; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_in_range(lines, 1, 100 + (psr_clock_ms() - begin_ms) / 1000);
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

/* ---- libzmq's own sockets, with or without the token ---- */

typedef struct raw {
    void *ctx, *dealer;
} raw;

static raw raw_open(const psr_transport *to, const char *name, const char *token)
{
    raw r = {zmq_ctx_new(), NULL};
    r.dealer = zmq_socket(r.ctx, ZMQ_DEALER);
    assert_int_equal(zmq_setsockopt(r.dealer, ZMQ_ROUTING_ID, "0123456789abcdef", 16), 0);
    if (name != NULL) {
        assert_int_equal(zmq_setsockopt(r.dealer, ZMQ_PLAIN_USERNAME, name, strlen(name)), 0);
        assert_int_equal(zmq_setsockopt(r.dealer, ZMQ_PLAIN_PASSWORD, token, strlen(token)), 0);
    }
    assert_int_equal(zmq_connect(r.dealer, psr_transport_endpoint(to)), 0);
    return r;
}

static void raw_close(raw *r)
{
    int linger = 0;
    zmq_setsockopt(r->dealer, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(r->dealer);
    zmq_ctx_term(r->ctx);
}

static void raw_send(const raw *r, const void *bytes, size_t size, bool more)
{
    assert_int_equal(zmq_send(r->dealer, bytes, size, more ? ZMQ_SNDMORE : 0), size);
}

static void raw_head(const raw *r, psr_head head, uint64_t sequence, uint64_t payload_bytes,
                     bool more)
{
    head.sequence = sequence;
    uint8_t buffer[PSR_HEAD_BYTES_MAX];
    size_t size;
    psr_head_encode(&head, payload_bytes, buffer, &size);
    raw_send(r, buffer, size, more);
}

static void raw_hello(const raw *r, psr_role role, uint32_t rank)
{
    raw_head(r, psr_msg_hello_head((psr_peer){role, rank}), 0, 0, false);
}

static void without_the_token_nobody_comes_in(void **state)
{
    (void)state;
    run_keys keys = make_one_token();
    psr_transport *s = open_scheduler(&keys);
    char wrong[PSR_TOKEN_BYTES];
    memcpy(wrong, keys.sets[0].token, sizeof wrong);
    wrong[63] = wrong[63] == '0' ? '1' : '0';
    const char *const names[] = {NULL, "worker 0", "worker 0", "worker 0"};
    const char *const tokens[] = {
        "", wrong, "0", "0123456789012345678901234567890123456789012345678901234567890123456789"};
    for (uint64_t i = 0; i < 4; i++) {
        raw r = raw_open(s, names[i], tokens[i]);
        raw_hello(&r, PSR_ROLE_WORKER, 0);
        raw_head(&r, (psr_head){.type = PSR_MSG_ABORT}, 1, 0, false);
        await_strangers(s, i + 1);
        raw_close(&r);
    }
    await_line(s, "turned away a stranger from 127.0.0.1: the token is not this run's");
    assert_a_member_gets_through(&keys, s);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void a_name_that_no_member_has_is_turned_away(void **state)
{
    (void)state;
    static const char *const names[] = {
        "worker",
        "worker ",
        "worker x",
        "worker 1 ",
        "worker 9999999999",
        "boss 1",
        " 1",
        "worker -1",
        "a name that is much longer than that of any member of any run"};
    run_keys keys = make_one_token();
    psr_transport *s = open_scheduler(&keys);
    for (uint64_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        raw r = raw_open(s, names[i], keys.sets[0].token);
        await_strangers(s, i + 1);
        raw_close(&r);
    }
    await_line(s, "its name is not one of a member");
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void a_second_process_cannot_take_a_rank(void **state)
{
    (void)state;
    run_keys keys = make_one_token();
    psr_transport *s = open_scheduler(&keys), *w = open_member(&keys, worker1);
    join_to(w, scheduler, s);
    send_number(w, scheduler, 1);
    receive_number(s, worker1, 1);
    /* With the right token, under its name; without a rank, and then saying that it has that
     * one. */
    raw r = raw_open(s, "worker 1", keys.sets[0].token);
    raw_hello(&r, PSR_ROLE_WORKER, 1);
    raw_head(&r, (psr_head){.type = PSR_MSG_ABORT}, 1, 0, false);
    raw_send(&r, "garbage", 7, false);
    await_strangers(s, 3);
    assert_non_null(strstr(
        stranger_lines,
        "a stranger who says it is worker 1: another process joined under that name before"));
    raw_close(&r);
    r = raw_open(s, "worker any", keys.sets[0].token);
    raw_hello(&r, PSR_ROLE_WORKER, PSR_RANK_ANY);
    raw_head(&r, psr_msg_hello_head((psr_peer){PSR_ROLE_WORKER, 1}), 1, 0, false);
    raw_head(&r, (psr_head){.type = PSR_MSG_ABORT}, 2, 0, false);
    await_strangers(s, 5);
    raw_close(&r);
    send_number(w, scheduler, 2);
    receive_number(s, worker1, 2);
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

/* It hears at once that it is the second, and the first goes on. */
static void check_second(bool curve)
{
    run_keys keys = make_keys(curve);
    psr_transport *s = open_scheduler(&keys), *w = open_member(&keys, worker1),
                  *second = open_member(&keys, worker1);
    join_to(w, scheduler, s);
    send_number(w, scheduler, 1);
    receive_number(s, worker1, 1);
    join_to(second, scheduler, s);
    send_number(second, scheduler, 7);
    await_strangers(s, 1);
    psr_message *message = NULL;
    assert_ok(psr_transport_recv(second, WAIT_MS, &message));
    assert_true(psr_peer_equal(message->from, scheduler));
    assert_int_equal(message->head.type, PSR_MSG_REFUSED);
    assert_int_equal(psr_msg_refused_status(&message->head), PSR_ERR_DENIED);
    static const char line[] =
        "rank 1 is taken: it has joined before, from 127.0.0.1; start each rank once";
    assert_int_equal(message->payload_bytes, sizeof line - 1);
    assert_memory_equal(message->payload, line, sizeof line - 1);
    psr_message_free(&message);
    send_number(w, scheduler, 2);
    receive_number(s, worker1, 2);
    psr_transport_free(&second, 0);
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void a_second_process_of_a_rank_is_told_so(void **state)
{
    (void)state;
    check_second(true);
}

static void a_second_process_of_a_rank_is_told_so_without_keys_of_its_own(void **state)
{
    (void)state;
    check_second(false);
}

/* Who is refused has no channel, and the line leaves although the inbox closes at once. */
static void whoever_sent_a_message_can_be_refused_with_the_last_breath(void **state)
{
    (void)state;
    run_keys keys = make_keys(true);
    psr_transport *s = open_scheduler(&keys), *w = open_member(&keys, worker1);
    join_to(w, scheduler, s);
    send_number(w, scheduler, 1);
    psr_message *message = NULL;
    assert_ok(psr_transport_recv(s, WAIT_MS, &message));
    char line[2 * PSR_REFUSED_LINE_MAX];
    memset(line, 'x', sizeof line);
    line[sizeof line - 1] = '\0';
    psr_transport_refuse(s, message, PSR_ERR_PEER, line);
    psr_message_free(&message);
    psr_transport_free(&s, WAIT_MS);
    assert_ok(psr_transport_recv(w, WAIT_MS, &message));
    assert_int_equal(message->head.type, PSR_MSG_REFUSED);
    assert_int_equal(psr_msg_refused_status(&message->head), PSR_ERR_PEER);
    assert_int_equal(message->payload_bytes, PSR_REFUSED_LINE_MAX);
    psr_message_free(&message);
    psr_transport_free(&w, 0);
    free_keys(&keys);
}

static void who_has_the_id_of_anothers_channel_is_nobody(void **state)
{
    (void)state;
    run_keys keys = make_one_token();
    psr_transport *s = open_scheduler(&keys);
    raw first = raw_open(s, "worker 1", keys.sets[0].token);
    raw_hello(&first, PSR_ROLE_WORKER, 1);
    raw_head(&first, (psr_head){.type = PSR_MSG_HELD, .fields = {1}}, 1, 0, false);
    receive_number(s, worker1, 1);
    /* It was admitted too, as another member; libzmq gives it the first one's place. */
    raw second = raw_open(s, "worker 0", keys.sets[0].token);
    raw_head(&second, (psr_head){.type = PSR_MSG_ABORT}, 2, 0, false);
    raw_send(&second, "garbage", 7, false);
    await_strangers(s, 2);
    assert_non_null(strstr(
        stranger_lines,
        "a stranger who says it is worker 1: the channel whose id it has is another process's"));
    raw_close(&second);
    raw_close(&first);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

/* What a member that was let in as worker 1 sends, and what the scheduler makes of it. */
static void violation(void (*act)(const raw *r), psr_err code, const char *text)
{
    run_keys keys = make_one_token();
    psr_transport *s = open_scheduler(&keys);
    raw r = raw_open(s, "worker 1", keys.sets[0].token);
    act(&r);
    psr_message *message = NULL;
    assert_fails(psr_transport_recv(s, WAIT_MS, &message), code, text);
    assert_non_null(strstr(psr_err_detail(), "worker 1: "));
    assert_null(message);
    raw_close(&r);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void hello(const raw *r)
{
    raw_hello(r, PSR_ROLE_WORKER, 1);
}

static void sends_garbage(const raw *r)
{
    hello(r);
    raw_send(r, "what is this that I am saying?", 30, false);
}

static void sends_nothing(const raw *r)
{
    hello(r);
    raw_send(r, "", 0, false);
}

static void begins_with_garbage(const raw *r)
{
    raw_send(r, "what is this that I am saying?", 30, false);
}

static void begins_with_something_else(const raw *r)
{
    raw_head(r, (psr_head){.type = PSR_MSG_JOIN}, 0, 0, false);
}

static void says_another_name(const raw *r)
{
    raw_hello(r, PSR_ROLE_WORKER, 0);
}

static void says_another_role(const raw *r)
{
    raw_hello(r, PSR_ROLE_SHARD, 1);
}

static void says_no_role(const raw *r)
{
    raw_head(r, (psr_head){.type = PSR_MSG_HELLO, .fields = {UINT64_MAX, UINT64_MAX}}, 0, 0, false);
}

static void announces_a_payload_and_sends_none(const raw *r)
{
    hello(r);
    raw_head(r, (psr_head){.type = PSR_MSG_METRICS}, 1, 10, false);
}

static void sends_another_payload_than_announced(const raw *r)
{
    hello(r);
    raw_head(r, (psr_head){.type = PSR_MSG_METRICS}, 1, 10, true);
    raw_send(r, "123456789", 9, false);
}

static void sends_a_payload_that_was_not_announced(const raw *r)
{
    hello(r);
    raw_head(r, (psr_head){.type = PSR_MSG_METRICS}, 1, 0, true);
    raw_send(r, "", 0, false);
}

static void sends_many_frames(const raw *r)
{
    hello(r);
    raw_head(r, (psr_head){.type = PSR_MSG_METRICS}, 1, 4, true);
    for (int i = 0; i < 100; i++)
        raw_send(r, "1234", 4, i < 99);
}

static void leaves_a_gap(const raw *r)
{
    hello(r);
    raw_head(r, (psr_head){.type = PSR_MSG_METRICS}, 4, 0, false);
}

static void repeats_a_number(const raw *r)
{
    hello(r);
    raw_head(r, psr_msg_hello_head((psr_peer){PSR_ROLE_WORKER, 1}), 0, 0, false);
}

static void speaks_version(const raw *r, uint8_t version, bool first)
{
    psr_head head = {.type = PSR_MSG_HELLO};
    uint8_t buffer[PSR_HEAD_BYTES_MAX];
    size_t size;
    if (!first)
        hello(r);
    psr_head_encode(&head, 0, buffer, &size);
    buffer[5] = version;
    raw_send(r, buffer, size, false);
}

static void begins_with_version_1(const raw *r)
{
    speaks_version(r, 1, true);
}

static void begins_with_version_3(const raw *r)
{
    speaks_version(r, 3, true);
}

static void goes_on_with_version_3(const raw *r)
{
    speaks_version(r, 3, false);
}

static void a_member_that_breaks_the_protocol_is_named(void **state)
{
    (void)state;
    violation(sends_garbage, PSR_ERR_PROTOCOL, "does not begin with PSRG");
    violation(sends_nothing, PSR_ERR_PROTOCOL, "a message of 0 bytes");
    violation(begins_with_garbage, PSR_ERR_PROTOCOL, "does not begin with PSRG");
    violation(begins_with_something_else, PSR_ERR_PROTOCOL, "its first message is not HELLO");
    violation(says_another_name, PSR_ERR_PROTOCOL, "says it is worker 0");
    violation(says_another_role, PSR_ERR_PROTOCOL, "says it is shard 1");
    violation(says_no_role, PSR_ERR_PROTOCOL,
              "says it is of role 18446744073709551615, which nobody is");
    violation(announces_a_payload_and_sends_none, PSR_ERR_PROTOCOL,
              "announced a payload of 10 bytes and sent 0 in 0 frames");
    violation(sends_another_payload_than_announced, PSR_ERR_PROTOCOL,
              "announced a payload of 10 bytes and sent 9 in 1 frames");
    violation(sends_a_payload_that_was_not_announced, PSR_ERR_PROTOCOL,
              "announced a payload of 0 bytes and sent 0 in 1 frames");
    violation(sends_many_frames, PSR_ERR_PROTOCOL, "sent 4 in 100 frames");
    violation(repeats_a_number, PSR_ERR_PROTOCOL, "sent message 0 twice");
}

static void lost_messages_are_noticed(void **state)
{
    (void)state;
    violation(leaves_a_gap, PSR_ERR_PEER, "its connection broke and 3 messages were lost");
}

static void a_member_of_another_version_is_named_with_both(void **state)
{
    (void)state;
    violation(begins_with_version_1, PSR_ERR_VERSION,
              "worker 1: speaks version 1 of psring's protocol, this program");
    violation(begins_with_version_3, PSR_ERR_VERSION,
              "worker 1: speaks version 3 of psring's protocol, this program");
    violation(goes_on_with_version_3, PSR_ERR_VERSION,
              "version 2: install the same psring on every host");
}

static void a_frame_larger_than_any_reaches_nobody(void **state)
{
    (void)state;
    run_keys keys = make_one_token();
    psr_transport *s = open_scheduler(&keys);
    raw r = raw_open(s, "worker 1", keys.sets[0].token);
    raw_hello(&r, PSR_ROLE_WORKER, 1);
    raw_head(&r, (psr_head){.type = PSR_MSG_HELD}, 1, 0, false);
    receive_number(s, worker1, 0);
    size_t size = (size_t)PSR_PAYLOAD_BYTES_MAX + 65;
    char *bytes = calloc(1, size);
    raw_send(&r, bytes, size, false);
    free(bytes);
    assert_a_member_gets_through(&keys, s);
    raw_close(&r);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

/* ---- our own transport with wrong keys ---- */

/* It may be refused before it has said hello. public_key: the scheduler's; NULL: as the member's
 * keys have it. */
static void assert_denied(psr_transport *member, const char *public_key, psr_transport *s,
                          const char *text)
{
    psr_message *message = NULL;
    psr_err err = psr_transport_connect(member, scheduler, psr_transport_endpoint(s), public_key);
    if (err == PSR_OK)
        err = psr_transport_recv(member, WAIT_MS, &message);
    assert_fails(err, PSR_ERR_DENIED, text);
    await_strangers(s, 1);
    psr_transport_free(&member, 0);
}

static void a_process_with_another_runs_token_is_told(void **state)
{
    (void)state;
    run_keys keys = make_keys(false), others = make_keys(false);
    psr_transport *s = open_scheduler(&keys), *w = open_member(&others, worker0);
    assert_denied(w, NULL, s, "refused this process: its token is not of that run");
    assert_a_member_gets_through(&keys, s);
    psr_transport_free(&s, 0);
    free_keys(&keys);
    free_keys(&others);
}

static void a_process_whose_curve_key_is_not_on_the_roster_is_told(void **state)
{
    (void)state;
    run_keys keys = make_keys(true), others = make_keys(true);
    psr_transport *s = open_scheduler(&keys), *w = open_member(&others, worker0);
    assert_denied(w, keys.sets[0].public_key, s, "its CURVE key is not of that run");
    await_line(s, "its key is not on the roster");
    assert_a_member_gets_through(&keys, s);
    psr_transport_free(&s, 0);
    free_keys(&keys);
    free_keys(&others);
}

/* As a member whose host is slow: it is refused before it has said a word. */
static void what_a_refused_process_cannot_send_is_told_by_its_reason(void **state)
{
    (void)state;
    run_keys keys = make_keys(true), others = make_keys(true);
    psr_transport *s = open_scheduler(&keys), *w = open_member(&others, worker0);
    const psr_head held = {.type = PSR_MSG_HELD};
    const int64_t end_ms = psr_clock_ms() + WAIT_MS;
    psr_err err =
        psr_transport_connect(w, scheduler, psr_transport_endpoint(s), keys.sets[0].public_key);
    while (err == PSR_OK && psr_clock_ms() < end_ms) {
        err = psr_transport_send(w, scheduler, &held, NULL);
        poll(NULL, 0, 1); /* so that fewer than PSR_TRANSPORT_WAITING_MAX messages wait */
    }
    assert_fails(err, PSR_ERR_DENIED, "its CURVE key is not of that run");
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
    free_keys(&others);
}

static void a_process_that_expects_another_scheduler_is_told(void **state)
{
    (void)state;
    run_keys keys = make_keys(true), others = make_keys(true), token = make_keys(false);
    psr_transport *s = open_scheduler(&keys);
    psr_transport *w = open_member(&others, worker0); /* knows another public key under that name */
    assert_denied(w, NULL, s, "is not this run's scheduler, or has other keys");
    w = open_member(&token, worker0); /* without CURVE, to one with */
    assert_denied(w, NULL, s, "is not this run's scheduler");
    psr_transport_free(&s, 0);
    free_keys(&keys);
    free_keys(&others);
    free_keys(&token);
}

static void with_curve_a_member_cannot_take_anothers_name(void **state)
{
    (void)state;
    run_keys keys = make_keys(true);
    psr_transport *s = open_scheduler(&keys), *w = open_as(keys_of(&keys, worker1), worker0);
    join_to(w, scheduler, s);
    psr_message *message = NULL;
    assert_fails(psr_transport_recv(s, WAIT_MS, &message), PSR_ERR_PROTOCOL,
                 "worker 1: says it is worker 0");
    psr_transport_free(&w, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

/* worker 1 with its own token, which says that it is worker 0; before: whether it has joined as
 * itself too. */
static void take_anothers_name(bool before)
{
    run_keys keys = make_keys(false);
    psr_transport *s = open_scheduler(&keys), *own = NULL;
    if (before) {
        own = open_member(&keys, worker1);
        join_to(own, scheduler, s);
        send_number(own, scheduler, 1);
        receive_number(s, worker1, 1);
    }
    psr_transport *w = open_as(keys_of(&keys, worker1), worker0);
    join_to(w, scheduler, s);
    psr_message *message = NULL;
    assert_fails(psr_transport_recv(s, WAIT_MS, &message), PSR_ERR_PROTOCOL,
                 "worker 1: says it is worker 0");
    psr_transport_free(&w, 0);
    psr_transport_free(&own, 0);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

static void with_its_own_token_a_member_cannot_take_anothers_name(void **state)
{
    (void)state;
    take_anothers_name(false);
    take_anothers_name(true);
}

/* What worker 1 is shown by others, and shows to others, lets nobody in as one of them
 * elsewhere. */
static void a_token_is_of_one_pair_alone(void **state)
{
    (void)state;
    run_keys keys = make_keys(false);
    psr_transport *s = open_scheduler(&keys);
    const psr_keys *own = keys_of(&keys, worker1);
    const psr_peer others[] = {worker0, shard0, worker1};
    for (uint64_t i = 0; i < 3; i++) {
        raw r = raw_open(s, "worker 0", psr_keys_of(own, others[i]));
        await_strangers(s, i + 1);
        raw_close(&r);
    }
    await_line(s, "its token is no member's of this run");
    assert_a_member_gets_through(&keys, s);
    psr_transport_free(&s, 0);
    free_keys(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_turned_away),
        cmocka_unit_test(half_a_greeting_is_given_up),
        cmocka_unit_test(a_member_that_ends_while_another_is_in_its_handshake_is_no_stranger),
        cmocka_unit_test(a_frame_that_claims_gigabytes_is_turned_away),
        cmocka_unit_test(another_mechanism_is_turned_away),
        cmocka_unit_test(of_many_half_open_connections_few_are_held_without_curve),
        cmocka_unit_test(of_many_half_open_connections_few_are_held_with_curve),
        cmocka_unit_test(of_many_half_open_connections_few_are_held_over_ipc),
        cmocka_unit_test(of_a_members_connections_one_is_held_and_the_others_are_hung_up_on),
        cmocka_unit_test(who_waits_for_a_busy_owner_is_not_hung_up_on),
        cmocka_unit_test(where_admission_has_ended_nobody_comes_in),
        cmocka_unit_test(thousands_of_connections_keep_no_member_out),
        cmocka_unit_test(without_the_token_nobody_comes_in),
        cmocka_unit_test(a_name_that_no_member_has_is_turned_away),
        cmocka_unit_test(a_second_process_cannot_take_a_rank),
        cmocka_unit_test(a_second_process_of_a_rank_is_told_so),
        cmocka_unit_test(a_second_process_of_a_rank_is_told_so_without_keys_of_its_own),
        cmocka_unit_test(whoever_sent_a_message_can_be_refused_with_the_last_breath),
        cmocka_unit_test(who_has_the_id_of_anothers_channel_is_nobody),
        cmocka_unit_test(a_member_that_breaks_the_protocol_is_named),
        cmocka_unit_test(lost_messages_are_noticed),
        cmocka_unit_test(a_member_of_another_version_is_named_with_both),
        cmocka_unit_test(a_frame_larger_than_any_reaches_nobody),
        cmocka_unit_test(a_process_with_another_runs_token_is_told),
        cmocka_unit_test(a_process_whose_curve_key_is_not_on_the_roster_is_told),
        cmocka_unit_test(what_a_refused_process_cannot_send_is_told_by_its_reason),
        cmocka_unit_test(a_process_that_expects_another_scheduler_is_told),
        cmocka_unit_test(with_curve_a_member_cannot_take_anothers_name),
        cmocka_unit_test(with_its_own_token_a_member_cannot_take_anothers_name),
        cmocka_unit_test(a_token_is_of_one_pair_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
