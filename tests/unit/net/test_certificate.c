/* Key files: there and back, by czmq's own reader, torn, and changed by somebody. */
#include "tests/unit/key_file.h"
#include "tests/unit/network_fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <czmq.h>

static char directory[] = "/tmp/psr-test-certificate-XXXXXX";

/* Whose the sets of make_keys are. */
static const psr_peer order[] = {
    {PSR_ROLE_SCHEDULER, 0}, {PSR_ROLE_SHARD, 0}, {PSR_ROLE_WORKER, 0}, {PSR_ROLE_WORKER, 1}};
static const psr_peer any_worker = {PSR_ROLE_WORKER, PSR_RANK_ANY};

static int make_directory(void **state)
{
    (void)state;
    return mkdtemp(directory) != NULL ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory); /* fails where a test left something behind */
}

/* "DIRECTORY/name", until the next but one call. */
static const char *in_directory(const char *name)
{
    static char paths[2][96];
    static int next;
    next = !next;
    snprintf(paths[next], sizeof paths[next], "%s/%s", directory, name);
    return paths[next];
}

static run_keys make(bool curve)
{
    run_keys keys = make_keys(curve);
    for (size_t i = 0; i < keys.count; i++)
        keys.sets[i].bare = false; /* which no file says */
    return keys;
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

static void reads(const char *text, psr_peer self, const psr_keys *expected)
{
    psr_keys back;
    assert_ok(psr_keys_from_certificate(text, strlen(text), self, &back));
    assert_same_keys(&back, expected);
    psr_keys_done(&back);
}

/* ---- there and back ---- */

static void a_secret_file_comes_back_as_the_same_keys(void **state)
{
    (void)state;
    for (int curve = 0; curve < 2; curve++) {
        run_keys keys = make(curve);
        for (size_t i = 0; i < keys.count; i++) {
            char *text;
            assert_ok(psr_certificate_secret(&keys.sets[i], &text));
            reads(text, order[i], &keys.sets[i]);
            reads(text, (psr_peer){order[i].role, PSR_RANK_ANY}, &keys.sets[i]);
            psr_secret_free(text);
        }
        free_keys(&keys);
    }
}

static void of_a_shared_file_each_takes_its_own_keys(void **state)
{
    (void)state;
    run_keys keys = make(true);
    char *text;
    psr_keys back;
    assert_ok(psr_certificate_shared(keys.sets, &text));
    for (size_t i = 0; i < keys.count; i++)
        reads(text, order[i], &keys.sets[i]);
    assert_fails(
        psr_keys_from_certificate(text, strlen(text), (psr_peer){PSR_ROLE_WORKER, 2}, &back),
        PSR_ERR_USAGE, "it has no key for worker 2");
    assert_fails(psr_keys_from_certificate(text, strlen(text), any_worker, &back), PSR_ERR_USAGE,
                 "which rank this worker is must be said");
    psr_secret_free(text);
    free_keys(&keys);
}

static void a_shared_token_is_everybodys(void **state)
{
    (void)state;
    psr_keys token;
    char *text;
    assert_ok(psr_keys_generate_token(&token));
    assert_ok(psr_certificate_shared(&token, &text));
    reads(text, any_worker, &token);
    reads(text, scheduler, &token);
    psr_secret_free(text);
    psr_keys_done(&token);
}

/* ---- by others ---- */

static void other_zeromq_programs_read_both_files(void **state)
{
    (void)state;
    run_keys keys = make(true);
    const psr_keys *own = &keys.sets[3];
    const char *public = in_directory("worker-1.key"),
               *secret = in_directory("worker-1.key_secret");
    char *text;
    assert_ok(save_key_file(own, secret));
    zcert_t *certificate = zcert_load(public); /* which looks for NAME_secret first */
    assert_non_null(certificate);
    assert_string_equal(zcert_public_txt(certificate), own->public_key);
    assert_string_equal(zcert_secret_txt(certificate), own->secret_key);
    assert_string_equal(zcert_meta(certificate, "role"), "worker");
    assert_string_equal(zcert_meta(certificate, "rank"), "1");
    zcert_destroy(&certificate);
    unlink(secret);

    assert_ok(psr_certificate_public(own, &text));
    assert_null(strstr(text, own->secret_key));
    const mode_t old = umask(022);
    assert_ok(psr_keys_write_public(text, public));
    umask(old);
    free(text);
    struct stat info;
    assert_int_equal(stat(public, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0644);
    certificate = zcert_load(public);
    assert_non_null(certificate);
    assert_string_equal(zcert_public_txt(certificate), own->public_key);
    assert_string_equal(zcert_secret_txt(certificate), "0000000000000000000000000000000000000000");
    assert_string_equal(zcert_meta(certificate, "role"), "worker");
    zcert_destroy(&certificate);
    unlink(public);
    free_keys(&keys);
}

/* Role and rank are there, but nobody else's keys. */
static void a_certificate_of_another_program_is_refused_by_what_it_lacks(void **state)
{
    (void)state;
    zcert_t *certificate = zcert_new();
    const char *path = in_directory("other"), *secret = in_directory("other_secret");
    psr_keys back;
    assert_int_equal(zcert_save(certificate, path), 0);
    assert_fails(psr_keys_load(path, worker1, &back), PSR_ERR_FORMAT,
                 "metadata lacks the \"role\" and \"rank\"");
    zcert_set_meta(certificate, "role", "worker");
    zcert_set_meta(certificate, "rank", "1");
    assert_int_equal(zcert_save(certificate, path), 0);
    assert_fails(psr_keys_load(path, worker1, &back), PSR_ERR_FORMAT,
                 "\"members\" lacks the key of worker 1");
    zcert_destroy(&certificate);
    unlink(path);
    unlink(secret);
}

/* ---- files ---- */

static void both_names_lead_to_the_secret_file(void **state)
{
    (void)state;
    run_keys keys = make(true);
    const char *public = in_directory("worker-1.key"),
               *secret = in_directory("worker-1.key_secret");
    char *text;
    psr_keys back;
    assert_ok(save_key_file(&keys.sets[3], secret));
    assert_ok(psr_certificate_public(&keys.sets[3], &text));
    assert_ok(psr_keys_write_public(text, public));
    free(text);
    const char *const names[] = {public, secret, directory};
    for (size_t i = 0; i < 3; i++) {
        assert_ok(psr_keys_load(names[i], worker1, &back));
        assert_same_keys(&back, &keys.sets[3]);
        assert_false(back.old_file);
        psr_keys_done(&back);
    }
    assert_int_equal(chmod(secret, 0640), 0);
    assert_fails(psr_keys_load(public, worker1, &back), PSR_ERR_USAGE,
                 "worker-1.key_secret can be used by others (mode 0640): chmod 600");
    unlink(secret);
    assert_fails(psr_keys_load(directory, worker1, &back), PSR_ERR_USAGE,
                 "worker-1.key is a public certificate: the secret one");
    assert_int_equal(chmod(public, 0600), 0);
    assert_fails(psr_keys_load(public, worker1, &back), PSR_ERR_FORMAT,
                 "it is a public certificate");
    unlink(public);
    free_keys(&keys);
}

static void a_file_of_before_is_read_and_known_as_such(void **state)
{
    (void)state;
    run_keys keys = make(true);
    const char *path = in_directory("worker-1.key");
    char *json;
    psr_keys back;
    assert_ok(psr_keys_to_json(&keys.sets[3], &json));
    assert_ok(psr_keys_save_private(json, path));
    assert_ok(psr_keys_load(path, worker1, &back));
    assert_same_keys(&back, &keys.sets[3]);
    assert_true(back.old_file);
    psr_keys_done(&back);
    unlink(path);

    /* Memory that a rank inherits is no file of before. */
    char inherited[32];
    const int fd = memfd_create("keys", MFD_CLOEXEC);
    assert_int_equal(write(fd, json, strlen(json)), (ssize_t)strlen(json));
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    snprintf(inherited, sizeof inherited, "/proc/self/fd/%d", fd);
    assert_ok(psr_keys_load(inherited, worker1, &back));
    assert_same_keys(&back, &keys.sets[3]);
    assert_false(back.old_file);
    psr_keys_done(&back);
    close(fd);
    psr_secret_free(json);
    free_keys(&keys);
}

/* ---- torn and hostile ---- */

/* Wherever it is cut, but for the newline at its end. */
static void refused_when_cut(const char *text, psr_peer self)
{
    psr_keys back;
    for (size_t size = 0; size + 1 < strlen(text); size++)
        if (psr_keys_from_certificate(text, size, self, &back) == PSR_OK)
            fail_msg("the first %zu of %zu bytes are taken for keys", size, strlen(text));
}

/* Without any of its lines that says something. */
static void refused_without_a_line(const char *text, psr_peer self)
{
    const size_t size = strlen(text);
    char *less = malloc(size + 1);
    for (const char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        psr_keys back;
        if (line[0] == '#' || line[0] == '\n')
            continue;
        const size_t before = (size_t)(line - text), behind = size - (size_t)(end + 1 - text);
        memcpy(less, text, before);
        memcpy(less + before, end + 1, behind);
        if (psr_keys_from_certificate(less, before + behind, self, &back) == PSR_OK)
            fail_msg("it is taken for keys without the line \"%.*s\"", (int)(end - line), line);
    }
    free(less);
}

static void a_torn_file_is_refused(void **state)
{
    (void)state;
    for (int curve = 0; curve < 2; curve++) {
        run_keys keys = make(curve);
        char *text;
        assert_ok(psr_certificate_secret(&keys.sets[1], &text));
        refused_when_cut(text, shard0);
        refused_without_a_line(text, shard0);
        psr_secret_free(text);
        free_keys(&keys);
    }
    run_keys keys = make(true);
    char *text;
    assert_ok(psr_certificate_shared(keys.sets, &text));
    refused_when_cut(text, shard0);
    refused_without_a_line(text, shard0);
    psr_secret_free(text);
    free_keys(&keys);
    psr_keys token;
    assert_ok(psr_keys_generate_token(&token));
    assert_ok(psr_certificate_shared(&token, &text));
    refused_when_cut(text, shard0);
    psr_secret_free(text);
    psr_keys_done(&token);
}

/* text with one thing changed; the file that has it is named. */
static void refused_when(const char *text, const char *what, const char *into, psr_err code,
                         const char *detail)
{
    const char *path = in_directory("shard-0.key_secret"), *at = strstr(text, what);
    char *changed;
    psr_keys back = {.member_count = 77};
    assert_non_null(at);
    assert_true(asprintf(&changed, "%.*s%s%s", (int)(at - text), text, into, at + strlen(what)) >
                0);
    assert_ok(psr_keys_save_private(changed, path));
    assert_fails(psr_keys_load(path, shard0, &back), code, detail);
    assert_non_null(strstr(psr_err_detail(), path));
    assert_int_equal(back.member_count, 77);
    unlink(path);
    free(changed);
}

static void what_is_wrong_is_named_with_its_file(void **state)
{
    (void)state;
    run_keys keys = make(true), others = make(true);
    const psr_keys *own = &keys.sets[1];
    char *text;
    assert_ok(psr_certificate_secret(own, &text));
    const psr_err wrong = PSR_ERR_FORMAT;
    refused_when(text, "shard\"", "boss\"", wrong, "metadata lacks the \"role\" and \"rank\"");
    refused_when(text, "rank = \"0\"", "rank = \"-1\"", wrong,
                 "metadata lacks the \"role\" and \"rank\"");
    refused_when(text, "rank = \"0\"", "rank = \"00\"", wrong,
                 "metadata lacks the \"role\" and \"rank\"");
    refused_when(text, "rank = \"0\"", "rank = \"8192\"", wrong,
                 "metadata lacks the \"role\" and \"rank\"");
    refused_when(text, "rank = \"0\"", "rank = \"0\"\n    rank = \"1\"", wrong,
                 "\"rank\" is there twice");
    refused_when(text, "rank = \"0\"", "rank = \"1\"", wrong,
                 "\"members\" lacks the key of shard 1");
    refused_when(text, "role = \"shard\"", "role = \"worker\"", wrong,
                 "to which this file belongs by its metadata");
    refused_when(text, "members = \"4\"", "members = \"5\"", wrong, "it has 4 of the 5 members");
    refused_when(text, "members = \"4\"", "members = \"3\"", wrong, "more members than the 3");
    refused_when(text, "members = \"4\"", "members = \"8193\"", wrong, "or it is no count");
    refused_when(text, "members = \"4\"", "members = \"0\"", wrong, "a list of 1 to 8192 members");
    refused_when(text, "members = \"4\"", "members = \"99999999999\"", wrong, "or it is no count");
    refused_when(text, "secret-key", "secret", wrong, "it is a public certificate");
    refused_when(text, own->secret_key, others.sets[1].secret_key, wrong,
                 "\"public-key\" is not the key that belongs to \"secret-key\"");
    refused_when(text, own->secret_key, "short", wrong, "\"secret-key\" should be a key of 40");
    refused_when(text, own->secret_key, "~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~", wrong,
                 "\"secret-key\" should be a key of 40");
    refused_when(text, own->secret_key, "########################################", wrong,
                 "\"secret-key\" should be a key of 40");
    refused_when(text, "worker-1", "worker-0", wrong, "worker 0 twice");
    refused_when(text, "worker-1", "worker", wrong,
                 "\"worker\" should be scheduler-0, shard-N or worker-N");
    refused_when(text, "worker-1", "scheduler-1", wrong, "\"scheduler-1\" should be scheduler-0");
    refused_when(text, keys.sets[3].public_key, keys.sets[2].public_key, wrong, "one key twice");
    refused_when(text, keys.sets[3].public_key, "x", wrong, "\"members\" should be a key");
    refused_when(text, "members\n", "members\nmembers\n", wrong, "\"members\" is there twice");
    refused_when(text, "members\n", "tokens\n", wrong, "it has \"tokens\" beside keys");
    refused_when(text, "metadata\n", "metadata\n    shared = \"yes\"\n", wrong,
                 "\"public-key\" should be");
    refused_when(text, "metadata\n", "  metadata\n", wrong, "line 4: it is indented by 2 spaces");
    refused_when(text, "metadata\n", "metadata\x1b[2J\n", wrong,
                 "line 4: it has a control character");
    refused_when(text, text, "hello", wrong, "it has neither \"curve\" nor \"tokens\"");
    psr_secret_free(text);

    assert_ok(psr_certificate_shared(keys.sets, &text));
    refused_when(text, own->secret_key, others.sets[1].secret_key, wrong,
                 "\"public-key\" is not the key that belongs to \"secret-key\"");
    refused_when(text, "shard-0", "shard-1", PSR_ERR_USAGE, "it has no key for shard 0");
    psr_secret_free(text);
    free_keys(&keys);
    free_keys(&others);
}

/* The rest of a block that was allocated and never written. */
static void a_file_that_ends_in_zeros_is_refused(void **state)
{
    (void)state;
    run_keys keys = make(true);
    char *text, *zeros;
    psr_keys back;
    assert_ok(psr_certificate_secret(&keys.sets[1], &text));
    const size_t size = strlen(text);
    zeros = calloc(1, size + 100);
    memcpy(zeros, text, size);
    const char *path = in_directory("shard-0.key_secret");
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_int_equal(write(fd, zeros, size + 100), (ssize_t)size + 100);
    close(fd);
    assert_fails(psr_keys_load(path, shard0, &back), PSR_ERR_FORMAT, "it has a control character");
    unlink(path);
    free(zeros);
    psr_secret_free(text);
    free_keys(&keys);
}

/* czmq walks all items before it for each new one: the same text costs it minutes. */
static void the_most_items_that_fit_are_refused_at_once(void **state)
{
    (void)state;
    const size_t size = PSR_KEYS_TEXT_MAX;
    char *text = malloc(size + 1);
    psr_keys back;
    for (size_t i = 0; i < size; i++)
        text[i] = i % 2 == 0 ? 'a' : '\n';
    assert_fails(psr_keys_from_certificate(text, size, shard0, &back), PSR_ERR_FORMAT,
                 "it has neither");
    assert_fails(psr_keys_from_certificate(text, size + 1, shard0, &back), PSR_ERR_FORMAT,
                 "1048576 is the most");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_secret_file_comes_back_as_the_same_keys),
        cmocka_unit_test(of_a_shared_file_each_takes_its_own_keys),
        cmocka_unit_test(a_shared_token_is_everybodys),
        cmocka_unit_test(other_zeromq_programs_read_both_files),
        cmocka_unit_test(a_certificate_of_another_program_is_refused_by_what_it_lacks),
        cmocka_unit_test(both_names_lead_to_the_secret_file),
        cmocka_unit_test(a_file_of_before_is_read_and_known_as_such),
        cmocka_unit_test(a_torn_file_is_refused),
        cmocka_unit_test(what_is_wrong_is_named_with_its_file),
        cmocka_unit_test(a_file_that_ends_in_zeros_is_refused),
        cmocka_unit_test(the_most_items_that_fit_are_refused_at_once),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
