/* What the targets share that are lists of records, each a message or an event of a fixed length
 * behind some bytes that say how all begins: heads whose numbers come from the input, also those
 * that no psr_msg_NAME_head writes, and mutations of whole records. So the fuzzer gets past the
 * first checks, and still says what nobody would. */
#ifndef PSR_TESTS_FUZZ_RECORDS_H
#define PSR_TESTS_FUZZ_RECORDS_H

#include "net/transport.h"

/* A byte's number: itself below 208; above, what stands at an end of something: n-1, n, 2^32-16,
 * 2^64-1, .. n: of what there is. */
uint64_t records_number(uint8_t byte, uint64_t n);

/* One number of the head becomes another: where 0: none; 1 to 4 of its tag; then its fields. */
enum { RECORDS_TWIST_BYTES = 2 /* where, and records_number */ };
void records_twist(psr_head *head, const uint8_t bytes[RECORDS_TWIST_BYTES], uint64_t n);

/* A head of that type of which all is from the input. */
enum { RECORDS_HEAD_BYTES = 5 + PSR_HEAD_FIELDS_MAX };
psr_head records_head(psr_message_type type, const uint8_t bytes[RECORDS_HEAD_BYTES], uint64_t n);

/* A message whose payload is of its exact size, so that a read beyond it is seen. Its bytes: those
 * given, again and again. */
psr_message *records_message(psr_peer from, psr_head head, size_t payload_bytes, const void *bytes,
                             size_t count);

/* A psr_outbox's send: what is sent is read at once. */
psr_err records_give_back(void *context, psr_peer to, const psr_head *head,
                          const psr_payload *payload);

/* What LLVMFuzzerCustomMutator does in such a target: `first` bytes, then records of `record` bytes
 * each. */
size_t records_mutate(uint8_t *data, size_t size, size_t size_max, unsigned seed, size_t first,
                      size_t record);

#define RECORDS_MUTATOR(first, record)                                                             \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);    \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed)     \
    {                                                                                              \
        return records_mutate(data, size, size_max, seed, first, record);                          \
    }                                                                                              \
    int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)

#endif
