/* Lists of values become configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/expect.h"
#include "deploy/bench_train/grid.h"

#include <string.h>

static psr_grid grid;
static psr_config base;

static int set_up(void **state)
{
    (void)state;
    grid = (psr_grid){0};
    psr_config_defaults(&base);
    base.workers = 2;
    base.steps = 10;
    base.batch_size = 32;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    psr_grid_done(&grid);
    return 0;
}

static psr_err make(const char *mode, psr_grid_list other, const char *text, bool dedicated)
{
    const char *lists[PSR_GRID_LISTS] = {NULL};
    psr_grid_done(&grid);
    lists[other] = text;
    lists[PSR_GRID_MODE] = mode;
    return psr_grid_make(&base, lists, dedicated, &grid);
}

static void expect_names(const char *const *names)
{
    size_t i = 0;
    for (; names[i] != NULL; i++) {
        assert_true(i < grid.count);
        assert_string_equal(grid.cells[i].name, names[i]);
    }
    assert_int_equal(grid.count, i);
}

static void the_default_is_ps_ring_and_no_exchange(void **state)
{
    (void)state;
    expect_ok(make(NULL, PSR_GRID_MODE, NULL, false));
    expect_names((const char *const[]){"ps:1", "ring", "no exchange", NULL});
    assert_true(psr_grid_exchanges(&grid.cells[0]) && psr_grid_exchanges(&grid.cells[1]));
    assert_false(psr_grid_exchanges(&grid.cells[2]));
    assert_int_equal(grid.cells[2].config.mode, PSR_MODE_RING);
    assert_int_equal(grid.groups, 1);
    char name[PSR_GRID_NAME_MAX];
    psr_grid_group_name(&grid, 0, name, sizeof name);
    assert_string_equal(name, "resnet20, 2 workers, batches of 32");
}

static void a_value_that_makes_no_difference_makes_no_configuration(void **state)
{
    (void)state;
    expect_ok(make("ps,ring,local,none", PSR_GRID_SHARDS, "1,2", false));
    expect_names((const char *const[]){"ps:1", "ps:2", "ring", "local", "no exchange", NULL});
    expect_ok(make("ps,ring,none", PSR_GRID_SYNC, "bsp,ssp:2,async", false));
    expect_names(
        (const char *const[]){"ps:1 bsp", "ps:1 ssp:2", "ps:1 async", "ring", "no exchange", NULL});
    assert_int_equal(grid.cells[1].config.ssp_bound, 2);
    assert_int_equal(grid.cells[3].config.sync, PSR_SYNC_BSP);
    expect_ok(make("ps,ring,none", PSR_GRID_COMPRESS, "none,fp16", false));
    expect_names((const char *const[]){"ps:1 none", "ps:1 fp16", "ring none", "ring fp16",
                                       "no exchange", NULL});
    assert_string_equal(grid.cells[4].config.compress, "none");
}

static void shards_on_hosts_of_their_own_come_beside_those_beside(void **state)
{
    (void)state;
    expect_ok(make("ps,ring", PSR_GRID_SHARDS, "1,2", true));
    expect_names((const char *const[]){"ps:1 beside", "ps:1 dedicated", "ps:2 beside",
                                       "ps:2 dedicated", "ring", NULL});
    assert_true(grid.cells[1].dedicated);
    assert_false(grid.cells[4].dedicated);
}

static void networks_workers_and_batches_are_groups(void **state)
{
    (void)state;
    expect_ok(make("ring", PSR_GRID_WORKERS, "1,2,4", false));
    assert_int_equal(grid.groups, 3);
    assert_int_equal(grid.cells[2].group, 2);
    assert_int_equal(grid.cells[2].config.workers, 4);
    expect_ok(make("ps,ring", PSR_GRID_MODEL, "mlp,resnet20", false));
    assert_int_equal(grid.groups, 2);
    assert_string_equal(grid.cells[3].config.model, "resnet20");
}

static void what_cannot_be_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *mode;
        psr_grid_list list;
        const char *text, *says;
    } cases[] = {
        {"ps@1,ring@5", PSR_GRID_SHARDS, "1", "--mode: 'ps@1' cannot be compared"},
        {"ps,,ring", PSR_GRID_SHARDS, "1", "--mode: 'ps,,ring' has an empty value"},
        {"ps,ps", PSR_GRID_SHARDS, "1", "--mode: ps is there twice"},
        {"ps", PSR_GRID_SHARDS, "1,x", "--shards: "},
        {"ring", PSR_GRID_WORKERS, "0", "--workers: "},
        {"ring", PSR_GRID_MODEL, "mlp,resnet19", "--model: "},
        {"ring", PSR_GRID_COMPRESS, "none,zip", "--compress: "},
        {"ring", PSR_GRID_BUCKET_SIZE, "65,64K", "--bucket-size: "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(make(cases[i].mode, cases[i].list, cases[i].text, false), PSR_ERR_USAGE);
        if (strncmp(psr_err_detail(), cases[i].says, strlen(cases[i].says)) != 0)
            fail_msg("'%s' does not begin with '%s'", psr_err_detail(), cases[i].says);
    }
}

static void there_is_a_most(void **state)
{
    (void)state;
    const char *lists[PSR_GRID_LISTS] = {"ps",      "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
                                         "2,3,4,5", "mlp,resnet20,resnet18,resnet34,resnet50",
                                         NULL,      NULL,
                                         NULL,      NULL};
    assert_int_equal(psr_grid_make(&base, lists, false, &grid), PSR_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_default_is_ps_ring_and_no_exchange, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_value_that_makes_no_difference_makes_no_configuration,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(shards_on_hosts_of_their_own_come_beside_those_beside,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(networks_workers_and_batches_are_groups, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(there_is_a_most, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
