/* deploy/agent/host.h: how psring is found on another host, and what ssh is told. */
#include "tests/unit/expect.h"

#include "deploy/agent/host.h"

#include "base/clock.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000 };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/psr-host-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static const char *in_folder(const char *name)
{
    static char path[2][256];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void make_program(const char *name, const char *says)
{
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\necho %s \"$1\"\n", says);
    fclose(file);
    assert_int_equal(chmod(in_folder(name), 0755), 0);
}

/* What the other host's shell would answer, and its exit status. Its PATH has `elsewhere` before
 * the usual. */
static int run(const char *command, const char *elsewhere, char *said, size_t size)
{
    char whole[20000];
    snprintf(whole, sizeof whole, "PATH='%s:/usr/bin:/bin'; export PATH; exec 2>&1; %s", elsewhere,
             command);
    FILE *pipe = popen(whole, "r");
    assert_non_null(pipe);
    said[fread(said, 1, size - 1, pipe)] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

static void expect_run(const char *program, int status, const char *says)
{
    char command[16384], said[1024];
    expect_ok(psr_host_command(in_folder(program), false, command, sizeof command));
    int ended = run(command, in_folder("path"), said, sizeof said);
    if (strstr(said, says) == NULL)
        fail_msg("'%s' does not say '%s'", said, says);
    assert_int_equal(ended, status);
}

static void our_own_path_is_tried_where_nobody_else_can_change_it(void **state)
{
    (void)state;
    make_program("it's \"here\" $(now)", "own");
    expect_run("it's \"here\" $(now)", 0, "own agent\n");
    assert_int_equal(mkdir(in_folder("d"), 0755), 0);
    make_program("d/psring", "deeper");
    expect_run("d/psring", 0, "deeper agent\n");
    assert_int_equal(symlink("d", in_folder("link")), 0);
    expect_run("link/psring", 0, "deeper agent\n");
}

static void where_others_can_change_it_psring_is_taken_from_the_path(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in_folder("d"), 0755), 0);
    make_program("d/psring", "own");
    assert_int_equal(chmod(in_folder("d"), 0777), 0); /* they may put another in its place */
    expect_run("d/psring", 127,
               "/d can be changed by somebody else than root and you; psring is not in PATH\n");
    assert_int_equal(mkdir(in_folder("path"), 0755), 0);
    make_program("path/psring", "found");
    expect_run("d/psring", 0, "found agent\n");
    assert_int_equal(chmod(in_folder("d"), 01777), 0); /* what is there is its
                                                          owner's, as in /tmp */
    expect_run("d/psring", 0, "own agent\n");
    assert_int_equal(chmod(in_folder("d/psring"), 0757), 0);
    expect_run("d/psring", 0, "found agent\n");
    assert_int_equal(chmod(in_folder("d/psring"), 0755), 0);
    if (geteuid() == 0) { /* root alone can give it to somebody */
        assert_int_equal(chown(in_folder("d/psring"), 12345, 12345), 0);
        expect_run("d/psring", 0, "found agent\n");
        assert_int_equal(chown(in_folder("d/psring"), 0, 0), 0);
        assert_int_equal(chown(in_folder("d"), 12345, 12345), 0);
        expect_run("d/psring", 0, "found agent\n");
    }
}

static void what_is_not_there_is_told(void **state)
{
    (void)state;
    expect_run("nothing", 127, "psring is neither at that path nor in PATH\n");
}

static void a_path_that_the_user_names_is_taken_as_it_is(void **state)
{
    (void)state;
    char command[1024];
    expect_ok(psr_host_command("/opt/it's/psring", true, command, sizeof command));
    assert_string_equal(command, "exec '/opt/it'\\''s/psring' agent");
}

static psr_err remember(void *context, char *line)
{
    snprintf(context, 1024, "%s", line);
    return PSR_OK;
}

static void ssh_lends_nothing_and_checks_host_keys(void **state)
{
    (void)state;
    FILE *file = fopen(in_folder("ssh"), "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\nprintf '%%s ' \"$@\"\n");
    fclose(file);
    assert_int_equal(chmod(in_folder("ssh"), 0755), 0);
    char ssh[128], words[1024] = "";
    snprintf(ssh, sizeof ssh, "%s -p 22 -i 'a  key' -o \"ProxyCommand=ssh -W %%h:%%p j\"",
             in_folder("ssh"));
    psr_host_link link;
    expect_ok(psr_host_start(&link, "node7", ssh, "/opt/psring"));
    int64_t end = psr_clock_ms() + PATIENCE_MS;
    while (link.agent.out.fd >= 0) {
        struct pollfd fds[] = {{link.agent.out.fd, POLLIN, 0}};
        assert_true(psr_clock_ms() < end);
        (void)poll(fds, 1, PATIENCE_MS);
        expect_ok(psr_line_reader_visit(&link.agent.out, remember, words));
    }
    psr_child_done(&link.agent);
    assert_string_equal(
        words,
        "-p 22 -i a  key -o ProxyCommand=ssh -W %h:%p j -T -a -x -o ClearAllForwardings=yes -o "
        "PermitLocalCommand=no -o BatchMode=yes -o StrictHostKeyChecking=yes -o ConnectTimeout=10 "
        "-o ServerAliveInterval=5 -o ServerAliveCountMax=3 node7 exec '/opt/psring' agent ");
}

static void words_of_ssh_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "--ssh: the command is empty; give for instance 'ssh -p 2222'"},
        {"ssh -i 'key", "--ssh 'ssh -i 'key': a quote is not closed"},
        {"ssh; reboot",
         "--ssh 'ssh; reboot': no shell runs it, so | & ; < > ( ) { } must be in quotes"},
        {"ssh $(reboot)", "--ssh 'ssh $(reboot)': a command within it would not be run"},
        {"ssh $PSR_NOT_THERE", "--ssh 'ssh $PSR_NOT_THERE': it names a variable that is not there"},
        {"a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a",
         "--ssh: it has more than 32 words; put them into a file, and give ssh -F FILE"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        psr_host_link link;
        assert_int_equal(psr_host_start(&link, "node7", cases[i][0], "/opt/psring"), PSR_ERR_USAGE);
        assert_string_equal(psr_err_detail(), cases[i][1]);
    }
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(our_own_path_is_tried_where_nobody_else_can_change_it),
        IN_A_FOLDER(where_others_can_change_it_psring_is_taken_from_the_path),
        IN_A_FOLDER(what_is_not_there_is_told),
        IN_A_FOLDER(a_path_that_the_user_names_is_taken_as_it_is),
        IN_A_FOLDER(ssh_lends_nothing_and_checks_host_keys),
        cmocka_unit_test(words_of_ssh_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
