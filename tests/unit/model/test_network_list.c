#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "model/networks/network_list.h"

#include <string.h>

/* All behind the first two. */
#define NAMES                                                                                      \
    "resnet20, resnet32, resnet44, resnet56, resnet110, preresnet20, preresnet32, preresnet44, "   \
    "preresnet56, preresnet110, preresnet164, resnet9, airbench94, resnet18, resnet34, resnet50, " \
    "resnet101, "                                                                                  \
    "resnet152, wide_resnet50_2, wide_resnet101_2, resnext50_32x4d, resnext101_32x8d, "            \
    "resnext101_64x4d"

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
    expect_refusal(
        with("resnet21", PSR_SHORTCUT_A),
        "--model: 'resnet21' is not known (resnet20?); give one of mlp, convnet, " NAMES);
    expect_refusal(with("transformer", PSR_SHORTCUT_A),
                   "--model: 'transformer' is not known; give one of mlp, convnet, " NAMES);
    assert_null(psr_network_find(""));
}

static void a_shortcut_is_refused_where_the_network_has_no_choice(void **state)
{
    (void)state;
    psr_config config = with("resnet110", PSR_SHORTCUT_B);
    assert_int_equal(psr_network_check(&config), PSR_OK);
    expect_refusal(with("resnet50", PSR_SHORTCUT_B),
                   "--shortcut b does not go with --model resnet50: only resnet20, resnet32, "
                   "resnet44, resnet56, resnet110, preresnet20, preresnet32, preresnet44, "
                   "preresnet56, preresnet110 have the choice; leave --shortcut out");
    config = with("preresnet164", PSR_SHORTCUT_B);
    assert_int_equal(psr_network_check(&config), PSR_ERR_USAGE);
}

/* A configuration of model with one option set. */
static psr_config set(const char *model, const char *option, const char *value)
{
    psr_config config = with(model, PSR_SHORTCUT_A);
    assert_int_equal(psr_config_set(&config, option, value), PSR_OK);
    return config;
}

static void options_of_networks_are_refused_where_they_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        const char *model, *option, *value, *detail;
    } refused[] = {
        {"resnet20", "stem", "small",
         "--stem small does not go with --model resnet20: only resnet18, resnet34, "},
        {"mlp", "se", "16", "--se 16 does not go with --model mlp: only resnet20, "},
        {"resnet9", "se", "16", "--se 16 does not go with --model resnet9: only resnet20, "},
        {"resnet9", "zero-gamma", "true",
         "--zero-gamma does not go with --model resnet9: only resnet20, "},
        {"preresnet20", "zero-gamma", "true",
         "--zero-gamma does not go with --model preresnet20: only resnet20, "},
        {"convnet", "bn-momentum", "0.2",
         "--bn-momentum 0.2 does not go with --model convnet: only resnet20, "},
        {"mlp", "bn-epsilon", "0.001",
         "--bn-epsilon 0.001 does not go with --model mlp: only resnet20, "},
        {"mlp", "sync-bn", "true", "--sync-bn does not go with --model mlp: only resnet20, "},
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        psr_config config = set(refused[i].model, refused[i].option, refused[i].value);
        assert_int_equal(psr_network_check(&config), PSR_ERR_USAGE);
        assert_non_null(strstr(psr_err_detail(), refused[i].detail));
        config = set("resnext50_32x4d", refused[i].option, refused[i].value);
        assert_int_equal(psr_network_check(&config), PSR_OK);
    }
    const psr_config config = set("preresnet20", "se", "16");
    assert_int_equal(psr_network_check(&config), PSR_OK);
}

static void the_help_has_every_name_and_says_where_the_networks_are_from(void **state)
{
    (void)state;
    char text[PSR_NETWORK_TEXT_MAX];
    psr_network_help(text, sizeof text);
    assert_string_equal(
        text, "mlp, convnet, resnet20, resnet32, resnet44, resnet56, resnet110 (He et al. 2015, "
              "4.2), preresnet20, preresnet32, preresnet44, preresnet56, preresnet110, "
              "preresnet164 (He et al. 2016), resnet9 (Page 2018), airbench94 (Jordan 2024), "
              "resnet18, resnet34, resnet50, "
              "resnet101, resnet152, wide_resnet50_2, wide_resnet101_2, resnext50_32x4d, "
              "resnext101_32x8d, resnext101_64x4d (torchvision's); profile: the one that --backend "
              "played:PROFILE was recorded of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_network_of_the_list_is_found_by_its_name_and_taken),
        cmocka_unit_test(the_default_of_the_option_is_a_network),
        cmocka_unit_test(a_name_that_is_not_in_the_list_is_refused_with_the_nearest_and_all_names),
        cmocka_unit_test(a_shortcut_is_refused_where_the_network_has_no_choice),
        cmocka_unit_test(options_of_networks_are_refused_where_they_do_not_fit),
        cmocka_unit_test(the_help_has_every_name_and_says_where_the_networks_are_from),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
