/* The ZAP handler's thread: it answers libzmq's requests, takes its events, and ends connections
 * that were let in and behave as no member does. */
#include "net/trust/admission_private.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <zmq.h>

/* ---- refused ones: the count, and a line for the owner ---- */

/* How libzmq calls the other end of an ipc socket. */
static bool read_ipc_address(const char *address, unsigned *ret_uid, unsigned *ret_gid,
                             int *ret_process)
{
    return sscanf(address, "localhost:%u:%u:%d", ret_uid, ret_gid, ret_process) == 3;
}

void psr_admission_tell(psr_admission *admission, const char *address, const char *reason)
{
    char line[256], from[128] = "";
    unsigned uid, gid;
    int process;
    if (read_ipc_address(address, &uid, &gid, &process))
        snprintf(from, sizeof from, " (process %d of user %u)", process, uid);
    else if (*address != '\0')
        snprintf(from, sizeof from, " from %.64s", address);
    int bytes = snprintf(line, sizeof line, "turned away a stranger%s: %s", from, reason);
    /* If the queue is full the line is lost; its length is the high-water mark. The count is still
     * kept. */
    (void)zmq_send(admission->lines, line,
                   (size_t)(bytes < (int)sizeof line ? bytes : (int)sizeof line - 1), ZMQ_DONTWAIT);
}

static void count_refused(psr_admission *admission, size_t connections)
{
    atomic_fetch_add_explicit(&admission->refused, connections, memory_order_relaxed);
    admission->refused_open += connections;
}

void psr_admission_count_handshake(psr_admission *admission)
{
    admission->in_handshake--;
    count_refused(admission, 1);
}

void psr_admission_refuse(psr_admission *admission, const char *address, const char *reason)
{
    psr_admission_count_handshake(admission);
    psr_admission_tell(admission, address, reason);
}

/* ---- connections that are not known yet ---- */

/* false: too many connections of the member are unknown. */
static bool note_let_in(psr_admission *admission, psr_peer peer, const char *address)
{
    unsigned uid, gid;
    int process = 0;
    if (read_ipc_address(address, &uid, &gid, &process) && process <= 0)
        process = PSR_HALF_OPEN_FOREIGN;
    return psr_unknowns_let_in(&admission->unknowns, peer, process);
}

/* The owner's inbox was empty after it was asked: who came before and is unknown still has said
 * nothing, or what nobody wanted to hear. */
static void end_silent(psr_admission *admission)
{
    int64_t until_ms = admission->asked_ms - PSR_SILENT_MS;
    admission->asked_ms = 0;
    size_t ended = psr_unknowns_end_silent(&admission->unknowns, until_ms);
    count_refused(admission, ended);
    for (size_t i = 0; i < ended; i++)
        psr_admission_tell(admission, "", "it was let in and said nothing that a member would say");
}

/* When the oldest unknown one has had its time: 0: now, -1: there is none. */
static int silent_timeout_ms(psr_admission *admission)
{
    if (admission->asked_ms != 0)
        return -1; /* the owner's answer comes as a message */
    int64_t now_ms = psr_clock_ms();
    int64_t oldest_ms = psr_unknowns_oldest_ms(&admission->unknowns);
    if (oldest_ms == INT64_MAX)
        return -1;
    int64_t due_ms = oldest_ms + PSR_SILENT_MS;
    due_ms = due_ms > admission->ask_again_ms ? due_ms : admission->ask_again_ms;
    return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}

/* The next time that something is due. */
static int timeout_ms(psr_admission *admission)
{
    int silent_ms = silent_timeout_ms(admission);
    if (!psr_unknowns_count(&admission->unknowns))
        return silent_ms;
    return silent_ms < 0 || silent_ms > PSR_HALF_OPEN_LOOK_MS ? PSR_HALF_OPEN_LOOK_MS : silent_ms;
}

static void end_greedy(psr_admission *admission)
{
    size_t ended = psr_unknowns_end_greedy(&admission->unknowns);
    count_refused(admission, ended);
    for (size_t i = 0; i < ended; i++)
        psr_admission_tell(admission, "", "it was let in and sent more than a member would");
}

/* Sends an empty line: the owner looks at its inbox before it reads it. */
static void ask_owner(psr_admission *admission)
{
    if (zmq_send(admission->lines, "", 0, ZMQ_DONTWAIT) == 0)
        admission->asked_ms = psr_clock_ms();
    else /* there are lines that it has not read */
        admission->ask_again_ms = psr_clock_ms() + PSR_HANDSHAKE_MS;
}

/* ---- the thread ---- */

static void answer_request(psr_admission *admission, const psr_zap_request *request)
{
    psr_peer peer;
    const char *refusal = psr_admission_admit(admission, request, &peer);
    char address[128], user[PSR_ADMISSION_USER_BYTES] = "";
    psr_zap_text(&request->frames[PSR_ZAP_ADDRESS], address, sizeof address);
    psr_zap_verdict verdict = refusal == NULL ? PSR_ZAP_LET_IN : PSR_ZAP_REFUSED;
    if (refusal == NULL && !note_let_in(admission, peer, address)) {
        verdict = PSR_ZAP_LATER;
        refusal = "its member has too many connections";
    }
    if (refusal == NULL) {
        psr_admission_user_write(peer, ++admission->numbers, user);
        admission->in_between++;
        admission->told_ms = psr_clock_ms();
    } else {
        psr_admission_refuse(admission, address, refusal);
    }
    psr_zap_answer(admission->zap, request, verdict, refusal, user);
}

/* false: the handler must end. */
static bool take_order(psr_admission *admission)
{
    char order;
    if (zmq_recv(admission->ordered, &order, sizeof order, ZMQ_DONTWAIT) == 0)
        return false;
    if (admission->asked_ms != 0)
        end_silent(admission);
    return true;
}

void *psr_admission_main(void *context)
{
    psr_admission *admission = context;
    zmq_pollitem_t items[] = {
        {.socket = admission->zap, .events = ZMQ_POLLIN},
        {.socket = admission->ordered, .events = ZMQ_POLLIN},
        {.socket = admission->monitor, .events = ZMQ_POLLIN},
        {.socket = admission->sealed_monitor, .events = ZMQ_POLLIN},
    };
    const int count = admission->sealed_monitor != NULL ? 4 : 3;
    int ready;
    while ((ready = zmq_poll(items, count, timeout_ms(admission))) >= 0 || errno == EINTR) {
        if (ready < 0)
            continue;
        if (items[1].revents && !take_order(admission))
            break;
        psr_admission_take_events(admission);
        psr_zap_request request;
        if (items[0].revents && psr_zap_receive(admission->zap, &request))
            answer_request(admission, &request);
        end_greedy(admission);
        if (silent_timeout_ms(admission) == 0)
            ask_owner(admission);
    }
    return NULL;
}
