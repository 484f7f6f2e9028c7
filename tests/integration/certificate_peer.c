/* A ZeroMQ program that knows nothing of psring: czmq alone. It takes certificates by zcert_load.
 *
 * usage: certificate_peer serve CERTIFICATE FOLDER
 *          prints its endpoint and echoes until its standard input ends. zauth lets in who has a
 *          certificate of the folder.
 *        certificate_peer ask CERTIFICATE SERVER-CERTIFICATE ENDPOINT
 *          prints what comes back for "hello", or "refused"
 *        certificate_peer greet CERTIFICATE SERVER-CERTIFICATE ENDPOINT
 *          prints "let in" when the handshake of CURVE is done, or "refused"
 * Prints "role rank" of its certificate first. Exit status 1: something else went wrong. */
#include <czmq.h>

#define WAIT_MS 60000 /* far above what a handshake takes: only a failure waits so long */
#define MONITOR "inproc://monitor"

static int fail(const char *what)
{
    fprintf(stderr, "certificate_peer: %s\n", what);
    return 1;
}

static const char *meta(zcert_t *certificate, const char *name)
{
    const char *value = zcert_meta(certificate, name);
    return value != NULL ? value : "?";
}

/* ---- serve ---- */

static int serve(zcert_t *own, const char *folder)
{
    zactor_t *door = zactor_new(zauth, NULL);
    if (zstr_sendx(door, "CURVE", folder, NULL) != 0 || zsock_wait(door) != 0)
        return fail("no zauth");
    zsock_t *socket = zsock_new(ZMQ_REP);
    zcert_apply(own, socket);
    zsock_set_zap_domain(socket, "global");
    zsock_set_curve_server(socket, 1);
    if (zsock_bind(socket, "tcp://127.0.0.1:*") < 0)
        return fail("cannot bind");
    printf("%s\n", zsock_endpoint(socket));
    fflush(stdout);
    zmq_pollitem_t items[] = {{.socket = zsock_resolve(socket), .events = ZMQ_POLLIN},
                              {.fd = STDIN_FILENO, .events = ZMQ_POLLIN}};
    while (zmq_poll(items, 2, -1) > 0 && items[1].revents == 0) {
        char *text = zstr_recv(socket);
        zstr_send(socket, text);
        zstr_free(&text);
    }
    zsock_destroy(&socket);
    zactor_destroy(&door);
    return 0;
}

/* ---- ask, greet ---- */

/* The handshake's end, by the monitor. */
static bool is_let_in(zsock_t *socket, void *monitor)
{
    (void)socket;
    for (;;) {
        zmq_pollitem_t item = {.socket = monitor, .events = ZMQ_POLLIN};
        if (zmq_poll(&item, 1, WAIT_MS) != 1)
            exit(fail("no handshake"));
        zmsg_t *event = zmsg_recv(monitor);
        zframe_t *frame = zmsg_first(event);
        uint16_t number;
        memcpy(&number, zframe_data(frame), sizeof number);
        zmsg_destroy(&event);
        if (number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED)
            return true;
        if (number == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH ||
            number == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL ||
            number == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL || number == ZMQ_EVENT_DISCONNECTED)
            return false;
    }
}

static int call(zcert_t *own, zcert_t *server, const char *endpoint, bool asks)
{
    zsock_t *socket = zsock_new(asks ? ZMQ_REQ : ZMQ_DEALER);
    void *handle = zsock_resolve(socket), *monitor = zmq_socket(zsys_init(), ZMQ_PAIR);
    if (zmq_socket_monitor(handle, MONITOR, ZMQ_EVENT_ALL) != 0 ||
        zmq_connect(monitor, MONITOR) != 0)
        return fail("no monitor");
    zcert_apply(own, socket);
    zsock_set_curve_serverkey(socket, zcert_public_txt(server));
    zsock_set_rcvtimeo(socket, WAIT_MS);
    zsock_set_linger(socket, 0);
    if (zsock_connect(socket, "%s", endpoint) != 0)
        return fail("cannot connect");
    if (!is_let_in(socket, monitor)) {
        puts("refused");
    } else if (!asks) {
        puts("let in");
    } else {
        zstr_send(socket, "hello");
        char *answer = zstr_recv(socket);
        puts(answer != NULL ? answer : "no answer");
        zstr_free(&answer);
    }
    zmq_socket_monitor(handle, NULL, 0);
    zmq_close(monitor);
    zsock_destroy(&socket);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return fail("usage: certificate_peer serve|ask|greet CERTIFICATE ..");
    zcert_t *own = zcert_load(argv[2]), *server = NULL;
    if (own == NULL)
        return fail("zcert_load does not take the certificate");
    printf("%s %s\n", meta(own, "role"), meta(own, "rank"));
    int status;
    if (strcmp(argv[1], "serve") == 0)
        status = serve(own, argv[3]);
    else if (argc == 5 && (server = zcert_load(argv[3])) != NULL)
        status = call(own, server, argv[4], strcmp(argv[1], "ask") == 0);
    else
        status = fail("a second certificate and an endpoint are needed");
    zcert_destroy(&own);
    zcert_destroy(&server);
    return status;
}
