/* libmicrohttpd reads requests and writes answers. It is driven here, by a thread that also ends
 * connections by their age: libmicrohttpd's own limit is on a pause, which a client that sends a
 * byte a second never makes. */
#include "ps/scheduler/prometheus/endpoint.h"

#include "base/clock.h"
#include "base/system/thread.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS_MAX 32    /* libmicrohttpd accepts no more */
#define CONNECTIONS_KEPT 24   /* of more than these, the oldest ends */
#define LIFETIME_MS 10000     /* of a connection, at most */
#define CONNECTION_BYTES 8192 /* for the head of a request; a longer one is refused (431) */
#define NICE 10

typedef struct connection {
    int fd; /* -1: free */
    bool shut;
    uint64_t number; /* connections are counted: several may come in one millisecond */
    int64_t since_ms;
} connection;

struct psr_endpoint {
    psr_exposition *exposition;
    char url[PSR_ADDRESS_MAX + 32];
    int listener; /* libmicrohttpd's once there is a daemon */
    int quit;     /* an eventfd: readable when the thread is to end */
    struct MHD_Daemon *daemon;
    connection connections[CONNECTIONS_MAX]; /* the thread's */
    uint64_t accepted;                       /* the thread's */
    pthread_t thread;
    bool has_thread;
};

psr_err psr_endpoint_check(void)
{
    return PSR_OK;
}

/* ---- answers ---- */

static enum MHD_Result send_response(struct MHD_Connection *to, unsigned status,
                                     struct MHD_Response *response, const char *type)
{
    enum MHD_Result sent = MHD_NO;
    if (response == NULL)
        return MHD_NO;
    if (MHD_add_response_header(response, "Content-Type", type) == MHD_YES &&
        MHD_add_response_header(response, "Connection", "close") == MHD_YES &&
        (status != MHD_HTTP_METHOD_NOT_ALLOWED ||
         MHD_add_response_header(response, "Allow", "GET, HEAD") == MHD_YES))
        sent = MHD_queue_response(to, status, response);
    MHD_destroy_response(response);
    return sent;
}

static enum MHD_Result say(struct MHD_Connection *to, unsigned status, const char *line)
{
    return send_response(to, status,
                         MHD_create_response_from_buffer(strlen(line),
                                                         (void *)(uintptr_t)line, /* is only read */
                                                         MHD_RESPMEM_PERSISTENT),
                         "text/plain; charset=utf-8");
}

static enum MHD_Result send_figures(psr_endpoint *e, struct MHD_Connection *to)
{
    char *text = NULL;
    size_t size = 0;
    if (psr_exposition_print(e->exposition, &text, &size) != PSR_OK)
        return MHD_NO; /* ends the connection */
    struct MHD_Response *response =
        MHD_create_response_from_buffer(size, text, MHD_RESPMEM_MUST_FREE);
    if (response == NULL)
        free(text);
    return send_response(to, MHD_HTTP_OK, response, PSR_EXPOSITION_TYPE);
}

/* libmicrohttpd calls it when a request's head has come, with *seen NULL; and then again, for each
 * part of a body or, with none, when the request is whole. */
static enum MHD_Result answer(void *context, struct MHD_Connection *from, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, void **seen)
{
    static int once;
    (void)version, (void)body;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return say(from, MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD alone are answered\n");
    if (*seen == NULL) {
        *seen = &once;
        return MHD_YES;
    }
    if (*body_size != 0)
        return MHD_NO;
    if (strcmp(url, "/metrics") != 0)
        return say(from, MHD_HTTP_NOT_FOUND, "the figures of the run are at /metrics\n");
    return send_figures(context, from);
}

/* ---- connections ---- */

static void shut(connection *c)
{
    c->shut = true;
    (void)shutdown(c->fd, SHUT_RDWR); /* libmicrohttpd then closes it */
}

static connection *oldest_of(psr_endpoint *e)
{
    connection *oldest = NULL;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++) {
        connection *c = &e->connections[i];
        if (c->fd >= 0 && !c->shut && (oldest == NULL || c->number < oldest->number))
            oldest = c;
    }
    return oldest;
}

static size_t count_of(const psr_endpoint *e)
{
    size_t count = 0;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        count += e->connections[i].fd >= 0 && !e->connections[i].shut;
    return count;
}

static void on_connection(void *context, struct MHD_Connection *of, void **place,
                          enum MHD_ConnectionNotificationCode what)
{
    psr_endpoint *e = context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*place != NULL)
            ((connection *)*place)->fd = -1;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(of, MHD_CONNECTION_INFO_CONNECTION_FD);
    for (size_t i = 0; info != NULL && i < CONNECTIONS_MAX; i++) {
        connection *c = &e->connections[i];
        if (c->fd >= 0)
            continue;
        *c = (connection){
            .fd = info->connect_fd, .number = e->accepted++, .since_ms = psr_clock_ms()};
        *place = c;
        break;
    }
    if (count_of(e) > CONNECTIONS_KEPT)
        shut(oldest_of(e));
}

/* Ends what is too old. Returns how long to wait in milliseconds; -1: without limit. */
static int end_old(psr_endpoint *e, int64_t now_ms)
{
    connection *oldest;
    while ((oldest = oldest_of(e)) != NULL && oldest->since_ms + LIFETIME_MS <= now_ms)
        shut(oldest);
    return oldest == NULL ? -1 : (int)(oldest->since_ms + LIFETIME_MS - now_ms);
}

static void *serve(void *context)
{
    psr_endpoint *e = context;
    struct pollfd fds[] = {
        {MHD_get_daemon_info(e->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd, POLLIN, 0},
        {e->quit, POLLIN, 0}};
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* a run's steps come first */
    while (fds[1].revents == 0) {
        MHD_UNSIGNED_LONG_LONG own_ms;
        int wait_ms = end_old(e, psr_clock_ms());
        if (MHD_get_timeout(e->daemon, &own_ms) == MHD_YES &&
            (wait_ms < 0 || own_ms < (MHD_UNSIGNED_LONG_LONG)wait_ms))
            wait_ms = (int)own_ms;
        (void)poll(fds, 2, wait_ms);
        (void)MHD_run(e->daemon);
    }
    return NULL;
}

/* ---- life ---- */

static psr_err listen_at(psr_endpoint *e, const psr_metrics_port *at)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(at->port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(at->port)};
    const bool is_four = inet_pton(AF_INET, at->address, &four.sin_addr) == 1;
    struct sockaddr *address = is_four ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    socklen_t size = is_four ? sizeof four : sizeof six;
    const int on = 1;
    psr_metrics_port has = *at;
    char text[PSR_ADDRESS_MAX + 16];
    if (!is_four)
        (void)inet_pton(AF_INET6, at->address, &six.sin6_addr); /* the option's reader checked */
    e->listener = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (e->listener < 0 || setsockopt(e->listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(e->listener, address, size) != 0 || listen(e->listener, SOMAXCONN) != 0 ||
        getsockname(e->listener, address, &size) != 0) {
        const int error = errno;
        psr_metrics_port_text(at, text, sizeof text);
        return psr_fail(PSR_ERR_IO,
                        "--metrics-port: %s cannot be listened at: %s; give 0 for a "
                        "free port",
                        text, strerror(error));
    }
    has.port = ntohs(is_four ? four.sin_port : six.sin6_port);
    psr_metrics_port_text(&has, text, sizeof text);
    snprintf(e->url, sizeof e->url, "http://%s/metrics", text);
    return PSR_OK;
}

static psr_err start(psr_endpoint *e)
{
    e->quit = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->quit < 0)
        return psr_fail(PSR_ERR_IO, "no eventfd: %s", strerror(errno));
    e->daemon = MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, answer, e, MHD_OPTION_LISTEN_SOCKET, e->listener,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection, e, MHD_OPTION_END);
    if (e->daemon == NULL)
        return psr_fail(PSR_ERR_IO, "--metrics-port: libmicrohttpd cannot serve %s", e->url);
    e->listener = -1;
    psr_err err = psr_thread_start("metrics", serve, e, &e->thread);
    e->has_thread = err == PSR_OK;
    return err;
}

psr_err psr_endpoint_new(const psr_metrics_port *at, psr_exposition *exposition,
                         psr_endpoint **ret_endpoint)
{
    psr_endpoint *e = calloc(1, sizeof *e);
    if (e == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for --metrics-port");
    e->exposition = exposition;
    e->listener = e->quit = -1;
    for (size_t i = 0; i < CONNECTIONS_MAX; i++)
        e->connections[i].fd = -1;
    psr_err err = listen_at(e, at);
    if (err == PSR_OK)
        err = start(e);
    if (err != PSR_OK) {
        psr_endpoint_free(e);
        return err;
    }
    *ret_endpoint = e;
    return PSR_OK;
}

void psr_endpoint_free(psr_endpoint *e)
{
    const uint64_t one = 1;
    if (e == NULL)
        return;
    if (e->has_thread) {
        (void)!write(e->quit, &one, sizeof one); /* the counter cannot overflow */
        pthread_join(e->thread, NULL);
    }
    if (e->daemon != NULL)
        MHD_stop_daemon(e->daemon);
    if (e->listener >= 0)
        close(e->listener);
    if (e->quit >= 0)
        close(e->quit);
    free(e);
}

const char *psr_endpoint_url(const psr_endpoint *endpoint)
{
    return endpoint->url;
}
