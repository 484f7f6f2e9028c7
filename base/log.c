#include "base/log.h"

#include "base/text/printable.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A pipe takes a write of at most PIPE_BUF bytes whole or not at all, so a line is never longer. */
enum { LINE_BYTES = PIPE_BUF };

typedef enum stream_kind { STREAM_UNKNOWN, STREAM_PIPE, STREAM_SOCKET, STREAM_OTHER } stream_kind;

typedef struct stream {
    int standard_fd;
    int fd; /* for writing: standard_fd, or the same pipe opened again without blocking */
    stream_kind kind;
    uint64_t dropped;
} stream;

/* The one log of the process, as stderr and stdout are its one pair of streams. */
static struct {
    pthread_mutex_t lock;
    char name[64];
    psr_log_level threshold;
    stream err, out;
} state = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .name = "psring",
    .threshold = PSR_LOG_INFO,
    .err = {.standard_fd = STDERR_FILENO, .fd = STDERR_FILENO},
    .out = {.standard_fd = STDOUT_FILENO, .fd = STDOUT_FILENO},
};

/* O_NONBLOCK belongs to the open file, which other processes share: setting it on stderr itself
 * would change theirs. A pipe opened anew through /proc has flags of its own. If that is
 * impossible, poll tells whether a line fits. Then only another writer on the same pipe could still
 * make us wait. */
static void stream_open(stream *s)
{
    if (s->fd != s->standard_fd)
        close(s->fd);
    s->fd = s->standard_fd;
    s->kind = STREAM_OTHER;

    struct stat status;
    if (fstat(s->standard_fd, &status) != 0)
        return;
    if (S_ISSOCK(status.st_mode)) {
        s->kind = STREAM_SOCKET;
    } else if (S_ISFIFO(status.st_mode)) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", s->standard_fd);
        int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0) {
            s->kind = STREAM_PIPE;
            s->fd = fd;
        }
    }
}

static bool stream_write(stream *s, const char *line, size_t size)
{
    if (s->kind == STREAM_UNKNOWN)
        stream_open(s);
    if (s->kind == STREAM_OTHER) {
        struct pollfd ready = {.fd = s->fd, .events = POLLOUT};
        if (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0)
            return false;
    }
    ssize_t written;
    do {
        written = s->kind == STREAM_SOCKET ? send(s->fd, line, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                                           : write(s->fd, line, size);
    } while (written < 0 && errno == EINTR);
    return written == (ssize_t)size;
}

void psr_log_init(const char *name, psr_log_level threshold)
{
    pthread_mutex_lock(&state.lock);
    snprintf(state.name, sizeof state.name, "%s", name);
    state.threshold = threshold;
    stream_open(&state.err);
    stream_open(&state.out);
    pthread_mutex_unlock(&state.lock);
}

/* Ends the text in line (of LINE_BYTES, cut there) with a newline; returns the size to be
 * written. */
static size_t finish_line(char *line, int length)
{
    size_t used = length < 0 ? 0 : (size_t)length;
    if (used > LINE_BYTES - 1)
        used = LINE_BYTES - 1;
    psr_printable_line(line, used);
    line[used] = '\n';
    return used + 1;
}

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static const char *const kind_names[] = {"run", "stranger"};
/* Printed after the name, where no text of a peer can be. */
static const char *const kind_marks[] = {"", " (stranger)"};

const char *psr_log_level_name(psr_log_level level)
{
    return level_names[level];
}

const char *psr_log_kind_name(psr_log_kind kind)
{
    return kind_names[kind];
}

static int print_prefix(char *line, psr_log_kind kind, psr_log_level level)
{
    struct timespec now;
    struct tm local;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &local);
    return snprintf(line, LINE_BYTES, "%02d:%02d:%02d.%03ld %-5s %s%s: ", local.tm_hour,
                    local.tm_min, local.tm_sec, now.tv_nsec / 1000000, level_names[level],
                    state.name, kind_marks[kind]);
}

static bool read_level(const char *word, psr_log_level *ret_level)
{
    for (size_t i = 0; i < sizeof level_names / sizeof *level_names; i++)
        if (strcmp(word, level_names[i]) == 0) {
            *ret_level = (psr_log_level)i;
            return true;
        }
    return false;
}

bool psr_log_line_read(const char *text, psr_log_line *ret_line)
{
    unsigned hours, minutes, seconds, ms;
    char word[6];
    int level_end = 0;
    psr_log_line line = {.kind = PSR_LOG_OF_RUN};
    if (sscanf(text, "%2u:%2u:%2u.%3u %5s%n", &hours, &minutes, &seconds, &ms, word, &level_end) !=
            5 ||
        text[level_end] != ' ' || !read_level(word, &line.level))
        return false;
    const char *name = text + level_end, *colon = strstr(name, ": ");
    if (colon == NULL)
        return false;
    const char *mark = kind_marks[PSR_LOG_OF_STRANGER];
    size_t name_bytes = (size_t)(colon - name), mark_bytes = strlen(mark);
    if (name_bytes > mark_bytes && memcmp(colon - mark_bytes, mark, mark_bytes) == 0)
        line.kind = PSR_LOG_OF_STRANGER;
    line.message = colon + strlen(": ");
    *ret_line = line;
    return true;
}

/* Called with the lock held, so that the lost lines are reported where they are missing. */
static bool tell_drops(void)
{
    if (state.err.dropped == 0 && state.out.dropped == 0)
        return true;
    char line[LINE_BYTES + 1];
    int length = print_prefix(line, PSR_LOG_OF_RUN, PSR_LOG_WARN);
    length +=
        snprintf(line + length, (size_t)(LINE_BYTES - length),
                 "nobody read this process's output: lines were dropped stderr=%llu stdout=%llu",
                 (unsigned long long)state.err.dropped, (unsigned long long)state.out.dropped);
    if (!stream_write(&state.err, line, finish_line(line, length)))
        return false;
    state.err.dropped = 0;
    state.out.dropped = 0;
    return true;
}

static void print_line(psr_log_kind kind, psr_log_level level, const char *format, va_list args)
    PSR_PRINTF(3, 0);
static void print_line(psr_log_kind kind, psr_log_level level, const char *format, va_list args)
{
    pthread_mutex_lock(&state.lock);
    if (level <= state.threshold) {
        char line[LINE_BYTES + 1];
        int length = print_prefix(line, kind, level);
        int added = vsnprintf(line + length, (size_t)(LINE_BYTES - length), format, args);
        size_t size = finish_line(line, length + (added < 0 ? 0 : added));
        if (!tell_drops() || !stream_write(&state.err, line, size))
            state.err.dropped++;
    }
    pthread_mutex_unlock(&state.lock);
}

void psr_log(psr_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(PSR_LOG_OF_RUN, level, format, args);
    va_end(args);
}

void psr_log_of(psr_log_kind kind, psr_log_level level, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_line(kind, level, format, args);
    va_end(args);
}

void psr_log_plain(const char *format, ...)
{
    char line[LINE_BYTES + 1];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(line, LINE_BYTES, format, args);
    va_end(args);
    size_t size = finish_line(line, length);

    pthread_mutex_lock(&state.lock);
    if (!stream_write(&state.out, line, size))
        state.out.dropped++;
    else
        tell_drops();
    pthread_mutex_unlock(&state.lock);
}
