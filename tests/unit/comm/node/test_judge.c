/* The coordinator of a communicator between ranks that are played here: what it says to whom, in
 * virtual time. */
#include "tests/unit/expect.h"

#include "comm/members/join.h"
#include "comm/node/judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3, DEADLINE_MS = 1000, JOIN_MS = 5000, SENT_MAX = 64 };

typedef struct sent {
    uint32_t to;
    psr_head head;
    char text[512];
} sent;

static struct {
    psr_judge *judge;
    psr_coordinator *coordinator; /* the judge's */
    int64_t now_ms;
    sent sent[SENT_MAX];
    size_t count;
    bool connected[RANKS], cut[RANKS], retired[RANKS];
    size_t waiting[RANKS]; /* messages, as the test says */
    size_t alive[RANKS];   /* ALIVEs sent */
    uint32_t refused;
    psr_err refused_status;
    char refusal[256];
} world;

static psr_err play_send(void *context, psr_peer to, const psr_head *head,
                         const psr_payload *payload)
{
    (void)context;
    assert_int_equal(to.role, PSR_ROLE_WORKER);
    assert_true(to.rank < RANKS && world.connected[to.rank] && !world.cut[to.rank]);
    if (head->type == PSR_MSG_ALIVE) {
        world.alive[to.rank]++;
        return PSR_OK;
    }
    assert_true(world.count < SENT_MAX);
    sent *s = &world.sent[world.count++];
    *s = (sent){.to = to.rank, .head = *head};
    if (payload != NULL)
        snprintf(s->text, sizeof s->text, "%.*s", (int)payload->bytes, (const char *)payload->data);
    return PSR_OK;
}

static size_t play_waiting(void *context, psr_peer to)
{
    (void)context;
    return world.waiting[to.rank];
}

static psr_err play_connect(void *context, psr_peer peer, const char *endpoint)
{
    (void)context;
    assert_string_equal(endpoint, "ipc:///run/x");
    world.connected[peer.rank] = true;
    return PSR_OK;
}

static void play_cut(void *context, psr_peer peer)
{
    (void)context;
    world.cut[peer.rank] = true;
}

static void play_refuse(void *context, const psr_message *join, psr_err status, const char *line)
{
    (void)context;
    world.refused = join->from.rank;
    world.refused_status = status;
    snprintf(world.refusal, sizeof world.refusal, "%s", line);
}

static void play_retire(void *context, psr_peer peer)
{
    (void)context;
    world.retired[peer.rank] = true;
}

static int open_world(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    world.now_ms = 100000;
    const psr_judge_options options = {.ranks = RANKS,
                                       .deadline_ms = DEADLINE_MS,
                                       .join_deadline_ms = JOIN_MS,
                                       .host = "here",
                                       .ways = {.send = play_send,
                                                .waiting = play_waiting,
                                                .connect = play_connect,
                                                .refuse = play_refuse,
                                                .cut = play_cut,
                                                .retire = play_retire}};
    expect_ok(psr_judge_new(&options, world.now_ms, &world.judge));
    world.coordinator = psr_judge_coordinator(world.judge);
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    psr_judge_free(world.judge);
    return 0;
}

static void hear(uint32_t rank, psr_head head, const void *data, size_t bytes)
{
    const psr_message message = {
        .from = {PSR_ROLE_WORKER, rank}, .head = head, .payload = data, .payload_bytes = bytes};
    psr_coordinator_message(world.coordinator, &message, world.now_ms);
}

static void join_as(uint32_t wanted, const char *version)
{
    psr_join join = {.host = "there", .endpoint = "ipc:///run/x", .pid = 7};
    char *json = NULL;
    snprintf(join.version, sizeof join.version, "%s", version);
    expect_ok(psr_join_to_json(&join, &json));
    hear(wanted, (psr_head){.type = PSR_MSG_JOIN}, json, strlen(json));
    free(json);
}

static void tell_facts(uint32_t rank, const char *facts)
{
    hear(rank, (psr_head){.type = PSR_MSG_FACTS}, facts, strlen(facts));
}

static void progress(uint32_t rank, uint64_t counter, int64_t waits_for)
{
    hear(rank,
         psr_msg_progress_head(
             &(psr_msg_progress){.phase = PSR_PHASE_FORWARD,
                                 .counter = counter,
                                 .waits = waits_for >= 0,
                                 .waits_for = {PSR_ROLE_WORKER, (uint32_t)waits_for}}),
         NULL, 0);
}

/* Time passes; all but one of them go on to report the same. */
static void pass(int64_t ms, const int64_t waits_for[RANKS], int silent)
{
    for (int64_t end_ms = world.now_ms + ms; world.now_ms < end_ms; world.now_ms += 50) {
        int64_t next_ms = 0;
        for (uint32_t r = 0; r < RANKS; r++)
            if ((int)r != silent)
                progress(r, 1, waits_for[r]);
        psr_coordinator_tick(world.coordinator, world.now_ms);
        next_ms = psr_coordinator_next_tick(world.coordinator);
        assert_true(next_ms > world.now_ms);
    }
}

static void ask_in(uint32_t rank, uint32_t awaited, int number)
{
    char line[64];
    snprintf(line, sizeof line, "rank %u has waited in barrier %d", rank, number);
    hear(rank,
         psr_msg_finding_head(&(psr_msg_failure){.status = PSR_ERR_TIMEOUT,
                                                 .rank = awaited,
                                                 .other = PSR_RANK_ANY,
                                                 .number = 3,
                                                 .within_ms = 500}),
         line, strlen(line));
}

static void ask(uint32_t rank, uint32_t awaited)
{
    ask_in(rank, awaited, 3);
}

static void begin(void)
{
    for (uint32_t r = 0; r < RANKS; r++)
        join_as(r, PSR_VERSION);
    for (uint32_t r = 0; r < RANKS; r++)
        tell_facts(r, "seed 1");
    world.count = 0;
}

/* The last thing that was said to everybody, or to one. */
static void expect_said(size_t count, psr_message_type type, psr_err status, uint32_t rank,
                        const char *words)
{
    assert_int_equal(world.count, count);
    for (size_t i = 0; i < count; i++) {
        const psr_message message = {.from = {PSR_ROLE_SCHEDULER, 0}, .head = world.sent[i].head};
        psr_msg_failure said;
        assert_int_equal(world.sent[i].head.type, type);
        assert_non_null(strstr(world.sent[i].text, words));
        if (type != PSR_MSG_VERDICT)
            continue;
        expect_ok(psr_msg_failure_read(&message, &(psr_msg_limits){.workers = RANKS}, &said));
        assert_int_equal(said.status, status);
        assert_int_equal(said.rank, rank);
    }
}

static void all_are_welcomed_and_may_begin(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++)
        join_as(r == 1 ? PSR_RANK_ANY : r, PSR_VERSION); /* the one that is free */
    expect_said(RANKS, PSR_MSG_CONFIG, PSR_OK, 0, "\"ranks\":3");
    world.count = 0;
    for (uint32_t r = 0; r < RANKS; r++)
        tell_facts(r, "seed 1");
    assert_int_equal(world.count, 2 * RANKS);
    for (size_t i = 0; i < 2 * RANKS; i++)
        assert_int_equal(world.sent[i].head.type, i < RANKS ? PSR_MSG_WELCOME : PSR_MSG_VERDICT);
}

static void facts_that_differ_are_the_verdict(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++)
        join_as(r, PSR_VERSION);
    for (uint32_t r = 0; r < RANKS; r++)
        tell_facts(r, r == 2 ? "seed 2" : "seed 1");
    world.count -= RANKS;
    memmove(world.sent, world.sent + world.count, RANKS * sizeof world.sent[0]);
    world.count = RANKS;
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_USAGE, 2,
                "rank 0 on there and rank 2 on there do not agree");
}

static void another_version_ends_the_joining_for_all_also_for_who_comes_later(void **state)
{
    (void)state;
    join_as(0, PSR_VERSION);
    world.count = 0;
    join_as(1, "9.9.9");
    expect_said(1, PSR_MSG_ABORT, PSR_OK, 0, "rank 1 on there is psring 9.9.9");
    assert_int_equal(world.refused, 1); /* it hears so itself */
    assert_int_equal(world.refused_status, PSR_ERR_VERSION);
    assert_non_null(strstr(world.refusal, "rank 1 on there is psring 9.9.9"));
    assert_false(psr_coordinator_over(world.coordinator)); /* two have not come */
    world.count = 0;
    join_as(2, PSR_VERSION);
    assert_true(world.refused == 2 && world.refused_status == PSR_ERR_PEER && world.count == 0);
    assert_non_null(strstr(world.refusal, "rank 1 on there is psring 9.9.9"));
    assert_true(psr_coordinator_over(world.coordinator)); /* all know */
    close_world(NULL);
    open_world(NULL);
    join_as(0, PSR_VERSION);
    join_as(1, "9.9.9");
    for (int64_t end_ms = world.now_ms + JOIN_MS; world.now_ms <= end_ms; world.now_ms += 50)
        psr_coordinator_tick(world.coordinator, world.now_ms);
    assert_true(psr_coordinator_over(world.coordinator)); /* the last one may not come at all */
}

static void who_has_no_place_is_told_so_and_the_others_go_on(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < RANKS; r++)
        join_as(r, PSR_VERSION);
    world.count = 0;
    join_as(RANKS + 4, PSR_VERSION);
    assert_int_equal(world.refused, RANKS + 4);
    assert_int_equal(world.refused_status, PSR_ERR_DENIED);
    assert_non_null(strstr(world.refusal, "wants to join and has no place"));
    assert_int_equal(world.count, 0);
    join_as(PSR_RANK_ANY, PSR_VERSION);
    assert_non_null(
        strstr(world.refusal, "a worker on there (process 7) wants to join and has no place"));
    const char *line = NULL;
    assert_int_equal(psr_judge_verdict(world.judge, &line), PSR_OK);
}

static void who_comes_when_all_have_begun_is_told_so_and_the_others_go_on(void **state)
{
    (void)state;
    begin();
    join_as(PSR_RANK_ANY, PSR_VERSION);
    assert_int_equal(world.refused_status, PSR_ERR_DENIED);
    join_as(1, PSR_VERSION); /* it is here */
    assert_true(world.refused == 1 && world.refused_status == PSR_ERR_DENIED && world.count == 0);
    hear(1, psr_msg_done_head(&(psr_msg_done){0}), NULL, 0);
    world.count = 0;
    join_as(1, PSR_VERSION);
    assert_true(world.refused_status == PSR_ERR_PEER && world.count == 0);
    assert_string_equal(world.refusal, "rank 1 was here before, and the others go on without it");
    const char *line = NULL;
    assert_int_equal(psr_judge_verdict(world.judge, &line), PSR_OK);
}

static void who_is_silent_is_named_within_three_quarters_of_the_deadline(void **state)
{
    (void)state;
    begin();
    pass(DEADLINE_MS * 3 / 4, (const int64_t[]){-1, -1, -1}, 1);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_PEER, 1, "rank 1 on there: no sign of life for 0.");
    assert_true(world.retired[1] && !world.cut[1]); /* the verdict is for it too */
    hear(0, psr_msg_done_head(&(psr_msg_done){0}), NULL, 0);
    hear(2, psr_msg_done_head(&(psr_msg_done){0}), NULL, 0);
    assert_true(psr_coordinator_over(world.coordinator));
}

static void the_end_of_the_waiting_is_named(void **state)
{
    (void)state;
    begin();
    pass(600, (const int64_t[]){1, 2, -1}, -1); /* rank 2 moves nothing */
    ask(0, 1);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_TIMEOUT, 2,
                "rank 2 on there: alive, but no progress for 0.6 s; rank 0");
}

static void a_circle_is_called_one(void **state)
{
    (void)state;
    begin();
    pass(600, (const int64_t[]){1, 2, 0}, -1);
    ask(0, 1);
    ask(1, 2); /* the others are asked for what they wait in, for a moment */
    expect_said(2, PSR_MSG_VERDICT, PSR_OK, PSR_RANK_ANY, "");
    world.count = 0;
    ask(2, 0);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_TIMEOUT, 0,
                "rank 2 has waited in barrier 3; rank 0 has waited in barrier 3; rank 1 has waited "
                "in barrier 3: ranks wait for each other in a circle");
}

/* Rank 1 waited for rank 2 in one call, and does in the next one. */
static void a_call_that_has_ended_is_in_no_line(void **state)
{
    (void)state;
    begin();
    pass(600, (const int64_t[]){1, 2, 0}, -1);
    ask(1, 2);
    hear(1,
         psr_msg_finding_head(&(psr_msg_failure){
             .status = PSR_OK, .rank = PSR_RANK_ANY, .other = PSR_RANK_ANY, .number = 3}),
         NULL, 0);
    progress(1, 2, 2);
    pass(600, (const int64_t[]){1, 2, 0}, -1);
    world.count = 0;
    ask(0, 1);
    expect_said(1, PSR_MSG_VERDICT, PSR_OK, PSR_RANK_ANY, ""); /* it has not asked in this one */
    ask(2, 0);
    world.count = 0;
    ask(0, 1);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_TIMEOUT, 1,
                "rank 0 has waited in barrier 3; rank 2 has waited in barrier 3: ranks wait for "
                "each other");
}

/* Of several calls under way it takes back what it said last. */
static void what_a_rank_said_last_is_said_of_it(void **state)
{
    (void)state;
    begin();
    pass(600, (const int64_t[]){1, 2, 0}, -1);
    ask(1, 2);
    progress(2, 2, -1);
    ask_in(1, 2, 4); /* there is no circle now */
    pass(600, (const int64_t[]){1, 2, 0}, -1);
    ask(0, 1);
    world.count = 0;
    ask(2, 0);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_TIMEOUT, 0,
                "rank 2 has waited in barrier 3; rank 0 has waited in barrier 3; rank 1 has waited "
                "in barrier 4: ranks wait for each other in a circle");
}

/* Rank 2 is a shard: rank 0 waits for an update, which lacks rank 1's push, which waits for
 * rank 0. */
static void in_a_circle_whose_push_a_shard_lacks_is_to_blame(void **state)
{
    (void)state;
    begin();
    pass(600, (const int64_t[]){2, 0, 1}, -1);
    hear(2,
         psr_msg_progress_head(&(psr_msg_progress){.phase = PSR_PHASE_PUSH,
                                                   .counter = 1,
                                                   .waits = true,
                                                   .waits_for = {PSR_ROLE_WORKER, 1}}),
         NULL, 0);
    world.count = 0;
    ask(1, 0);
    expect_said(1, PSR_MSG_VERDICT, PSR_OK, PSR_RANK_ANY, "");
    world.count = 0;
    ask(0, 2); /* the shard never asks */
    expect_said(
        RANKS, PSR_MSG_VERDICT, PSR_ERR_TIMEOUT, 1,
        "rank 0 has waited in barrier 3; rank 2 on there, a shard, waits for a push of rank 1 on "
        "there; rank 1 has waited in barrier 3: ranks wait for each other in a circle");
}

/* Its deadline is later: nobody waits for what it says. */
static void a_circle_is_called_one_though_not_all_have_asked(void **state)
{
    (void)state;
    begin();
    pass(600, (const int64_t[]){1, 2, 1}, -1); /* rank 0 is not in it */
    ask(0, 1);
    expect_said(1, PSR_MSG_VERDICT, PSR_OK, PSR_RANK_ANY, "");
    world.count = 0;
    pass(250, (const int64_t[]){-1, 2, 1}, -1); /* whatever it reports: it is told so once */
    ask(1, 2);
    assert_int_equal(world.count, 1);
    world.count = 0;
    ask(0, 1);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_TIMEOUT, 1,
                "rank 0 has waited in barrier 3; rank 1 has waited in barrier 3: ranks wait for "
                "each other");
}

static void who_waits_for_one_that_moves_is_told_to_wait_on(void **state)
{
    (void)state;
    begin();
    pass(600, (const int64_t[]){1, -1, -1}, -1);
    progress(1, 2, -1); /* its counter has moved */
    ask(0, 1);
    expect_said(1, PSR_MSG_VERDICT, PSR_OK, PSR_RANK_ANY, "");
    assert_int_equal(world.sent[0].to, 0);
}

/* For no longer than the deadline after its last move: or it would pass after twice its time. */
static void who_is_told_to_wait_on_hears_for_how_long(void **state)
{
    (void)state;
    psr_msg_failure said;
    begin();
    pass(200, (const int64_t[]){1, -1, -1}, -1);
    progress(1, 2, -1); /* its last move */
    world.now_ms += 300;
    progress(1, 2, -1);
    ask(0, 1);
    const psr_message message = {.from = {PSR_ROLE_SCHEDULER, 0}, .head = world.sent[0].head};
    expect_ok(psr_msg_failure_read(&message, &(psr_msg_limits){.workers = RANKS}, &said));
    assert_int_equal(said.status, PSR_OK);
    assert_int_equal(said.within_ms, 200);
    world.count = 0;
    world.now_ms += 200;
    progress(1, 2, -1);
    ask(0, 1);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_TIMEOUT, 1, "alive, but no progress for 0.5 s");
}

static void who_leaves_is_let_go_and_not_missed(void **state)
{
    (void)state;
    begin();
    hear(1, psr_msg_done_head(&(psr_msg_done){0}), NULL, 0);
    expect_said(1, PSR_MSG_BYE, PSR_OK, 0, "");
    world.count = 0;
    pass(2 * DEADLINE_MS, (const int64_t[]){1, -1, -1}, 1);
    expect_said(1, PSR_MSG_LEFT, PSR_OK, 0, "");
    world.count = 0;
    ask(0, 1); /* but somebody waits for it */
    expect_said(2, PSR_MSG_VERDICT, PSR_ERR_PEER, 1, "rank 1 on there has left");
}

/* Rank 1 leaves after 3 messages to rank 0 and 70000 to rank 2. */
static void who_waits_for_one_that_has_left_hears_it_once(void **state)
{
    static const uint8_t list[] = {0, 0, 0, 0, 3,    0,    0, 0, 0, 0, 0, 0,
                                   2, 0, 0, 0, 0x70, 0x11, 1, 0, 0, 0, 0, 0};
    static const uint64_t messages[RANKS] = {3, 0, 70000};
    uint8_t written[RANKS * PSR_MSG_SENT_BYTES];
    (void)state;
    assert_int_equal(psr_msg_sent_write(messages, RANKS, written), sizeof list);
    assert_memory_equal(written, list, sizeof list);
    begin();
    progress(0, 1, 1);
    hear(1, psr_msg_done_head(&(psr_msg_done){0}), list, sizeof list);
    assert_int_equal(world.count, 1); /* BYE */
    for (int i = 0; i < 3; i++) {
        progress(0, 1, 1);
        progress(2, 1, 0); /* who waits for another rank need not know */
    }
    assert_int_equal(world.count, 2);
    progress(2, 1, 1);
    assert_int_equal(world.count, 3);
    for (uint32_t i = 1; i < 3; i++) {
        const psr_message said = {.from = {PSR_ROLE_SCHEDULER, 0}, .head = world.sent[i].head};
        psr_msg_left left;
        assert_int_equal(said.head.type, PSR_MSG_LEFT);
        expect_ok(psr_msg_left_read(&said, &(psr_msg_limits){.workers = RANKS}, &left));
        assert_int_equal(world.sent[i].to, 2 * (i - 1));
        assert_true(left.rank == 1 && left.messages == messages[world.sent[i].to]);
    }
}

static void a_list_of_what_was_sent_is_not_believed_unseen(void **state)
{
    static const uint8_t torn[11] = {0}, of_nobody[12] = {RANKS}, long_one[4 * 12] = {0};
    static const struct {
        const uint8_t *list;
        size_t size;
        const char *why;
    } cases[] = {{torn, sizeof torn, "it is no list of at most 3 ranks"},
                 {long_one, sizeof long_one, "it is no list of at most 3 ranks"},
                 {of_nobody, sizeof of_nobody, "there is no rank 3"}};
    (void)state;
    begin();
    for (uint32_t r = 0; r < RANKS - 1; r++) {
        world.count = 0;
        hear(r, psr_msg_done_head(&(psr_msg_done){0}), cases[r].list, cases[r].size);
        expect_said(RANKS - r, PSR_MSG_VERDICT, PSR_ERR_PROTOCOL, r, cases[r].why);
    }
}

static void who_leaves_hears_who_has_left_before(void **state)
{
    static const char *const left[RANKS] = {"\x02", "", "\x03"}; /* 1, 0, 2 leave in this order */
    static const uint32_t order[RANKS] = {1, 0, 2};
    (void)state;
    begin();
    for (size_t i = 0; i < RANKS; i++) {
        hear(order[i], psr_msg_done_head(&(psr_msg_done){0}), NULL, 0);
        assert_int_equal(world.count, i + 1);
        assert_int_equal(world.sent[i].to, order[i]);
        assert_int_equal(world.sent[i].head.type, PSR_MSG_BYE);
        assert_string_equal(world.sent[i].text, left[order[i]]);
    }
    assert_true(psr_msg_ranks_has("\x03", 1, 0) && psr_msg_ranks_has("\x03", 1, 1));
    assert_false(psr_msg_ranks_has("\x03", 1, 2) || psr_msg_ranks_has("\x03", 1, 8) ||
                 psr_msg_ranks_has(NULL, 0, 0));
}

static void who_would_be_missed_and_why_all_failed_can_be_asked(void **state)
{
    (void)state;
    const char *line = NULL;
    begin();
    hear(1, psr_msg_done_head(&(psr_msg_done){0}), NULL, 0);
    assert_true(psr_coordinator_has_left(world.coordinator, (psr_peer){PSR_ROLE_WORKER, 1}));
    assert_false(psr_coordinator_has_left(world.coordinator, (psr_peer){PSR_ROLE_WORKER, 0}));
    assert_false(psr_coordinator_misses(world.coordinator, (psr_peer){PSR_ROLE_WORKER, 1}));
    assert_true(psr_coordinator_misses(world.coordinator, (psr_peer){PSR_ROLE_WORKER, 0}));
    hear(0, psr_msg_done_head(&(psr_msg_done){0}), NULL, 0);
    /* nobody else is here */
    assert_false(psr_coordinator_misses(world.coordinator, (psr_peer){PSR_ROLE_WORKER, 2}));
    assert_int_equal(psr_judge_verdict(world.judge, &line), PSR_OK);
    assert_null(line);
    psr_judge_fail(world.judge, psr_fail(PSR_ERR_PEER, "why"), 2);
    assert_int_equal(psr_judge_verdict(world.judge, &line), PSR_ERR_PEER);
    assert_string_equal(line, "why");
}

static void what_a_rank_finds_all_are_told_once(void **state)
{
    (void)state;
    static const char line[] = "call 1: rank 2 calls barrier, rank 0 calls broadcast";
    begin();
    hear(
        0,
        psr_msg_finding_head(&(psr_msg_failure){.status = PSR_ERR_MISMATCH, .rank = 2, .other = 0}),
        line, strlen(line));
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_MISMATCH, 2, line);
    world.count = 0; /* who finds something later hears of the first, and the others nothing */
    hear(
        2,
        psr_msg_finding_head(&(psr_msg_failure){.status = PSR_ERR_MISMATCH, .rank = 0, .other = 2}),
        "-", 1);
    expect_said(1, PSR_MSG_VERDICT, PSR_ERR_MISMATCH, 2, line);
    assert_int_equal(world.sent[0].to, 2);
}

/* What a rank alone has, no memory or a full disk, is for the others that it fails. */
static void what_only_one_rank_has_is_for_the_others_its_failure(void **state)
{
    (void)state;
    begin();
    hear(1, psr_msg_failed_head(PSR_ERR_NOMEM), "no memory", 9);
    for (size_t i = 0; i < world.count; i++)
        assert_non_null(strstr(world.sent[i].text, "rank 1 on there failed: no memory"));
    assert_int_equal(world.count, RANKS);
}

/* Of a rank that breaks the protocol all hear; what is no rank's is nobody's. */
static void hostile_messages_are_named_or_dropped(void **state)
{
    (void)state;
    begin();
    hear(9, (psr_head){.type = PSR_MSG_DONE}, NULL, 0);
    hear(0, /* for how long is anybody's number */
         psr_msg_finding_head(
             &(psr_msg_failure){.status = PSR_ERR_TIMEOUT, .rank = 1, .within_ms = INT64_MAX}),
         "a", 1);
    expect_said(1, PSR_MSG_VERDICT, PSR_OK, PSR_RANK_ANY, "");
    world.count = 0;
    ask(0, PSR_RANK_ANY); /* who waits for any rank waits on while another one moves */
    expect_said(1, PSR_MSG_VERDICT, PSR_OK, PSR_RANK_ANY, "");
    close_world(NULL);
    open_world(NULL);
    begin();
    hear(1, (psr_head){.type = PSR_MSG_METRICS}, "{}", 2);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_PROTOCOL, 1, "worker 1 sent METRICS");
}

static void wants_to_shrink(uint32_t rank, const uint32_t *ranks, uint32_t count,
                            uint64_t within_ms)
{
    uint8_t bytes[4 * RANKS];
    psr_msg_rank_list_write(ranks, count, bytes);
    hear(rank, psr_msg_shrink_head(&(psr_msg_shrink){.within_ms = within_ms}), bytes, 4 * count);
}

/* Where others wait for a liar that wants to shrink and says that it lacks the push of a rank that
 * there is not. */
static void a_rank_that_there_is_not_is_refused_where_it_is_said(void **state)
{
    static const psr_peer nobody[] = {{PSR_ROLE_WORKER, UINT32_MAX - 15},
                                      {PSR_ROLE_WORKER, RANKS},
                                      {PSR_ROLE_SHARD, 0},
                                      {PSR_ROLE_SCHEDULER, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof nobody / sizeof nobody[0]; i++) {
        close_world(NULL);
        open_world(NULL);
        begin();
        progress(0, 1, 1);
        hear(1,
             psr_msg_progress_head(&(psr_msg_progress){
                 .phase = PSR_PHASE_PUSH, .waits = true, .waits_for = nobody[i]}),
             NULL, 0);
        wants_to_shrink(1, (const uint32_t[]){0, 1}, 2, 100);
        ask(0, 1);
        assert_true(world.count >= RANKS);
        world.count = RANKS; /* then it is out, and who asks is told so */
        expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_PROTOCOL, 1, "worker 1 sent PROGRESS");
    }
}

static void a_join_that_cannot_be_read_is_its_senders_violation(void **state)
{
    (void)state;
    const psr_head torn = {.type = PSR_MSG_JOIN};
    join_as(0, PSR_VERSION);
    world.count = 0;
    hear(PSR_RANK_ANY, torn, "{", 1);
    expect_said(1, PSR_MSG_ABORT, PSR_OK, 0, "a worker sent JOIN: not a JSON object");
    const char *line = NULL;
    assert_int_equal(psr_judge_verdict(world.judge, &line), PSR_ERR_PROTOCOL);

    close_world(NULL); /* when all have begun, who has no place is turned away */
    open_world(NULL);
    begin();
    hear(PSR_RANK_ANY, torn, "{", 1);
    assert_true(world.count == 0 && world.refused_status == PSR_ERR_PROTOCOL);
    hear(1, torn, "{", 1); /* and who has one is out */
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_PROTOCOL, 1,
                "worker 1 sent JOIN: not a JSON object");
}

/* Each is a liar's: a rank to blame, and another beside it. */
static void a_finding_of_nobody_is_its_finders_violation(void **state)
{
    static const psr_msg_failure found[] = {
        {.status = PSR_ERR_MISMATCH, .rank = RANKS, .other = 0},
        {.status = PSR_ERR_MISMATCH, .rank = 0, .other = RANKS},
        {.status = PSR_ERR_TIMEOUT, .rank = UINT32_MAX - 1, .other = PSR_RANK_ANY, .within_ms = 1},
        {.status = PSR_ERR_PEER,
         .scope = PSR_SCOPE_RANK,
         .rank = PSR_RANK_ANY,
         .other = PSR_RANK_ANY},
        {.status = PSR_ERR_PEER, .epoch = 1, .rank = 0, .other = PSR_RANK_ANY}};
    (void)state;
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++) {
        close_world(NULL);
        open_world(NULL);
        begin();
        hear(1, psr_msg_finding_head(&found[i]), "a", 1);
        expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_PROTOCOL, 1, "worker 1 sent FINDING");
    }
}

/* They wait for each other in one way, and for one of them in the other; the group that they want
 * is another's, too. */
static void ranks_that_shrink_and_wait_in_circles_get_an_answer(void **state)
{
    (void)state;
    begin();
    for (uint32_t r = 0; r < RANKS; r++)
        progress(r, 1, (r + 1) % RANKS);
    wants_to_shrink(1, (const uint32_t[]){1, 2}, 2, 100);
    wants_to_shrink(2, (const uint32_t[]){1, 2, 0}, 3, 100);
    ask(0, 1);
    world.count = 0;
    pass(300, (const int64_t[]){1, 2, 0}, -1);
    size_t answers = 0;
    for (size_t i = 0; i < world.count; i++)
        answers += world.sent[i].head.type == PSR_MSG_SHRUNK;
    assert_int_equal(answers, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)

static void a_sign_of_life_is_sent_when_nothing_else_waits(void **state)
{
    (void)state;
    begin();
    progress(1, 1, -1);
    assert_int_equal(world.alive[1], 1);
    world.waiting[1] = 1;
    for (uint64_t i = 0; i < 1000; i++)
        progress(1, i, -1);
    assert_int_equal(world.alive[1], 1);
    progress(0, 1, -1);
    assert_int_equal(world.alive[0], 1);
    world.waiting[1] = 0;
    progress(1, 1, -1);
    assert_int_equal(world.alive[1], 2);
}

static void who_goes_on_asking_while_nobody_reads_is_out_and_not_who_is_slow(void **state)
{
    (void)state;
    const psr_msg_failure found = {.group = 3,
                                   .status = PSR_ERR_PEER,
                                   .scope = PSR_SCOPE_GROUP,
                                   .rank = 1,
                                   .other = PSR_RANK_ANY};
    begin();
    world.waiting[2] = PSR_JUDGE_WAITING_MAX - 1;
    hear(0, psr_msg_finding_head(&found), "it hangs", 8);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_PEER, 1, "it hangs");
    world.count = 0;
    world.waiting[2]++;
    hear(0, psr_msg_finding_head(&found), "it hangs", 8);
    expect_said(RANKS, PSR_MSG_VERDICT, PSR_ERR_PROTOCOL, 0,
                "4096 messages wait for rank 2 already");
    const char *line = NULL;
    assert_int_equal(psr_judge_verdict(world.judge, &line), PSR_ERR_PROTOCOL);
    assert_non_null(strstr(line, "worker 0 sent FINDING"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_are_welcomed_and_may_begin),
        TEST(facts_that_differ_are_the_verdict),
        TEST(another_version_ends_the_joining_for_all_also_for_who_comes_later),
        TEST(who_has_no_place_is_told_so_and_the_others_go_on),
        TEST(who_comes_when_all_have_begun_is_told_so_and_the_others_go_on),
        TEST(who_is_silent_is_named_within_three_quarters_of_the_deadline),
        TEST(the_end_of_the_waiting_is_named),
        TEST(a_circle_is_called_one),
        TEST(a_call_that_has_ended_is_in_no_line),
        TEST(what_a_rank_said_last_is_said_of_it),
        TEST(in_a_circle_whose_push_a_shard_lacks_is_to_blame),
        TEST(a_circle_is_called_one_though_not_all_have_asked),
        TEST(who_waits_for_one_that_moves_is_told_to_wait_on),
        TEST(who_is_told_to_wait_on_hears_for_how_long),
        TEST(who_leaves_is_let_go_and_not_missed),
        TEST(who_waits_for_one_that_has_left_hears_it_once),
        TEST(a_list_of_what_was_sent_is_not_believed_unseen),
        TEST(who_leaves_hears_who_has_left_before),
        TEST(who_would_be_missed_and_why_all_failed_can_be_asked),
        TEST(what_a_rank_finds_all_are_told_once),
        TEST(what_only_one_rank_has_is_for_the_others_its_failure),
        TEST(hostile_messages_are_named_or_dropped),
        TEST(a_rank_that_there_is_not_is_refused_where_it_is_said),
        TEST(a_join_that_cannot_be_read_is_its_senders_violation),
        TEST(a_finding_of_nobody_is_its_finders_violation),
        TEST(ranks_that_shrink_and_wait_in_circles_get_an_answer),
        TEST(a_sign_of_life_is_sent_when_nothing_else_waits),
        TEST(who_goes_on_asking_while_nobody_reads_is_out_and_not_who_is_slow),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
