/* Writes one line again and again, as fast as it is taken, without end; no SIGTERM ends it, only
 * SIGKILL or a reader that is gone.
 *
 *     flood FD LINE FIFO
 *
 * When as many bytes as MUCH were taken, which somebody must have read then, it writes one into
 * FIFO. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MUCH ((size_t)1 << 20) /* more than the pipes on the way hold */

static char block[1 << 16];

static size_t fill(const char *line)
{
    size_t size = strlen(line), used = 0;
    for (; used + size + 1 <= sizeof block; used += size + 1) {
        memcpy(block + used, line, size);
        block[used + size] = '\n';
    }
    return used;
}

static void tell(const char *fifo)
{
    int fd = open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || write(fd, "x", 1) != 1)
        _exit(3);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    signal(SIGTERM, SIG_IGN);
    int fd = atoi(argv[1]);
    size_t size = fill(argv[2]), taken = 0;
    if (size == 0)
        return 2;
    for (bool told = false;;) {
        size_t at = taken % size;
        ssize_t put = write(fd, block + at, size - at);
        if (put < 0 && errno == EAGAIN)
            (void)poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
        else if (put < 0 && errno != EINTR)
            return 1;
        taken += put > 0 ? (size_t)put : 0;
        if (!told && taken >= MUCH) {
            told = true;
            tell(argv[3]);
        }
    }
}
