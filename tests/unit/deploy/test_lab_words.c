/* deploy/lab/words.h */
#include "tests/unit/expect.h"

#include "deploy/lab/words.h"

#include "base/text/text.h"

#include <stdio.h>
#include <string.h>

static psr_lab lab;
static psr_lab_words words;
static char all[4096];

static psr_err compose(const char *file, const char *const *command)
{
    expect_ok(psr_lab_parse("a.lab", file, strlen(file), &lab));
    memset(&words, 0, sizeof words);
    return psr_lab_words_compose(&lab, "/bin/psring", command, 1, &words);
}

/* All words, with blanks between. */
static const char *composed(const char *file, const char *const *command)
{
    psr_text_end end = {all, sizeof all};
    expect_ok(compose(file, command));
    for (size_t i = 0; words.words[i] != NULL; i++)
        psr_text_add(&end, "%s%s", i > 0 ? " " : "", words.words[i]);
    psr_lab_words_done(&words);
    return all;
}

#define COMMAND(...)                                                                               \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define PLACES                                                                                     \
    "--hostfile /run/psring-lab/hosts --ssh '/bin/psring' lab-host --remote-psring /bin/psring"

static const char two[] = "default rate=1Gbit\nhost a slots=2\nhost b slow=3\n";
static const char apart[] = "default rate=1Gbit\nhost a\nhost b\nhost ps[1-2] shards=2\n";

static void commands_get_the_hosts_behind_their_names(void **state)
{
    (void)state;
    assert_string_equal(composed(two, COMMAND("run", "-n", "2", "--", "prog", "--out", "x")),
                        "/bin/psring run " PLACES " -n 2 -- prog --out x");
    assert_string_equal(words.out, "");
    assert_string_equal(composed(two, COMMAND("bench", "comm", "-o", "all_reduce")),
                        "/bin/psring bench comm " PLACES " -o all_reduce");
    assert_string_equal(composed(two, COMMAND("doctor")), "/bin/psring doctor " PLACES);
}

static void training_gets_slow_ranks_and_shards_on_hosts_of_their_own(void **state)
{
    (void)state;
    assert_string_equal(composed(two, COMMAND("train", "--mode=ring", "--out", "x")),
                        "/bin/psring train " PLACES " --slow 2:3 --mode=ring --out x");
    assert_string_equal(words.out, "x");
    assert_true(words.trains);
    assert_string_equal(composed(apart, COMMAND("train", "--out", "x")),
                        "/bin/psring train " PLACES " --ps-hostfile /run/psring-lab/ps-hosts "
                        "--shards 4 --out x");
    assert_string_equal(
        composed(apart, COMMAND("train", "--out", "x", "--shards", "2", "--window", "3")),
        "/bin/psring train " PLACES " --ps-hostfile /run/psring-lab/ps-hosts "
        "--out x --shards 2 --window 3");
    assert_string_equal(composed(apart, COMMAND("train", "--out", "x", "--mode", "ring")),
                        "/bin/psring train " PLACES " --out x --mode ring");
}

static void benchmarks_get_what_training_does(void **state)
{
    char expected[1024 + sizeof words.bench];
    (void)state;
    assert_string_equal(
        composed(two, COMMAND("bench", "train", "--mode", "ps,ring", "--out=b.jsonl")),
        "/bin/psring bench train " PLACES " --slow 2:3 --slice-size 65536 --window 4 --workers 3 "
        "--link 1Gbit --mode ps,ring --out=b.jsonl");
    assert_string_equal(words.bench, "b.jsonl");
    assert_string_equal(words.out, "");
    const char *unnamed =
        composed(apart, COMMAND("bench", "train", "-n2", "--link=1Gbit", "--window=3"));
    assert_int_equal(strncmp(words.bench, "psring-runs/bench-", strlen("psring-runs/bench-")), 0);
    snprintf(expected, sizeof expected,
             "/bin/psring bench train " PLACES
             " --ps-hostfile /run/psring-lab/ps-hosts --shards 4 --out %s -n2 --link=1Gbit "
             "--window=3",
             words.bench);
    assert_string_equal(unnamed, expected);
    assert_string_equal(composed(apart, COMMAND("bench", "exchange", "--mode", "ps")),
                        "/bin/psring bench exchange " PLACES
                        " --ps-hostfile /run/psring-lab/ps-hosts --shards 4 --slice-size 131072 "
                        "--window 4 --mode ps");
    assert_string_equal(composed(apart, COMMAND("bench", "exchange", "--mode", "ring")),
                        "/bin/psring bench exchange " PLACES
                        " --slice-size 131072 --window 8 --mode ring");
    assert_string_equal(words.bench, "");
}

static void a_run_without_a_name_gets_one(void **state)
{
    (void)state;
    expect_ok(compose(two, COMMAND("train", "--mode", "ring", "--model", "mlp")));
    assert_non_null(strstr(words.out, "psring-runs/"));
    assert_non_null(strstr(words.out, "mlp-ring"));
    bool given = false;
    for (size_t i = 0; words.words[i] != NULL; i++)
        given = given || (strcmp(words.words[i], "--out") == 0 &&
                          strcmp(words.words[i + 1], words.out) == 0);
    assert_true(given);
    psr_lab_words_done(&words);
}

static void what_the_lab_says_is_refused(void **state)
{
    (void)state;
    expect_failure(compose(two, COMMAND("report", "x")), PSR_ERR_USAGE,
                   "'report' does not run in a lab; there are train, run, bench and doctor");
    expect_failure(compose(two, COMMAND("bench")), PSR_ERR_USAGE,
                   "bench: say which; for instance bench comm");
    expect_failure(compose(two, COMMAND("train", "--hostfile", "f")), PSR_ERR_USAGE,
                   "--hostfile: the lab says which hosts there are; leave it out");
    expect_failure(compose(two, COMMAND("train", "-Ha:2")), PSR_ERR_USAGE,
                   "-Ha:2: the lab says which hosts there are; leave it out");
    expect_failure(compose(two, COMMAND("train", "--ps-hostfile=f")), PSR_ERR_USAGE,
                   "--ps-hostfile=f: the lab says which hosts there are; leave it out");
    expect_failure(compose(two, COMMAND("train", "--map-by", "node")), PSR_ERR_USAGE,
                   "--map-by node: a lab with slow hosts places by slot; leave it out");
    expect_failure(compose(two, COMMAND("train", "--mode", "rings")), PSR_ERR_USAGE,
                   psr_err_detail());
    /* a program's own words are its own */
    assert_non_null(strstr(composed(two, COMMAND("run", "--", "prog", "--hostfile", "f")),
                           "-- prog --hostfile f"));
}

static void a_dilated_lab_dilates_what_is_played(void **state)
{
    (void)state;
    expect_ok(psr_lab_parse("a.lab", two, strlen(two), &lab));
    expect_ok(psr_lab_words_compose(
        &lab, "/bin/psring", COMMAND("train", "--out", "x", "--backend", "played:p"), 10, &words));
    bool given = false;
    for (size_t i = 0; words.words[i] != NULL; i++)
        given = given ||
                (strcmp(words.words[i], "--dilate") == 0 && strcmp(words.words[i + 1], "10") == 0);
    assert_true(given);
    psr_lab_words_done(&words);
    expect_failure(
        psr_lab_words_compose(&lab, "/bin/psring", COMMAND("train", "--out", "x"), 10, &words),
        PSR_ERR_USAGE,
        "--dilate: links would be slower, and computation would not; add --backend "
        "played:PROFILE to the command, or leave --dilate out");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_get_the_hosts_behind_their_names),
        cmocka_unit_test(training_gets_slow_ranks_and_shards_on_hosts_of_their_own),
        cmocka_unit_test(benchmarks_get_what_training_does),
        cmocka_unit_test(a_run_without_a_name_gets_one),
        cmocka_unit_test(what_the_lab_says_is_refused),
        cmocka_unit_test(a_dilated_lab_dilates_what_is_played),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
