/* Shared memory within a host: arenas, the records of who lends and who borrows, and both ends,
 * with whoever breaks the rules of either. */
#include "played_lender.h"

#include "net/sharing/lends.h"
#include "net/sharing/sharing.h"
#include "net/sharing/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FLOATS = 8192, SLICE = 2048 };

/* ---- arenas ---- */

static void an_arena_is_sealed_and_its_owners_writes_are_seen(void **state)
{
    (void)state;
    psr_shared_arena arena;
    const void *seen;
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    assert_true(arena.count == FLOATS && arena.bytes >= FLOATS * sizeof(float));
    assert_ok(psr_shared_arena_map(arena.fd, arena.bytes, &seen));
    arena.values[FLOATS - 1] = 3;
    assert_true(((const float *)seen)[FLOATS - 1] == 3);

    assert_int_equal(ftruncate(arena.fd, 0), -1); /* nobody makes it smaller,
                                                     whoever has the descriptor */
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(arena.fd, (off_t)arena.bytes + 4096), -1);
    assert_int_equal(write(arena.fd, "x", 1), -1); /* nor writes it */
    assert_true(mmap(NULL, arena.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena.fd, 0) ==
                MAP_FAILED);
    assert_int_equal(fallocate(arena.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
    /* nor adds a seal of his own */
    assert_int_equal(fcntl(arena.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);

    size_t bytes = arena.bytes;
    psr_shared_arena_done(&arena);
    assert_true(((const float *)seen)[FLOATS - 1] == 3); /* who has mapped it keeps it */
    munmap((void *)(uintptr_t)seen, bytes);
    psr_shared_arena_done(&arena);
}

/* From now on fallocate fails so in this process. */
static void refuse_fallocate(int reason)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)reason),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {sizeof program / sizeof program[0], program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(99);
}

/* What a process gets to whom the system refuses with that reason. */
static int back_where_refused(const psr_shared_arena *arena, int reason)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        refuse_fallocate(reason);
        _exit((int)psr_shared_arena_back(arena));
    }
    assert_true(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void an_arena_that_is_backed_has_all_its_pages_or_says_that_there_are_none(void **state)
{
    (void)state;
    enum { COUNT = (5 << 20) / sizeof(float) + 3 };
    psr_shared_arena arena;
    struct stat file;
    assert_ok(psr_shared_arena_new(COUNT, &arena));
    assert_int_equal(back_where_refused(&arena, ENOSPC), PSR_ERR_NOMEM);
    assert_int_equal(back_where_refused(&arena, ENOMEM), PSR_ERR_NOMEM);
    /* A filter that forbids the call says nothing of memory. */
    assert_int_equal(back_where_refused(&arena, EPERM), PSR_OK);
    arena.values[COUNT - 1] = 3;
    assert_ok(psr_shared_arena_back(&arena));
    assert_int_equal(fstat(arena.fd, &file), 0);
    assert_true((uint64_t)file.st_blocks * 512 >= arena.bytes);
    assert_true(arena.values[COUNT - 1] == 3 && arena.values[0] == 0);
    psr_shared_arena_done(&arena);
}

/* A run that was kept back and a page that is another's are the arena's again, and all that has
 * mapped it sees them. */
static void an_arena_whose_pages_were_elsewhere_can_be_lent_whole_again(void **state)
{
    (void)state;
    enum { COUNT = 1 << 17, KEPT = 1 << 16, PAGE = 1024 };
    psr_shared_arena arena, other;
    const void *seen, *of_other;
    assert_ok(psr_shared_arena_new(COUNT, &arena));
    assert_ok(psr_shared_arena_new(PAGE, &other));
    assert_ok(psr_shared_arena_map(arena.fd, arena.bytes, &seen));
    assert_ok(psr_shared_arena_map(other.fd, other.bytes, &of_other));
    assert_ok(psr_shared_arena_keep(&arena, (psr_span){0, KEPT}));
    for (size_t i = 0; i < COUNT; i++)
        arena.values[i] = (float)i;
    for (size_t i = 0; i < PAGE; i++)
        other.values[i] = -1;
    const float *there = seen;
    assert_true(there[1] == 0 && there[KEPT + 1] == KEPT + 1);
    assert_true(mmap(arena.values + KEPT, PAGE * sizeof(float), PROT_READ, MAP_SHARED | MAP_FIXED,
                     other.fd, 0) == (void *)(arena.values + KEPT));

    assert_ok(psr_shared_arena_own(&arena));
    for (size_t i = 0; i < COUNT; i++) {
        const float right = i >= KEPT && i < KEPT + PAGE ? -1 : (float)i;
        if (arena.values[i] != right || there[i] != right)
            fail_msg("element %zu is %g here and %g there", i, (double)arena.values[i],
                     (double)there[i]);
    }
    arena.values[1] = 5;
    arena.values[KEPT] = 6;
    assert_true(there[1] == 5 && there[KEPT] == 6);
    assert_true(other.values[0] == -1);
    assert_ok(psr_shared_arena_own(&arena)); /* again: nothing changes */
    assert_true(there[1] == 5 && there[KEPT] == 6 && there[COUNT - 1] == COUNT - 1);
    munmap((void *)(uintptr_t)seen, arena.bytes);
    munmap((void *)(uintptr_t)of_other, other.bytes);
    psr_shared_arena_done(&arena);
    psr_shared_arena_done(&other);
}

static void what_is_no_sealed_memory_is_not_mapped(void **state)
{
    (void)state;
    const void *seen = NULL;
    int pair[2], plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                 odd = memfd_create("odd", MFD_CLOEXEC | MFD_ALLOW_SEALING),
                 unsealable = memfd_create("unsealable", MFD_CLOEXEC);
    assert_int_equal(ftruncate(plain, 8192), 0);
    assert_int_equal(ftruncate(unsealable, 8192), 0);
    assert_fails(psr_shared_arena_map(plain, 8192, &seen), PSR_ERR_FORMAT,
                 "not sealed against another size");
    assert_fails(psr_shared_arena_map(unsealable, 8192, &seen), PSR_ERR_FORMAT, "not sealed");
    /* it can still shrink under a reader */
    assert_int_equal(fcntl(plain, F_ADD_SEALS, F_SEAL_GROW), 0);
    assert_fails(psr_shared_arena_map(plain, 8192, &seen), PSR_ERR_FORMAT, "not sealed");
    assert_int_equal(fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    assert_fails(psr_shared_arena_map(plain, 4096, &seen), PSR_ERR_FORMAT,
                 "has 8192 bytes, not 4096");
    assert_fails(psr_shared_arena_map(plain, 1u << 20, &seen), PSR_ERR_FORMAT, "has 8192 bytes");
    assert_fails(psr_shared_arena_map(plain, 0, &seen), PSR_ERR_FORMAT, "has 8192 bytes");
    assert_int_equal(ftruncate(odd, 8193), 0);
    assert_int_equal(fcntl(odd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK), 0);
    assert_fails(psr_shared_arena_map(odd, 8193, &seen), PSR_ERR_FORMAT,
                 "has 8193 bytes, which are not whole pages");
    assert_int_equal(pipe(pair), 0);
    assert_fails(psr_shared_arena_map(pair[0], 8192, &seen), PSR_ERR_FORMAT,
                 "no memory that can be sealed");
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC),
        zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
    assert_fails(psr_shared_arena_map(file, 8192, &seen), PSR_ERR_FORMAT,
                 "no memory that can be sealed");
    assert_fails(psr_shared_arena_map(zero, 8192, &seen), PSR_ERR_FORMAT,
                 "no memory that can be sealed");
    assert_fails(psr_shared_arena_map(-1, 8192, &seen), PSR_ERR_FORMAT,
                 "no memory that can be sealed");
    assert_null(seen);
    const int fds[] = {pair[0], pair[1], file, zero, plain, odd, unsealable};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        close(fds[i]);
}

/* ---- what is lent ---- */

/* What goes as a message is given back by libzmq's thread. */
static void count_release(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
}

static void a_token_is_worth_one_return(void **state)
{
    (void)state;
    psr_lends lends = {0};
    static atomic_int returned[PSR_LENDS_MAX];
    uint64_t tokens[PSR_LENDS_MAX], none;
    for (int i = 0; i < PSR_LENDS_MAX; i++)
        assert_true(psr_lends_put(
            &lends, &(psr_payload){.release = count_release, .context = &returned[i]}, &tokens[i]));
    const psr_payload more = {.release = count_release, .context = &returned[0]};
    assert_false(psr_lends_put(&lends, &more, &none)); /* so many and no more */
    assert_true(psr_lends_end(&lends, tokens[7]));
    assert_int_equal(returned[7], 1);
    assert_false(psr_lends_end(&lends, tokens[7])); /* twice */
    assert_true(psr_lends_put(
        &lends, &(psr_payload){.release = count_release, .context = &returned[7]}, &none));
    assert_false(psr_lends_end(&lends, tokens[7])); /* also when its place is lent again */
    assert_false(psr_lends_end(&lends, UINT64_MAX));
    assert_false(psr_lends_end(&lends, PSR_LENDS_MAX));
    assert_false(psr_lends_end(&lends, 0));
    psr_lends_end_all(&lends);
    for (int i = 0; i < PSR_LENDS_MAX; i++)
        assert_int_equal(returned[i], i == 7 ? 2 : 1);
    psr_lends_done(&lends);
}

static void a_reference_reads_back_and_nothing_else_is_one(void **state)
{
    (void)state;
    const psr_reference says = {3, 0x0123456789abcdefu, 0xfedcba9876543210u};
    uint8_t bytes[PSR_REFERENCE_BYTES + 1] = {0};
    psr_reference read = {0};
    psr_reference_encode(&says, bytes);
    assert_true(psr_reference_decode(bytes, PSR_REFERENCE_BYTES, &read));
    assert_true(read.arena == says.arena && read.offset == says.offset && read.token == says.token);
    assert_false(psr_reference_decode(bytes, PSR_REFERENCE_BYTES - 1, &read));
    assert_false(psr_reference_decode(bytes, PSR_REFERENCE_BYTES + 1, &read));
    bytes[3]++;
    assert_false(psr_reference_decode(bytes, PSR_REFERENCE_BYTES, &read));
}

/* ---- a borrower, with whoever lends played by the test ---- */

static bool hung_up(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

static void what_a_member_lends_is_read_where_it_lies_and_given_back(void **state)
{
    (void)state;
    played_lender p;
    psr_shared_arena arena;
    psr_message *message = NULL;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    int fd = greet(&p);
    offer(&p, fd, &arena);
    arena.values[SLICE] = 5;
    assert_ok(take(&p, (psr_reference){0, SLICE * sizeof(float), 77}, SLICE * sizeof(float),
                   PSR_ENCODING_FLOAT32, &message));
    assert_true(psr_peer_equal(message->from, worker1));
    assert_int_equal(message->payload_bytes, SLICE * sizeof(float));
    assert_true(*(const float *)message->payload == 5);
    arena.values[SLICE] = 6;
    assert_true(*(const float *)message->payload == 6);
    psr_borrower_settle(p.borrower);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1); /* not before it is freed */
    psr_borrower_busy(p.borrower);
    psr_message_free(&message);
    /* with others, when its owner has time */
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    psr_borrower_settle(p.borrower);
    psr_record back = answer_to(fd);
    assert_true(back.kind == PSR_RECORD_RETURNED && back.value == 77);
    close(fd);
    psr_shared_arena_done(&arena);
    end_play(&p);
}

static void *free_message(void *context)
{
    psr_message *message = context;
    psr_message_free(&message);
    return NULL;
}

static void what_another_thread_frees_while_the_owner_waits_is_given_back_at_once(void **state)
{
    (void)state;
    played_lender p;
    psr_shared_arena arena;
    psr_message *message = NULL;
    pthread_t thread;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    int fd = greet(&p);
    offer(&p, fd, &arena);
    assert_ok(take(&p, (psr_reference){0, 0, 9}, 4096, PSR_ENCODING_FLOAT32, &message));
    psr_borrower_settle(p.borrower);
    assert_int_equal(pthread_create(&thread, NULL, free_message, message), 0);
    pthread_join(thread, NULL);
    assert_true(answer_to(fd).value == 9);
    close(fd);
    psr_shared_arena_done(&arena);
    end_play(&p);
}

static void many_returns_wait_for_a_lender_that_does_not_read(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    played_lender p;
    psr_shared_arena arena;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    int fd = greet(&p);
    offer(&p, fd, &arena);
    for (uint64_t i = 0; i < MANY; i++) {
        psr_message *message = NULL;
        assert_ok(take(&p, (psr_reference){0, 0, i}, 4096, PSR_ENCODING_FLOAT32, &message));
        psr_message_free(&message);
    }
    psr_borrower_settle(p.borrower);
    static bool seen[MANY];
    memset(seen, 0, sizeof seen);
    for (int got = 0; got < MANY;) {
        psr_record_stream stream = psr_record_stream_of(fd);
        psr_record record;
        int passed;
        if (psr_record_read(&stream, &record, &passed) == PSR_RECORD_COMPLETE) {
            assert_true(record.kind == PSR_RECORD_RETURNED && record.value < MANY &&
                        !seen[record.value]);
            seen[record.value] = true;
            got++;
        } else { /* there is room again: epoll says so, and the rest comes */
            struct epoll_event event;
            assert_int_equal(epoll_wait(p.epoll, &event, 1, 0), 1);
            assert_ok(psr_borrower_serve(p.borrower));
        }
    }
    close(fd);
    psr_shared_arena_done(&arena);
    end_play(&p);
}

static void a_message_outlives_who_lent_it_and_who_borrowed_it(void **state)
{
    (void)state;
    played_lender p;
    psr_shared_arena arena;
    psr_message *early = NULL, *late = NULL;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    arena.values[1] = 7;
    int fd = greet(&p);
    offer(&p, fd, &arena);
    assert_ok(take(&p, (psr_reference){0, 0, 1}, 4096, PSR_ENCODING_FLOAT32, &early));
    close(fd);
    assert_ok(psr_borrower_serve(p.borrower));
    /* What it said before its end may come after that. */
    assert_ok(take(&p, (psr_reference){0, 0, 2}, 4096, PSR_ENCODING_FLOAT32, &late));
    psr_shared_arena_done(&arena);
    assert_true(((const float *)early->payload)[1] == 7);
    psr_message_free(&early);
    end_play(&p);
    assert_true(((const float *)late->payload)[1] == 7);
    psr_message_free(&late);
}

static void a_member_that_left_is_forgotten_with_its_last_message(void **state)
{
    (void)state;
    played_lender p;
    psr_shared_arena arena;
    psr_message *message = NULL, *none = NULL;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    int fd = greet(&p);
    offer(&p, fd, &arena);
    assert_ok(take(&p, (psr_reference){0, 0, 1}, 4096, PSR_ENCODING_FLOAT32, &message));
    psr_borrower_retire(p.borrower, worker1);
    assert_true(hung_up(fd));
    assert_fails(take(&p, (psr_reference){0, 0, 2}, 4096, PSR_ENCODING_FLOAT32, &none),
                 PSR_ERR_PROTOCOL, "that it has not shared");
    assert_true(((const float *)message->payload)[0] == 0);
    psr_message_free(&message);
    close(fd);
    psr_shared_arena_done(&arena);
    end_play(&p);
}

static void an_arena_that_is_withdrawn_gives_its_number_to_the_next_one(void **state)
{
    (void)state;
    played_lender p;
    psr_shared_arena first, second;
    psr_message *message = NULL;
    psr_borrowed_place before, after;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &first));
    assert_ok(psr_shared_arena_new(2 * FLOATS, &second));
    first.values[0] = 1;
    second.values[0] = 2;
    int fd = greet(&p);
    offer(&p, fd, &first);
    assert_ok(take(&p, (psr_reference){0, 0, 1}, 4096, PSR_ENCODING_FLOAT32, &message));
    assert_true(psr_borrowed_place_of(message, &before));
    psr_message_free(&message);
    say(fd, (psr_record){.kind = PSR_RECORD_WITHDRAWN}, -1);
    assert_ok(psr_borrower_serve(p.borrower));
    assert_fails(take(&p, (psr_reference){0, 0, 2}, 4096, PSR_ENCODING_FLOAT32, &message),
                 PSR_ERR_PROTOCOL, "refers to an arena 0 that it has not shared");
    offer(&p, fd, &second);
    assert_ok(take(&p, (psr_reference){0, 0, 3}, 4096, PSR_ENCODING_FLOAT32, &message));
    assert_true(*(const float *)message->payload == 2);
    assert_true(psr_borrowed_place_of(message, &after));
    assert_true(before.arena != after.arena); /* or a landing would take one for the other */
    psr_message_free(&message);
    close(fd);
    psr_shared_arena_done(&first);
    psr_shared_arena_done(&second);
    end_play(&p);
}

static void an_arena_that_is_read_cannot_be_withdrawn(void **state)
{
    (void)state;
    played_lender p;
    psr_shared_arena arena;
    psr_message *message = NULL;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    arena.values[0] = 3;
    int fd = greet(&p);
    offer(&p, fd, &arena);
    assert_ok(take(&p, (psr_reference){0, 0, 1}, 4096, PSR_ENCODING_FLOAT32, &message));
    say(fd, (psr_record){.kind = PSR_RECORD_WITHDRAWN}, -1);
    assert_fails(psr_borrower_serve(p.borrower), PSR_ERR_PROTOCOL,
                 "worker 1: withdraws an arena 0 while it lends from it");
    assert_true(*(const float *)message->payload == 3);
    psr_message_free(&message);
    close(fd);
    psr_shared_arena_done(&arena);
    end_play(&p);
}

static void a_reference_that_lies_nowhere_is_the_members_breach(void **state)
{
    (void)state;
    played_lender p;
    psr_shared_arena arena;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    int fd = greet(&p);
    psr_message *message = NULL;
    assert_fails(take(&p, (psr_reference){0, 0, 1}, 4096, PSR_ENCODING_FLOAT32, &message),
                 PSR_ERR_PROTOCOL, "refers to an arena 0 that it has not shared");
    offer(&p, fd, &arena);
    const uint64_t most = arena.bytes;
    const struct {
        psr_reference reference;
        uint64_t bytes;
        psr_encoding encoding;
        const char *words;
    } wrong[] = {
        {{1, 0, 1}, 4096, PSR_ENCODING_FLOAT32, "an arena 1 that it has not shared"},
        {{PSR_SHARED_ARENAS_MAX, 0, 1}, 4096, PSR_ENCODING_FLOAT32, "that it has not shared"},
        {{UINT32_MAX, 0, 1}, 4096, PSR_ENCODING_FLOAT32, "that it has not shared"},
        {{0, most, 1}, 4096, PSR_ENCODING_FLOAT32, "of an arena of 36864 bytes"},
        {{0, most - 4092, 1}, 4096, PSR_ENCODING_FLOAT32, "4096 bytes at 32772 of an arena"},
        {{0, UINT64_MAX - 4095, 1}, 4096, PSR_ENCODING_FLOAT32, "of an arena"},
        {{0, 2, 1}, 4096, PSR_ENCODING_FLOAT32, "4096 bytes at 2 of an arena"},
        {{0, 0, 1}, most + 4, PSR_ENCODING_FLOAT32, "of an arena"},
        {{0, 4096, 1}, UINT64_MAX - 4095, PSR_ENCODING_FLOAT32, "of an arena"},
        /* Counts and places in a payload could change between two looks. */
        {{0, 0, 1}, 4096, PSR_ENCODING_TOPK, "a payload that is not in float32"},
        {{0, 0, 1}, 4096, PSR_ENCODING_BYTES, "a payload that is not in float32"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(take(&p, wrong[i].reference, wrong[i].bytes, wrong[i].encoding, &message),
                     PSR_ERR_PROTOCOL, wrong[i].words);
    /* Another channel's sender has not shared it. */
    const psr_head head = {.type = PSR_MSG_PUSH, .encoding = PSR_ENCODING_FLOAT32};
    assert_fails(psr_borrower_take(p.borrower, other_id, worker0, &head, 4096,
                                   &(psr_reference){0, 0, 1}, &message),
                 PSR_ERR_PROTOCOL, "that it has not shared");
    assert_null(message);
    assert_ok(take(&p, (psr_reference){0, most - 4096, 1}, 4096, PSR_ENCODING_FLOAT32, &message));
    psr_message_free(&message);
    close(fd);
    psr_shared_arena_done(&arena);
    end_play(&p);
}

/* A member says that, after its HELLO: the borrower's failure names it. */
static void breach(psr_record record, int pass, const char *words)
{
    played_lender p;
    play(&p);
    int fd = greet(&p);
    assert_ok(psr_borrower_serve(p.borrower));
    say(fd, record, pass);
    assert_fails(psr_borrower_serve(p.borrower), PSR_ERR_PROTOCOL, words);
    assert_memory_equal(psr_err_detail(), "worker 1: ", 10);
    close(fd);
    end_play(&p);
}

static void a_member_that_passes_what_it_may_not_is_named(void **state)
{
    (void)state;
    int plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(plain, 8192), 0);
    breach((psr_record){.kind = PSR_RECORD_ARENA, .value = 8192}, plain, "not sealed");
    breach((psr_record){.kind = PSR_RECORD_ARENA, .value = 8192}, STDERR_FILENO,
           "no memory that can be sealed");
    assert_int_equal(fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    breach((psr_record){.kind = PSR_RECORD_ARENA, .value = 1u << 30}, plain,
           "has 8192 bytes, not 1073741824");
    breach((psr_record){.kind = PSR_RECORD_ARENA, .value = UINT64_MAX}, plain, "has 8192 bytes");
    breach((psr_record){.kind = PSR_RECORD_ARENA, .arena = PSR_SHARED_ARENAS_MAX, .value = 8192},
           plain, "too many");
    breach((psr_record){.kind = PSR_RECORD_HELLO}, -1,
           "sent a record that no process that lends memory sends");
    breach((psr_record){.kind = PSR_RECORD_RETURNED}, -1,
           "sent a record that no process that lends memory sends");
    breach((psr_record){.kind = PSR_RECORD_WITHDRAWN}, -1,
           "withdraws an arena 0 that it has not shared");
    breach((psr_record){.kind = PSR_RECORD_WITHDRAWN, .arena = PSR_SHARED_ARENAS_MAX}, -1,
           "that it has not shared");
    breach((psr_record){.kind = PSR_RECORD_WITHDRAWN}, plain,
           "passes a descriptor that nobody asked for");
    breach((psr_record){.kind = 7}, -1,
           "sent a record that no process that lends memory sends (record 7)");
    breach((psr_record){.kind = PSR_RECORD_HELLO}, plain,
           "passes a descriptor that nobody asked for");
    close(plain);
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void descriptors_that_nobody_asked_for_are_closed(void **state)
{
    (void)state;
    played_lender p;
    play(&p);
    size_t before = open_descriptors();
    int fd = greet(&p);
    assert_ok(psr_borrower_serve(p.borrower));
    /* Three with one record, by hand: psr_record_write passes one. */
    psr_record record = {.kind = PSR_RECORD_ARENA, .value = 4096};
    int three[3] = {0, 1, 2};
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof three)];
    } control = {.bytes = {0}};
    struct iovec from = {&record, sizeof record};
    struct msghdr message = {.msg_iov = &from,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    *CMSG_FIRSTHDR(&message) = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof three)};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), three, sizeof three);
    assert_int_equal(sendmsg(fd, &message, 0), sizeof record);
    assert_fails(psr_borrower_serve(p.borrower), PSR_ERR_PROTOCOL,
                 "worker 1: passes more than one descriptor");
    close(fd);
    psr_borrower_retire(p.borrower, worker1);
    assert_int_equal(open_descriptors(), before);
    end_play(&p);
}

/* With a descriptor that came before the rest did not, and a payload that is still read. */
static void a_member_that_ends_in_the_middle_of_a_record_leaves_nothing(void **state)
{
    (void)state;
    played_lender p;
    psr_shared_arena arena;
    psr_message *message = NULL;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    size_t before = open_descriptors();
    int fd = greet(&p);
    offer(&p, fd, &arena);
    assert_ok(take(&p, (psr_reference){0, 0, 1}, 4096, PSR_ENCODING_FLOAT32, &message));
    psr_record second = {.kind = PSR_RECORD_ARENA, .arena = 1, .value = arena.bytes};
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(int))];
    } control = {.bytes = {0}};
    struct iovec half = {&second, sizeof second / 2};
    struct msghdr torn = {.msg_iov = &half,
                          .msg_iovlen = 1,
                          .msg_control = &control,
                          .msg_controllen = sizeof control};
    *CMSG_FIRSTHDR(&torn) = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof arena.fd)};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&torn)), &arena.fd, sizeof arena.fd);
    assert_int_equal(sendmsg(fd, &torn, 0), half.iov_len);
    assert_ok(psr_borrower_serve(p.borrower));
    assert_int_equal(open_descriptors(), before + 3); /* both ends of the socket, and what came */
    close(fd);
    assert_ok(psr_borrower_serve(p.borrower));
    assert_int_equal(open_descriptors(), before);
    assert_true(((const float *)message->payload)[0] == 0);
    psr_message_free(&message);
    psr_shared_arena_done(&arena);
    end_play(&p);
}

static void another_user_is_turned_away(void **state)
{
    (void)state;
    played_lender p;
    play_for(&p, geteuid() + 1); /* whose sockets these are then */
    int fd = greet(&p);
    assert_ok(psr_borrower_serve(p.borrower));
    assert_non_null(
        strstr(p.said, "turned away a process that would share memory: it is another user's"));
    char byte;
    assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
    psr_lender *lender = NULL;
    assert_fails(psr_lender_new(worker0, p.path, geteuid() + 1, known_id, &lender), PSR_ERR_DENIED,
                 "another user listens");
    close(fd);
    end_play(&p);
}

static void who_is_not_known_is_heard_when_its_channel_has_said_who_it_is(void **state)
{
    (void)state;
    played_lender p;
    psr_shared_arena arena;
    play(&p);
    p.introduced = false;
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    int fd = greet(&p);
    say(fd, (psr_record){.kind = PSR_RECORD_ARENA, .value = arena.bytes}, arena.fd);
    assert_ok(psr_borrower_serve(p.borrower));
    struct epoll_event event;
    assert_int_equal(epoll_wait(p.epoll, &event, 1, 0), 0); /* it keeps nobody awake meanwhile */
    p.introduced = true;
    assert_ok(psr_borrower_serve(p.borrower));
    assert_int_equal(answer_to(fd).kind, PSR_RECORD_TAKEN);
    close(fd);
    psr_shared_arena_done(&arena);
    end_play(&p);
}

static void strangers_keep_nobody_out(void **state)
{
    (void)state;
    enum { CROWD = 3 * PSR_BORROWER_UNKNOWN_MAX };
    uint8_t nobodys[PSR_ROUTING_ID_BYTES] = "nobody's";
    played_lender p;
    psr_shared_arena arena;
    play(&p);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    size_t before = open_descriptors();
    int crowd[CROWD];
    for (int i = 0; i < CROWD; i++) {
        nobodys[15] = (uint8_t)i;
        crowd[i] = i % 2 ? connect_to(&p) : greet_as(&p, nobodys);
        assert_ok(psr_borrower_serve(p.borrower));
    }
    assert_int_equal(open_descriptors() - before, CROWD + PSR_BORROWER_UNKNOWN_MAX);
    assert_non_null(strstr(p.said, "it did not say who it is"));
    int fd = greet(&p);
    offer(&p, fd, &arena);
    assert_int_equal(write(crowd[CROWD - 1], "this is no record of thirty-two..", 32), 32);
    assert_ok(psr_borrower_serve(p.borrower)); /* a stranger's garbage ends its
                                                  connection, not this process */
    assert_true(hung_up(crowd[CROWD - 1]));
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    close(fd);
    psr_shared_arena_done(&arena);
    end_play(&p);
}

static void a_second_socket_for_the_same_channel_is_turned_away(void **state)
{
    (void)state;
    played_lender p;
    play(&p);
    int first = greet(&p);
    assert_ok(psr_borrower_serve(p.borrower));
    int second = greet(&p);
    assert_ok(psr_borrower_serve(p.borrower));
    assert_non_null(strstr(p.said, "lends memory on a second socket"));
    assert_true(hung_up(second));
    assert_false(hung_up(first));
    close(first);
    close(second);
    end_play(&p);
}

/* ---- a lender, with whoever borrows played by the test ---- */

typedef struct lent_to {
    psr_socket_directory directory;
    int listener, fd;
    psr_shared_arena arena;
    psr_lender *lender;
    atomic_int returned;
} lent_to;

static void lend_to_test(lent_to *l)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *l = (lent_to){.fd = -1};
    assert_ok(psr_socket_directory_make(NULL, &l->directory));
    assert_true((size_t)snprintf(address.sun_path, sizeof address.sun_path, "%s/shard-0.fd",
                                 l->directory.path) < sizeof address.sun_path);
    l->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(l->listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(l->listener, 1), 0);
    assert_ok(psr_shared_arena_new(FLOATS, &l->arena));
    assert_ok(psr_lender_new(shard0, address.sun_path, geteuid(), known_id, &l->lender));
    assert_ok(psr_lender_offer(l->lender, &l->arena));
    l->fd = accept(l->listener, NULL, NULL);
    psr_record hello = answer_to(l->fd);
    assert_int_equal(hello.kind, PSR_RECORD_HELLO);
    assert_memory_equal(hello.id, known_id, sizeof known_id);
    psr_record_stream stream = psr_record_stream_of(l->fd);
    psr_record offered;
    int passed;
    assert_int_equal(psr_record_read(&stream, &offered, &passed), PSR_RECORD_COMPLETE);
    assert_true(offered.kind == PSR_RECORD_ARENA && offered.value == l->arena.bytes && passed >= 0);
    const void *seen;
    assert_ok(psr_shared_arena_map(passed, l->arena.bytes, &seen));
    munmap((void *)(uintptr_t)seen, l->arena.bytes);
    close(passed);
}

static void end_lending(lent_to *l)
{
    psr_lender_free(l->lender);
    psr_shared_arena_done(&l->arena);
    if (l->fd >= 0)
        close(l->fd);
    close(l->listener);
    psr_socket_directory_remove(&l->directory);
}

static const psr_head lent_head = {.type = PSR_MSG_PUSH, .encoding = PSR_ENCODING_FLOAT32};

static psr_payload lent_at(lent_to *l, size_t offset, size_t bytes)
{
    return (psr_payload){l->arena.values + offset, bytes, count_release, &l->returned};
}

static void only_what_the_peer_can_reach_is_lent_by_reference(void **state)
{
    (void)state;
    lent_to l;
    psr_reference reference;
    static float elsewhere[FLOATS];
    lend_to_test(&l);
    psr_payload payload = lent_at(&l, SLICE, SLICE * sizeof(float));
    /* it has not mapped it yet */
    assert_false(psr_lender_refer(l.lender, &lent_head, &payload, &reference));
    say(l.fd, (psr_record){.kind = PSR_RECORD_TAKEN}, -1);
    assert_ok(psr_lender_serve(l.lender));
    assert_true(psr_lender_refer(l.lender, &lent_head, &payload, &reference));
    assert_true(reference.arena == 0 && reference.offset == SLICE * sizeof(float));
    const psr_payload others[] = {
        {elsewhere, sizeof elsewhere, count_release, &l.returned},
        {l.arena.values, SLICE * sizeof(float), NULL, NULL}, /* to be copied: it may change */
        lent_at(&l, 0, PSR_REFERENCE_LEAST - 4),
        lent_at(&l, l.arena.bytes / sizeof(float) - 1024, 4100), /* reaches beyond it */
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(psr_lender_refer(l.lender, &lent_head, &others[i], &reference));
    /* Counts in it could change between two looks. Values of a program's are doubles, perhaps. */
    const psr_head bytes = {.type = PSR_MSG_CHECKPOINT, .encoding = PSR_ENCODING_BYTES};
    const psr_head values = {.type = PSR_MSG_VALUES, .encoding = PSR_ENCODING_BYTES};
    const psr_payload odd = lent_at(&l, 1, SLICE * sizeof(float));
    assert_false(psr_lender_refer(l.lender, &bytes, &payload, &reference));
    assert_false(psr_lender_refer(l.lender, &values, &odd, &reference));
    assert_int_equal(l.returned, 0);
    say(l.fd, (psr_record){.kind = PSR_RECORD_RETURNED, .value = reference.token}, -1);
    assert_ok(psr_lender_serve(l.lender));
    assert_int_equal(l.returned, 1);
    end_lending(&l);
    assert_int_equal(l.returned, 1);
}

static void what_was_not_lent_cannot_be_given_back(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        lent_to l;
        psr_reference reference;
        lend_to_test(&l);
        say(l.fd, (psr_record){.kind = PSR_RECORD_TAKEN}, -1);
        assert_ok(psr_lender_serve(l.lender));
        psr_payload payload = lent_at(&l, 0, 4096);
        assert_true(psr_lender_refer(l.lender, &lent_head, &payload, &reference));
        psr_record forged[] = {
            {.kind = PSR_RECORD_RETURNED, .value = reference.token + 1},
            {.kind = PSR_RECORD_RETURNED, .value = reference.token + (UINT64_C(1) << 32)},
            {.kind = PSR_RECORD_TAKEN},
            {.kind = PSR_RECORD_REFUSED, .arena = 3},
            {.kind = PSR_RECORD_HELLO},
        };
        const char *const words[] = {"gives back what it was not lent",
                                     "gives back what it was not lent", "answers to an arena 0",
                                     "answers to an arena 3", "sent a record that no process"};
        say(l.fd, forged[kind], -1);
        assert_fails(psr_lender_serve(l.lender), PSR_ERR_PROTOCOL, words[kind]);
        assert_int_equal(l.returned, 0);
        end_lending(&l);
        assert_int_equal(l.returned, 1);
    }
}

static void what_a_peer_gives_back_twice_is_a_breach(void **state)
{
    (void)state;
    lent_to l;
    psr_reference reference;
    lend_to_test(&l);
    say(l.fd, (psr_record){.kind = PSR_RECORD_TAKEN}, -1);
    assert_ok(psr_lender_serve(l.lender));
    psr_payload payload = lent_at(&l, 0, 4096);
    assert_true(psr_lender_refer(l.lender, &lent_head, &payload, &reference));
    const psr_record back = {.kind = PSR_RECORD_RETURNED, .value = reference.token};
    say(l.fd, back, -1);
    assert_ok(psr_lender_serve(l.lender));
    say(l.fd, back, -1);
    assert_fails(psr_lender_serve(l.lender), PSR_ERR_PROTOCOL, "gives back what it was not lent");
    assert_int_equal(l.returned, 1);
    end_lending(&l);
    assert_int_equal(l.returned, 1);
}

static void all_comes_back_when_the_peer_is_gone(void **state)
{
    (void)state;
    enum { LENT = 5 };
    lent_to l;
    psr_reference reference;
    lend_to_test(&l);
    say(l.fd, (psr_record){.kind = PSR_RECORD_TAKEN}, -1);
    assert_ok(psr_lender_serve(l.lender));
    psr_payload payload = lent_at(&l, 0, 4096);
    for (int i = 0; i < LENT; i++)
        assert_true(psr_lender_refer(l.lender, &lent_head, &payload, &reference));
    psr_lender_recall(l.lender, &reference);
    assert_int_equal(l.returned, 1);
    close(l.fd);
    l.fd = -1;
    assert_ok(psr_lender_serve(l.lender));
    assert_int_equal(l.returned, LENT);
    assert_int_equal(psr_lender_fd(l.lender), -1);
    assert_false(psr_lender_refer(l.lender, &lent_head, &payload, &reference)); /* messages go on */
    assert_ok(psr_lender_offer(l.lender, &l.arena));
    end_lending(&l);
    assert_int_equal(l.returned, LENT);
}

static void a_peer_that_cannot_map_says_why_and_gets_messages(void **state)
{
    (void)state;
    lent_to l;
    psr_reference reference;
    lend_to_test(&l);
    say(l.fd, (psr_record){.kind = PSR_RECORD_REFUSED, .value = EMFILE}, -1);
    assert_fails(psr_lender_serve(l.lender), PSR_ERR_IO,
                 "it cannot map the memory: Too many open files");
    psr_payload payload = lent_at(&l, 0, 4096);
    assert_false(psr_lender_refer(l.lender, &lent_head, &payload, &reference));
    end_lending(&l);
    assert_int_equal(l.returned, 0);
}

/* The next record that the lender says; what it passes is closed. */
static psr_record said_by_lender(const lent_to *l)
{
    psr_record_stream stream = psr_record_stream_of(l->fd);
    psr_record record = {0};
    int passed;
    assert_int_equal(psr_record_read(&stream, &record, &passed), PSR_RECORD_COMPLETE);
    if (passed >= 0)
        close(passed);
    return record;
}

static void nothing_is_lent_from_an_arena_that_was_withdrawn(void **state)
{
    (void)state;
    lent_to l;
    psr_reference reference;
    psr_shared_arena second;
    lend_to_test(&l);
    assert_ok(psr_shared_arena_new(FLOATS, &second));
    psr_payload payload = lent_at(&l, 0, 4096);
    say(l.fd, (psr_record){.kind = PSR_RECORD_TAKEN}, -1);
    assert_ok(psr_lender_serve(l.lender));
    psr_lender_withdraw(l.lender, &l.arena);
    psr_record told = said_by_lender(&l);
    assert_true(told.kind == PSR_RECORD_WITHDRAWN && told.arena == 0);
    assert_false(psr_lender_refer(l.lender, &lent_head, &payload, &reference));
    assert_false(psr_lender_has_taker(l.lender));
    psr_lender_withdraw(l.lender, &l.arena); /* again: nothing */
    assert_ok(psr_lender_offer(l.lender, &second));
    told = said_by_lender(&l);
    assert_true(told.kind == PSR_RECORD_ARENA && told.arena == 0);
    say(l.fd, (psr_record){.kind = PSR_RECORD_TAKEN}, -1);
    assert_ok(psr_lender_serve(l.lender));
    assert_true(psr_lender_has_taken(l.lender, &second));
    assert_false(psr_lender_has_taken(l.lender, &l.arena));
    end_lending(&l);
    psr_shared_arena_done(&second);
}

static void an_arena_that_is_withdrawn_before_its_answer_is_so_after_it(void **state)
{
    (void)state;
    for (int refused = 0; refused < 2; refused++) {
        lent_to l;
        psr_shared_arena second;
        lend_to_test(&l);
        assert_ok(psr_shared_arena_new(FLOATS, &second));
        psr_lender_withdraw(l.lender, &l.arena);
        assert_ok(psr_lender_offer(l.lender, &second)); /* number 0 may still be mapped there */
        psr_record told = said_by_lender(&l);
        assert_true(told.kind == PSR_RECORD_ARENA && told.arena == 1);
        say(l.fd, (psr_record){.kind = refused ? PSR_RECORD_REFUSED : PSR_RECORD_TAKEN}, -1);
        assert_ok(psr_lender_serve(l.lender));
        if (!refused) {
            told = said_by_lender(&l);
            assert_true(told.kind == PSR_RECORD_WITHDRAWN && told.arena == 0);
        }
        say(l.fd, (psr_record){.kind = PSR_RECORD_TAKEN}, -1);
        assert_fails(psr_lender_serve(l.lender), PSR_ERR_PROTOCOL, "answers to an arena 0");
        end_lending(&l);
        psr_shared_arena_done(&second);
    }
}

static void an_arena_that_finds_no_room_is_offered_when_there_is_some(void **state)
{
    (void)state;
    lent_to l;
    static psr_shared_arena more[PSR_SHARED_ARENAS_MAX];
    lend_to_test(&l);
    for (int i = 0; i < PSR_SHARED_ARENAS_MAX; i++) {
        assert_ok(psr_shared_arena_new(FLOATS, &more[i]));
        assert_ok(psr_lender_offer(l.lender, &more[i]));
    }
    for (uint32_t i = 1; i < PSR_SHARED_ARENAS_MAX; i++)
        assert_int_equal(said_by_lender(&l).arena, i);
    say(l.fd, (psr_record){.kind = PSR_RECORD_TAKEN}, -1);
    assert_ok(psr_lender_serve(l.lender));
    psr_lender_withdraw(l.lender, &l.arena);
    assert_int_equal(said_by_lender(&l).kind, PSR_RECORD_WITHDRAWN);
    assert_ok(psr_lender_offer(l.lender, &more[0])); /* which it has already */
    assert_ok(psr_lender_offer(l.lender, &more[PSR_SHARED_ARENAS_MAX - 1]));
    psr_record told = said_by_lender(&l);
    assert_true(told.kind == PSR_RECORD_ARENA && told.arena == 0);
    end_lending(&l);
    for (int i = 0; i < PSR_SHARED_ARENAS_MAX; i++)
        psr_shared_arena_done(&more[i]);
}

/* ---- transports ---- */

typedef struct pair {
    bool tcp; /* with CURVE, and memory shared in the directory; else on ipc sockets there */
    run_keys keys;
    psr_socket_directory directory;
    psr_transport *from, *to; /* worker 0, worker 1 */
    psr_shared_arena arena;   /* worker 0's */
    char said[512];
    atomic_int returned;
} pair;

static void note_shared(void *context, bool shared, const char *line)
{
    pair *p = context;
    snprintf(p->said, sizeof p->said, "%s%s", shared ? "+" : "-", line);
}

static psr_transport *open_in(const pair *p, psr_peer self)
{
    psr_zmq_options options = {.self = self,
                               .keys = keys_of(&p->keys, self),
                               .directory = p->tcp ? NULL : p->directory.path,
                               .sharing = p->tcp ? p->directory.path : NULL,
                               .log_stranger = note_stranger};
    psr_transport *transport;
    assert_ok(psr_transport_zmq_new(&options, &transport));
    return transport;
}

/* state: NULL, or over TCP. */
static void open_pair(pair *p, void *const *state, bool receiver_shares)
{
    *p = (pair){.tcp = *state != NULL, .keys = make_keys(*state != NULL)};
    assert_ok(psr_socket_directory_make(NULL, &p->directory));
    p->from = open_in(p, worker0);
    p->to = open_in(p, worker1);
    assert_ok(psr_transport_share(p->from, note_shared, p));
    if (receiver_shares)
        assert_ok(psr_transport_share(p->to, note_shared, p));
    assert_ok(psr_shared_arena_new(FLOATS, &p->arena));
    assert_ok(psr_transport_lend_from(p->from, &p->arena));
    join_to(p->from, worker1, p->to);
    psr_transport_lend_to(p->from, worker1, psr_transport_share_path(p->to));
}

static void close_pair(pair *p)
{
    psr_transport_free(&p->from, 0);
    psr_transport_free(&p->to, 0);
    psr_shared_arena_done(&p->arena);
    free_keys(&p->keys);
    psr_socket_directory_remove(&p->directory);
    assert_int_equal(access(p->directory.path, F_OK), -1);
}

static void expect_nothing(psr_transport *transport, int timeout_ms)
{
    psr_message *message = NULL;
    assert_fails(psr_transport_recv(transport, timeout_ms, &message), PSR_ERR_TIMEOUT, "");
}

/* Until the receiver has mapped the arena. */
static void await_sharing(pair *p)
{
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; p->said[0] != '+';) {
        expect_nothing(p->to, 1);
        expect_nothing(p->from, 1);
        assert_true(psr_clock_ms() < end_ms);
    }
    assert_string_equal(p->said, "+shares memory with worker 1");
}

static void lend(pair *p, size_t offset)
{
    const psr_head head = {.type = PSR_MSG_RING, .encoding = PSR_ENCODING_FLOAT32};
    const psr_payload payload = {p->arena.values + offset, SLICE * sizeof(float), count_release,
                                 &p->returned};
    assert_ok(psr_transport_send(p->from, worker1, &head, &payload));
}

static void await_returned(pair *p, int count)
{
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; p->returned < count;
         assert_true(psr_clock_ms() < end_ms))
        expect_nothing(p->from, 1);
}

static uint64_t bytes_lent(const pair *p)
{
    psr_transport_counts counts;
    psr_transport_counts_get(p->from, &counts);
    return counts.bytes_lent;
}

static void a_lent_payload_in_shared_memory_is_read_there(void **state)
{
    pair p;
    open_pair(&p, state, true);
    assert_false(psr_transport_lends_to(p.from, worker1)); /* not before it has mapped the arena */
    await_sharing(&p);
    assert_true(psr_transport_lends_to(p.from, worker1));
    assert_false(psr_transport_lends_to(p.to, worker0) || psr_transport_lends_to(p.from, shard0));
    lend(&p, 0);
    lend(&p, 1); /* wherever a float may lie */
    assert_int_equal(bytes_lent(&p), 2 * SLICE * sizeof(float));
    psr_message *first = receive(p.to), *second = receive(p.to);
    assert_true(first->head.sequence + 1 == second->head.sequence);
    p.arena.values[0] = 11; /* nothing was copied */
    p.arena.values[1] = 12;
    assert_true(*(const float *)first->payload == 11 && *(const float *)second->payload == 12);
    assert_int_equal(first->payload_bytes, SLICE * sizeof(float));
    expect_nothing(p.from, 0);
    assert_int_equal(p.returned, 0);
    psr_message_free(&second);
    expect_nothing(p.to, 0);
    await_returned(&p, 1);
    psr_message_free(&first);
    close_pair(&p);
    assert_int_equal(p.returned, 2);
}

static void await_taker(const pair *p, psr_peer peer)
{
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; !psr_transport_lends_to(p->from, peer);) {
        expect_nothing(p->to, 1);
        expect_nothing(p->from, 1);
        assert_true(psr_clock_ms() < end_ms);
    }
}

/* It is found beside its endpoint, since no view names it. */
static void a_scheduler_reads_pieces_of_a_checkpoint_where_they_lie_and_no_pipe(void **state)
{
    (void)state;
    const psr_head head = {.type = PSR_MSG_CHECKPOINT, .encoding = PSR_ENCODING_FLOAT32};
    char path[PSR_SHARE_PATH_BYTES];
    pair p = {.keys = make_keys(false)};
    assert_ok(psr_socket_directory_make(NULL, &p.directory));
    p.from = open_in(&p, worker0);
    p.to = open_in(&p, scheduler);
    assert_ok(psr_transport_share(p.from, note_shared, &p));
    assert_ok(psr_transport_share(p.to, note_shared, &p));
    assert_ok(psr_shared_arena_new(FLOATS, &p.arena));
    assert_ok(psr_transport_lend_from(p.from, &p.arena));
    join_to(p.from, scheduler, p.to);
    assert_true(psr_share_path(psr_transport_endpoint(p.to), path));
    psr_transport_lend_to(p.from, scheduler, path);
    await_taker(&p, scheduler);
    const psr_payload payload = {p.arena.values, SLICE * sizeof(float), count_release, &p.returned};
    assert_ok(psr_transport_send(p.from, scheduler, &head, &payload));
    assert_int_equal(bytes_lent(&p), SLICE * sizeof(float));
    psr_message *message = receive(p.to);
    p.arena.values[0] = 11; /* nothing was copied */
    assert_true(*(const float *)message->payload == 11);
    psr_message_free(&message);
    expect_nothing(p.to, 0);
    await_returned(&p, 1);
    const psr_payload small = {.data = p.arena.values, .bytes = 100};
    assert_ok(psr_transport_send(p.from, scheduler, &head, &small));
    message = receive(p.to);
    assert_int_equal(bytes_lent(&p), SLICE * sizeof(float));
    psr_message_free(&message);
    close_pair(&p);
}

/* ---- values from elsewhere ---- */

static void send_values(pair *p, const float *values, size_t bytes)
{
    const psr_head head = {.type = PSR_MSG_VALUES, .encoding = PSR_ENCODING_BYTES};
    const psr_payload payload = {values, bytes, count_release, &p->returned};
    assert_ok(psr_transport_send(p->from, worker1, &head, &payload));
}

static void expect_values(psr_message **message, float first, size_t bytes)
{
    assert_int_equal((*message)->payload_bytes, bytes);
    assert_int_equal((uintptr_t)(*message)->payload % _Alignof(double), 0);
    assert_true(*(const float *)(*message)->payload == first);
    psr_message_free(message);
}

/* The receiver keeps what it gets: so slots run out, and none is waited for. */
static void what_lies_in_no_arena_goes_by_a_slot_while_there_is_one(void **state)
{
    enum { MORE = 3, BYTES = 128 << 10 };
    static float values[PSR_STAGE_SLOTS + MORE][BYTES / sizeof(float)];
    psr_message *kept[PSR_STAGE_SLOTS + MORE];
    pair p;
    int sent = 0;
    open_pair(&p, state, true);
    assert_ok(psr_transport_lend_copies(p.from));
    await_sharing(&p);
    for (int64_t end_ms = psr_clock_ms() + WAIT_MS; bytes_lent(&p) == 0;
         assert_true(psr_clock_ms() < end_ms)) {
        send_values(&p, values[0], BYTES); /* the slots' arena is mapped after the other one */
        psr_message *message = receive(p.to);
        psr_message_free(&message);
        expect_nothing(p.to, 0);
        await_returned(&p, ++sent);
        expect_nothing(p.from, 1);
    }
    uint64_t lent = bytes_lent(&p);
    for (unsigned i = 0; i < PSR_STAGE_SLOTS + MORE; i++) {
        values[i][0] = (float)i;
        uint64_t before = bytes_lent(&p);
        send_values(&p, values[i], BYTES);
        sent++;
        /* a copy is lent, and it comes back at once */
        assert_true(bytes_lent(&p) == before || p.returned == sent);
        kept[i] = receive(p.to);
        await_returned(&p, sent);
        values[i][0] = bytes_lent(&p) == before ? values[i][0] : -1;
    }
    /* The first one's slot may be on its way back. */
    lent = (bytes_lent(&p) - lent) / BYTES;
    assert_true(lent == PSR_STAGE_SLOTS || lent == PSR_STAGE_SLOTS - 1);
    for (unsigned i = 0; i < PSR_STAGE_SLOTS + MORE; i++)
        expect_values(&kept[i], (float)i, BYTES);
    close_pair(&p);
}

static void what_a_member_holds_comes_back_when_it_ends(void **state)
{
    pair p;
    open_pair(&p, state, true);
    await_sharing(&p);
    lend(&p, 0);
    lend(&p, SLICE);
    psr_message *held = receive(p.to);
    psr_transport_free(&p.to, 0);
    await_returned(&p, 2);
    assert_false(psr_transport_lends_to(p.from, worker1));
    psr_message_free(&held);
    lend(&p, 0); /* to nobody, and as a message */
    assert_int_equal(bytes_lent(&p), 2 * SLICE * sizeof(float));
    close_pair(&p);
    assert_int_equal(p.returned, 3);
}

static void a_channel_that_ends_gives_all_back(void **state)
{
    pair p;
    open_pair(&p, state, true);
    await_sharing(&p);
    lend(&p, 0);
    psr_message *held = receive(p.to);
    psr_transport_disconnect(p.from, worker1);
    assert_int_equal(p.returned, 1);
    psr_message_free(&held);
    expect_nothing(p.to, 0);
    close_pair(&p);
    assert_int_equal(p.returned, 1);
}

static void with_a_member_that_shares_none_it_is_said_and_messages_go(void **state)
{
    pair p;
    open_pair(&p, state, false);
    assert_memory_equal(p.said, "-shares no memory with worker 1, messages go to it: ", 52);
    p.arena.values[0] = 21;
    lend(&p, 0);
    psr_message *message = receive(p.to);
    assert_true(*(const float *)message->payload == 21);
    assert_int_equal(bytes_lent(&p), 0);
    psr_message_free(&message);
    close_pair(&p);
    assert_int_equal(p.returned, 1);
}

static void without_a_directory_for_it_no_memory_is_shared_over_tcp(void **state)
{
    (void)state;
    run_keys keys = make_keys(false);
    psr_shared_arena arena;
    psr_transport *transport = open_member(&keys, worker0);
    assert_ok(psr_shared_arena_new(FLOATS, &arena));
    assert_string_equal(psr_transport_share_path(transport), "");
    assert_fails(psr_transport_share(transport, NULL, NULL), PSR_ERR_UNSUPPORTED,
                 "listens on TCP, and was given no directory");
    assert_fails(psr_transport_lend_from(transport, &arena), PSR_ERR_UNSUPPORTED,
                 "no memory is shared");
    psr_transport_free(&transport, 0);
    psr_shared_arena_done(&arena);
    free_keys(&keys);
}

static void in_a_directory_that_others_may_enter_no_memory_is_shared(void **state)
{
    (void)state;
    pair p = {.tcp = true, .keys = make_keys(true)};
    assert_ok(psr_socket_directory_make(NULL, &p.directory));
    p.from = open_in(&p, worker0);
    assert_memory_equal(psr_transport_share_path(p.from), p.directory.path,
                        strlen(p.directory.path));
    assert_int_equal(chmod(p.directory.path, 0755), 0);
    assert_fails(psr_transport_share(p.from, note_shared, &p), PSR_ERR_USAGE, "of mode 0700");
    assert_int_equal(chmod(p.directory.path, 0700), 0);
    close_pair(&p);
}

/* What a peer says of where it listens decides nothing: where it says another place, nobody comes
 * there. */
static void only_what_is_in_the_own_directory_is_connected_to(void **state)
{
    pair p;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char above[PSR_SHARE_PATH_BYTES + 64], around[2 * PSR_SHARE_PATH_BYTES];
    psr_socket_directory elsewhere;
    open_pair(&p, state, false);
    psr_transport_disconnect(p.from, worker1);
    assert_ok(psr_socket_directory_make(NULL, &elsewhere));
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/x.fd", elsewhere.path);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    snprintf(above, sizeof above, "%s/..%s", p.directory.path, strrchr(elsewhere.path, '/'));
    snprintf(around, sizeof around, "%s/../%s/x.fd", p.directory.path,
             strrchr(elsewhere.path, '/') + 1);
    const char *const said[] = {address.sun_path, around,    above,           "", "/",
                                "x.fd",           "../x.fd", p.directory.path};
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        p.said[0] = '\0';
        join_to(p.from, worker1, p.to);
        psr_transport_lend_to(p.from, worker1, said[i]);
        assert_memory_equal(
            p.said,
            "-shares no memory with worker 1, messages go to it: it says that it listens at ", 79);
        assert_int_equal(accept(listener, NULL, NULL), -1);
        assert_int_equal(errno, EAGAIN);
        psr_transport_disconnect(p.from, worker1);
    }
    /* it is not connected any more */
    psr_transport_lend_to(p.from, worker1, psr_transport_share_path(p.to));
    close(listener);
    psr_socket_directory_remove(&elsewhere);
    close_pair(&p);
}

#define over_tcp(test)                                                                             \
    {                                                                                              \
#test "_over_tcp", test, NULL, NULL, (void *)(uintptr_t)1                                  \
    }

/* The descriptor's file has none of the pages. */
static void what_is_kept_is_this_processes_own_and_nothing_of_what_is_shared(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE) / sizeof(float),
                 least = PSR_SHARED_ARENA_KEPT_LEAST / sizeof(float);
    const psr_span run = {page / 2, 2 * page + least};
    psr_shared_arena arena;
    const void *seen;
    assert_ok(psr_shared_arena_new(4 * page + least, &arena));
    assert_ok(psr_shared_arena_map(arena.fd, arena.bytes, &seen));
    const float *other = seen;
    assert_ok(psr_shared_arena_keep(&arena, (psr_span){0, least / 2})); /* too short */
    assert_ok(psr_shared_arena_keep(&arena, run));
    for (size_t i = 0; i < arena.count; i++)
        arena.values[i] = 7;
    assert_true(other[page - 1] == 7); /* the run's first page is not whole */
    assert_true(other[page] == 0);
    assert_true(other[page + least - 1] == 0);
    assert_true(other[2 * page + least] == 7); /* nor is its last one */
    for (size_t i = 0; i < arena.count; i++)
        assert_true(arena.values[i] == 7);
    munmap((void *)(uintptr_t)seen, arena.bytes);
    psr_shared_arena_done(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_this_processes_own_and_nothing_of_what_is_shared),
        cmocka_unit_test(an_arena_is_sealed_and_its_owners_writes_are_seen),
        cmocka_unit_test(an_arena_that_is_backed_has_all_its_pages_or_says_that_there_are_none),
        cmocka_unit_test(an_arena_whose_pages_were_elsewhere_can_be_lent_whole_again),
        cmocka_unit_test(what_is_no_sealed_memory_is_not_mapped),
        cmocka_unit_test(a_token_is_worth_one_return),
        cmocka_unit_test(a_reference_reads_back_and_nothing_else_is_one),
        cmocka_unit_test(what_a_member_lends_is_read_where_it_lies_and_given_back),
        cmocka_unit_test(what_another_thread_frees_while_the_owner_waits_is_given_back_at_once),
        cmocka_unit_test(many_returns_wait_for_a_lender_that_does_not_read),
        cmocka_unit_test(a_message_outlives_who_lent_it_and_who_borrowed_it),
        cmocka_unit_test(a_member_that_left_is_forgotten_with_its_last_message),
        cmocka_unit_test(an_arena_that_is_withdrawn_gives_its_number_to_the_next_one),
        cmocka_unit_test(an_arena_that_is_read_cannot_be_withdrawn),
        cmocka_unit_test(nothing_is_lent_from_an_arena_that_was_withdrawn),
        cmocka_unit_test(an_arena_that_is_withdrawn_before_its_answer_is_so_after_it),
        cmocka_unit_test(an_arena_that_finds_no_room_is_offered_when_there_is_some),
        cmocka_unit_test(a_reference_that_lies_nowhere_is_the_members_breach),
        cmocka_unit_test(a_member_that_passes_what_it_may_not_is_named),
        cmocka_unit_test(descriptors_that_nobody_asked_for_are_closed),
        cmocka_unit_test(a_member_that_ends_in_the_middle_of_a_record_leaves_nothing),
        cmocka_unit_test(another_user_is_turned_away),
        cmocka_unit_test(who_is_not_known_is_heard_when_its_channel_has_said_who_it_is),
        cmocka_unit_test(strangers_keep_nobody_out),
        cmocka_unit_test(a_second_socket_for_the_same_channel_is_turned_away),
        cmocka_unit_test(only_what_the_peer_can_reach_is_lent_by_reference),
        cmocka_unit_test(what_was_not_lent_cannot_be_given_back),
        cmocka_unit_test(what_a_peer_gives_back_twice_is_a_breach),
        cmocka_unit_test(all_comes_back_when_the_peer_is_gone),
        cmocka_unit_test(a_peer_that_cannot_map_says_why_and_gets_messages),
        cmocka_unit_test(a_lent_payload_in_shared_memory_is_read_there),
        over_tcp(a_lent_payload_in_shared_memory_is_read_there),
        cmocka_unit_test(a_scheduler_reads_pieces_of_a_checkpoint_where_they_lie_and_no_pipe),
        cmocka_unit_test(what_lies_in_no_arena_goes_by_a_slot_while_there_is_one),
        over_tcp(what_lies_in_no_arena_goes_by_a_slot_while_there_is_one),
        cmocka_unit_test(what_a_member_holds_comes_back_when_it_ends),
        over_tcp(what_a_member_holds_comes_back_when_it_ends),
        cmocka_unit_test(a_channel_that_ends_gives_all_back),
        over_tcp(a_channel_that_ends_gives_all_back),
        cmocka_unit_test(with_a_member_that_shares_none_it_is_said_and_messages_go),
        over_tcp(with_a_member_that_shares_none_it_is_said_and_messages_go),
        cmocka_unit_test(without_a_directory_for_it_no_memory_is_shared_over_tcp),
        cmocka_unit_test(in_a_directory_that_others_may_enter_no_memory_is_shared),
        cmocka_unit_test(only_what_is_in_the_own_directory_is_connected_to),
        over_tcp(only_what_is_in_the_own_directory_is_connected_to),
    };
    return cmocka_run_group_tests_name("sharing", tests, NULL, NULL);
}
