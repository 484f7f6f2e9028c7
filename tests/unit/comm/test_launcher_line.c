/* The lines between launcher and scheduler: there and back, as they stand in the pipe, and hostile
 * bytes. */
#include "tests/unit/expect.h"

#include "comm/launcher_line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_order(const psr_order *order, const char *text)
{
    char *encoded = NULL;
    psr_order decoded;
    expect_ok(psr_order_encode(order, &encoded));
    assert_string_equal(encoded, text);
    expect_ok(psr_order_decode(encoded, &decoded));
    assert_int_equal(decoded.kind, order->kind);
    assert_int_equal(decoded.peer.role, order->peer.role);
    assert_int_equal(decoded.peer.rank, order->peer.rank);
    assert_string_equal(decoded.host, order->host);
    assert_int_equal(decoded.by_itself, order->by_itself);
    assert_string_equal(decoded.how, order->how);
    assert_string_equal(decoded.line, order->line);
    assert_int_equal(decoded.bits_per_s, order->bits_per_s);
    assert_string_equal(decoded.to, order->to);
    free(encoded);
}

static void orders_come_back_as_they_were(void **state)
{
    (void)state;
    const psr_peer worker = {PSR_ROLE_WORKER, 3}, shard = {PSR_ROLE_SHARD, UINT32_MAX};
    expect_order(
        &(psr_order){
            .kind = PSR_ORDER_LOST, .peer = worker, .host = "b", .how = "killed by signal 9"},
        "{\"order\":\"lost\",\"role\":\"worker\",\"rank\":3,\"host\":\"b\",\"by_itself\":false,"
        "\"how\":\"killed by signal 9\"}");
    expect_order(
        &(psr_order){
            .kind = PSR_ORDER_LOST, .peer = shard, .by_itself = true, .how = "exit status 1"},
        "{\"order\":\"lost\",\"role\":\"shard\",\"rank\":4294967295,\"by_itself\":true,\"how\":"
        "\"exit status 1\"}");
    expect_order(&(psr_order){.kind = PSR_ORDER_LEFT, .peer = worker, .host = "b"},
                 "{\"order\":\"left\",\"role\":\"worker\",\"rank\":3,\"host\":\"b\"}");
    expect_order(
        &(psr_order){.kind = PSR_ORDER_AGENT, .host = "b", .how = "no sign of life for 2.0 s"},
        "{\"order\":\"agent\",\"host\":\"b\",\"how\":\"no sign of life for 2.0 s\"}");
    expect_order(&(psr_order){.kind = PSR_ORDER_LOG, .peer = worker, .line = "a \"word\"\t\x1b[2J"},
                 "{\"order\":\"log\",\"role\":\"worker\",\"rank\":3,\"line\":\"a "
                 "\\\"word\\\"\\t\\u001b[2J\"}");
    expect_order(
        &(psr_order){.kind = PSR_ORDER_LINKS, .bits_per_s = 95600000, .host = "a", .to = "b"},
        "{\"order\":\"links\",\"bits_per_s\":95600000,\"host\":\"a\",\"to\":\"b\"}");
    expect_order(&(psr_order){.kind = PSR_ORDER_CLOSED}, "{\"order\":\"closed\"}");
    expect_order(&(psr_order){.kind = PSR_ORDER_STOP}, "{\"order\":\"stop\"}");
    expect_order(&(psr_order){.kind = PSR_ORDER_PAUSE}, "{\"order\":\"pause\"}");
    expect_order(&(psr_order){.kind = PSR_ORDER_GO_ON}, "{\"order\":\"go_on\"}");
    expect_order(&(psr_order){.kind = PSR_ORDER_ALIVE}, "{\"order\":\"alive\"}");
}

/* Of a text that is one line: decoded, and encoded again to the same. */
static psr_run_event expect_event(const psr_run_event *event, const char *text)
{
    char *encoded = NULL, *again = NULL;
    psr_run_event decoded;
    expect_ok(psr_run_event_encode(event, &encoded));
    assert_string_equal(encoded, text);
    expect_ok(psr_run_event_decode(encoded, &decoded));
    assert_int_equal(decoded.kind, event->kind);
    expect_ok(psr_run_event_encode(&decoded, &again));
    assert_string_equal(again, text);
    free(encoded);
    free(again);
    return decoded;
}

static void events_come_back_as_they_were(void **state)
{
    (void)state;
    psr_run_event e =
        expect_event(&(psr_run_event){.kind = PSR_RUN_LISTENING, .endpoint = "tcp://a:1"},
                     "{\"event\":\"listening\",\"endpoint\":\"tcp://a:1\"}");
    assert_string_equal(e.endpoint, "tcp://a:1");
    e = expect_event(
        &(psr_run_event){.kind = PSR_RUN_JOINED, .joined = {{PSR_ROLE_WORKER, 1}, "b", 2, 3}},
        "{\"event\":\"joined\",\"role\":\"worker\",\"rank\":1,\"host\":\"b\",\"count\":2,\"total\":"
        "3}");
    assert_true(psr_peer_equal(e.joined.peer, (psr_peer){PSR_ROLE_WORKER, 1}));
    assert_string_equal(e.joined.host, "b");
    assert_int_equal(e.joined.count, 2);
    assert_int_equal(e.joined.total, 3);
    expect_event(&(psr_run_event){.kind = PSR_RUN_DIRECTORY, .directory = {"runs/b", "runs/a"}},
                 "{\"event\":\"directory\",\"out\":\"runs/b\",\"resumed\":\"runs/a\"}");
    expect_event(&(psr_run_event){.kind = PSR_RUN_DIRECTORY, .directory = {"runs/b", ""}},
                 "{\"event\":\"directory\",\"out\":\"runs/b\"}");
    expect_event(&(psr_run_event){.kind = PSR_RUN_RUNNING}, "{\"event\":\"running\"}");
    e = expect_event(&(psr_run_event){.kind = PSR_RUN_EVALUATING,
                                      .evaluating = {5, 10, 30, UINT64_C(999999999999999)}},
                     "{\"event\":\"evaluating\",\"step\":5,\"total\":10,\"counted\":30,\"samples\":"
                     "999999999999999}");
    assert_int_equal(e.evaluating.step, 5);
    assert_int_equal(e.evaluating.total, 10);
    assert_int_equal(e.evaluating.counted, 30);
    assert_true(e.evaluating.samples == UINT64_C(999999999999999));
    e = expect_event(&(psr_run_event){.kind = PSR_RUN_EVALUATED, .evaluated = "well"},
                     "{\"event\":\"evaluated\",\"line\":\"well\"}");
    assert_string_equal(e.evaluated, "well");
    expect_event(&(psr_run_event){.kind = PSR_RUN_ALIVE}, "{\"event\":\"alive\"}");
    expect_event(&(psr_run_event){.kind = PSR_RUN_PAUSED}, "{\"event\":\"paused\"}");
}

static void what_is_not_known_of_the_progress_is_left_out(void **state)
{
    (void)state;
    psr_run_event e = expect_event(
        &(psr_run_event){.kind = PSR_RUN_PROGRESS, .progress = {4, 10, 0.5, 100}},
        "{\"event\":\"progress\",\"step\":4,\"total\":10,\"loss\":0.5,\"images_per_s\":100}");
    assert_int_equal(e.progress.step, 4);
    assert_int_equal(e.progress.total, 10);
    assert_true(e.progress.loss == 0.5);
    assert_true(e.progress.images_per_s == 100);
    e = expect_event(&(psr_run_event){.kind = PSR_RUN_PROGRESS, .progress = {4, 10, NAN, INFINITY}},
                     "{\"event\":\"progress\",\"step\":4,\"total\":10}");
    assert_true(isnan(e.progress.loss));
    assert_true(isnan(e.progress.images_per_s));
}

static void whom_a_line_is_for_is_told_by_its_fields(void **state)
{
    (void)state;
    psr_run_event e = expect_event(
        &(psr_run_event){.kind = PSR_RUN_SAY,
                         .say = {PSR_LOG_WARN, PSR_LOG_OF_STRANGER, "turned away"}},
        "{\"event\":\"say\",\"level\":\"warn\",\"kind\":\"stranger\",\"line\":\"turned away\"}");
    assert_int_equal(e.say.level, PSR_LOG_WARN);
    assert_int_equal(e.say.kind, PSR_LOG_OF_STRANGER);
    assert_string_equal(e.say.line, "turned away");
    e = expect_event(
        &(psr_run_event){.kind = PSR_RUN_SAY, .say = {PSR_LOG_INFO, PSR_LOG_OF_RUN, ""}},
        "{\"event\":\"say\",\"level\":\"info\",\"kind\":\"run\",\"line\":\"\"}");
    assert_int_equal(e.say.level, PSR_LOG_INFO);
    assert_int_equal(e.say.kind, PSR_LOG_OF_RUN);
}

static void a_run_ends_with_or_without_figures(void **state)
{
    (void)state;
    psr_run_event event = {.kind = PSR_RUN_ENDED,
                           .ended = {0, "done", cJSON_Parse("{\"hash\": \"12\"}")}};
    psr_run_event e = expect_event(
        &event,
        "{\"event\":\"ended\",\"status\":0,\"line\":\"done\",\"outcome\":{\"hash\":\"12\"}}");
    assert_int_equal(e.ended.status, 0);
    assert_string_equal(e.ended.line, "done");
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(e.ended.outcome, "hash")), "12");
    psr_run_event_done(&e);
    psr_run_event_done(&event);
    e = expect_event(&(psr_run_event){.kind = PSR_RUN_ENDED, .ended = {130, "interrupted", NULL}},
                     "{\"event\":\"ended\",\"status\":130,\"line\":\"interrupted\"}");
    assert_int_equal(e.ended.status, 130);
    assert_null(e.ended.outcome);
    psr_run_event_done(&e);
}

static void hostile_orders_are_refused_by_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *detail;
    } bad[] = {
        {"", "field \"order\" is missing or no text"},
        {"not json", "field \"order\" is missing or no text"},
        {"[\"stop\"]", "field \"order\" is missing or no text"},
        {"{\"order\":1}", "field \"order\" is missing or no text"},
        {"{\"order\":\"stop\"} {}", "field \"order\" is missing or no text"},
        {"{\"order\":\"dance\"}", "field \"order\" is 'dance', which is none that is known"},
        {"{\"order\":\"lost\",\"rank\":3,\"how\":\"x\"}", "field \"role\" is missing"},
        {"{\"order\":\"lost\",\"role\":\"king\",\"rank\":3,\"how\":\"x\"}",
         "field \"role\" is none of the words that are known"},
        {"{\"order\":\"lost\",\"role\":7,\"rank\":3,\"how\":\"x\"}",
         "field \"role\" is none of the words that are known"},
        {"{\"order\":\"lost\",\"role\":\"worker\",\"rank\":1e30,\"how\":\"x\"}",
         "field \"rank\" is no count of at most 4294967295"},
        {"{\"order\":\"lost\",\"role\":\"worker\",\"rank\":-1,\"how\":\"x\"}",
         "field \"rank\" is no count of at most 4294967295"},
        {"{\"order\":\"lost\",\"role\":\"worker\",\"rank\":1.5,\"how\":\"x\"}",
         "field \"rank\" is no count of at most 4294967295"},
        {"{\"order\":\"lost\",\"role\":\"worker\",\"rank\":\"1\",\"how\":\"x\"}",
         "field \"rank\" is no count of at most 4294967295"},
        {"{\"order\":\"lost\",\"role\":\"worker\",\"rank\":1,\"host\":[],\"how\":\"x\"}",
         "field \"host\" is no text"},
        {"{\"order\":\"lost\",\"role\":\"worker\",\"rank\":1,\"how\":\"x\"}",
         "field \"by_itself\" is missing"},
        {"{\"order\":\"lost\",\"role\":\"worker\",\"rank\":1,\"by_itself\":1,\"how\":\"x\"}",
         "field \"by_itself\" is neither true nor false"},
        {"{\"order\":\"agent\",\"how\":\"x\"}", "field \"host\" is missing"},
        {"{\"order\":\"log\",\"role\":\"worker\",\"rank\":1}", "field \"line\" is missing"},
    };
    psr_order order = {.kind = PSR_ORDER_GO_ON};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_failure(psr_order_decode(bad[i].text, &order), PSR_ERR_FORMAT, bad[i].detail);
    assert_int_equal(order.kind, PSR_ORDER_GO_ON); /* untouched */
}

static void hostile_events_are_refused_by_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *text, *detail;
    } bad[] = {
        {"{\"order\":\"stop\"}", "field \"event\" is missing or no text"},
        {"{\"event\":\"stop\"}", "field \"event\" is 'stop', which is none that is known"},
        {"{\"event\":\"progress\",\"step\":1e16,\"total\":1}",
         "field \"step\" is no count of at most 999999999999999"},
        {"{\"event\":\"progress\",\"step\":1,\"total\":1,\"loss\":\"low\"}",
         "field \"loss\" is no number"},
        {"{\"event\":\"progress\",\"step\":1,\"total\":1,\"loss\":1e999}",
         "field \"loss\" is no number"},
        {"{\"event\":\"say\",\"level\":\"fatal\",\"kind\":\"run\",\"line\":\"x\"}",
         "field \"level\" is none of the words that are known"},
        {"{\"event\":\"say\",\"level\":\"info\",\"line\":\"x\"}", "field \"kind\" is missing"},
        {"{\"event\":\"ended\",\"status\":256,\"line\":\"x\"}",
         "field \"status\" is no count of at most 255"},
        {"{\"event\":\"ended\",\"status\":0,\"line\":\"x\",\"outcome\":[]}",
         "field \"outcome\" is no object"},
    };
    psr_run_event event = {.kind = PSR_RUN_PAUSED};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        expect_failure(psr_run_event_decode(bad[i].text, &event), PSR_ERR_FORMAT, bad[i].detail);
    assert_int_equal(event.kind, PSR_RUN_PAUSED); /* untouched */
}

static void a_text_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    char text[2 * PSR_LAUNCHER_TEXT_MAX], words[PSR_LAUNCHER_TEXT_MAX + 1];
    psr_run_event event;
    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    snprintf(text, sizeof text, "{\"event\":\"evaluated\",\"line\":\"%s\"}", words);
    expect_failure(psr_run_event_decode(text, &event), PSR_ERR_FORMAT,
                   "field \"line\" is longer than 4095 bytes");
    snprintf(text, sizeof text, "{\"event\":\"evaluated\",\"line\":\"%s\"}", words + 1);
    expect_ok(psr_run_event_decode(text, &event));
    assert_string_equal(event.evaluated, words + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orders_come_back_as_they_were),
        cmocka_unit_test(events_come_back_as_they_were),
        cmocka_unit_test(what_is_not_known_of_the_progress_is_left_out),
        cmocka_unit_test(whom_a_line_is_for_is_told_by_its_fields),
        cmocka_unit_test(a_run_ends_with_or_without_figures),
        cmocka_unit_test(hostile_orders_are_refused_by_their_field),
        cmocka_unit_test(hostile_events_are_refused_by_their_field),
        cmocka_unit_test(a_text_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
