#include "tests/unit/expect.h"

#include "base/system/file.h"
#include "deploy/report/earlier_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A run directory "run" with a checkpoint, in a directory of the test's own that is the working
 * directory. */
static char root[] = "/tmp/psr-test-earlier-run-XXXXXX";
static const char *const files[] = {"run/run.json", "run/checkpoints/step-4/model.safetensors",
                                    "alone/model.safetensors"};
static const char *const directories[] = {"run/checkpoints/step-4", "run/checkpoints", "run",
                                          "alone"};

static void write_text(const char *path, const char *text)
{
    expect_ok(psr_file_write_atomic(path, text, strlen(text)));
}

static int enter(void **state)
{
    (void)state;
    if (mkdtemp(root) == NULL || chdir(root) != 0)
        return -1;
    expect_ok(psr_mkdirs("run/checkpoints/step-4"));
    expect_ok(psr_mkdirs("alone"));
    write_text("run/checkpoints/step-4/model.safetensors", "");
    write_text("alone/model.safetensors", "");
    return 0;
}

static int leave(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        unlink(files[i]);
    for (size_t i = 0; i < sizeof directories / sizeof directories[0]; i++)
        rmdir(directories[i]);
    return chdir("/") != 0 || rmdir(root) != 0;
}

static psr_earlier_run read_run(const char *config, const char *resume)
{
    psr_earlier_run run;
    expect_ok(psr_earlier_run_read(config, resume, &run));
    return run;
}

static void without_config_and_resume_the_defaults_stay(void **state)
{
    (void)state;
    psr_config defaults;
    psr_config_defaults(&defaults);
    psr_earlier_run run = read_run(NULL, NULL);
    assert_string_equal(run.path, "");
    assert_memory_equal(&run.config, &defaults, sizeof defaults);
    run = read_run(NULL, "");
    assert_string_equal(run.path, "");
}

static void config_is_a_file_or_a_run_directory(void **state)
{
    (void)state;
    write_text("run/run.json",
               "{\"config\": {\"seed\": \"7\", \"out\": \"run\"}, \"outcome\": {}}");
    static const char *const ways[] = {"run/run.json", "run", "run/"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        psr_earlier_run run = read_run(ways[i], NULL);
        assert_int_equal(run.config.seed, 7);
        assert_string_equal(run.config.out, ""); /* that directory is there already */
    }
}

static void
resume_takes_the_configuration_of_the_run_and_of_the_run_around_a_checkpoint(void **state)
{
    (void)state;
    write_text("run/run.json", "{\"config\": {\"seed\": \"7\"}}");
    static const char *const ways[] = {"run", "run/", "run/checkpoints/step-4",
                                       "run/checkpoints/step-4/"};
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        assert_int_equal(read_run(NULL, ways[i]).config.seed, 7);
    /* a checkpoint that was copied away from its run */
    assert_string_equal(read_run(NULL, "alone").path, "");
    assert_int_equal(unlink("run/run.json"), 0);
    assert_string_equal(read_run(NULL, "run").path, "");
}

static void what_protects_a_run_is_not_taken_from_a_file(void **state)
{
    (void)state;
    char line[512];
    write_text("run/run.json", "{\"config\": {\"seed\": \"7\", \"transport\": \"tcp\", "
                               "\"no-encrypt\": \"trusted-network\"}}");
    for (int way = 0; way < 2; way++) {
        psr_earlier_run run = read_run(way == 0 ? "run" : NULL, way == 0 ? NULL : "run");
        psr_config config = run.config;
        assert_int_equal(config.seed, 7);
        assert_int_equal(config.transport, PSR_TRANSPORT_AUTO);
        assert_int_equal(config.bare, PSR_BARE_NOWHERE);
        psr_earlier_run_left_out(&run, &config, line, sizeof line);
        assert_string_equal(line, "run/run.json has --transport tcp, --no-encrypt trusted-network, "
                                  "which only the command line can set: it is ignored");
        expect_ok(psr_config_set(&config, "transport", "tcp"));
        psr_earlier_run_left_out(&run, &config, line, sizeof line);
        assert_string_equal(line, "run/run.json has --no-encrypt trusted-network, which only the "
                                  "command line can set: it is ignored");
        expect_ok(psr_config_set(&config, "no-encrypt", "this-machine"));
        psr_earlier_run_left_out(&run, &config, line, sizeof line);
        assert_string_equal(line, "");
    }
    psr_earlier_run none = read_run(NULL, NULL);
    psr_earlier_run_left_out(&none, &none.config, line, sizeof line);
    assert_string_equal(line, "");
}

/* Root sees everything: as another user, in a process of its own. */
static void a_run_that_cannot_be_looked_into_is_not_called_none(void **state)
{
    (void)state;
    expect_ok(psr_mkdirs("closed"));
    assert_int_equal(chmod("closed", 0), 0);
    assert_int_equal(chmod(root, 0755), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        psr_earlier_run run;
        if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0)
            _exit(2);
        _exit(psr_earlier_run_read(NULL, "closed", &run) != PSR_ERR_IO ||
              strcmp(psr_err_detail(),
                     "--resume closed: its contents cannot be listed: Permission denied") != 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(rmdir("closed"), 0);
}

static void config_rules_when_both_are_given(void **state)
{
    (void)state;
    write_text("run/run.json", "{\"config\": {\"seed\": \"7\"}}");
    write_text("alone/model.safetensors", "{\"seed\": \"9\"}");
    assert_int_equal(read_run("alone/model.safetensors", "run").config.seed, 9);
}

static void what_cannot_be_read_is_named_with_its_option(void **state)
{
    (void)state;
    psr_earlier_run run;
    write_text("run/run.json", "{\"config\": {\"seed\": \"x\"}}");
    expect_failure(psr_earlier_run_read("run", NULL, &run), PSR_ERR_FORMAT,
                   "--config run/run.json: --seed: 'x' is not a whole number; give one like 1");
    expect_failure(psr_earlier_run_read(NULL, "run", &run), PSR_ERR_FORMAT,
                   "--resume run/run.json: --seed: 'x' is not a whole number; give one like 1");
    expect_failure(psr_earlier_run_read("alone", NULL, &run), PSR_ERR_NOT_FOUND,
                   "--config: alone/run.json: cannot be opened: No such file or directory");
    expect_failure(psr_earlier_run_read(NULL, "nowhere", &run), PSR_ERR_NOT_FOUND,
                   "--resume nowhere: neither a checkpoint (model.safetensors and "
                   "state.safetensors) nor a run directory with one in checkpoints/");
}

/* What is in force when the run of json stands under a command line that says `given` and has set
 * `config` so. */
static psr_config fitted(const char *json, psr_given_options given, const char *name,
                         const char *value)
{
    write_text("run/run.json", json);
    psr_earlier_run run = read_run("run", NULL);
    psr_config config = run.config;
    expect_ok(psr_config_set(&config, name, value));
    expect_ok(psr_earlier_run_fit(&run, &given, &config));
    return config;
}

static void of_what_excludes_each_other_the_command_line_s_goes(void **state)
{
    (void)state;
    psr_config config =
        fitted("{\"epochs\": \"3\"}", (psr_given_options){.steps = true}, "steps", "90");
    assert_int_equal(config.steps, 90);
    assert_int_equal(config.epochs, 0);
    config = fitted("{\"steps\": \"90\"}", (psr_given_options){.epochs = true}, "epochs", "3");
    assert_int_equal(config.steps, 0);
    assert_int_equal(config.epochs, 3);
    config = fitted("{\"init\": \"a\"}", (psr_given_options){.resume = true}, "resume", "b");
    assert_string_equal(config.init, "");
    config = fitted("{\"resume\": \"a\"}", (psr_given_options){.init = true}, "init", "b");
    assert_string_equal(config.resume, "");
    config = fitted("{\"eval-every\": \"5\"}", (psr_given_options){.eval = true}, "eval", "false");
    assert_int_equal(config.eval_every.steps, 0);
    config =
        fitted("{\"eval\": \"false\"}", (psr_given_options){.eval_every = true}, "eval-every", "5");
    assert_true(config.eval);
    /* Both on the command line: psr_config_check refuses them. */
    config = fitted("{\"epochs\": \"3\"}", (psr_given_options){.steps = true, .epochs = true},
                    "steps", "90");
    assert_int_equal(config.epochs, 3);
    /* Other data may hold what they hold, unless a run is to go on with its own. */
    const char *content =
        "{\"data-content\": \"0123456789abcdef0123456789abcdef-fedcba9876543210fedcba9876543210\"}";
    config = fitted(content, (psr_given_options){.data = true}, "data", "elsewhere");
    assert_string_equal(config.data_content, "");
    config =
        fitted(content, (psr_given_options){.data = true, .resume = true}, "data", "elsewhere");
    assert_memory_equal(config.data_content, "0123456789abcdef", 16);
    config = fitted(content, (psr_given_options){.data = true, .data_content = true}, "data",
                    "elsewhere");
    assert_memory_equal(config.data_content, "0123456789abcdef", 16);
    config = fitted(content, (psr_given_options){0}, "seed", "2");
    assert_memory_equal(config.data_content, "0123456789abcdef", 16);
    /* Nothing beside it: as it was. */
    config = fitted("{\"epochs\": \"3\", \"resume\": \"a\"}", (psr_given_options){0}, "seed", "1");
    assert_int_equal(config.epochs, 3);
    assert_string_equal(config.resume, "a");
}

static void what_only_the_run_s_mode_can_have_goes_with_it(void **state)
{
    (void)state;
    psr_config config =
        fitted("{\"shards\": \"2\", \"steps\": \"1\"}", (psr_given_options){0}, "mode", "ring");
    assert_int_equal(config.shards, 0);
}

static void a_fault_point_is_taken_from_the_command_line_alone(void **state)
{
    (void)state;
    write_text("run/run.json", "{\"fault-point\": \"worker:1:push:3\"}");
    psr_earlier_run run = read_run("run", NULL);
    psr_config config = run.config;
    psr_given_options given = {0};
    expect_failure(psr_earlier_run_fit(&run, &given, &config), PSR_ERR_USAGE,
                   "run/run.json has --fault-point worker:1:push:3, which stops a process: only "
                   "the command line can set that; give --fault-point= to run without it");
    given.fault_point = true;
    config.fault_point[0] = '\0';
    expect_ok(psr_earlier_run_fit(&run, &given, &config));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_config_and_resume_the_defaults_stay),
        cmocka_unit_test(config_is_a_file_or_a_run_directory),
        cmocka_unit_test(
            resume_takes_the_configuration_of_the_run_and_of_the_run_around_a_checkpoint),
        cmocka_unit_test(what_protects_a_run_is_not_taken_from_a_file),
        cmocka_unit_test(a_run_that_cannot_be_looked_into_is_not_called_none),
        cmocka_unit_test(config_rules_when_both_are_given),
        cmocka_unit_test(what_cannot_be_read_is_named_with_its_option),
        cmocka_unit_test(of_what_excludes_each_other_the_command_line_s_goes),
        cmocka_unit_test(what_only_the_run_s_mode_can_have_goes_with_it),
        cmocka_unit_test(a_fault_point_is_taken_from_the_command_line_alone),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
