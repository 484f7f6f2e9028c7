#include "net/trust/zap.h"

#include <string.h>
#include <zmq.h>

static bool more_waits(void *socket)
{
    int more = 0;
    size_t size = sizeof more;
    return zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size) == 0 && more;
}

bool psr_zap_receive(void *socket, psr_zap_request *ret_request)
{
    psr_zap_request request = {0};
    do {
        psr_zap_frame beyond,
            *frame = request.count < PSR_ZAP_FRAMES ? &request.frames[request.count] : &beyond;
        int size = zmq_recv(socket, frame->bytes, sizeof frame->bytes, ZMQ_DONTWAIT);
        if (size < 0)
            return false; /* a message is there completely or not at all */
        frame->size = (size_t)size;
        request.count += frame != &beyond;
    } while (more_waits(socket));
    *ret_request = request;
    return true;
}

bool psr_zap_is(const psr_zap_frame *frame, const char *text)
{
    size_t size = strlen(text);
    return frame->size == size && size <= sizeof frame->bytes &&
           memcmp(frame->bytes, text, size) == 0;
}

void psr_zap_text(const psr_zap_frame *frame, char *text, size_t size)
{
    size_t fits = frame->size < size && frame->size <= sizeof frame->bytes ? frame->size : 0;
    memcpy(text, frame->bytes, fits);
    text[fits] = '\0';
}

void psr_zap_answer(void *socket, const psr_zap_request *request, psr_zap_verdict verdict,
                    const char *why_not, const char *user)
{
    static const char *const statuses[] = {
        [PSR_ZAP_LET_IN] = "200", [PSR_ZAP_REFUSED] = "400", [PSR_ZAP_LATER] = "300"};
    const psr_zap_frame *id = &request->frames[PSR_ZAP_ID];
    const char *status = statuses[verdict], *text = verdict == PSR_ZAP_LET_IN ? "OK" : why_not;
    /* A failure here means that the context ends. */
    (void)zmq_send(socket, "1.0", 3, ZMQ_SNDMORE);
    (void)zmq_send(socket, id->bytes, id->size < sizeof id->bytes ? id->size : sizeof id->bytes,
                   ZMQ_SNDMORE);
    (void)zmq_send(socket, status, 3, ZMQ_SNDMORE);
    (void)zmq_send(socket, text, strlen(text), ZMQ_SNDMORE);
    (void)zmq_send(socket, user, strlen(user), ZMQ_SNDMORE);
    (void)zmq_send(socket, "", 0, 0); /* metadata: none */
}
