/* RUN/mode.sock: lines in and out, and whoever does not keep to them. */
#include "tests/unit/ps/scheduler/mode_clients.h"

#include <sys/stat.h>

static psr_mode_socket *asked;
static int woken = -1;

static void open_in(const char *directory)
{
    woken = eventfd(0, EFD_CLOEXEC);
    expect_ok(psr_mode_socket_new(directory, wake_test, &woken, &asked));
}

static void end(void)
{
    psr_mode_socket_free(asked);
    close(woken);
    asked = NULL;
}

static int client(void)
{
    const int fd = connect_in(folder);
    assert_true(fd >= 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* It asks, and is answered by its word. */
static void is_served(int fd, const char *line, const char *word)
{
    say(fd, line);
    const psr_mode_request request = next_request(asked, woken);
    assert_string_equal(request.word, word);
    psr_mode_socket_answer(asked, request.id, true, word);
    char expected[128];
    snprintf(expected, sizeof expected, "ok %s\n", word);
    assert_string_equal(answer_of(fd), expected);
}

static void a_line_is_a_request_and_its_answer_ends_the_connection(void **state)
{
    (void)state;
    struct stat status;
    open_in(folder);
    assert_int_equal(lstat(in_folder(PSR_RUN_SOCKET_NAME), &status), 0);
    assert_int_equal(status.st_mode & 07777, S_IRUSR | S_IWUSR);
    is_served(client(), "tell\n", "tell");
    const int fd = client();
    say(fd, "ring\n");
    psr_mode_socket_answer(asked, next_request(asked, woken).id, false, "it is one already");
    assert_string_equal(answer_of(fd), "no it is one already\n");
    end();
    assert_int_equal(lstat(in_folder(PSR_RUN_SOCKET_NAME), &status), -1);
}

static void half_a_line_waits_for_the_rest_and_holds_nobody_up(void **state)
{
    (void)state;
    open_in(folder);
    const int half = client();
    say(half, "te");
    is_served(client(), "ps\n", "ps");
    is_served(half, "ll\n", "tell");
    end();
}

static void what_is_not_one_line_of_letters_is_hung_up_on(void **state)
{
    (void)state;
    char longest[PSR_RUN_SOCKET_LINE_MAX + 1];
    memset(longest, 'x', sizeof longest);
    longest[PSR_RUN_SOCKET_LINE_MAX] = '\0';
    const char *const lines[] = {"\x1b[2J\n", "tell\ntell\n", longest};
    open_in(folder);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const int fd = client();
        say(fd, lines[i]);
        assert_string_equal(answer_of(fd), "");
    }
    is_served(client(), "tell\n", "tell");
    end();
}

static void more_than_so_many_at_once_are_hung_up_on_and_later_ones_are_served(void **state)
{
    (void)state;
    int fds[PSR_RUN_SOCKET_CONNECTIONS];
    open_in(folder);
    for (size_t i = 0; i < PSR_RUN_SOCKET_CONNECTIONS; i++)
        fds[i] = client();
    assert_string_equal(answer_of(client()), "");
    is_served(fds[0], "tell\n", "tell"); /* its place is free when it has been hung up on */
    is_served(client(), "ring\n", "ring");
    for (size_t i = 1; i < PSR_RUN_SOCKET_CONNECTIONS; i++)
        close(fds[i]);
    end();
}

static void who_never_reads_or_has_gone_holds_nobody_up(void **state)
{
    (void)state;
    char text[4000]; /* longer than an answer can be */
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    open_in(folder);
    const int deaf = client(), gone = client();
    say(deaf, "tell\n");
    psr_mode_socket_answer(asked, next_request(asked, woken).id, true, text);
    say(gone, "ring\n");
    const psr_mode_request request = next_request(asked, woken);
    close(gone);
    psr_mode_socket_answer(asked, request.id, true, "nobody hears it");
    psr_mode_socket_answer(asked, request.id, true, "nor this");
    is_served(client(), "ps\n", "ps");
    assert_int_equal(strlen(answer_of(deaf)), 1023); /* cut, and a line */
    end();
}

static void a_directory_deeper_than_an_address_is_long_has_one(void **state)
{
    (void)state;
    char deep[512];
    snprintf(deep, sizeof deep, "%s/", folder);
    for (size_t i = 0; i < 3; i++) {
        memset(deep + strlen(deep), 'd', 100);
        deep[strlen(folder) + 1 + 101 * i + 100] = '\0';
        assert_int_equal(mkdir(deep, 0700), 0);
        strcat(deep, "/");
    }
    open_in(deep);
    const int fd = connect_in(deep);
    assert_true(fd >= 0);
    is_served(fd, "tell\n", "tell");
    end();
}

/* Two runs in one directory, or one that was killed: the first socket stays as it is. */
static void a_name_that_is_taken_is_left_alone(void **state)
{
    (void)state;
    psr_mode_socket *second = NULL;
    char line[256];
    open_in(folder);
    snprintf(line, sizeof line, "%s/mode.sock cannot be made: Address already in use", folder);
    expect_failure(psr_mode_socket_new(folder, wake_test, &woken, &second), PSR_ERR_IO, line);
    assert_null(second);
    is_served(client(), "tell\n", "tell");
    end();
    snprintf(line, sizeof line, "%s/none/mode.sock cannot be made: No such file or directory",
             folder);
    expect_failure(psr_mode_socket_new(in_folder("none"), wake_test, &woken, &second), PSR_ERR_IO,
                   line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_line_is_a_request_and_its_answer_ends_the_connection),
        IN_A_FOLDER(half_a_line_waits_for_the_rest_and_holds_nobody_up),
        IN_A_FOLDER(what_is_not_one_line_of_letters_is_hung_up_on),
        IN_A_FOLDER(more_than_so_many_at_once_are_hung_up_on_and_later_ones_are_served),
        IN_A_FOLDER(who_never_reads_or_has_gone_holds_nobody_up),
        IN_A_FOLDER(a_directory_deeper_than_an_address_is_long_has_one),
        IN_A_FOLDER(a_name_that_is_taken_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
