/* Compression: float32 values in fewer bytes on the wire.
 *
 * A sender has a unit of L values x that it encodes as one: a bucket, or a chunk of one. Receivers
 * decode them to `sent`. Encodings that lose much keep an error feedback: what was not sent is the
 * unit's residual r, and is added in the next round (Seide et al., "1-bit stochastic gradient
 * descent and its application to data-parallel distributed training of speech DNNs", Interspeech
 * 2014; Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes",
 * ICML 2019):
 *
 *     e = x + r, rounded once to float32; sent = decoded(encoded(e)); the new r = e - sent
 *
 *     text    bytes for L values   r    sent                                         file
 *     none    4 L                  -    x
 *     fp16    2 L                  -    x, rounded                                   half.c
 *     bf16    2 L                  -    x, rounded                                   half.c
 *     int8    L + 4 each slice     yes  one of 255 multiples of max |e| / 127        int8.c
 *     topk:R  8 ceil(R L)          yes  e where |e| is one of the ceil(R L) largest  topk.c
 *     1bit    L / 8 + 8 each slice yes  the mean of the e that have its sign         onebit.c
 *
 * Scale, means and selection are the unit's. So encoding is in two parts: psr_encoder_prepare reads
 * the whole unit and settles what is sent and what is owed; psr_encode_slice then writes any run of
 * it, in any order, as often as wanted. However a unit is cut, receivers decode the same bits. A
 * payload holds all that its values need; as all payloads it is little-endian, as in memory.
 *
 * No state but an encoder's: any thread. An encoder: one thread prepares; until the next time any
 * may encode slices. */
#ifndef PSR_COMM_COMPRESSION_H
#define PSR_COMM_COMPRESSION_H

#include "base/span.h"
#include "net/transport.h"

#define PSR_COMPRESSION_RATIO_ONE 1000000000u /* ratios have nine decimals */
#define PSR_COMPRESSION_TEXT_BYTES 24

typedef struct psr_compression {
    psr_encoding encoding; /* FLOAT32: none; or FP16, BF16, INT8, TOPK, 1BIT */
    uint32_t ratio;        /* TOPK: R, in units of 10^-9, 1..PSR_COMPRESSION_RATIO_ONE; else 0 */
} psr_compression;

/* "none", "fp16", "bf16", "int8", "topk:0.01", "1bit"; 0 < R <= 1. USAGE: none of them; the line
 * says what would be right. */
PSR_MUST_CHECK psr_err psr_compression_parse(const char *text, psr_compression *ret_compression);
/* Of what was given as an option: "--NAME: .." stands before the line. */
PSR_MUST_CHECK psr_err psr_compression_parse_option(const char *name, const char *text,
                                                    psr_compression *ret_compression);
/* What parses to the same. */
void psr_compression_print(psr_compression compression, char text[PSR_COMPRESSION_TEXT_BYTES]);

#define PSR_COMPRESSION_NONE ((psr_compression){.encoding = PSR_ENCODING_FLOAT32})
bool psr_compression_equal(psr_compression a, psr_compression b);
bool psr_compression_is_none(psr_compression compression);
bool psr_compression_has_residual(psr_compression compression);
/* Bytes of the payload of count values: exactly, but of TOPK the most. count <=
 * psr_compression_values_max. */
size_t psr_compression_bytes_max(psr_compression compression, size_t count);
/* The most values that are sure to fit one message. */
size_t psr_compression_values_max(psr_compression compression);

/* ---- encoding: of compressions other than none, which has nothing to prepare (psr_encode) ---- */

typedef struct psr_encoder psr_encoder;

/* For units of at most count_max values, below 2^32. Memory: INT8 a byte for each, 1BIT a bit, TOPK
 * 8 + 4 R bytes, of which a small R touches few. ret owns. NOMEM. */
PSR_MUST_CHECK psr_err psr_encoder_new(psr_compression compression, size_t count_max,
                                       psr_encoder **ret_encoder);
void psr_encoder_free(psr_encoder **encoder); /* NULL allowed; nulls it */

/* A round of a unit of count values. values are borrowed until its last slice is encoded. residual:
 * what the unit owes, zeros at first; it is replaced by what it owes now; NULL if there is none of
 * this compression. They do not overlap. NUMERIC: with a residual, x + r must be finite; the detail
 * names the first value that is not, and the residual and what was prepared before are as they
 * were. */
PSR_MUST_CHECK psr_err psr_encoder_prepare(psr_encoder *encoder, const float *values,
                                           float *residual, size_t count);

/* Of what was prepared: bytes of the payload of a slice, which lies in the unit; may be 0 (TOPK:
 * nothing of it was selected). */
size_t psr_encoder_bytes(const psr_encoder *encoder, psr_span slice);
/* Writes them to buffer, which is aligned for float; the head says from now on in which encoding
 * the payload is, which borrows buffer. Release and context are the caller's to set. */
psr_payload psr_encode_slice(const psr_encoder *encoder, psr_head *head, psr_span slice,
                             void *buffer);

/* The same payload again, as it came in a message, for who passes it on: buffer has room for it. As
 * psr_encode_slice else. */
psr_payload psr_encode_again(const psr_message *message, psr_head *head, void *buffer);

/* ---- decoding ---- */

/* values and residual as psr_encoder_prepare's: the values of a whole unit become what its
 * receivers decode. Fails as that does. */
PSR_MUST_CHECK psr_err psr_encoder_round(psr_encoder *encoder, float *values, float *residual,
                                         size_t count);
/* The same without an encoder at hand, of a compression without a residual; none: they stay.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_compression_round(psr_compression compression, float *values,
                                             size_t count);

/* The count values of a message. PROTOCOL: its payload is in another encoding, or not one of count
 * values, or (but of FP16 and BF16, which have infinities and NaNs) says a value that is not
 * finite; ret_values are then untouched. */
PSR_MUST_CHECK psr_err psr_decode_slice(const psr_message *message, psr_compression compression,
                                        size_t count, float *ret_values);
/* The same message in float32: psr_decode_floats reads it then. Takes *message and gives another in
 * its place; on failure, as above or NOMEM, it is as it was. */
PSR_MUST_CHECK psr_err psr_decode_message(psr_message **message, psr_compression compression,
                                          size_t count);
/* What they decode of a payload of count values that psr_encode_slice has just written: for a
 * sender that takes it too. */
void psr_decode_own(psr_compression compression, const psr_payload *payload, size_t count,
                    float *ret_values);

#endif
