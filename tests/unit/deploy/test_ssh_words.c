/* deploy/agent/ssh_words.h, with OpenSSH 9.2's own words. */
#include "tests/unit/expect.h"

#include "deploy/agent/ssh_words.h"

static void expect_advice(const char *name, const char *line, const char *text)
{
    char advice[1024];
    psr_ssh_words_advise(name, line, advice, sizeof advice);
    assert_string_equal(advice, text);
    assert_int_equal(psr_ssh_words_tell_why(line), text[0] != '\0');
}

static void each_cause_gets_its_advice(void **state)
{
    (void)state;
    expect_advice("me@n1", "me@n1: Permission denied (publickey,password).",
                  "let it log you in without a password: ssh-copy-id me@n1");
    expect_advice("me@n1",
                  "No ED25519 host key is known for n1 and you have requested strict checking.",
                  "make its key known: ssh-keyscan n1 >>~/.ssh/known_hosts, and compare ssh-keygen "
                  "-lF n1 with what ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub says there");
    expect_advice("n1", "Host key for n1 has changed and you have requested strict checking.",
                  "if it was installed anew: ssh-keygen -R n1, then ssh-keyscan n1 "
                  ">>~/.ssh/known_hosts and compare; if not, another machine may be answering");
    expect_advice("n1", "ssh: Could not resolve hostname n1: Name or service not known",
                  "is that its name? getent hosts n1");
    static const char *const unreached[] = {"ssh: connect to host n1 port 22: Connection refused",
                                            "ssh: connect to host n1 port 22: Connection timed out",
                                            "ssh: connect to host n1 port 22: No route to host"};
    for (size_t i = 0; i < sizeof unreached / sizeof *unreached; i++)
        expect_advice("n1", unreached[i],
                      "is it up, and does sshd listen there? Another port: --ssh 'ssh -p PORT'");
}

static void other_words_get_none(void **state)
{
    (void)state;
    expect_advice("n1", "Host key verification failed.", "");
    expect_advice("n1", "", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_cause_gets_its_advice),
        cmocka_unit_test(other_words_get_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
