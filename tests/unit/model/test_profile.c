/* model/played/profile.h */
#include "tests/unit/expect.h"

#include "base/system/file.h"
#include "model/networks/network.h"
#include "model/networks/network_list.h"
#include "model/played/profile.h"
#include "tests/unit/folder.h"

#include <stdio.h>
#include <string.h>

#define HEAD "{\"format\":\"psring profile 1\",\"network\":\"n\",\"machine\":\"m\","

static void expect_refused(const char *text, const char *why)
{
    psr_profile p;
    const char *path = in_folder("profile.json");
    char detail[512];
    expect_ok(psr_file_write_atomic(path, text, strlen(text)));
    snprintf(detail, sizeof detail, "%s: %s", path, why);
    expect_failure(psr_profile_read(path, &p), PSR_ERR_FORMAT, detail);
}

static void a_profile_reads_back(void **state)
{
    (void)state;
    psr_profile_tensor tensors[] = {{"a.weight", 48, 0.25, 0.5}, {"b.weight", 4, 0, 1e-6}};
    const psr_profile written = {.network = "mlp",
                                 .machine = "a machine",
                                 .batch = 32,
                                 .threads = 2,
                                 .rest_s = 0.125,
                                 .tensors = tensors,
                                 .count = 2};
    const char *path = in_folder("profile.json");
    psr_profile read;
    expect_ok(psr_profile_write(path, &written));
    expect_ok(psr_profile_read(path, &read));
    assert_string_equal(read.network, "mlp");
    assert_string_equal(read.machine, "a machine");
    assert_int_equal(read.batch, 32);
    assert_int_equal(read.threads, 2);
    assert_true(read.rest_s == 0.125);
    assert_int_equal(read.count, 2);
    assert_string_equal(read.tensors[1].name, "b.weight");
    assert_int_equal(read.tensors[0].bytes, 48);
    assert_true(read.tensors[0].forward_s == 0.25 && read.tensors[0].backward_s == 0.5);
    assert_true(psr_profile_step_s(&read) == 0.125 + 0.25 + 0.5 + 1e-6);
    psr_profile_done(&read);
}

static void a_wrong_file_is_refused_by_what_is_wrong(void **state)
{
    (void)state;
    psr_profile p;
    assert_int_equal(psr_profile_read("/nowhere/p.json", &p), PSR_ERR_NOT_FOUND);
    expect_refused("{", "no JSON object with \"format\": \"psring profile 1\"");
    expect_refused("{\"format\":\"psring profile 2\"}",
                   "no JSON object with \"format\": \"psring profile 1\"");
    expect_refused("{\"format\":\"psring profile 1\",\"network\":\"n\"}",
                   "network or machine is missing, or too long");
    expect_refused(HEAD "\"batch\":0,\"threads\":1}",
                   "batch or threads is missing, or no such number");
    expect_refused(HEAD "\"batch\":1,\"threads\":1,\"rest_s\":-1}",
                   "rest_s is not seconds, from 0 to 3600");
    expect_refused(HEAD "\"batch\":1,\"threads\":1,\"rest_s\":0,\"tensors\":[]}",
                   "tensors is not a list of 1 to 100000");
    expect_refused(HEAD "\"batch\":1,\"threads\":1,\"rest_s\":0,\"tensors\":[{\"bytes\":4}]}",
                   "tensor 0 has no name, or one of more than 63 bytes");
    expect_refused(HEAD "\"batch\":1,\"threads\":1,\"rest_s\":0,\"tensors\":[{\"name\":\"a\","
                        "\"bytes\":6}]}",
                   "tensor a: bytes is not a multiple of 4 above 0");
    expect_refused(HEAD "\"batch\":1,\"threads\":1,\"rest_s\":0,\"tensors\":[{\"name\":\"a\","
                        "\"bytes\":8,\"forward_s\":1e999,\"backward_s\":0}]}",
                   "tensor a: forward_s and backward_s are seconds, from 0 to 3600");
    expect_refused(HEAD
                   "\"batch\":1,\"threads\":1,\"rest_s\":0,\"tensors\":[{\"name\":\"a\\u001b\","
                   "\"bytes\":8,\"forward_s\":0,\"backward_s\":0}]}",
                   "it holds control characters");
}

static void a_profile_of_another_network_does_not_fit(void **state)
{
    (void)state;
    psr_layout params = {0};
    const uint32_t shape[] = {3, 4};
    psr_profile_tensor tensors[] = {{"a.weight", 48, 0, 0}, {"b.weight", 48, 0, 0}};
    psr_profile p = {.network = "n", .tensors = tensors, .count = 1};
    expect_ok(psr_layout_add(&params, "a.weight", 2, shape));
    expect_ok(psr_profile_fits(&p, "p.json", &params));
    p.count = 2;
    expect_failure(psr_profile_fits(&p, "p.json", &params), PSR_ERR_MISMATCH,
                   "p.json is of n, with 2 tensors; the network has 1: record one of this "
                   "--model");
    p.count = 1;
    tensors[0].bytes = 52;
    expect_failure(psr_profile_fits(&p, "p.json", &params), PSR_ERR_MISMATCH,
                   "p.json is of n: its tensor 0 is a.weight of 52 bytes, the network's a.weight "
                   "of 48; --model, --classes and the images must be those that were recorded");
    psr_layout_done(&params);
}

static void the_network_of_a_profile_has_its_tensors_and_nothing_else(void **state)
{
    (void)state;
    psr_profile_tensor tensors[] = {{"scale", 4, 0, 0}, {"b.weight", 48, 0, 0}};
    const psr_profile written = {.network = "n", .batch = 1, .tensors = tensors, .count = 2};
    const char *path = in_folder("profile.json");
    psr_network *net = NULL;
    psr_config config;
    psr_config_defaults(&config);
    snprintf(config.model, sizeof config.model, "profile");
    snprintf(config.profile, sizeof config.profile, "%s", path);
    expect_ok(psr_profile_write(path, &written));
    expect_ok(psr_network_of(&config, 10, 1, 28, 28, &net));
    expect_ok(psr_profile_fits(&written, path, &net->params));
    assert_int_equal(net->params.count, 13);
    assert_int_equal(net->nodes[net->node_count - 1].channels, 10);
    psr_network_free(net);

    snprintf(tensors[1].name, sizeof tensors[1].name, "scale");
    expect_ok(psr_profile_write(path, &written));
    char detail[512];
    snprintf(detail, sizeof detail, "%s: two tensors are called scale", path);
    expect_failure(psr_network_of(&config, 10, 1, 28, 28, &net), PSR_ERR_FORMAT, detail);

    config.profile[0] = '\0';
    assert_int_equal(psr_network_check(&config), PSR_ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_profile_reads_back),
        IN_A_FOLDER(a_wrong_file_is_refused_by_what_is_wrong),
        cmocka_unit_test(a_profile_of_another_network_does_not_fit),
        IN_A_FOLDER(the_network_of_a_profile_has_its_tensors_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
