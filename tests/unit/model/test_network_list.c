#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/networks/network_list.h"

#include <string.h>

static psr_config with(const char *model, psr_shortcut shortcut)
{
    psr_config config;
    psr_config_defaults(&config);
    strcpy(config.model, model);
    config.shortcut = shortcut;
    return config;
}

static void expect_refusal(psr_config config, const char *detail)
{
    assert_int_equal(psr_network_check(&config), PSR_ERR_USAGE);
    assert_string_equal(psr_err_detail(), detail);
}

static void every_network_of_the_list_is_found_by_its_name_and_taken(void **state)
{
    (void)state;
    for (const psr_listed_network *network = psr_networks; network->name != NULL; network++) {
        psr_config config = with(network->name, PSR_SHORTCUT_A);
        assert_ptr_equal(psr_network_find(network->name), network);
        assert_int_equal(psr_network_check(&config), PSR_OK);
    }
}

static void the_default_of_the_option_is_a_network(void **state)
{
    (void)state;
    psr_config config;
    psr_config_defaults(&config);
    assert_int_equal(psr_network_check(&config), PSR_OK);
}

static void a_name_that_is_not_in_the_list_is_refused_with_the_nearest_and_all_names(void **state)
{
    (void)state;
    assert_null(psr_network_find("resnet21"));
    expect_refusal(with("resnet21", PSR_SHORTCUT_A),
                   "--model: 'resnet21' is not known (resnet20?); give one of mlp, convnet, "
                   "resnet20, resnet32, resnet44, resnet56, resnet110, resnet18, resnet34, "
                   "resnet50, resnet101, resnet152");
    expect_refusal(
        with("transformer", PSR_SHORTCUT_A),
        "--model: 'transformer' is not known; give one of mlp, convnet, resnet20, resnet32, "
        "resnet44, resnet56, resnet110, resnet18, resnet34, resnet50, resnet101, resnet152");
    assert_null(psr_network_find(""));
}

static void a_shortcut_is_refused_where_the_network_has_no_choice(void **state)
{
    (void)state;
    psr_config config = with("resnet110", PSR_SHORTCUT_B);
    assert_int_equal(psr_network_check(&config), PSR_OK);
    expect_refusal(with("resnet50", PSR_SHORTCUT_B),
                   "--shortcut b does not go with --model resnet50: only resnet20, resnet32, "
                   "resnet44, resnet56, resnet110 have the choice; leave --shortcut out");
    expect_refusal(with("mlp", PSR_SHORTCUT_B),
                   "--shortcut b does not go with --model mlp: only resnet20, resnet32, "
                   "resnet44, resnet56, resnet110 have the choice; leave --shortcut out");
}

static void the_help_has_every_name_and_says_where_the_networks_are_from(void **state)
{
    (void)state;
    char text[PSR_NETWORK_TEXT_MAX];
    psr_network_help(text, sizeof text);
    assert_string_equal(
        text, "mlp, convnet, resnet20, resnet32, resnet44, resnet56, resnet110 (He et al. 2015, "
              "4.2), resnet18, resnet34, resnet50, resnet101, resnet152 (torchvision's)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_of_the_list_is_found_by_its_name_and_taken),
        cmocka_unit_test(the_default_of_the_option_is_a_network),
        cmocka_unit_test(a_name_that_is_not_in_the_list_is_refused_with_the_nearest_and_all_names),
        cmocka_unit_test(a_shortcut_is_refused_where_the_network_has_no_choice),
        cmocka_unit_test(the_help_has_every_name_and_says_where_the_networks_are_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
