/* TFRecords: checksums by known vectors, and the bytes of a record. */
#include "tests/unit/folder.h"

#include "base/system/file.h"
#include "ps/scheduler/tensorboard/records.h"

#include <string.h>

/* RFC 3720, appendix B.4, and the check value of CRC-32C. */
static void checksums_are_those_of_the_rfc(void **state)
{
    (void)state;
    uint8_t bytes[32];
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(psr_crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(psr_crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (uint8_t i = 0; i < 32; i++)
        bytes[i] = i;
    assert_int_equal(psr_crc32c(bytes, sizeof bytes), 0x46dd794e);
    assert_int_equal(psr_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(psr_crc32c("", 0), 0);
    assert_int_equal(psr_crc32c_masked("", 0), 0xa282ead8);
}

static void a_record_is_length_and_data_with_their_checksums(void **state)
{
    (void)state;
    psr_records *records;
    uint8_t *bytes = NULL;
    size_t size = 0;
    expect_ok(psr_records_new(in_folder("r"), &records));
    expect_ok(psr_records_put(records, "abc", 3));
    expect_ok(psr_records_put(records, "", 0));
    expect_ok(psr_records_flush(records));
    psr_records_free(records);
    expect_ok(psr_file_read(in_folder("r"), 100, &bytes, &size));
    assert_int_equal(size, 16 + 3 + 16);
    assert_memory_equal(bytes, "\3\0\0\0\0\0\0\0", 8);
    assert_memory_equal(bytes + 12, "abc", 3);
    uint32_t of_length = psr_crc32c_masked(bytes, 8), of_data = psr_crc32c_masked("abc", 3);
    assert_memory_equal(bytes + 8, &of_length, 4); /* on a little-endian machine */
    assert_memory_equal(bytes + 15, &of_data, 4);
    free(bytes);
    assert_int_equal(psr_records_new(in_folder("r"), &records), PSR_ERR_IO); /* it is there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checksums_are_those_of_the_rfc),
        IN_A_FOLDER(a_record_is_length_and_data_with_their_checksums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
