/* How a communicator begins and ends, and what its structs of options may say. */
#include "tests/unit/psring/ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static void nothing(psring_comm **comm, int rank, void *context)
{
    (void)context;
    expect(psring_rank(psring_world(*comm)) == rank && psring_epoch(psring_world(*comm)) == 0);
}

static void a_communicator_is_opened_again(void **state)
{
    (void)state;
    for (int round = 0; round < 3; round++)
        ranks_run(2, nothing, NULL);
}

/* What was sent is received, though its sender has left. */
static void send_and_leave(psring_comm **comm, int rank, void *context)
{
    static float x[400000], y[400000];
    psring_group *world = psring_world(*comm);
    (void)context;
    if (rank == 1) {
        x[399999] = 3;
        expect_ok(psring_send(world, x, 400000, PSRING_FLOAT32, 0, 0, NULL, NULL));
        expect_ok(psring_close(comm));
        expect(*comm == NULL);
        return;
    }
    expect_ok(psring_receive(world, y, 400000, PSRING_FLOAT32, 1, 0, NULL, NULL));
    expect(y[399999] == 3);
}

static void who_has_left_has_sent_all(void **state)
{
    (void)state;
    ranks_run(2, send_and_leave, NULL);
}

/* Rank 1 asks for its place once more. */
typedef struct place {
    ranks_folder folder;
    int rank;
} place;

static void *join_twice(void *context)
{
    const place *p = context;
    psring_comm *first = NULL, *second = NULL;
    const psring_options options = ranks_options(&p->folder, 2, p->rank, 0);
    expect_ok(psring_init(&options, &first));
    if (p->rank == 1) {
        psring_options again = options;
        expect(psring_init(&again, &second) == PSRING_ERR_DENIED && second == NULL);
        expect(strstr(psring_err_detail(), "rank 1 is taken: it has joined before") != NULL);
    }
    expect_ok(psring_barrier(psring_world(first), NULL, NULL)); /* the first one goes on */
    expect_ok(psring_close(&first));
    return NULL;
}

static void a_rank_that_has_joined_cannot_be_joined_again(void **state)
{
    place places[2] = {{.rank = 0}, {.rank = 1}};
    pthread_t threads[2];
    (void)state;
    ranks_folder_make(&places[0].folder);
    places[1].folder = places[0].folder;
    for (int r = 0; r < 2; r++)
        expect(pthread_create(&threads[r], NULL, join_twice, &places[r]) == 0);
    for (int r = 0; r < 2; r++)
        expect(pthread_join(threads[r], NULL) == 0);
    ranks_folder_remove(&places[0].folder);
}

/* Two in one process, of which the second one has its ranks the other way round. */
typedef struct pair {
    ranks_folder folders[2];
    int rank;
} pair;

static void *be_in_two(void *context)
{
    const pair *p = context;
    psring_comm *a = NULL, *b = NULL;
    psring_options of_a = ranks_options(&p->folders[0], 2, p->rank, 0),
                   of_b = ranks_options(&p->folders[1], 2, 1 - p->rank, 0);
    expect_ok(psring_init(&of_a, &a));
    expect_ok(psring_init(&of_b, &b));
    int32_t x = p->rank, y = 1 - p->rank;
    psring_request *request = NULL;
    expect_ok(psring_broadcast(psring_world(a), &x, 1, PSRING_INT32, 1, NULL, &request));
    expect_ok(psring_broadcast(psring_world(b), &y, 1, PSRING_INT32, 0, NULL, NULL));
    expect_ok(psring_wait(request, PSRING_FOREVER));
    expect(x == 1 && y == 0);
    expect_ok(psring_close(&a));
    expect_ok(psring_barrier(psring_world(b), NULL, NULL));
    expect_ok(psring_close(&b));
    return NULL;
}

static void two_communicators_know_nothing_of_each_other(void **state)
{
    (void)state;
    pair pairs[2] = {{.rank = 0}, {.rank = 1}};
    pthread_t threads[2];
    for (int k = 0; k < 2; k++) {
        ranks_folder_make(&pairs[0].folders[k]);
        pairs[1].folders[k] = pairs[0].folders[k];
    }
    for (int r = 0; r < 2; r++)
        expect(pthread_create(&threads[r], NULL, be_in_two, &pairs[r]) == 0);
    for (int r = 0; r < 2; r++)
        expect(pthread_join(threads[r], NULL) == 0);
    for (int k = 0; k < 2; k++)
        ranks_folder_remove(&pairs[0].folders[k]);
}

static void one_rank_is_alone_without_a_scheduler(void **state)
{
    (void)state;
    psring_comm *comm = NULL;
    psring_failure failure = {.size = sizeof failure};
    float x = 2;
    expect_ok(psring_init(PSRING_WITH(psring_options, .ranks = 1), &comm));
    expect_ok(
        psring_all_reduce(psring_world(comm), &x, &x, 1, PSRING_FLOAT32, PSRING_SUM, NULL, NULL));
    expect(x == 2 && psring_size(psring_world(comm)) == 1);
    expect(psring_group_failure(psring_world(comm), &failure) == PSRING_ERR_NOT_FOUND);
    expect_ok(psring_close(&comm));
    expect_ok(psring_close(&comm)); /* NULL */
    psring_abort(NULL, "nobody");
}

/* ---- who does not come, or is another ---- */

static void a_rank_that_never_joins_is_named(void **state)
{
    (void)state;
    ranks_folder folder;
    psring_comm *comm = NULL;
    ranks_folder_make(&folder);
    psring_options options = ranks_options(&folder, 2, 0, 0);
    options.join_deadline_ms = 10000; /* rank 0 itself comes within it */
    expect(psring_init(&options, &comm) == PSRING_ERR_PEER && comm == NULL);
    expect(strstr(psring_err_detail(), "did not join within 10.0 s: 1") != NULL);
    options.rank = 1; /* there is no scheduler either */
    options.join_deadline_ms = 300;
    options.host_scheduler = false;
    expect(psring_init(&options, &comm) == PSRING_ERR_PEER && comm == NULL);
    expect(strstr(psring_err_detail(), folder.scheduler) != NULL);
    ranks_folder_remove(&folder);
}

typedef struct starter {
    psring_options options;
    psring_err err;
    char detail[512];
} starter;

static void *start(void *context)
{
    starter *s = context;
    psring_comm *comm = NULL;
    s->err = psring_init(&s->options, &comm);
    snprintf(s->detail, sizeof s->detail, "%s", psring_err_detail());
    expect_ok(psring_close(&comm));
    return NULL;
}

static void start_two(starter starters[2])
{
    pthread_t threads[2];
    for (int r = 0; r < 2; r++)
        expect(pthread_create(&threads[r], NULL, start, &starters[r]) == 0);
    for (int r = 0; r < 2; r++)
        expect(pthread_join(threads[r], NULL) == 0);
}

static void ranks_that_do_not_agree_are_named_to_both(void **state)
{
    (void)state;
    ranks_folder folder;
    starter starters[2];
    ranks_folder_make(&folder);
    for (int r = 0; r < 2; r++) {
        starters[r].options = ranks_options(&folder, 2, r, 0);
        starters[r].options.agree = r == 0 ? "seed 1" : "seed 2";
        starters[r].options.agree_bytes = 6;
    }
    start_two(starters);
    for (int r = 0; r < 2; r++) {
        expect(starters[r].err == PSRING_ERR_USAGE);
        expect(strstr(starters[r].detail, "rank 0 on") != NULL &&
               strstr(starters[r].detail, "rank 1 on") != NULL);
    }
    for (int r = 0; r < 2; r++) /* and when they do, all is well */
        starters[r].options.agree = "seed 1";
    start_two(starters);
    expect(starters[0].err == PSRING_OK && starters[1].err == PSRING_OK);
    ranks_folder_remove(&folder);
}

static void another_number_of_ranks_is_refused(void **state)
{
    (void)state;
    ranks_folder folder;
    starter starters[2];
    ranks_folder_make(&folder);
    for (int r = 0; r < 2; r++)
        starters[r].options = ranks_options(&folder, 2 + r, r, 0);
    start_two(starters);
    expect(starters[0].err == PSRING_ERR_PEER && starters[1].err == PSRING_ERR_USAGE);
    for (int r = 0; r < 2; r++)
        expect(strstr(starters[r].detail, "ranks is 3 here") != NULL);
    ranks_folder_remove(&folder);
}

/* Ranks as they come. */
static void the_scheduler_gives_ranks(void **state)
{
    (void)state;
    ranks_folder folder;
    starter starters[2];
    ranks_folder_make(&folder);
    for (int r = 0; r < 2; r++) {
        starters[r].options = ranks_options(&folder, 2, r, 0);
        starters[r].options.rank = PSRING_NO_RANK;
    }
    start_two(starters);
    expect(starters[0].err == PSRING_OK && starters[1].err == PSRING_OK);
    ranks_folder_remove(&folder);
}

static void a_socket_that_is_in_use_is_not_taken_over(void **state)
{
    (void)state;
    ranks_folder folder;
    starter first = {0};
    pthread_t thread;
    psring_comm *comm = NULL, *second = NULL;
    ranks_folder_make(&folder);
    first.options = ranks_options(&folder, 2, 1, 0);
    psring_options options = ranks_options(&folder, 2, 0, 0);
    expect(pthread_create(&thread, NULL, start, &first) == 0);
    expect_ok(psring_init(&options, &comm));
    expect(psring_init(&options, &second) == PSRING_ERR_IO);
    expect(strstr(psring_err_detail(), "in use") != NULL);
    expect_ok(psring_close(&comm));
    expect(pthread_join(thread, NULL) == 0 && first.err == PSRING_OK);
    ranks_folder_remove(&folder);
}

/* ---- options ---- */

static void expect_refused(const psring_options *options, psring_err err, const char *words)
{
    psring_comm *comm = NULL;
    expect(psring_init(options, &comm) == err && comm == NULL);
    expect(strstr(psring_err_detail(), words) != NULL);
}

static void options_that_cannot_be_are_refused_in_words(void **state)
{
    (void)state;
    static const char agreed[1];
    expect_refused(PSRING_WITH(psring_options, .ranks = -1), PSRING_ERR_USAGE, "ranks is -1");
    expect_refused(PSRING_WITH(psring_options, .ranks = 2, .rank = 2), PSRING_ERR_USAGE,
                   "rank is 2");
    expect_refused(PSRING_WITH(psring_options, .ranks = 2), PSRING_ERR_USAGE,
                   "without a scheduler");
    expect_refused(PSRING_WITH(psring_options, .ranks = 2, .scheduler = "nowhere"),
                   PSRING_ERR_USAGE, "nowhere");
    expect_refused(PSRING_WITH(psring_options, .ranks = 2, .scheduler = "127.0.0.1:4100"),
                   PSRING_ERR_USAGE, "key_file");
    expect_refused(PSRING_WITH(psring_options, .ranks = 1, .deadline_ms = -1), PSRING_ERR_USAGE,
                   "deadline");
    expect_refused(PSRING_WITH(psring_options, .ranks = 1, .agree = agreed, .agree_bytes = 1 << 20),
                   PSRING_ERR_USAGE, "agree");
    expect_refused(
        PSRING_WITH(psring_options, .ranks = 2, .scheduler = "/nowhere/at/all/scheduler"),
        PSRING_ERR_NOT_FOUND, "/nowhere/at/all");
}

/* A program that was built with a later version. */
typedef struct later_options {
    psring_options known;
    uint64_t later;
} later_options;

static void what_a_later_version_says_is_refused_and_its_zeros_are_not(void **state)
{
    (void)state;
    psring_comm *comm = NULL;
    later_options later = {.known = {.size = sizeof later, .ranks = 1}};
    expect_ok(psring_init(&later.known, &comm));
    expect_ok(psring_close(&comm));
    later.later = 1;
    expect_refused(&later.known, PSRING_ERR_USAGE, "does not know");
    expect_refused(&(psring_options){.ranks = 1}, PSRING_ERR_USAGE, "sizeof(psring_options)");
    expect_refused(&(psring_options){.size = (size_t)1 << 40, .ranks = 1}, PSRING_ERR_USAGE,
                   "size");
}

/* Keys of a run lie in it. */
static void what_is_refused_leaves_no_file_by_which_hosts_would_have_met(void **state)
{
    (void)state;
    ranks_folder folder;
    ranks_folder_make(&folder);
    const char *const environment[][2] = {
        {"OMPI_COMM_WORLD_RANK", "0"},       {"OMPI_COMM_WORLD_SIZE", "2"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"PMIX_NAMESPACE", "a job"},
        {"PSRING_MEETING", folder.path},     {"PSRING_INTERFACE", "127.0.0.1"}};
    enum { VARIABLES = sizeof environment / sizeof environment[0] };
    for (size_t i = 0; i < VARIABLES; i++)
        setenv(environment[i][0], environment[i][1], 1);
    expect_refused(PSRING_WITH(psring_options, .shards = 2), PSRING_ERR_USAGE,
                   "shards is 2, of 2 ranks");
    for (size_t i = 0; i < VARIABLES; i++)
        unsetenv(environment[i][0]);
    ranks_folder_remove(&folder); /* it is empty */
}

/* As under MPI. What the environment says of itself counts there too. */
static void who_is_started_by_no_launcher_is_one_rank(void **state)
{
    (void)state;
    static const char *const of_others[][2] = {{"PSRING_RANK", "0"},
                                               {"PSRING_SCHEDULER", "/run/somewhere"},
                                               {"PSRING_SHARDS", "1"},
                                               {"PSRING_HOST_SCHEDULER", "1"},
                                               {"PSRING_MEETING", "/run"}};
    psring_comm *comm = NULL;
    int32_t x = 7;
    setenv("PSRING_HOST", "node7", 1);
    for (int given = 0; given < 2; given++) {
        expect_ok(
            psring_init(given ? PSRING_WITH(psring_options, .deadline_ms = 1000) : NULL, &comm));
        psring_group *world = psring_world(comm);
        expect(psring_size(world) == 1 && psring_rank(world) == 0 && psring_shards(comm) == 0);
        expect(strcmp(psring_host(world, 0), "node7") == 0);
        expect_ok(psring_all_reduce(world, &x, &x, 1, PSRING_INT32, PSRING_SUM, NULL, NULL));
        expect_ok(psring_barrier(world, NULL, NULL));
        expect(x == 7);
        expect_ok(psring_close(&comm));
    }
    unsetenv("PSRING_HOST");
    expect_refused(PSRING_WITH(psring_options, .shards = 1), PSRING_ERR_USAGE,
                   "shards is 1, of 1 ranks");
    for (size_t i = 0; i < sizeof of_others / sizeof of_others[0]; i++) {
        setenv(of_others[i][0], of_others[i][1], 1);
        expect_refused(NULL, PSRING_ERR_NOT_FOUND, of_others[i][0]);
        expect(strstr(psring_err_detail(), "set PSRING_RANK and PSRING_RANKS") != NULL);
        unsetenv(of_others[i][0]);
    }
}

static void the_environment_gives_a_place(void **state)
{
    (void)state;
    struct {
        psring_options known;
        uint64_t later;
    } options = {.known = {.size = sizeof options}, .later = 7};
    psring_comm *comm = NULL;
    expect(psring_options_env(&options.known) == PSRING_ERR_NOT_FOUND && options.later == 7);
    setenv("PSRING_RANKS", "4", 1);
    setenv("PSRING_RANK", "4", 1);
    expect(psring_options_env(&options.known) == PSRING_ERR_USAGE);
    expect(strstr(psring_err_detail(), "PSRING_RANK is \"4\": it should be a number from 0 to 3") !=
           NULL);
    setenv("PSRING_RANK", "0", 1);
    setenv("PSRING_SCHEDULER", "/run/somewhere", 1);
    setenv("PSRING_DEADLINE_MS", "1234", 1);
    setenv("PSRING_HOST", "node7", 1);
    setenv("PSRING_TRANSPORT", "shm", 1);
    setenv("PSRING_SHARING", "/run/there", 1);
    expect_ok(psring_options_env(&options.known));
    const psring_options *o = &options.known;
    expect(o->ranks == 4 && o->rank == 0 && o->host_scheduler && o->deadline_ms == 1234 &&
           options.later == 0);
    expect(strcmp(o->scheduler, "/run/somewhere") == 0 && strcmp(o->host, "node7") == 0 &&
           o->key_file == NULL);
    expect(strcmp(o->transport, "shm") == 0 && strcmp(o->sharing, "/run/there") == 0);
    unsetenv("PSRING_TRANSPORT");
    unsetenv("PSRING_SHARING");
    setenv("PSRING_RANK", "1", 1);
    expect_ok(psring_options_env(&options.known));
    expect(o->rank == 1 && !o->host_scheduler);
    setenv("PSRING_RANKS", "1", 1);
    setenv("PSRING_RANK", "0", 1);
    unsetenv("PSRING_SCHEDULER");
    expect_refused(PSRING_WITH(psring_options, .host = "node8"), PSRING_ERR_USAGE, "ranks is 0");
    expect_refused(PSRING_WITH(psring_options, .agree_bytes = 1), PSRING_ERR_USAGE, "agree");
    expect_ok(psring_init(NULL, &comm)); /* alone */
    expect(strcmp(psring_host(psring_world(comm), 0), "node7") == 0);
    expect_ok(psring_close(&comm));
    expect(psring_version() == 1u << 8); /* 0.1.0 */
}

/* ---- how values go ---- */

enum { LARGE = 1 << 20 }; /* bytes: several slices */

/* context: what psring_options.transport says, on all ranks. */
static void *sum_much(void *context)
{
    const psring_options *o = context;
    const size_t count = LARGE / sizeof(float);
    psring_comm *comm = NULL;
    psring_counts counts = {.size = sizeof counts};
    float *values = malloc(LARGE);
    expect(values != NULL);
    expect_ok(psring_init(o, &comm));
    for (int call = 0; call < 8; call++) { /* the first may come before memory is mapped */
        for (size_t i = 0; i < count; i++)
            values[i] = (float)(i % 1000) + (float)o->rank;
        expect_ok(psring_all_reduce(psring_world(comm), values, values, count, PSRING_FLOAT32,
                                    PSRING_SUM, NULL, NULL));
        for (size_t i = 0; i < count; i++)
            expect(values[i] == (float)(3 * (i % 1000) + 3));
    }
    expect_ok(psring_counts_get(comm, &counts));
    const bool shares = o->transport == NULL || strcmp(o->transport, "ipc") != 0;
    expect(shares ? counts.bytes_lent > 0 && counts.bytes_lent <= counts.bytes_sent
                  : counts.bytes_lent == 0);
    expect_ok(psring_close(&comm));
    free(values);
    return NULL;
}

static void large_values_go_through_shared_memory_unless_sockets_are_asked_for(void **state)
{
    (void)state;
    static const char *const transports[] = {NULL, "auto", "shm", "ipc"};
    for (size_t t = 0; t < sizeof transports / sizeof transports[0]; t++) {
        ranks_folder folder;
        psring_options options[3];
        pthread_t threads[3];
        ranks_folder_make(&folder);
        for (int r = 0; r < 3; r++) {
            options[r] = ranks_options(&folder, 3, r, 20000);
            options[r].transport = transports[t];
            expect(pthread_create(&threads[r], NULL, sum_much, &options[r]) == 0);
        }
        for (int r = 0; r < 3; r++)
            expect(pthread_join(threads[r], NULL) == 0);
        ranks_folder_remove(&folder);
    }
}

static void a_transport_that_cannot_be_is_refused(void **state)
{
    (void)state;
    ranks_folder folder;
    ranks_folder_make(&folder);
    psring_options o = ranks_options(&folder, 2, 1, 1000);
    o.transport = "carrier pigeon";
    expect_refused(&o, PSRING_ERR_USAGE, "it should be auto, shm, ipc or tcp");
    o.transport = "tcp";
    expect_refused(&o, PSRING_ERR_USAGE,
                   "transport is \"tcp\", and the ranks meet at a socket's path");
    o.scheduler = "127.0.0.1:9";
    o.transport = "ipc";
    expect_refused(&o, PSRING_ERR_USAGE, "transport is \"ipc\", and the ranks meet at HOST:PORT");
    ranks_folder_remove(&folder);
}

/* Of calls: nothing of the communicator is touched by what is refused. */
/* In place is where this rank's values lie: elsewhere send and receive are apart. elsewhere: the
 * place of another rank. */
static void expect_refused_overlap(psring_group *world, int elsewhere)
{
    float x[3] = {0}, *wrong = x + elsewhere;
    expect(psring_all_gather(world, wrong, x, 1, PSRING_FLOAT32, NULL, NULL) == PSRING_ERR_USAGE);
    expect(strstr(psring_err_detail(), "all_gather: send and receive overlap") != NULL);
    expect(psring_reduce_scatter(world, x, wrong, 1, PSRING_FLOAT32, PSRING_SUM, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_all_reduce(world, x, x + 1, 2, PSRING_FLOAT32, PSRING_SUM, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_all_to_all_v(world, x, (const size_t[]){1, 1}, x + 1, (const size_t[]){1, 1},
                               PSRING_FLOAT32, NULL, NULL) == PSRING_ERR_USAGE);
    if (elsewhere == 1) /* who is rank 0 */
        expect(
            psring_gather(world, wrong, x, 1, PSRING_FLOAT32, 0, NULL, NULL) == PSRING_ERR_USAGE &&
            psring_scatter(world, x, wrong, 1, PSRING_FLOAT32, 0, NULL, NULL) == PSRING_ERR_USAGE);
}

static void call_wrongly(psring_comm **comm, int rank, void *context)
{
    psring_group *world = psring_world(*comm);
    float x[4] = {0};
    unsigned char bytes[16];
    (void)context;
    expect(psring_all_reduce(world, x, x, 1, (psring_type)0, PSRING_SUM, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_all_reduce(world, x, x, 1, (psring_type)99, PSRING_SUM, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_all_reduce(world, x, x, 1, PSRING_FLOAT32, (psring_op)99, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(strcmp(psring_err_detail(), "all_reduce: there is no operation 99") == 0);
    expect(psring_all_reduce(world, x, x, 1, PSRING_INT32, PSRING_MEAN, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_all_reduce(world, NULL, x, 1, PSRING_FLOAT32, PSRING_SUM, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_all_reduce(world, bytes + 1, x, 1, PSRING_FLOAT32, PSRING_SUM, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_all_reduce(world, x, x, SIZE_MAX, PSRING_FLOAT32, PSRING_SUM, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_broadcast(world, x, 1, PSRING_FLOAT32, 2, NULL, NULL) == PSRING_ERR_USAGE);
    expect(psring_broadcast(world, x, 1, PSRING_FLOAT32, -1, NULL, NULL) == PSRING_ERR_USAGE);
    expect(psring_send(world, x, 1, PSRING_FLOAT32, 2, 0, NULL, NULL) == PSRING_ERR_USAGE);
    expect(psring_send(world, x, 1, PSRING_FLOAT32, 1 - rank, PSRING_TAG_MAX + 1, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_barrier(world, PSRING_CALL(.deadline_ms = -1), NULL) == PSRING_ERR_USAGE);
    expect(psring_barrier(world, &(psring_call){0}, NULL) == PSRING_ERR_USAGE);
    expect(psring_all_to_all(world, x, x + 1, 1, PSRING_FLOAT32, NULL, NULL) == PSRING_ERR_USAGE);
    expect_refused_overlap(world, 1 - rank);
    expect_ok(psring_barrier(world, NULL, NULL));
}

/* Wherever a handle or a result is wanted. */
static void null_is_refused_by_name(void **state)
{
    (void)state;
    psring_comm *comm = NULL;
    psring_request *none = NULL;
    psring_halo halo = {.size = sizeof halo};
    size_t index = 7;
    float x = 0;
    expect_ok(psring_init(PSRING_WITH(psring_options, .ranks = 1), &comm));
    psring_group *world = psring_world(comm);
    expect(psring_init(NULL, NULL) == PSRING_ERR_USAGE &&
           psring_options_env(NULL) == PSRING_ERR_USAGE);
    expect(psring_world(NULL) == NULL && psring_rank(NULL) == PSRING_NO_RANK &&
           psring_size(NULL) == 0);
    expect(psring_epoch(NULL) == 0 && psring_host(NULL, 0) == NULL);
    expect(psring_local_rank(NULL, NULL) == PSRING_NO_RANK && psring_algorithm(NULL) == NULL);
    expect(psring_group_translate(world, 0, NULL) == PSRING_NO_RANK);
    psring_report(NULL, 1);
    expect(psring_group_failure(NULL, NULL) == PSRING_ERR_USAGE);
    expect(psring_group_failure(world, NULL) == PSRING_ERR_USAGE);
    expect(psring_barrier(NULL, NULL, NULL) == PSRING_ERR_USAGE);
    expect(strcmp(psring_err_detail(), "barrier: group is NULL") == 0);
    expect(psring_neighbor_exchange(NULL, NULL, 1, NULL, 0, PSRING_FLOAT32, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_neighbor_exchange(world, NULL, 1, NULL, 0, PSRING_FLOAT32, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_halo_exchange(NULL, &halo, &x, &x, PSRING_FLOAT32, NULL, NULL) ==
           PSRING_ERR_USAGE);
    expect(psring_group_split(NULL, 0, 0, NULL, NULL) == PSRING_ERR_USAGE);
    expect(psring_group_split(world, 0, 0, NULL, NULL) == PSRING_ERR_USAGE);
    expect(psring_group_from_ranks(world, &(int){0}, 1, NULL, NULL) == PSRING_ERR_USAGE);
    expect(psring_group_on_host(world, NULL, NULL) == PSRING_ERR_USAGE);
    expect(psring_start(NULL) == PSRING_ERR_USAGE && psring_test(NULL) == PSRING_ERR_USAGE);
    expect(psring_wait(NULL, 0) == PSRING_ERR_USAGE);
    expect(psring_wait_any(NULL, 1, 0, &index) == PSRING_ERR_USAGE);
    expect(psring_wait_any(&none, 1, 0, NULL) == PSRING_ERR_USAGE && index == 7);
    expect(psring_wait_some(NULL, 1, 0, &index, &index) == PSRING_ERR_USAGE && index == 7);
    expect_ok(psring_close(&comm));
}

static void calls_that_cannot_be_are_refused_and_break_nothing(void **state)
{
    (void)state;
    ranks_run(2, call_wrongly, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_communicator_is_opened_again),
        cmocka_unit_test(who_has_left_has_sent_all),
        cmocka_unit_test(a_rank_that_has_joined_cannot_be_joined_again),
        cmocka_unit_test(two_communicators_know_nothing_of_each_other),
        cmocka_unit_test(one_rank_is_alone_without_a_scheduler),
        cmocka_unit_test(a_rank_that_never_joins_is_named),
        cmocka_unit_test(ranks_that_do_not_agree_are_named_to_both),
        cmocka_unit_test(another_number_of_ranks_is_refused),
        cmocka_unit_test(the_scheduler_gives_ranks),
        cmocka_unit_test(a_socket_that_is_in_use_is_not_taken_over),
        cmocka_unit_test(options_that_cannot_be_are_refused_in_words),
        cmocka_unit_test(what_a_later_version_says_is_refused_and_its_zeros_are_not),
        cmocka_unit_test(what_is_refused_leaves_no_file_by_which_hosts_would_have_met),
        cmocka_unit_test(who_is_started_by_no_launcher_is_one_rank),
        cmocka_unit_test(the_environment_gives_a_place),
        cmocka_unit_test(large_values_go_through_shared_memory_unless_sockets_are_asked_for),
        cmocka_unit_test(a_transport_that_cannot_be_is_refused),
        cmocka_unit_test(null_is_refused_by_name),
        cmocka_unit_test(calls_that_cannot_be_are_refused_and_break_nothing),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
