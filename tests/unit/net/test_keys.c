#include "tests/unit/key_file.h"
#include "tests/unit/network_fixture.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[] = "/tmp/psr-test-keys-XXXXXX";
static char path[64];

/* Whose the sets of make_keys are. */
static const psr_peer order[] = {
    {PSR_ROLE_SCHEDULER, 0}, {PSR_ROLE_SHARD, 0}, {PSR_ROLE_WORKER, 0}, {PSR_ROLE_WORKER, 1}};
static const psr_peer any_worker = {PSR_ROLE_WORKER, PSR_RANK_ANY};

static int make_directory(void **state)
{
    (void)state;
    if (mkdtemp(directory) == NULL)
        return -1;
    snprintf(path, sizeof path, "%s/worker-0.key", directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory); /* fails where a test left something behind */
}

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void assert_same_keys(const psr_keys *a, const psr_keys *b)
{
    assert_int_equal(a->curve, b->curve);
    assert_int_equal(a->bare, b->bare);
    assert_string_equal(a->token, b->token);
    assert_string_equal(a->public_key, b->public_key);
    assert_string_equal(a->secret_key, b->secret_key);
    assert_int_equal(a->member_count, b->member_count);
    for (size_t i = 0; i < a->member_count; i++) {
        assert_true(psr_peer_equal(a->members[i].peer, b->members[i].peer));
        assert_string_equal(a->members[i].public_key, b->members[i].public_key);
    }
}

static void a_run_with_curve_has_a_pair_for_each_and_everybodys_public_keys(void **state)
{
    (void)state;
    run_keys keys = make_keys(true);
    assert_int_equal(keys.count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_true(keys.sets[i].curve);
        assert_string_equal(keys.sets[i].token, "");
        assert_int_equal(strlen(keys.sets[i].public_key), 40);
        assert_int_equal(strlen(keys.sets[i].secret_key), 40);
        assert_int_equal(keys.sets[i].member_count, 4);
        for (size_t k = 0; k < 4; k++) {
            assert_string_equal(psr_keys_of(&keys.sets[i], order[k]), keys.sets[k].public_key);
            assert_string_not_equal(keys.sets[k].secret_key,
                                    keys.sets[i == k ? (i + 1) % 4 : i].secret_key);
        }
        assert_null(psr_keys_of(&keys.sets[i], (psr_peer){PSR_ROLE_WORKER, 2}));
    }
    free_keys(&keys);
}

static void a_run_without_curve_has_a_token_for_each_pair(void **state)
{
    (void)state;
    run_keys keys = make_keys(false), others = make_keys(false);
    for (size_t i = 0; i < keys.count; i++) {
        assert_false(keys.sets[i].curve);
        assert_string_equal(keys.sets[i].token, "");
        assert_int_equal(keys.sets[i].member_count, 4);
        for (size_t k = 0; k < 4; k++) {
            const char *token = psr_keys_of(&keys.sets[i], order[k]);
            assert_int_equal(strlen(token), 40);
            assert_string_equal(token, psr_keys_of(&keys.sets[k], order[i]));
            for (size_t other = 0; other < 4; other++)
                if (other != k)
                    assert_string_not_equal(token, psr_keys_of(&keys.sets[i], order[other]));
            assert_string_not_equal(token, psr_keys_of(&others.sets[i], order[k]));
        }
    }
    free_keys(&keys);
    free_keys(&others);
}

static void all_that_share_a_file_without_curve_have_one_token(void **state)
{
    (void)state;
    run_keys keys = make_one_token(), others = make_one_token();
    for (size_t i = 0; i < keys.count; i++) {
        assert_int_equal(strlen(keys.sets[i].token), 64);
        assert_string_equal(keys.sets[i].token, keys.sets[0].token);
        assert_int_equal(keys.sets[i].member_count, 0);
    }
    assert_string_not_equal(keys.sets[0].token, others.sets[0].token);
    free_keys(&keys);
    free_keys(&others);
}

static void more_members_than_any_run_has_are_refused(void **state)
{
    (void)state;
    psr_keys *sets = NULL;
    size_t count = 0;
    assert_fails(psr_keys_generate(UINT32_MAX, UINT32_MAX, true, &sets, &count), PSR_ERR_USAGE,
                 "8192 is the most");
    assert_null(sets);
}

static void json_comes_back_as_the_same_keys(void **state)
{
    (void)state;
    for (int curve = 0; curve < 2; curve++) {
        run_keys keys = make_keys(curve);
        for (size_t i = 0; i < keys.count; i++) {
            char *json;
            psr_keys back;
            assert_ok(psr_keys_to_json(&keys.sets[i], &json));
            assert_null(strchr(json, '\n')); /* one line */
            assert_ok(psr_keys_from_json(json, strlen(json), order[i], &back));
            assert_same_keys(&back, &keys.sets[i]);
            psr_keys_done(&back);
            free(json);
        }
        free_keys(&keys);
    }
}

/* A good set with one thing changed. */
static char *changed(const psr_keys *keys, const char *what, const char *into)
{
    char *json, *result;
    assert_ok(psr_keys_to_json(keys, &json));
    char *at = strstr(json, what);
    assert_non_null(at);
    assert_true(asprintf(&result, "%.*s%s%s", (int)(at - json), json, into, at + strlen(what)) > 0);
    free(json);
    return result;
}

static void refused(const char *json, const char *text)
{
    psr_keys keys = {.member_count = 77};
    assert_fails(psr_keys_from_json(json, strlen(json), shard0, &keys), PSR_ERR_FORMAT, text);
    assert_int_equal(keys.member_count, 77);
}

static void refused_when(const psr_keys *keys, const char *what, const char *into, const char *text)
{
    char *json = changed(keys, what, into);
    refused(json, text);
    free(json);
}

static void text_that_is_not_keys_is_refused_by_what_is_wrong(void **state)
{
    (void)state;
    run_keys curve = make_keys(true), token = make_one_token(), pairs = make_keys(false);
    const psr_keys *c = &curve.sets[1], *t = &token.sets[1], *p = &pairs.sets[1];
    refused("", "should be a JSON object");
    refused("[]", "should be a JSON object");
    refused("{", "should be a JSON object");
    refused("{}", "\"curve\" should be true or false");
    refused("{\"curve\": 1}", "\"curve\" should be true or false");
    refused("{\"curve\": false}", "\"token\" should be 64 hexadecimal digits");
    refused("{\"curve\": true}", "\"public\" should be a key");
    refused_when(t, t->token, "abc", "\"token\" should be");
    refused_when(t, t->token, "g123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                 "\"token\" should be");
    refused_when(p, "\"own\":\"", "\"own\":\"x", "\"own\" should be a key of 40 Z85 characters");
    refused_when(p, p->public_key, pairs.sets[2].public_key,
                 "\"members\" lacks the key under \"own\"");
    refused_when(c, c->secret_key, "short", "\"secret\" should be a key of 40 Z85 characters");
    refused_when(c, c->secret_key, "\"\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\\",
                 "should be a JSON object");
    refused_when(c, c->secret_key, "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~",
                 "\"secret\" should be a key");
    refused_when(c, c->secret_key, "########################################",
                 "\"secret\" should be a key");
    refused_when(c, c->secret_key, curve.sets[0].secret_key,
                 "\"public\" is not the key that belongs to \"secret\"");
    refused_when(c, "\"curve\":true", "\"curve\":true,\"shared\":1",
                 "\"shared\" should be true or false");
    refused_when(c, "\"members\":[", "\"numbers\":[", "\"members\" should be a list");
    refused_when(c, "\"members\":[", "\"members\":[{},",
                 "\"role\" should be scheduler, shard or worker");
    refused_when(c, "\"role\":\"worker\"", "\"role\":\"boss\"", "\"role\" should be");
    refused_when(c, "\"rank\":1", "\"rank\":-1", "\"rank\" of a worker");
    refused_when(c, "\"rank\":1", "\"rank\":0.5", "\"rank\" of a worker");
    refused_when(c, "\"rank\":1", "\"rank\":1e300", "\"rank\" of a worker");
    refused_when(c, "\"rank\":1", "\"rank\":\"1\"", "\"rank\" of a worker");
    refused_when(c, "\"rank\":0", "\"rank\":1", "\"rank\" of a scheduler");
    refused_when(c, "\"rank\":1", "\"rank\":0", "worker 0 twice");
    refused_when(c, curve.sets[3].public_key, curve.sets[2].public_key, "one key twice");
    refused_when(c, curve.sets[3].public_key, "x", "\"key\" should be a key");
    free_keys(&curve);
    free_keys(&token);
    free_keys(&pairs);
}

static void a_roster_without_the_own_key_is_refused(void **state)
{
    (void)state;
    run_keys keys = make_keys(true), others = make_keys(true);
    psr_keys mixed = keys.sets[1];
    mixed.members = others.sets[1].members;
    char *json;
    assert_ok(psr_keys_to_json(&mixed, &json));
    refused(json, "lacks the key under \"public\"");
    free(json);
    free_keys(&keys);
    free_keys(&others);
}

static void more_text_than_any_keys_have_is_refused(void **state)
{
    (void)state;
    size_t size = (1u << 20) + 1;
    char *text = malloc(size + 1);
    memset(text, ' ', size);
    text[size] = '\0';
    refused(text, "1048576 is the most");
    free(text);
}

static void a_saved_file_is_private_and_loads_as_the_same_keys(void **state)
{
    (void)state;
    run_keys keys = make_keys(true);
    mode_t old = umask(0);
    assert_ok(save_key_file(&keys.sets[2], path));
    umask(old);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);
    psr_keys back;
    assert_ok(psr_keys_load(path, worker0, &back));
    assert_same_keys(&back, &keys.sets[2]);
    psr_keys_done(&back);
    unlink(path);
    free_keys(&keys);
}

static void a_key_file_that_is_there_stays(void **state)
{
    (void)state;
    run_keys keys = make_keys(true);
    psr_keys back;
    assert_ok(save_key_file(&keys.sets[2], path));
    assert_fails(save_key_file(&keys.sets[3], path), PSR_ERR_USAGE,
                 "exists already, and keys are not replaced");
    assert_ok(psr_keys_load(path, worker0, &back));
    assert_same_keys(&back, &keys.sets[2]);
    psr_keys_done(&back);
    unlink(path); /* and nothing is left beside it, or the directory could not be removed */
    free_keys(&keys);
}

static void a_file_that_others_can_use_is_refused(void **state)
{
    (void)state;
    static const mode_t modes[] = {0640, 0604, 0620, 0601, 0666, 0644};
    run_keys keys = make_keys(false);
    psr_keys back;
    assert_ok(save_key_file(&keys.sets[0], path));
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        assert_int_equal(chmod(path, modes[i]), 0);
        char text[128];
        snprintf(text, sizeof text, "can be used by others (mode %04o): chmod 600 %s",
                 (unsigned)modes[i], path);
        assert_fails(psr_keys_load(path, worker0, &back), PSR_ERR_USAGE, text);
    }
    unlink(path);
    free_keys(&keys);
}

static void what_is_not_a_file_of_keys_is_refused_with_its_path(void **state)
{
    (void)state;
    psr_keys back;
    assert_fails(psr_keys_load(path, worker0, &back), PSR_ERR_NOT_FOUND, path);
    assert_fails(psr_keys_load("/dev/null", worker0, &back), PSR_ERR_USAGE,
                 "is not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0);
    /* and does not wait for a writer */
    assert_fails(psr_keys_load(path, worker0, &back), PSR_ERR_USAGE, "is not a regular file");
    unlink(path);
    write_file("hello", 0600);
    assert_fails(psr_keys_load(path, worker0, &back), PSR_ERR_FORMAT, path);
    assert_non_null(strstr(psr_err_detail(), "it has neither \"curve\" nor \"tokens\""));
    assert_int_equal(truncate(path, (off_t)1 << 33), 0);
    assert_fails(psr_keys_load(path, worker0, &back), PSR_ERR_FORMAT, "1048576 is the most");
    unlink(path);
}

static void a_file_that_cannot_be_written_leaves_nothing(void **state)
{
    (void)state;
    run_keys keys = make_keys(false);
    char nowhere[128];
    snprintf(nowhere, sizeof nowhere, "%s/none/worker-0.key", directory);
    assert_fails(save_key_file(&keys.sets[0], nowhere), PSR_ERR_IO, nowhere);
    /* its name is taken */
    assert_fails(save_key_file(&keys.sets[0], directory), PSR_ERR_USAGE, directory);
    free_keys(&keys);
}

static void keys_of_another_process_are_refused_by_whose_they_are(void **state)
{
    (void)state;
    run_keys keys = make_keys(true);
    psr_keys back;
    assert_ok(save_key_file(&keys.sets[2], path));
    assert_fails(psr_keys_load(path, worker1, &back), PSR_ERR_USAGE, path);
    assert_fails(psr_keys_load(path, worker1, &back), PSR_ERR_USAGE,
                 "it is of worker 0, and this is worker 1:");
    assert_fails(psr_keys_load(path, shard0, &back), PSR_ERR_USAGE,
                 "it is of worker 0, and this is shard 0:");
    assert_fails(psr_keys_load(path, (psr_peer){PSR_ROLE_SHARD, PSR_RANK_ANY}, &back),
                 PSR_ERR_USAGE, "it is of worker 0, and this is shard:");
    assert_ok(psr_keys_load(path, any_worker, &back)); /* its rank is the key's */
    psr_keys_done(&back);
    unlink(path);
    free_keys(&keys);
}

static void of_a_folder_each_takes_the_file_of_its_role_and_rank(void **state)
{
    (void)state;
    run_keys keys = make_keys(true);
    psr_keys back;
    char own[128];
    assert_ok(psr_keys_path(directory, worker1, own, sizeof own));
    assert_string_equal(strrchr(own, '/'), "/worker-1.key");
    assert_fails(psr_keys_path(directory, worker1, own, strlen(own)), PSR_ERR_USAGE, "too long");
    assert_ok(save_key_file(&keys.sets[3], own));
    assert_ok(psr_keys_load(directory, worker1, &back));
    assert_same_keys(&back, &keys.sets[3]);
    psr_keys_done(&back);
    assert_fails(psr_keys_load(directory, worker0, &back), PSR_ERR_NOT_FOUND, "/worker-0.key");
    assert_fails(psr_keys_load(directory, any_worker, &back), PSR_ERR_USAGE,
                 "which rank this worker is must be said");
    unlink(own);
    free_keys(&keys);
}

static void shared_keys_that_do_not_go_together_are_refused(void **state)
{
    (void)state;
    run_keys keys = make_keys(true), others = make_keys(true);
    char *json;
    memcpy(keys.sets[1].secret_key, others.sets[1].secret_key, PSR_KEY_Z85);
    assert_ok(psr_keys_to_shared_json(keys.sets, &json));
    refused(json, "\"key\" is not the key that belongs to \"secret\"");
    free(json);
    memcpy(keys.sets[1].secret_key, "short", sizeof "short");
    assert_ok(psr_keys_to_shared_json(keys.sets, &json));
    refused(json, "\"secret\" should be a key");
    free(json);
    free_keys(&keys);
    free_keys(&others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_with_curve_has_a_pair_for_each_and_everybodys_public_keys),
        cmocka_unit_test(a_run_without_curve_has_a_token_for_each_pair),
        cmocka_unit_test(all_that_share_a_file_without_curve_have_one_token),
        cmocka_unit_test(more_members_than_any_run_has_are_refused),
        cmocka_unit_test(json_comes_back_as_the_same_keys),
        cmocka_unit_test(text_that_is_not_keys_is_refused_by_what_is_wrong),
        cmocka_unit_test(a_roster_without_the_own_key_is_refused),
        cmocka_unit_test(more_text_than_any_keys_have_is_refused),
        cmocka_unit_test(a_saved_file_is_private_and_loads_as_the_same_keys),
        cmocka_unit_test(a_key_file_that_is_there_stays),
        cmocka_unit_test(a_file_that_others_can_use_is_refused),
        cmocka_unit_test(what_is_not_a_file_of_keys_is_refused_with_its_path),
        cmocka_unit_test(a_file_that_cannot_be_written_leaves_nothing),
        cmocka_unit_test(keys_of_another_process_are_refused_by_whose_they_are),
        cmocka_unit_test(of_a_folder_each_takes_the_file_of_its_role_and_rank),
        cmocka_unit_test(shared_keys_that_do_not_go_together_are_refused),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
