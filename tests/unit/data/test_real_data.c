/* The data sets themselves, where they are:
 * PSR_TEST_DATA/{mnist,fashion-mnist,cifar-10-batches-bin}. Counts, label histograms and constants
 * are those that their authors publish. Exits 77 without them. */
#include "tests/unit/data/data_files.h"

#include "data/dataset.h"

#include <math.h>

static const char *spec_of(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("PSR_TEST_DATA"), name);
    return path;
}

static void assert_histogram(const psr_dataset *dataset, uint32_t first, uint32_t count,
                             const uint32_t expected[10])
{
    uint32_t histogram[10] = {0};
    for (uint32_t i = first; i < first + count; i++)
        histogram[dataset->labels[i]]++;
    for (int c = 0; c < 10; c++)
        assert_int_equal(histogram[c], expected[c]);
}

static void assert_mnist_shape(const psr_dataset *train, const psr_dataset *test)
{
    assert_int_equal(train->count, 60000);
    assert_int_equal(test->count, 10000);
    assert_int_equal(train->channels, 1);
    assert_int_equal(train->height, 28);
    assert_int_equal(train->width, 28);
    assert_int_equal(train->classes, 10);
    assert_true(test->mean[0] == train->mean[0] && test->deviation[0] == train->deviation[0]);
}

static void mnist_has_the_published_counts_and_constants(void **state)
{
    (void)state;
    psr_dataset *train = NULL, *test = NULL;
    assert_int_equal(psr_dataset_open_both(spec_of("mnist"), &train, &test), PSR_OK);
    assert_string_equal(train->name, "mnist");
    assert_mnist_shape(train, test);
    assert_histogram(train, 0, 60000,
                     (uint32_t[]){5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949});
    assert_histogram(test, 0, 10000,
                     (uint32_t[]){980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009});
    assert_float_equal(train->mean[0], 0.130660, 5e-7);
    assert_float_equal(train->deviation[0], 0.308108, 5e-7);
    psr_dataset_free(train);
    psr_dataset_free(test);
}

static void fashion_mnist_has_the_published_counts_and_constants(void **state)
{
    (void)state;
    psr_dataset *train = NULL, *test = NULL;
    assert_int_equal(psr_dataset_open_both(spec_of("fashion-mnist"), &train, &test), PSR_OK);
    assert_string_equal(train->name, "fashion-mnist");
    assert_mnist_shape(train, test);
    assert_histogram(train, 0, 60000,
                     (uint32_t[]){6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000, 6000});
    assert_histogram(test, 0, 10000,
                     (uint32_t[]){1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000});
    assert_float_equal(train->mean[0], 0.286041, 5e-7);
    assert_float_equal(train->deviation[0], 0.353024, 5e-7);
    psr_dataset_free(train);
    psr_dataset_free(test);
}

static void cifar_10_has_the_published_counts_and_constants(void **state)
{
    (void)state;
    static const double mean[3] = {125.306918046875, 122.950394140625, 113.86538318359375};
    static const double deviation[3] = {62.993219, 62.088708, 66.704900};
    psr_dataset *train = NULL, *test = NULL;
    psr_dataset_info info;
    assert_int_equal(psr_dataset_info_read(spec_of("cifar-10-batches-bin"), &info), PSR_OK);
    assert_int_equal(psr_dataset_open_both(spec_of("cifar-10-batches-bin"), &train, &test), PSR_OK);
    assert_int_equal(info.train_count, train->count);
    assert_int_equal(info.test_count, test->count);
    assert_string_equal(train->name, "cifar10");
    assert_int_equal(train->count, 50000);
    assert_int_equal(test->count, 10000);
    assert_histogram(train, 0, 10000,
                     (uint32_t[]){1005, 974, 1032, 1016, 999, 937, 1030, 1001, 1025, 981});
    assert_histogram(train, 0, 50000,
                     (uint32_t[]){5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000});
    assert_histogram(test, 0, 10000,
                     (uint32_t[]){1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000});
    for (int c = 0; c < 3; c++) {
        assert_true(train->mean[c] == (float)(mean[c] / 255));
        assert_float_equal(train->deviation[c], deviation[c] / 255, 1e-8);
    }
    psr_dataset_free(train);
    psr_dataset_free(test);
}

int main(void)
{
    if (getenv("PSR_TEST_DATA") == NULL || access(spec_of("mnist"), R_OK) != 0 ||
        access(spec_of("fashion-mnist"), R_OK) != 0 ||
        access(spec_of("cifar-10-batches-bin"), R_OK) != 0) {
        printf("1..0 # SKIP no data sets in the directory that PSR_TEST_DATA names\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mnist_has_the_published_counts_and_constants),
        cmocka_unit_test(fashion_mnist_has_the_published_counts_and_constants),
        cmocka_unit_test(cifar_10_has_the_published_counts_and_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
