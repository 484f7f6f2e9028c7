/* cmocka, and assertions on psr_err that show the detail when they fail. */
#ifndef PSR_TESTS_EXPECT_H
#define PSR_TESTS_EXPECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/err.h"

#define expect_ok(expr)                                                                            \
    do {                                                                                           \
        psr_err expect_err_ = (expr);                                                              \
        if (expect_err_ != PSR_OK)                                                                 \
            fail_msg("%s: %s: %s", #expr, psr_err_name(expect_err_), psr_err_detail());            \
    } while (0)

#define expect_failure(expr, code, detail)                                                         \
    do {                                                                                           \
        psr_err expect_err_ = (expr);                                                              \
        if (expect_err_ != (code))                                                                 \
            fail_msg("%s: %s instead of %s: %s", #expr, psr_err_name(expect_err_),                 \
                     psr_err_name(code), psr_err_detail());                                        \
        assert_string_equal(psr_err_detail(), detail);                                             \
    } while (0)

#endif
