/* The numbers of messages, by rank, tag and direction, of more tags than the table begins with. */
#include "tests/unit/expect.h"

#include "comm/collectives/message_counts.h"

static void each_tag_counts_by_itself(void **state)
{
    (void)state;
    enum { PEERS = 3, TAGS = 5000, TIMES = 3 };
    psr_message_counts counts = {0};
    for (uint64_t time = 1; time <= TIMES; time++)
        for (uint32_t tag = 0; tag < TAGS; tag++)
            for (uint32_t peer = 0; peer < PEERS; peer++)
                for (int received = 0; received < 2; received++) {
                    uint64_t number = 0;
                    expect_ok(psr_message_counts_next(&counts, peer, UINT32_MAX - tag, received, &number));
                    assert_int_equal(number, time);
                }
    assert_int_equal(counts.used, 2 * PEERS * TAGS);
    psr_message_counts_done(&counts);
    assert_int_equal(counts.used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_tag_counts_by_itself),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
