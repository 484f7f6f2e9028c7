#include "tests/unit/expect.h"

#include "base/arrays/stream.h"

#include <string.h>

enum { FLOATS = 200 };

/* Whatever begins where: lines, their ends, and what is less than a line. */
static void a_streamed_copy_is_a_copy_and_touches_nothing_beside_it(void **state)
{
    (void)state;
    static float x[FLOATS], out[FLOATS], want[FLOATS];
    for (size_t i = 0; i < FLOATS; i++)
        x[i] = (float)i + 1;
    for (size_t to = 0; to < 17; to++)
        for (size_t from = 0; from < 17; from++)
            for (size_t count = 0; count < FLOATS - 17; count++) {
                memset(out, 0, sizeof out);
                memset(want, 0, sizeof want);
                memcpy(want + to, x + from, count * sizeof *x);
                psr_stream_copy(out + to, x + from, count);
                if (memcmp(out, want, sizeof out) != 0)
                    fail_msg("%zu floats from %zu to %zu", count, from, to);
            }
}

static void streamed_bytes_are_a_copy_and_touch_nothing_beside_it(void **state)
{
    (void)state;
    enum { BYTES = 400 };
    static uint8_t x[BYTES], out[BYTES], want[BYTES];
    for (size_t i = 0; i < BYTES; i++)
        x[i] = (uint8_t)(i % 251 + 1);
    for (size_t to = 0; to < 67; to++)
        for (size_t from = 0; from < 67; from += 3)
            for (size_t count = 0; count < BYTES - 67; count++) {
                memset(out, 0, sizeof out);
                memset(want, 0, sizeof want);
                memcpy(want + to, x + from, count);
                psr_stream_bytes(out + to, x + from, count);
                if (memcmp(out, want, sizeof out) != 0)
                    fail_msg("%zu bytes from %zu to %zu", count, from, to);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_streamed_copy_is_a_copy_and_touches_nothing_beside_it),
        cmocka_unit_test(streamed_bytes_are_a_copy_and_touch_nothing_beside_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
