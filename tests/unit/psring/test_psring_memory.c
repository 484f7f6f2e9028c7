/* Memory of the library's: what lies in it is exchanged as any other array is, with the same bits,
 * and its life. */
#include "tests/unit/psring/ranks.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { COUNT = 60001, BEFORE = 3, CALLS = 4 };

/* ---- where a rank's arrays lie ---- */

typedef enum place { MALLOC, HOST, SHARED, PLACES } place;

/* Of so many values, each rank's elsewhere where they are mixed. */
static float *values_new(psring_comm *comm, place where, size_t count)
{
    void *memory = NULL;
    if (where == MALLOC)
        memory = calloc(count, sizeof(float));
    else
        expect_ok(psring_memory_new(comm, where == HOST ? PSRING_HOST : PSRING_SHARED,
                                    count * sizeof(float), &memory));
    expect(memory != NULL);
    return memory;
}

static void values_free(psring_comm *comm, place where, float *values)
{
    void *memory = values;
    if (where == MALLOC)
        free(values);
    else
        expect_ok(psring_memory_free(comm, &memory));
    expect(where == MALLOC || memory == NULL);
}

static uint64_t hash_of(const float *values, size_t count)
{
    const unsigned char *bytes = (const unsigned char *)values;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count * sizeof *values; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* ---- sums ---- */

static const char *const algorithms[] = {"ring", "direct", "doubling", "halving", "root"};
enum { ALGORITHMS = sizeof algorithms / sizeof algorithms[0], ARRANGEMENTS = PLACES + 1 };

typedef struct sums {
    int arrangement; /* a place, or PLACES: each rank has another one */
    uint64_t hashes[ARRANGEMENTS][ALGORITHMS];
} sums;

static void write_values(float *values, int rank)
{
    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)(i * 7919 % 10007) * 1e-3f + (float)rank * 0.37f;
}

/* Apart and in place, in parts of an array that begin where no page does. */
static uint64_t sum_up(psring_group *world, const char *algorithm, float *in, float *out)
{
    const psring_call *call = PSRING_CALL(.algorithm = algorithm);
    const int rank = psring_rank(world);
    write_values(in, rank);
    expect_ok(psring_all_reduce(world, in, out, COUNT, PSRING_FLOAT32, PSRING_SUM, call, NULL));
    const uint64_t hash = hash_of(out, COUNT);
    write_values(out, rank);
    expect_ok(psring_all_reduce(world, out, out, COUNT, PSRING_FLOAT32, PSRING_SUM, call, NULL));
    expect(hash_of(out, COUNT) == hash);
    write_values(out, rank);
    expect(memcmp(in, out, COUNT * sizeof *in) == 0); /* what was sent alone is as it was */
    return hash;
}

static void sum_in_memory(psring_comm **comm, int rank, void *context)
{
    sums *s = context;
    const place where = s->arrangement == PLACES ? (place)(rank % PLACES) : (place)s->arrangement;
    float *in = values_new(*comm, where, 2 * COUNT + BEFORE), *out = in + COUNT + BEFORE;
    for (int a = 0; a < ALGORITHMS; a++)
        for (int call = 0; call < CALLS; call++) { /* the first ones may come before it is mapped */
            const uint64_t hash = sum_up(psring_world(*comm), algorithms[a], in, out);
            uint64_t *seen = &s->hashes[s->arrangement][a];
            if (rank == 0 && call == 0)
                *seen = hash;
            expect_ok(psring_barrier(psring_world(*comm), NULL, NULL));
            expect(*seen == hash);
        }
    values_free(*comm, where, in);
}

static void sums_have_the_same_bits_wherever_arrays_lie(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++) {
        sums s = {.arrangement = 0};
        for (; s.arrangement < ARRANGEMENTS; s.arrangement++)
            ranks_run(ranks, sum_in_memory, &s);
        for (int i = 1; i < ARRANGEMENTS; i++)
            expect(memcmp(s.hashes[i], s.hashes[0], sizeof s.hashes[0]) == 0);
    }
}

/* ---- all other operations ---- */

static void expect_values(const int32_t *values, size_t count, int32_t first)
{
    for (size_t i = 0; i < count; i++)
        expect(values[i] == first + (int32_t)i);
}

static void count_up(int32_t *values, size_t count, int32_t first)
{
    for (size_t i = 0; i < count; i++)
        values[i] = first + (int32_t)i;
}

enum { PART = 20000, FAR = 1 << 20 };

static void exchange_parts(psring_group *g, int32_t *x, int32_t *y)
{
    const int n = psring_size(g), rank = psring_rank(g);
    count_up(x, (size_t)n * PART, rank * FAR);
    expect_ok(psring_all_to_all(g, x, y, PART, PSRING_INT32, NULL, NULL));
    for (int r = 0; r < n; r++)
        expect_values(y + r * PART, PART, r * FAR + rank * PART);
    expect_ok(psring_all_gather(g, x, y, PART, PSRING_INT32, NULL, NULL));
    for (int r = 0; r < n; r++)
        expect_values(y + r * PART, PART, r * FAR);
    expect_ok(psring_scatter(g, x, y, PART, PSRING_INT32, n - 1, NULL, NULL));
    expect_values(y, PART, (n - 1) * FAR + rank * PART);
    expect_ok(psring_gather(g, x, y, PART, PSRING_INT32, 0, NULL, NULL));
    for (int r = 0; rank == 0 && r < n; r++)
        expect_values(y + r * PART, PART, r * FAR);
    expect_ok(psring_broadcast(g, x, PART, PSRING_INT32, 1, NULL, NULL));
    expect_values(x, PART, FAR);
}

/* The sender writes again at once: nothing of an operation that has ended is still read. */
static void exchange_messages(psring_group *g, int32_t *x, int32_t *y)
{
    const int n = psring_size(g), rank = psring_rank(g);
    for (int round = 0; round < 6; round++) {
        psring_request *sent = NULL;
        count_up(x, PART, rank * FAR + round);
        expect_ok(psring_send(g, x, PART, PSRING_INT32, (rank + 1) % n, 1, NULL, &sent));
        expect_ok(psring_receive(g, y, PART, PSRING_INT32, (rank + n - 1) % n, 1, NULL, NULL));
        expect_ok(psring_wait(sent, PSRING_FOREVER));
        psring_request_free(&sent);
        memset(x, 0xff, PART * sizeof *x);
        expect_values(y, PART, (rank + n - 1) % n * FAR + round);
        const psring_block out = {(rank + 1) % n, y, {1, 1, 1, PART / 2}, {0, 0, 0, 2}},
                           in = {(rank + n - 1) % n, x, {1, 1, 1, PART / 2}, {0}};
        expect_ok(psring_neighbor_exchange(g, &out, 1, &in, 1, PSRING_INT32, NULL, NULL));
        for (int i = 0; i < PART / 2; i++)
            expect(x[i] == (rank + n - 2) % n * FAR + round + 2 * i);
    }
}

static void exchange_in_memory(psring_comm **comm, int rank, void *context)
{
    psring_counts counts = {.size = sizeof counts};
    const place where = *(int *)context == PLACES ? (place)(rank % PLACES) : SHARED;
    float *memory = values_new(*comm, where, (size_t)2 * RANKS_MAX * PART);
    int32_t *x = (int32_t *)(void *)memory, *y = x + RANKS_MAX * PART;
    for (int call = 0; call < CALLS; call++) {
        exchange_parts(psring_world(*comm), x, y);
        exchange_messages(psring_world(*comm), x, y);
    }
    expect_ok(psring_counts_get(*comm, &counts));
    expect(counts.bytes_lent > 0);
    values_free(*comm, where, memory);
}

static void all_operations_work_in_memory_that_is_shared(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 4; ranks++)
        for (int arrangement = SHARED; arrangement <= PLACES; arrangement++)
            ranks_run(ranks, exchange_in_memory, &arrangement);
}

/* The last rank is a shard. */
static void push_and_pull(psring_comm **comm, int rank, void *context)
{
    psring_table *table = NULL;
    (void)context;
    if (rank == 3) {
        expect_ok(psring_serve(*comm));
        return;
    }
    psring_group *world = psring_world(*comm);
    float *pushed = values_new(*comm, rank == 2 ? MALLOC : SHARED, 2 * COUNT),
          *pulled = pushed + COUNT;
    expect_ok(psring_table_open(
        world, "sums",
        PSRING_WITH(psring_table_options, .parts = (const size_t[]){COUNT}, .part_count = 1), NULL,
        &table));
    for (int round = 1; round <= 6; round++) {
        for (size_t i = 0; i < COUNT; i++)
            pushed[i] = (float)(i % 100) + (float)rank;
        expect_ok(psring_push_pull(table, 0, pushed, pulled, NULL, NULL));
        memset(pushed, 0xff, COUNT * sizeof *pushed);
        for (size_t i = 0; i < COUNT; i++)
            expect(pulled[i] == (float)round * (float)(3 * (i % 100) + 3));
    }
    expect_ok(psring_table_close(&table, NULL));
    values_free(*comm, rank == 2 ? MALLOC : SHARED, pushed);
}

static void tables_are_pushed_from_memory_that_is_shared(void **state)
{
    (void)state;
    ranks_run_sharded(4, 1, 20000, push_and_pull, NULL);
}

/* ---- tables that are read and written whole ---- */

enum { WORKERS = 3, FIRST_PART = 70001, SECOND_PART = 5000, WHOLE = FIRST_PART + SECOND_PART };

static psring_err add_up(void *context, const psring_update_run *run)
{
    (void)context;
    for (size_t i = 0; i < run->count; i++) {
        run->states[0][i] += 1;
        run->values[i] += run->pushed[i];
    }
    return PSRING_OK;
}

static uint64_t lent_by(psring_comm *comm)
{
    psring_counts counts = {.size = sizeof counts};
    expect_ok(psring_counts_get(comm, &counts));
    return counts.bytes_lent;
}

/* Small messages between ranks of a host go through memory too, and count. */
static bool is_about(uint64_t lent, uint64_t expected)
{
    return lent >= expected && lent < expected + 4096;
}

enum { WHOLE_BYTES = WHOLE * sizeof(float) };

/* Rank 0 gives values and state, of which others have other ones: nobody may see those. Returns how
 * many bytes of the state this rank has lent. */
static uint64_t write_whole(psring_comm *comm, psring_table *table, float *x, int rank)
{
    uint64_t before = 0;
    for (uint32_t state = 0; state < 2; state++) {
        for (size_t i = 0; i < WHOLE; i++)
            x[i] = rank == 0 ? (float)(i % 1000) + (float)state : -1.0f;
        before = lent_by(comm);
        expect_ok(psring_table_write(table, state, PSRING_ALL, x, WHOLE, NULL));
        memset(x, 0xff, WHOLE_BYTES); /* at once: what was lent is the caller's again */
    }
    return lent_by(comm) - before;
}

static void read_whole(psring_table *table, float *x, float pushes, float added)
{
    for (uint32_t state = 0; state < 2; state++) {
        memset(x, 0xff, WHOLE_BYTES);
        expect_ok(psring_table_read(table, state, PSRING_ALL, x, WHOLE, NULL));
        for (size_t i = 0; i < WHOLE; i++)
            expect(x[i] == (float)(i % 1000) + (state == 0 ? added : 1 + pushes));
    }
    expect_ok(psring_table_read(table, 0, 1, x, SECOND_PART, NULL));
    for (size_t i = 0; i < SECOND_PART; i++)
        expect(x[i] == (float)((FIRST_PART + i) % 1000) + added);
}

/* Pushes and pulls of all parts in one call, apart and together. */
static void push_whole(psring_table *table, float *x, float *y, int rank)
{
    for (size_t i = 0; i < WHOLE; i++)
        x[i] = (float)(rank + 1);
    expect_ok(psring_push(table, PSRING_ALL, x, NULL, NULL));
    memset(x, 0xff, WHOLE_BYTES);
    expect_ok(psring_pull(table, PSRING_ALL, y, NULL, NULL));
    for (size_t i = 0; i < WHOLE; i++)
        expect(y[i] == (float)(i % 1000) + 6);
    for (size_t i = 0; i < WHOLE; i++)
        x[i] = (float)(rank + 1);
    expect_ok(psring_push_pull(table, PSRING_ALL, x, x, NULL, NULL)); /* in one place */
    for (size_t i = 0; i < WHOLE; i++)
        expect(x[i] == (float)(i % 1000) + 12);
}

static void save_and_restore(psring_comm **comm, int rank, void *context)
{
    const place where = *(place *)context == PLACES ? (place)(rank % PLACES) : *(place *)context;
    if (rank >= WORKERS) {
        expect_ok(psring_update_define(*comm, "adds",
                                       PSRING_WITH(psring_update, .states = 1, .apply = add_up)));
        expect_ok(psring_serve(*comm));
        return;
    }
    psring_table *table = NULL;
    float *x = values_new(*comm, where, 2 * WHOLE + BEFORE), *y = x + WHOLE + BEFORE;
    expect_ok(psring_table_open(psring_world(*comm), "saved",
                                PSRING_WITH(psring_table_options,
                                            .parts = ((const size_t[]){FIRST_PART, SECOND_PART}),
                                            .part_count = 2, .update = "adds"),
                                NULL, &table));
    for (int life = 0; life < 3; life++) { /* in the first one it may not have been mapped yet */
        const uint64_t written = write_whole(*comm, table, life % 2 ? x : y, rank);
        if (life > 0 && where == SHARED)
            expect(is_about(written, rank == 0 ? WHOLE_BYTES : 0));
        read_whole(table, life % 2 ? y : x, 0, 0);
        const uint64_t pushed = lent_by(*comm);
        push_whole(table, x, y, rank);
        if (life > 0 && where == SHARED)
            expect(is_about(lent_by(*comm) - pushed, 2 * (uint64_t)WHOLE_BYTES));
        read_whole(table, y, 2, 12);
    }
    expect_ok(psring_table_close(&table, NULL));
    values_free(*comm, where, x);
}

static void tables_are_read_and_written_in_memory_that_is_shared(void **state)
{
    (void)state;
    for (int shards = 1; shards <= 2; shards++)
        for (place where = MALLOC; where <= PLACES; where++)
            ranks_run_sharded(WORKERS + shards, shards, 20000, save_and_restore, &where);
}

/* ---- its life ---- */

static void expect_zeros_on_a_page(const void *memory, size_t bytes)
{
    expect((uintptr_t)memory % (uintptr_t)sysconf(_SC_PAGESIZE) == 0);
    for (size_t i = 0; i < bytes; i++)
        expect(((const unsigned char *)memory)[i] == 0);
}

static void make_and_free(psring_comm *comm)
{
    static const size_t sizes[] = {1, 4096, 4097, 3 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (psring_space space = PSRING_HOST; space <= PSRING_SHARED; space++) {
            void *memory = NULL;
            expect_ok(psring_memory_new(comm, space, sizes[i], &memory));
            expect_zeros_on_a_page(memory, sizes[i]);
            memset(memory, 0xa5, sizes[i]);
            expect_ok(psring_memory_free(comm, &memory));
            expect(memory == NULL);
        }
}

static void expect_usage(psring_err err, const char *words)
{
    expect(err == PSRING_ERR_USAGE && strstr(psring_err_detail(), words) != NULL);
}

static void misuse(psring_comm *comm)
{
    float elsewhere[4];
    void *memory = elsewhere, *none = NULL;
    expect_usage(psring_memory_new(NULL, PSRING_HOST, 1, &memory), "comm is NULL");
    expect_usage(psring_memory_new(comm, PSRING_HOST, 1, NULL), "ret_memory is NULL");
    expect_usage(psring_memory_new(comm, PSRING_HOST, 0, &memory), "bytes is 0");
    expect_usage(psring_memory_new(comm, (psring_space)7, 1, &memory), "there is no space 7");
    expect(psring_memory_new(comm, PSRING_SHARED, SIZE_MAX, &memory) == PSRING_ERR_NOMEM);
    expect(psring_memory_new(comm, PSRING_HOST, SIZE_MAX, &memory) == PSRING_ERR_NOMEM);
    expect_usage(psring_memory_free(NULL, &memory), "comm is NULL");
    expect_usage(psring_memory_free(comm, &memory), "no memory begins there");
    expect(memory == elsewhere);
    expect_ok(psring_memory_free(comm, NULL));
    expect_ok(psring_memory_free(comm, &none));
    expect_ok(psring_memory_new(comm, PSRING_SHARED, 8192, &memory));
    void *within = (char *)memory + 4096;
    expect_usage(psring_memory_free(comm, &within), "no memory begins there");
    expect_ok(psring_memory_free(comm, &memory));
}

static void who_is_alone_has_memory_too(void **state)
{
    (void)state;
    psring_comm *comm = NULL;
    expect_ok(psring_init(PSRING_WITH(psring_options, .ranks = 1), &comm));
    make_and_free(comm);
    misuse(comm);
    float *x = values_new(comm, SHARED, COUNT);
    write_values(x, 0);
    expect_ok(
        psring_all_reduce(psring_world(comm), x, x, COUNT, PSRING_FLOAT32, PSRING_SUM, NULL, NULL));
    expect_ok(psring_close(&comm)); /* and with it the memory */
}

static void live(psring_comm **comm, int rank, void *context)
{
    (void)context;
    (void)rank;
    make_and_free(*comm);
    misuse(*comm);
}

static void memory_is_zero_and_begins_a_page(void **state)
{
    (void)state;
    ranks_run(2, live, NULL);
}

static void make_too_many(psring_comm **comm, int rank, void *context)
{
    void *memory[PSRING_SHARED_MEMORIES_MAX + 1] = {NULL};
    (void)context;
    for (int i = 0; i < PSRING_SHARED_MEMORIES_MAX; i++)
        expect_ok(psring_memory_new(*comm, PSRING_SHARED, 100000, &memory[i]));
    expect_usage(psring_memory_new(*comm, PSRING_SHARED, 1, &memory[PSRING_SHARED_MEMORIES_MAX]),
                 "there are 15 pieces of shared memory already");
    expect(memory[PSRING_SHARED_MEMORIES_MAX] == NULL);
    for (int i = 0; i < PSRING_SHARED_MEMORIES_MAX; i++) { /* all of them are lent from */
        float *x = memory[i];
        for (int k = 0; k < 20000; k++)
            x[k] = (float)(k + rank);
        expect_ok(psring_all_reduce(psring_world(*comm), x, x, 20000, PSRING_FLOAT32, PSRING_SUM,
                                    PSRING_CALL(.algorithm = "ring"), NULL));
        for (int k = 0; k < 20000; k++)
            expect(x[k] == (float)(2 * k + 1));
    }
    expect_ok(psring_memory_free(*comm, &memory[4]));
    expect_ok(psring_memory_new(*comm, PSRING_SHARED, 1, &memory[4]));
} /* the rest ends with the communicator */

static void so_many_pieces_are_shared_and_no_more(void **state)
{
    (void)state;
    ranks_run(2, make_too_many, NULL);
}

static size_t open_descriptors(void)
{
    size_t count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* One rank alone has it each time anew, of another size: its number is given again and again. */
static void make_again(psring_comm **comm, int rank, void *context)
{
    enum { TIMES = 60 };
    (void)context;
    for (int t = 0; t < TIMES; t++) {
        const place where = rank == 0 ? SHARED : MALLOC;
        const size_t count = 20000 + (size_t)t * 1001;
        float *x = values_new(*comm, where, count);
        for (size_t i = 0; i < count; i++)
            x[i] = (float)(i % 1000) + (float)(rank + t);
        expect_ok(psring_all_reduce(psring_world(*comm), x, x, count, PSRING_FLOAT32, PSRING_SUM,
                                    PSRING_CALL(.algorithm = "ring"), NULL));
        for (size_t i = 0; i < count; i++)
            expect(x[i] == (float)(3 * (i % 1000) + 3 + 3 * (size_t)t));
        values_free(*comm, where, x);
    }
}

static void memory_that_is_freed_makes_room_for_other_memory(void **state)
{
    (void)state;
    const size_t before = open_descriptors();
    ranks_run(3, make_again, NULL);
    expect(open_descriptors() == before);
}

static void expect_busy(psring_comm *comm, void *memory)
{
    void *given = memory;
    expect(psring_memory_free(comm, &given) == PSRING_ERR_BUSY && given == memory);
    expect(strstr(psring_err_detail(), "a request uses the memory") != NULL);
}

/* Rank 0 receives in it what rank 1 sends later, and has a persistent request on it. */
static void free_what_is_used(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    psring_request *request = NULL, *persistent = NULL;
    (void)context;
    float *x = values_new(*comm, SHARED, COUNT), *other = values_new(*comm, HOST, COUNT);
    if (rank == 0) {
        expect_ok(psring_receive(world, x + 7, 100, PSRING_FLOAT32, 1, 0, NULL, &request));
        expect_busy(*comm, x);
    }
    expect_ok(psring_barrier(world, NULL, NULL));
    if (rank == 1)
        expect_ok(psring_send(world, other, 100, PSRING_FLOAT32, 0, 0, NULL, NULL));
    if (rank == 0)
        expect_ok(psring_wait(request, PSRING_FOREVER));
    psring_request_free(&request);
    expect_ok(psring_all_reduce(world, x, other, COUNT, PSRING_FLOAT32, PSRING_SUM,
                                PSRING_CALL(.persistent = true), &persistent));
    expect_busy(*comm, x);
    expect_busy(*comm, other);
    expect_ok(psring_start(persistent));
    expect_ok(psring_wait(persistent, PSRING_FOREVER));
    psring_request_free(&persistent);
    values_free(*comm, SHARED, x);
    values_free(*comm, HOST, other);
}

static void what_a_request_uses_is_not_freed(void **state)
{
    (void)state;
    ranks_run(2, free_what_is_used, NULL);
}

/* ---- a rank that dies ---- */

enum { DYING = 3, LARGE = 1 << 20 };

/* Sums without end. Says that it does when memory is mapped, and ends well when rank 1 is named. */
static void sum_until_one_dies(const ranks_folder *folder, int rank, int ready)
{
    psring_comm *comm = NULL;
    psring_err err = PSRING_OK;
    psring_failure failure = {.size = sizeof failure};
    const psring_options options = ranks_options(folder, DYING, rank, 5000);
    expect_ok(psring_init(&options, &comm));
    float *x = values_new(comm, SHARED, LARGE);
    for (int call = 0; err == PSRING_OK; call++) {
        err = psring_all_reduce(psring_world(comm), x, x, LARGE, PSRING_FLOAT32, PSRING_MAXIMUM,
                                PSRING_CALL(.algorithm = "ring"), NULL);
        expect(call != 4 || write(ready, "r", 1) == 1);
    }
    expect(err == PSRING_ERR_PEER && strstr(psring_err_detail(), "rank 1 on ") != NULL);
    expect_ok(psring_group_failure(psring_world(comm), &failure));
    expect(failure.rank == 1);
    for (int i = 0; i < LARGE; i++)
        x[i] = 1; /* its own again */
    values_free(comm, SHARED, x);
    expect_ok(psring_close(&comm));
    _exit(0);
}

static void a_rank_that_dies_while_its_memory_is_read_is_named(void **state)
{
    (void)state;
    ranks_folder folder;
    pid_t pids[DYING];
    int ready[2], status = 0;
    char byte;
    ranks_folder_make(&folder);
    expect(pipe(ready) == 0);
    for (int r = 0; r < DYING; r++) {
        pids[r] = fork();
        expect(pids[r] >= 0);
        if (pids[r] == 0)
            sum_until_one_dies(&folder, r, ready[1]);
    }
    for (int r = 0; r < DYING; r++)
        expect(read(ready[0], &byte, 1) == 1);
    expect(kill(pids[1], SIGKILL) == 0 && waitpid(pids[1], NULL, 0) == pids[1]);
    for (int r = 0; r < DYING; r += 2)
        expect(waitpid(pids[r], &status, 0) == pids[r] && WIFEXITED(status) &&
               WEXITSTATUS(status) == 0);
    close(ready[0]);
    close(ready[1]);
    ranks_folder_empty(&folder);
    ranks_folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_have_the_same_bits_wherever_arrays_lie),
        cmocka_unit_test(all_operations_work_in_memory_that_is_shared),
        cmocka_unit_test(tables_are_pushed_from_memory_that_is_shared),
        cmocka_unit_test(tables_are_read_and_written_in_memory_that_is_shared),
        cmocka_unit_test(who_is_alone_has_memory_too),
        cmocka_unit_test(memory_is_zero_and_begins_a_page),
        cmocka_unit_test(so_many_pieces_are_shared_and_no_more),
        cmocka_unit_test(memory_that_is_freed_makes_room_for_other_memory),
        cmocka_unit_test(what_a_request_uses_is_not_freed),
        cmocka_unit_test(a_rank_that_dies_while_its_memory_is_read_is_named),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
