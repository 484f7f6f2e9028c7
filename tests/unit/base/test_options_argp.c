#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/config/options_argp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A program with options of its own, as psring train is. */
typedef struct program {
    psr_config config;
    const char *hostfile;
    uint64_t ranks;
} program;

static error_t parse_own(int key, char *text, struct argp_state *state)
{
    program *p = state->input;
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = &p->config;
    else if (key == 'f')
        p->hostfile = text;
    else if (key == 'n')
        p->ranks = psr_options_number(state, "ranks", text, 2, 1024);
    else
        return ARGP_ERR_UNKNOWN;
    return 0;
}

static error_t run(program *p, const char **const_argv)
{
    char **argv = (char **)(uintptr_t)const_argv; /* getopt moves the pointers,
                                                     not what they point at */
    int argc = 0;
    while (argv[argc] != NULL)
        argc++;
    psr_options_argp *options = psr_options_argp_new("alexnet, vgg16", "alexnet, vgg16");
    if (options == NULL)
        return ENOMEM;
    const struct argp_option own[] = {{"hostfile", 'f', "FILE", 0, "the hosts", 0},
                                      {"ranks", 'n', "N", 0, "how many", 0},
                                      {NULL, 0, NULL, 0, NULL, 0}};
    const struct argp_child children[] = {{psr_options_argp_child(options), 0, NULL, 0},
                                          {NULL, 0, NULL, 0}};
    const struct argp argp = {own, parse_own, NULL, "A program.", children, NULL, NULL};
    psr_config_defaults(&p->config);
    p->hostfile = NULL;
    error_t err = psr_options_parse(&argp, argc, argv, 0, NULL, p);
    psr_options_argp_free(options);
    return err;
}

/* The same in a child process: its exit status and what it wrote to both streams. */
static int run_apart(const char **argv, char *text, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        program p;
        dup2(ends[1], STDOUT_FILENO);
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        error_t err = run(&p, argv);
        fflush(stdout);
        _exit(err == 0 ? 0 : 99);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while ((got = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void options_of_the_table_and_of_the_program_are_taken(void **state)
{
    (void)state;
    program p;
    const char *argv[] = {"psring", "--mode=ring",  "--workers",  "5", "-f",
                          "hosts",  "--no-shuffle", "--nesterov", NULL};
    assert_int_equal(run(&p, argv), 0);
    assert_int_equal(p.config.mode, PSR_MODE_RING);
    assert_int_equal(p.config.workers, 5);
    assert_false(p.config.shuffle);
    assert_true(p.config.nesterov);
    assert_string_equal(p.hostfile, "hosts");
}

static void the_last_of_an_option_and_its_negation_wins(void **state)
{
    (void)state;
    program p;
    const char *argv[] = {"psring",     "--no-shuffle",  "--shuffle",
                          "--nesterov", "--no-nesterov", NULL};
    assert_int_equal(run(&p, argv), 0);
    assert_true(p.config.shuffle);
    assert_false(p.config.nesterov);
}

static const char *found(const char *name, const char **const_argv)
{
    static const struct argp_option own[] = {
        {.name = "config", .arg = "FILE"}, {.name = "confirm"}, {.name = "out", .arg = "DIR"}, {0}};
    static const struct argp argp = {.options = own};
    int argc = 0;
    while (const_argv[argc] != NULL)
        argc++;
    const char *value = "-";
    return psr_options_find(&argp, argc, (char **)(uintptr_t)const_argv, name, &value)
               ? value
               : "(not there)";
}

#define FOUND(name, ...) found(name, (const char *[]){"psring", __VA_ARGS__, NULL})

static void a_value_is_found_before_the_line_is_parsed_as_the_parser_will_find_it(void **state)
{
    (void)state;
    assert_string_equal(FOUND("config", "--config", "a"), "a");
    assert_string_equal(FOUND("config", "--config=a", "--config", "b"), "b");
    assert_string_equal(FOUND("config", "--config="), "");
    /* or --confirm: the parser will refuse it */
    assert_string_equal(FOUND("config", "--confi", "a"), "(not there)");
    assert_string_equal(FOUND("config", "--config", "a", "--confirm"), "a");
    assert_string_equal(FOUND("out", "--o", "a"), "a");
    /* the value of --out */
    assert_string_equal(FOUND("config", "--out", "--config", "x"), "(not there)");
    assert_string_equal(FOUND("config", "--", "--config", "x"), "(not there)");
    assert_string_equal(FOUND("config", "--quux", "x"), "(not there)");
    assert_null(FOUND("confirm", "--confirm"));
    assert_null(FOUND("config", "--config")); /* its value is missing: the parser will refuse it */
}

static void a_number_is_taken_within_its_bounds(void **state)
{
    (void)state;
    program p;
    assert_int_equal(run(&p, (const char *[]){"psring", "--ranks", "2", NULL}), 0);
    assert_int_equal(p.ranks, 2);
    assert_int_equal(run(&p, (const char *[]){"psring", "-n1024", NULL}), 0);
    assert_int_equal(p.ranks, 1024);
}

static void a_hidden_option_is_taken(void **state)
{
    (void)state;
    program p;
    const char *argv[] = {"psring", "--fault-point", "worker:1:push:3", NULL};
    assert_int_equal(run(&p, argv), 0);
    assert_string_equal(p.config.fault_point, "worker:1:push:3");
}

static void a_refusal_is_one_line_and_exit_status_2(void **state)
{
    (void)state;
    static const struct {
        const char *argument, *value, *line;
    } wrong[] = {
        {"--bucket-size", "12Q",
         "psring: --bucket-size: '12Q' is not a size; give auto, bytes, or a number with K, M or G "
         "(4M)\n"},
        {"--no-shufle", NULL,
         "psring: --no-shufle: there is no such option; --no-shuffle is the nearest\n"},
        {"--hostfiel=x", NULL,
         "psring: --hostfiel: there is no such option; --hostfile is the nearest\n"},
        {"--quux", NULL, "psring: --quux: there is no such option; --help lists them\n"},
        {"--steps", NULL, "psring: --steps: its value is missing; give --steps N\n"},
        {"--hostf", NULL, "psring: --hostf: its value is missing; give --hostfile FILE\n"},
        {"--hash=yes", NULL, "psring: --hash: takes no value, so leave '=yes' out\n"},
        {"--ranks", "1", "psring: --ranks: '1' is not a number from 2 to 1024\n"},
        {"--ranks", "1025", "psring: --ranks: '1025' is not a number from 2 to 1024\n"},
        {"--ranks", "18446744073709551618",
         "psring: --ranks: '18446744073709551618' is not a number from 2 to 1024\n"},
        {"--ranks", "-3", "psring: --ranks: '-3' is not a number from 2 to 1024\n"},
        {"--ranks", " 3", "psring: --ranks: ' 3' is not a number from 2 to 1024\n"},
        {"--ranks", "3x", "psring: --ranks: '3x' is not a number from 2 to 1024\n"},
        {"--ranks=", NULL, "psring: --ranks: '' is not a number from 2 to 1024\n"},
        {"--mod", "ring", "psring: --mod: may be --mode or --model; give more of its name\n"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[4096];
        const char *argv[] = {"/usr/bin/psring", "--mode",       "ring",
                              wrong[i].argument, wrong[i].value, NULL};
        assert_int_equal(run_apart(argv, text, sizeof text), 2);
        assert_string_equal(text, wrong[i].line);
    }
}

static void what_follows_an_option_as_its_value_is_not_taken_for_an_option(void **state)
{
    (void)state;
    program p;
    const char *argv[] = {"psring", "--out", "--odd-name", NULL};
    assert_int_equal(run(&p, argv), 0);
    assert_string_equal(p.config.out, "--odd-name");
}

static void the_beginning_of_one_name_alone_stands_for_it(void **state)
{
    (void)state;
    program p;
    const char *argv[] = {"psring", "--hostf", "hosts", "--mode", "ring", "--workers=3", NULL};
    assert_int_equal(run(&p, argv), 0);
    assert_string_equal(p.hostfile, "hosts");
    assert_int_equal(p.config.mode, PSR_MODE_RING); /* not ambiguous with --model */
}

static void arguments_that_nobody_takes_have_exit_status_2_too(void **state)
{
    (void)state;
    char text[4096];
    const char *argv[] = {"psring", "extra", NULL};
    assert_int_equal(run_apart(argv, text, sizeof text), 2);
}

static void help_lists_every_option_with_its_default_and_hides_the_hidden(void **state)
{
    (void)state;
    static char text[65536];
    const char *argv[] = {"psring", "--help", NULL};
    assert_int_equal(run_apart(argv, text, sizeof text), 0);
    psr_option_info info;
    for (size_t i = 0; psr_config_option(i, &info); i++) {
        char option[80];
        snprintf(option, sizeof option, "--%s", info.name);
        if (info.hidden != (strstr(text, option) == NULL))
            fail_msg("%s", option);
    }
    assert_non_null(strstr(text, "--shuffle, --no-shuffle"));
    assert_non_null(strstr(text, "(default 512K)"));
    assert_non_null(strstr(text, " Optimisation:\n"));
    assert_non_null(strstr(text, "--hostfile=FILE"));
    assert_non_null(strstr(text, "alexnet, vgg16 (default resnet20)"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_the_table_and_of_the_program_are_taken),
        cmocka_unit_test(the_last_of_an_option_and_its_negation_wins),
        cmocka_unit_test(a_value_is_found_before_the_line_is_parsed_as_the_parser_will_find_it),
        cmocka_unit_test(a_number_is_taken_within_its_bounds),
        cmocka_unit_test(a_hidden_option_is_taken),
        cmocka_unit_test(a_refusal_is_one_line_and_exit_status_2),
        cmocka_unit_test(what_follows_an_option_as_its_value_is_not_taken_for_an_option),
        cmocka_unit_test(the_beginning_of_one_name_alone_stands_for_it),
        cmocka_unit_test(arguments_that_nobody_takes_have_exit_status_2_too),
        cmocka_unit_test(help_lists_every_option_with_its_default_and_hides_the_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
