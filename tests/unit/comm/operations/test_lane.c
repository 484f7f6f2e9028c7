#include "tests/unit/network_fixture.h"

#include "comm/operations/lane.h"

static void the_smallest_goes_first_whenever_it_came(void **state)
{
    (void)state;
    uint32_t room[64], number = 0;
    psr_lane lane;
    psr_lane_init(&lane, room, 64);
    assert_false(psr_lane_next(&lane, &number));
    for (uint32_t i = 0; i < 64; i++)
        psr_lane_add(&lane, (i * 37) % 64);
    for (uint32_t i = 0; i < 64; i++) {
        assert_true(psr_lane_next(&lane, &number));
        assert_int_equal(number, i);
    }
    assert_false(psr_lane_next(&lane, &number));
}

static void at_most_a_window_is_on_its_way_and_credit_makes_room(void **state)
{
    (void)state;
    uint32_t room[8], number = 0;
    psr_lane lane;
    psr_lane_init(&lane, room, 2);
    for (uint32_t i = 1; i < 6; i++)
        psr_lane_add(&lane, i);
    assert_true(psr_lane_next(&lane, &number) && number == 1);
    assert_true(psr_lane_next(&lane, &number) && number == 2);
    assert_false(psr_lane_next(&lane, &number));
    psr_lane_add(&lane, 0); /* overtakes what waits */
    psr_lane_credit(&lane, 1);
    assert_true(psr_lane_next(&lane, &number) && number == 0);
    assert_false(psr_lane_next(&lane, &number));
    psr_lane_credit(&lane, 2);
    assert_true(psr_lane_next(&lane, &number) && number == 3);
    psr_lane_add(&lane, 4); /* the same number may wait twice */
    assert_true(psr_lane_next(&lane, &number) && number == 4);
    assert_false(psr_lane_next(&lane, &number));
    psr_lane_credit(&lane, 2);
    assert_true(psr_lane_next(&lane, &number) && number == 4);
    assert_true(psr_lane_next(&lane, &number) && number == 5);
    psr_lane_credit(&lane, 2);
    assert_false(psr_lane_next(&lane, &number));
    assert_int_equal(lane.sent, lane.returned);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_goes_first_whenever_it_came),
        cmocka_unit_test(at_most_a_window_is_on_its_way_and_credit_makes_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
