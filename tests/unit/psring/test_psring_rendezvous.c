/* Keys that are passed by value, and ranks that find each other by a store. Ranks are threads. */
#include "tests/unit/psring/ranks.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { RANKS = 3, DEADLINE_MS = 20000 };

static void sum(psring_comm *comm)
{
    float x = 1;
    psring_group *world = psring_world(comm);
    expect_ok(psring_all_reduce(world, &x, &x, 1, PSRING_FLOAT32, PSRING_SUM, NULL, NULL));
    expect(x == (float)psring_size(world));
}

static void *join_and_sum(void *context)
{
    psring_comm *comm = NULL;
    expect_ok(psring_init(context, &comm));
    sum(comm);
    expect_ok(psring_close(&comm));
    return NULL;
}

static void run_all(psring_options options[RANKS])
{
    pthread_t threads[RANKS];
    for (int r = 0; r < RANKS; r++)
        expect(pthread_create(&threads[r], NULL, join_and_sum, &options[r]) == 0);
    for (int r = 0; r < RANKS; r++)
        expect(pthread_join(threads[r], NULL) == 0);
}

static void *be_denied(void *context)
{
    psring_comm *comm = NULL;
    expect(psring_init(context, &comm) == PSRING_ERR_DENIED && comm == NULL);
    return NULL;
}

static void a_key_is_passed_by_value(void **state)
{
    char *key = NULL, *other = NULL;
    ranks_folder folder;
    psring_options options[RANKS];
    (void)state;
    ranks_folder_make(&folder);
    expect_ok(psring_key_make(RANKS, &key));
    expect_ok(psring_key_make(RANKS, &other));
    expect(strcmp(key, other) != 0);
    for (int r = 0; r < RANKS; r++) {
        options[r] = ranks_options(&folder, RANKS, r, DEADLINE_MS);
        options[r].key = key;
    }
    run_all(options);

    /* A stranger with a key of its own is turned away, and the others never wait for it. */
    psring_options stranger = options[1];
    stranger.key = other;
    pthread_t thread, threads[RANKS];
    expect(pthread_create(&threads[0], NULL, join_and_sum, &options[0]) == 0);
    expect(pthread_create(&thread, NULL, be_denied, &stranger) == 0);
    expect(pthread_join(thread, NULL) == 0);
    for (int r = 1; r < RANKS; r++)
        expect(pthread_create(&threads[r], NULL, join_and_sum, &options[r]) == 0);
    for (int r = 0; r < RANKS; r++)
        expect(pthread_join(threads[r], NULL) == 0);

    psring_comm *comm = NULL;
    options[1].key = "{}";
    expect(psring_init(&options[1], &comm) == PSRING_ERR_FORMAT);
    options[1].key = key;
    options[1].key_file = "/nowhere";
    expect(psring_init(&options[1], &comm) == PSRING_ERR_USAGE);
    expect(strstr(psring_err_detail(), "one of them is enough") != NULL);
    char *none = NULL;
    expect(psring_key_make(0, &none) == PSRING_ERR_USAGE && none == NULL);
    psring_key_free(&key);
    psring_key_free(&other);
    psring_key_free(&key);
    psring_key_free(NULL);
    ranks_folder_remove(&folder);
}

/* ---- a store ---- */

typedef struct table {
    pthread_mutex_t mutex;
    pthread_cond_t came;
    char name[32];
    char *value;
    size_t bytes;
    psring_err fails; /* what its functions return; OK: they work */
} table;

static psring_err put(void *context, const char *name, const void *value, size_t bytes)
{
    table *t = context;
    if (t->fails != PSRING_OK)
        return t->fails;
    pthread_mutex_lock(&t->mutex);
    expect(t->value == NULL);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->value = malloc(bytes);
    memcpy(t->value, value, bytes);
    t->bytes = bytes;
    pthread_cond_broadcast(&t->came);
    pthread_mutex_unlock(&t->mutex);
    return PSRING_OK;
}

static psring_err get(void *context, const char *name, int64_t timeout_ms, void *ret_value,
                      size_t room, size_t *ret_bytes)
{
    table *t = context;
    if (t->fails != PSRING_OK)
        return t->fails;
    expect(timeout_ms == DEADLINE_MS);
    pthread_mutex_lock(&t->mutex);
    while (t->value == NULL)
        pthread_cond_wait(&t->came, &t->mutex);
    expect(strcmp(name, t->name) == 0 && t->bytes <= room);
    memcpy(ret_value, t->value, t->bytes);
    *ret_bytes = t->bytes;
    pthread_mutex_unlock(&t->mutex);
    return PSRING_OK;
}

static void ranks_find_each_other_by_a_store(void **state)
{
    table t = {.mutex = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};
    const psring_store store = {.size = sizeof store, .context = &t, .put = put, .get = get};
    psring_options options[RANKS];
    psring_comm *comm = NULL;
    (void)state;
    for (int r = 0; r < RANKS; r++)
        options[r] = (psring_options){.size = sizeof options[r],
                                      .ranks = RANKS,
                                      .rank = r,
                                      .deadline_ms = DEADLINE_MS,
                                      .store = &store};
    run_all(options);

    /* What a store refuses, and what is given beside it. */
    t.fails = PSRING_ERR_TIMEOUT;
    expect(psring_init(&options[1], &comm) == PSRING_ERR_TIMEOUT);
    expect(strstr(psring_err_detail(), "getting \"psring\" failed: timeout") != NULL);
    t.fails = (psring_err)12345;
    expect(psring_init(&options[0], &comm) == PSRING_ERR_IO);
    options[1].scheduler = "127.0.0.1:1";
    expect(psring_init(&options[1], &comm) == PSRING_ERR_USAGE);
    expect(strstr(psring_err_detail(), "come from it") != NULL);
    options[1].scheduler = NULL;
    options[1].rank = PSRING_NO_RANK;
    expect(psring_init(&options[1], &comm) == PSRING_ERR_USAGE);
    t.fails = PSRING_OK;
    memset(t.value, 'x', t.bytes); /* no end of the address */
    expect(psring_init(&options[2], &comm) == PSRING_ERR_FORMAT && comm == NULL);
    free(t.value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_passed_by_value),
        cmocka_unit_test(ranks_find_each_other_by_a_store),
    };
    return cmocka_run_group_tests_name("psring: keys in memory, stores", tests, NULL, NULL);
}
