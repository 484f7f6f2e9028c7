#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/trust/zap.h"

#include <string.h>
#include <zmq.h>

#define ENDPOINT "inproc://zap"

typedef struct ends {
    void *ctx, *asks, *answers;
} ends;

static int open_ends(void **state)
{
    static ends e;
    e.ctx = zmq_ctx_new();
    e.answers = zmq_socket(e.ctx, ZMQ_REP);
    e.asks = zmq_socket(e.ctx, ZMQ_REQ);
    assert_int_equal(zmq_bind(e.answers, ENDPOINT), 0);
    assert_int_equal(zmq_connect(e.asks, ENDPOINT), 0);
    *state = &e;
    return 0;
}

static int close_ends(void **state)
{
    ends *e = *state;
    zmq_close(e->asks);
    zmq_close(e->answers);
    return zmq_ctx_term(e->ctx);
}

static void ask(ends *e, const char *const *frames, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_true(
            zmq_send(e->asks, frames[i], strlen(frames[i]), i + 1 < count ? ZMQ_SNDMORE : 0) >= 0);
    zmq_pollitem_t item = {.socket = e->answers, .events = ZMQ_POLLIN};
    assert_int_equal(zmq_poll(&item, 1, -1), 1);
}

static void expect_answer(ends *e, const char *const frames[6])
{
    for (int i = 0; i < 6; i++) {
        char text[300];
        int size = zmq_recv(e->asks, text, sizeof text - 1, 0);
        assert_true(size >= 0);
        text[size] = '\0';
        assert_string_equal(text, frames[i]);
    }
    int more = 1;
    size_t size = sizeof more;
    assert_int_equal(zmq_getsockopt(e->asks, ZMQ_RCVMORE, &more, &size), 0);
    assert_false(more);
}

static void a_request_is_read_by_its_frames_and_let_in_under_a_name(void **state)
{
    psr_zap_request request;
    assert_false(psr_zap_receive(((ends *)*state)->answers, &request));
    ask(*state,
        (const char *const[]){"1.0", "7", "psring", "127.0.0.1", "", "PLAIN", "worker 1", "secret"},
        8);
    assert_true(psr_zap_receive(((ends *)*state)->answers, &request));
    assert_int_equal(request.count, 8);
    assert_true(psr_zap_is(&request.frames[PSR_ZAP_VERSION], "1.0"));
    assert_false(psr_zap_is(&request.frames[PSR_ZAP_VERSION], "1"));
    assert_true(psr_zap_is(&request.frames[PSR_ZAP_MECHANISM], "PLAIN"));
    char text[16];
    psr_zap_text(&request.frames[PSR_ZAP_ADDRESS], text, sizeof text);
    assert_string_equal(text, "127.0.0.1");
    psr_zap_text(&request.frames[PSR_ZAP_ADDRESS], text, 9);
    assert_string_equal(text, "");
    assert_true(psr_zap_is(&request.frames[PSR_ZAP_CREDENTIALS], "worker 1"));
    assert_true(psr_zap_is(&request.frames[PSR_ZAP_CREDENTIALS + 1], "secret"));

    psr_zap_answer(((ends *)*state)->answers, &request, PSR_ZAP_LET_IN, NULL, "worker 1");
    expect_answer(*state, (const char *const[]){"1.0", "7", "200", "OK", "worker 1", ""});
}

static void who_is_refused_is_told_why(void **state)
{
    psr_zap_request request;
    ask(*state, (const char *const[]){"1.0", "8", "psring", "", "", "NULL"}, 6);
    assert_true(psr_zap_receive(((ends *)*state)->answers, &request));
    psr_zap_answer(((ends *)*state)->answers, &request, PSR_ZAP_REFUSED, "no security mechanism",
                   "");
    expect_answer(*state,
                  (const char *const[]){"1.0", "8", "400", "no security mechanism", "", ""});
}

static void who_may_come_again_is_told_nothing(void **state)
{
    psr_zap_request request;
    ask(*state, (const char *const[]){"1.0", "8", "psring", "", "", "PLAIN"}, 6);
    assert_true(psr_zap_receive(((ends *)*state)->answers, &request));
    psr_zap_answer(((ends *)*state)->answers, &request, PSR_ZAP_LATER, "too many", "");
    expect_answer(*state, (const char *const[]){"1.0", "8", "300", "too many", "", ""});
}

static void a_request_that_is_short_has_empty_frames(void **state)
{
    psr_zap_request request;
    ask(*state, (const char *const[]){"2.0"}, 1);
    assert_true(psr_zap_receive(((ends *)*state)->answers, &request));
    assert_int_equal(request.count, 1);
    assert_true(psr_zap_is(&request.frames[PSR_ZAP_MECHANISM], ""));
    psr_zap_answer(((ends *)*state)->answers, &request, PSR_ZAP_REFUSED, "no", "");
    expect_answer(*state, (const char *const[]){"1.0", "", "400", "no", "", ""});
}

static void frames_beyond_the_credentials_and_bytes_beyond_a_frame_are_dropped(void **state)
{
    char longer[301];
    memset(longer, 'x', 300);
    longer[300] = '\0';
    psr_zap_request request;
    ask(*state,
        (const char *const[]){"1.0", "9", "psring", longer, "", "GSSAPI", "a", "b", "c", "d"}, 10);
    assert_true(psr_zap_receive(((ends *)*state)->answers, &request));
    assert_int_equal(request.count, PSR_ZAP_FRAMES);
    assert_int_equal(request.frames[PSR_ZAP_ADDRESS].size, 300);
    char text[512];
    psr_zap_text(&request.frames[PSR_ZAP_ADDRESS], text, sizeof text);
    assert_string_equal(text, "");
    assert_false(psr_zap_is(&request.frames[PSR_ZAP_ADDRESS], longer));
    assert_true(psr_zap_is(&request.frames[PSR_ZAP_CREDENTIALS + 1], "b"));
    /* nothing of it is left over */
    assert_false(psr_zap_receive(((ends *)*state)->answers, &request));
    psr_zap_answer(((ends *)*state)->answers, &request, PSR_ZAP_REFUSED, "no", "");
    expect_answer(*state, (const char *const[]){"1.0", "9", "400", "no", "", ""});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_request_is_read_by_its_frames_and_let_in_under_a_name,
                                        open_ends, close_ends),
        cmocka_unit_test_setup_teardown(who_is_refused_is_told_why, open_ends, close_ends),
        cmocka_unit_test_setup_teardown(who_may_come_again_is_told_nothing, open_ends, close_ends),
        cmocka_unit_test_setup_teardown(a_request_that_is_short_has_empty_frames, open_ends,
                                        close_ends),
        cmocka_unit_test_setup_teardown(
            frames_beyond_the_credentials_and_bytes_beyond_a_frame_are_dropped, open_ends,
            close_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
