/* Who asks at RUN/mode.sock, for its tests: over the real socket. */
#ifndef PSR_TESTS_UNIT_MODE_CLIENTS_H
#define PSR_TESTS_UNIT_MODE_CLIENTS_H

#include "tests/unit/folder.h"

#include "ps/scheduler/mode/mode_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CLIENT_WAIT_MS 100000 /* far above what anything takes here */

/* The socket's wake: the test waits on it for a request. */
static inline void wake_test(void *context)
{
    assert_int_equal(eventfd_write(*(int *)context, 1), 0);
}

static inline psr_mode_request next_request(psr_mode_socket *socket, int woken)
{
    psr_mode_request request;
    eventfd_t count;
    while (!psr_mode_socket_next(socket, &request))
        assert_int_equal(eventfd_read(woken, &count), 0);
    return request;
}

/* Connected, by way of the directory's descriptor: its path may be longer than an address. -1: it
 * cannot be. */
static inline int connect_in(const char *directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int at = open(directory, O_PATH | O_DIRECTORY),
              fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" PSR_RUN_SOCKET_NAME,
             at);
    const int failed = connect(fd, (const struct sockaddr *)&address, sizeof address);
    close(at);
    if (failed == 0)
        return fd;
    close(fd);
    return -1;
}

/* All that comes until the other end closes: "" where it says nothing. Closes fd. */
static inline const char *answer_of(int fd)
{
    static char text[2048];
    size_t used = 0;
    struct pollfd item = {.fd = fd, .events = POLLIN};
    for (ssize_t got = 1; got > 0 && used<sizeof text - 1; used += got> 0 ? (size_t)got : 0) {
        assert_int_equal(poll(&item, 1, CLIENT_WAIT_MS), 1);
        got = read(fd, text + used, sizeof text - 1 - used);
    }
    text[used] = '\0';
    close(fd);
    return text;
}

#endif
