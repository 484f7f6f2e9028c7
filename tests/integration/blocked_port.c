/* Preloaded into psring's processes: the port to which sealed messages go is another one, port 1 of
 * this machine, where nobody answers, as behind a firewall that lets only some ports through. */
#include <dlfcn.h>
#include <stddef.h>
#include <zmq.h>

#define SEEN_BY_ALL __attribute__((visibility("default")))

typedef int connect_function(void *socket, const char *endpoint);

SEEN_BY_ALL int zmq_connect(void *socket, const char *endpoint)
{
    static connect_function *real;
    int type;
    size_t size = sizeof type;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "zmq_connect");
    if (zmq_getsockopt(socket, ZMQ_TYPE, &type, &size) == 0 && type == ZMQ_PUSH)
        return real(socket, "tcp://127.0.0.1:1");
    return real(socket, endpoint);
}
