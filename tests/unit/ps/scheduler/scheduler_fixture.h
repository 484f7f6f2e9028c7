/* A scheduler in virtual time: every message, every order and the clock are the test's. */
#ifndef PSR_TESTS_SCHEDULER_FIXTURE_H
#define PSR_TESTS_SCHEDULER_FIXTURE_H

#include "tests/unit/expect.h"

#include "ps/scheduler/scheduler.h"

enum { SENT_MAX = 512, TEXT_MAX = 4096 };

static const psr_peer w0 = {PSR_ROLE_WORKER, 0}, w1 = {PSR_ROLE_WORKER, 1},
                      s0 = {PSR_ROLE_SHARD, 0};
static const psr_peer any_worker = {PSR_ROLE_WORKER, PSR_RANK_ANY};

typedef struct fixture {
    psr_config config;
    psr_scheduler *scheduler;
    psr_coordinator *coordinator; /* the scheduler's */
    int64_t now_ms;
    struct sent {
        psr_peer to;
        psr_head head;
        char text[TEXT_MAX];
        size_t text_size;
    } * sent;
    size_t sent_count;
    char said[TEXT_MAX];
    uint32_t connected, joined, begun, restored, started, metrics, pieces, evaluations;
    bool evaluates_first; /* of begin */
    unsigned made_up, norms;
    uint32_t metrics_rank;
    uint64_t metrics_step, evaluated_step, evaluated_count;
    uint64_t first_step, last_checkpoint;
    psr_loss_scale loss_scale; /* of the checkpoint from which it goes on */
    psr_err last_checkpoint_err, plan_err;
    psr_computing computing;
    uint32_t refused;
    psr_peer refused_peer;
    psr_err refused_status;
    char refusal[TEXT_MAX];
    psr_facts facts; /* of begin */
    char decided[TEXT_MAX], happened[TEXT_MAX],
        answered[TEXT_MAX]; /* changes, in words, each in a line */
    bool ended;
    psr_err status;
    char line[TEXT_MAX], outcomes[TEXT_MAX];
} fixture;

/* ---- its life ---- */

/* Two workers and a shard, deadline 8 s. The scheduler of a run before is gone. */
void set_up(fixture *f);
void open_scheduler(fixture *f);

/* A run from its beginning: nobody has joined; all have; it is on. Tests begin in one of these, and
 * may begin again. */
void set_up_opened(fixture *f);
void set_up_joined(fixture *f);
void set_up_started(fixture *f);
void start_all(fixture *f);

typedef struct beginning {
    void (*set_up)(fixture *f);
} beginning;

int begin_fixture(void **state);
int end_fixture(void **state);

#define FROM(stage, test)                                                                          \
    cmocka_unit_test_prestate_setup_teardown(test, begin_fixture, end_fixture, &(beginning){stage})
#define SET_UP(test) FROM(set_up, test)
#define OPENED(test) FROM(set_up_opened, test)
#define JOINED(test) FROM(set_up_joined, test)
#define STARTED(test) FROM(set_up_started, test)

void tick(fixture *f, int64_t now_ms);

/* ---- what members say ---- */

extern const psr_facts some_facts;

void give(fixture *f, psr_peer from, psr_head head, const void *payload, size_t bytes);
void say(fixture *f, psr_peer from, psr_message_type type, const char *text);
void join_as(fixture *f, psr_peer from, const char *host, const char *version);
void join(fixture *f, psr_peer from, const char *host);
void tell_facts(fixture *f, psr_peer from, psr_facts facts);
void progress(fixture *f, psr_peer from, psr_phase phase, uint64_t step, uint64_t counter,
              const psr_peer *waits_for);
void held(fixture *f, psr_peer from, uint64_t step);
void done(fixture *f, psr_peer from, uint64_t steps, const char *outcome);
/* It stands on that epoch, after so many microseconds. */
void bound(fixture *f, psr_peer from, uint32_t epoch, uint64_t pause_us);
void all_bound(fixture *f, uint32_t epoch);

/* A piece of a checkpoint: the first float of a section. */
psr_head one_float(uint64_t steps, uint32_t section);

/* ---- what came of it ---- */

size_t count_sent(const fixture *f, psr_message_type type);
const struct sent *last_sent(const fixture *f, psr_message_type type);
const struct sent *sent_to(const fixture *f, psr_message_type type, psr_peer to);
psr_bytes bytes_of(const struct sent *sent);
void ends(fixture *f, psr_err status, const char *line);
void ends_with_words(const fixture *f, psr_err status, const char *words);

#endif
