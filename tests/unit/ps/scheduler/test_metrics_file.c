/* metrics.jsonl: whole lines whatever happens, and which of them --metrics-every keeps. */
#include "tests/unit/folder.h"

#include "base/system/file.h"
#include "ps/scheduler/metrics/metrics_file.h"
#include "tests/unit/ps/metrics_line.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *text_of(const char *name)
{
    uint8_t *text = NULL;
    size_t size;
    expect_ok(psr_file_read(in_folder(name), 1 << 24, &text, &size));
    return (char *)text;
}

static psr_err put(psr_metrics_file *file, uint32_t rank, unsigned step, const char *more)
{
    char json[512];
    snprintf(json, sizeof json, "{\"step\": %u, \"rank\": %u%s}", step, rank, more);
    psr_metrics_line line = read_metrics_line(rank, json);
    const psr_err err = psr_metrics_file_put(file, &line);
    free_metrics_line(&line);
    return err;
}

static void every_third_step_and_evaluations_and_the_last_of_each_rank_are_kept(void **state)
{
    (void)state;
    psr_metrics_file *file;
    expect_ok(psr_metrics_file_new(in_folder("m"), 2, 3, &file));
    for (unsigned step = 1; step <= 7; step++)
        expect_ok(put(file, 0, step, step == 5 ? ", \"test_loss\": 1" : ""));
    for (unsigned step = 1; step <= 6; step++)
        expect_ok(put(file, 1, step, ""));
    expect_ok(psr_metrics_file_end(file));
    expect_ok(psr_metrics_file_end(file)); /* nothing comes twice */
    char *text = text_of("m");
    assert_string_equal(text, "{\"step\": 3, \"rank\": 0}\n"
                              "{\"step\": 5, \"rank\": 0, \"test_loss\": 1}\n"
                              "{\"step\": 6, \"rank\": 0}\n"
                              "{\"step\": 3, \"rank\": 1}\n"
                              "{\"step\": 6, \"rank\": 1}\n"
                              "{\"step\": 7, \"rank\": 0}\n");
    free(text);
    psr_metrics_file_free(file);
}

/* Enough lines to be written without a flush, and then no end: as after kill -9. */
static void the_file_ends_in_a_whole_line_when_the_process_is_killed(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        psr_metrics_file *file = NULL;
        if (psr_metrics_file_new(in_folder("m"), 1, 1, &file) != PSR_OK)
            _exit(1);
        for (unsigned step = 1; step <= 5000; step++)
            if (put(file, 0, step, ", \"padding\": \"............\"") != PSR_OK)
                _exit(1);
        raise(SIGKILL);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    char *text = text_of("m");
    assert_true(strlen(text) > 60000);
    assert_int_equal(text[strlen(text) - 1], '\n');
    free(text);
}

static void what_a_full_disk_cuts_is_taken_back(void **state)
{
    (void)state;
    psr_metrics_file *file;
    struct rlimit before, small;
    expect_ok(psr_metrics_file_new(in_folder("m"), 1, 1, &file));
    expect_ok(put(file, 0, 1, ""));
    expect_ok(psr_metrics_file_flush(file));
    expect_ok(put(file, 0, 2, ""));
    expect_ok(put(file, 0, 3, ", \"padding\": \"....................\""));
    getrlimit(RLIMIT_FSIZE, &before);
    small = (struct rlimit){.rlim_cur = 70, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    assert_int_equal(psr_metrics_file_flush(file), PSR_ERR_FULL);
    assert_non_null(strstr(psr_err_detail(), "/m: File too large"));
    setrlimit(RLIMIT_FSIZE, &before);
    char *text = text_of("m");
    assert_string_equal(text, "{\"step\": 1, \"rank\": 0}\n{\"step\": 2, \"rank\": 0}\n");
    free(text);
    expect_ok(psr_metrics_file_flush(file)); /* the disk has room again */
    text = text_of("m");
    assert_non_null(strstr(text, "\n{\"step\": 3"));
    free(text);
    psr_metrics_file_free(file);
    assert_int_equal(psr_metrics_file_new(in_folder("no/m"), 1, 1, &file), PSR_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(every_third_step_and_evaluations_and_the_last_of_each_rank_are_kept),
        IN_A_FOLDER(the_file_ends_in_a_whole_line_when_the_process_is_killed),
        IN_A_FOLDER(what_a_full_disk_cuts_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
