/* Sums over the processes of MPI, here one: what they add up to with several is
 * tests/integration/test_mpi.py's. MPI begins once in a process, so the tests share it, in their
 * order. */
#include "tests/unit/expect.h"

#include "worker/exchange/engines/mpi_sums.h"

#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 4, COUNT = 1000, ROUNDS = 50 };

static psr_mpi_sums *sums;
static sem_t changes;

static void on_change(void *context)
{
    sem_post(context);
}

static psr_err begin(uint32_t processes)
{
    const psr_mpi_sums_options options = {
        .processes = processes, .most = MOST, .context = &changes, .changed = on_change};
    return psr_mpi_sums_new(&options, &sums);
}

/* In a process of its own, which may begin MPI too: its exit status tells. */
static int begin_with_too_few(void)
{
    bool any = false;
    uint32_t number = 77;
    if (begin(2) != PSR_OK)
        return 10;
    sem_wait(&changes);
    psr_err err = psr_mpi_sums_take(sums, &any, &number);
    bool named = strstr(psr_err_detail(),
                        "--mode mpi: this run has 2 workers, and MPI found 1 process; ") != NULL;
    bool told = err == PSR_ERR_USAGE && named && number == 77;
    bool again = psr_mpi_sums_take(sums, &any, &number) == PSR_ERR_USAGE;
    psr_mpi_sums_free(sums, 1000);
    return told && again ? 0 : 11;
}

static void another_number_of_processes_is_told_with_what_would_be_right(void **state)
{
    (void)state;
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(begin_with_too_few());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_sum_over_one_process_is_its_values(void **state)
{
    (void)state;
    static float values[MOST][COUNT];
    expect_ok(begin(1));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        bool told[MOST] = {false};
        for (uint32_t i = 0; i < MOST; i++) {
            for (size_t k = 0; k < COUNT; k++)
                values[i][k] = (float)(round * 10 + i) + (float)k / COUNT;
            expect_ok(psr_mpi_sums_start(sums, i, values[i], COUNT));
        }
        for (uint32_t ended = 0; ended < MOST;) {
            bool any = false;
            uint32_t number = 0;
            expect_ok(psr_mpi_sums_take(sums, &any, &number));
            if (!any) {
                sem_wait(&changes);
                continue;
            }
            assert_in_range(number, 0, MOST - 1);
            assert_false(told[number]);
            told[number] = true;
            ended++;
        }
        for (uint32_t i = 0; i < MOST; i++)
            for (size_t k = 0; k < COUNT; k++)
                assert_true(values[i][k] == (float)(round * 10 + i) + (float)k / COUNT);
    }
}

static void more_sums_than_there_is_room_for_are_refused(void **state)
{
    (void)state;
    float values[MOST + 1] = {0};
    for (uint32_t i = 0; i < MOST; i++)
        expect_ok(psr_mpi_sums_start(sums, i, &values[i], 1));
    expect_failure(psr_mpi_sums_start(sums, MOST, &values[MOST], 1), PSR_ERR_USAGE,
                   "4 sums are under way already");
    expect_failure(psr_mpi_sums_start(sums, 0, values, (size_t)1 << 40), PSR_ERR_USAGE,
                   "MPI sums at most 2147483647 values at once, not 1099511627776");
    for (uint32_t ended = 0; ended < MOST;) {
        bool any = false;
        uint32_t number = 0;
        expect_ok(psr_mpi_sums_take(sums, &any, &number));
        if (any)
            ended++;
        else
            sem_wait(&changes);
    }
    psr_mpi_sums_free(sums, 30000);
    psr_mpi_sums_free(NULL, 0);
}

static void the_library_has_a_name_and_a_version(void **state)
{
    (void)state;
    char text[128] = "";
    psr_mpi_library(text, sizeof text);
    assert_non_null(strpbrk(text, "0123456789"));
    assert_null(strpbrk(text, "\n\t,"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_has_a_name_and_a_version),
        cmocka_unit_test(another_number_of_processes_is_told_with_what_would_be_right),
        cmocka_unit_test(a_sum_over_one_process_is_its_values),
        cmocka_unit_test(more_sums_than_there_is_room_for_are_refused),
    };
    sem_init(&changes, 0, 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
