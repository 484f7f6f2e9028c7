#include "tests/unit/network_fixture.h"

#include "net/trust/bindings.h"

/* Ids that differ in their last bytes alone collide in the table. */
static void make_id(uint8_t id[PSR_ROUTING_ID_BYTES], uint32_t number, bool colliding)
{
    memset(id, 7, PSR_ROUTING_ID_BYTES);
    memcpy(id + (colliding ? 12 : 0), &number, sizeof number);
}

static psr_peer peer_of(uint32_t number)
{
    return (psr_peer){PSR_ROLE_WORKER, number};
}

static void fill(bool colliding, uint32_t count)
{
    psr_bindings bindings = {0};
    psr_binding *binding = NULL;
    uint8_t id[PSR_ROUTING_ID_BYTES];
    for (uint32_t i = 0; i < count; i++) {
        make_id(id, i, colliding);
        assert_null(psr_bindings_find(&bindings, id, sizeof id));
        assert_null(psr_bindings_holder(&bindings, peer_of(i)));
        assert_ok(psr_bindings_add(&bindings, id, sizeof id, peer_of(i), peer_of(PSR_RANK_ANY),
                                   &binding));
        binding->sequence = i + 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        make_id(id, i, colliding);
        binding = psr_bindings_find(&bindings, id, sizeof id);
        assert_non_null(binding);
        assert_true(psr_peer_equal(binding->peer, peer_of(i)));
        assert_int_equal(binding->sequence, i + 1);
        assert_ptr_equal(psr_bindings_holder(&bindings, peer_of(i)), binding);
    }
    psr_bindings_done(&bindings);
}

static void every_id_is_found_again_as_the_table_grows(void **state)
{
    (void)state;
    fill(false, 1000);
    fill(true, 200);
}

static void peers_without_a_rank_hold_none(void **state)
{
    (void)state;
    psr_bindings bindings = {0};
    psr_binding *binding = NULL;
    uint8_t id[PSR_ROUTING_ID_BYTES];
    assert_null(psr_bindings_holder(&bindings, peer_of(0)));
    for (uint32_t i = 0; i < 3; i++) {
        make_id(id, i, false);
        assert_ok(psr_bindings_add(&bindings, id, sizeof id, peer_of(PSR_RANK_ANY),
                                   peer_of(PSR_RANK_ANY), &binding));
        assert_null(psr_bindings_holder(&bindings, peer_of(PSR_RANK_ANY)));
    }
    binding->peer.rank = 2; /* it was given one */
    assert_ptr_equal(psr_bindings_holder(&bindings, peer_of(2)), binding);
    assert_null(psr_bindings_holder(&bindings, (psr_peer){PSR_ROLE_SHARD, 2}));
    psr_bindings_done(&bindings);
}

static void a_rank_is_free_again_when_its_holder_has_left(void **state)
{
    (void)state;
    psr_bindings bindings = {0};
    psr_binding *first = NULL, *second = NULL;
    uint8_t id[PSR_ROUTING_ID_BYTES];
    psr_bindings_retire(&bindings, peer_of(2)); /* nobody: nothing */
    make_id(id, 1, false);
    assert_ok(
        psr_bindings_add(&bindings, id, sizeof id, peer_of(2), peer_of(PSR_RANK_ANY), &first));
    psr_bindings_retire(&bindings, peer_of(1));
    assert_ptr_equal(psr_bindings_holder(&bindings, peer_of(2)), first);
    psr_bindings_retire(&bindings, peer_of(2));
    assert_null(psr_bindings_holder(&bindings, peer_of(2)));
    assert_true(psr_bindings_find(&bindings, id, sizeof id)->banned);
    make_id(id, 2, false);
    assert_ok(
        psr_bindings_add(&bindings, id, sizeof id, peer_of(2), peer_of(PSR_RANK_ANY), &second));
    assert_ptr_equal(psr_bindings_holder(&bindings, peer_of(2)), second);
    assert_false(second->banned);
    psr_bindings_done(&bindings);
}

static void ids_that_are_not_ours_and_more_than_any_run_has_are_refused(void **state)
{
    (void)state;
    psr_bindings bindings = {0};
    psr_binding *binding = NULL;
    uint8_t id[PSR_ROUTING_ID_BYTES + 1] = {1};
    assert_fails(psr_bindings_add(&bindings, id, 5, peer_of(0), peer_of(PSR_RANK_ANY), &binding),
                 PSR_ERR_DENIED, "has 5 bytes");
    assert_fails(psr_bindings_add(&bindings, id, 17, peer_of(0), peer_of(PSR_RANK_ANY), &binding),
                 PSR_ERR_DENIED, "has 17 bytes");
    assert_null(psr_bindings_find(&bindings, id, 5));
    for (uint32_t i = 0; i < PSR_BINDINGS_MAX; i++) {
        make_id(id, i, false);
        assert_ok(psr_bindings_add(&bindings, id, PSR_ROUTING_ID_BYTES, peer_of(PSR_RANK_ANY),
                                   peer_of(PSR_RANK_ANY), &binding));
    }
    binding = NULL;
    make_id(id, PSR_BINDINGS_MAX, false);
    assert_fails(psr_bindings_add(&bindings, id, PSR_ROUTING_ID_BYTES, peer_of(1),
                                  peer_of(PSR_RANK_ANY), &binding),
                 PSR_ERR_DENIED, "bound already");
    assert_null(binding);
    psr_bindings_done(&bindings);
    psr_bindings_done(&bindings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_id_is_found_again_as_the_table_grows),
        cmocka_unit_test(peers_without_a_rank_hold_none),
        cmocka_unit_test(a_rank_is_free_again_when_its_holder_has_left),
        cmocka_unit_test(ids_that_are_not_ours_and_more_than_any_run_has_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
