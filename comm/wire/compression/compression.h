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

/* Parses "none", "fp16", "bf16", "int8", "topk:0.01" (0 < R <= 1) or "1bit". USAGE: it is none of
 * them; the line says what is possible. */
PSR_MUST_CHECK psr_err psr_compression_parse(const char *text, psr_compression *ret_compression);
/* The same for an option: the line begins with "--NAME: ". */
PSR_MUST_CHECK psr_err psr_compression_parse_option(const char *name, const char *text,
                                                    psr_compression *ret_compression);
/* Whether the texts of --compress and --compress-weights are compressions. USAGE as above. */
PSR_MUST_CHECK psr_err psr_compression_check_options(const char *compress,
                                                     const char *compress_weights);
/* A text that parses to the same. */
void psr_compression_print(psr_compression compression, char text[PSR_COMPRESSION_TEXT_BYTES]);

#define PSR_COMPRESSION_NONE ((psr_compression){.encoding = PSR_ENCODING_FLOAT32})
bool psr_compression_equal(psr_compression a, psr_compression b);
bool psr_compression_is_none(psr_compression compression);
bool psr_compression_has_residual(psr_compression compression);
/* The bytes of the payload of count values; for TOPK the most. count <=
 * psr_compression_values_max. */
size_t psr_compression_bytes_max(psr_compression compression, size_t count);
/* The most values that always fit into one message. */
size_t psr_compression_values_max(psr_compression compression);

/* ---- encoding, for compressions other than none, which has nothing to prepare (psr_encode)
 * ---- */

typedef struct psr_encoder psr_encoder;

/* For units of at most count_max values, below 2^32. Memory: INT8 a byte for each value, 1BIT a
 * bit, TOPK 8 + 4 R bytes, of which a small R touches few. The caller owns *ret_encoder. NOMEM. */
PSR_MUST_CHECK psr_err psr_encoder_new(psr_compression compression, size_t count_max,
                                       psr_encoder **ret_encoder);
void psr_encoder_free(psr_encoder **encoder); /* NULL allowed; sets *encoder to NULL */

/* Prepares a round of a unit of count values. values are borrowed until its last slice is encoded.
 * residual: the unit's residual, zeros at first, which is replaced by the new one; NULL if this
 * compression has none. They do not overlap. NUMERIC: with a residual, x + r must be finite; the
 * detail names the first value that is not, and the residual and what was prepared before stay as
 * they were. */
PSR_MUST_CHECK psr_err psr_encoder_prepare(psr_encoder *encoder, const float *values,
                                           float *residual, size_t count);

/* The bytes of the payload of a slice of the prepared unit; may be 0 (TOPK: none of its values was
 * selected). */
size_t psr_encoder_bytes(const psr_encoder *encoder, psr_span slice);
/* Writes that payload to buffer, which is aligned for float and is borrowed by the payload; sets
 * the encoding in the head. The caller sets release and context. */
psr_payload psr_encode_slice(const psr_encoder *encoder, psr_head *head, psr_span slice,
                             void *buffer);

/* The payload of a message once more, for a rank that passes it on: buffer has room for it.
 * Otherwise as psr_encode_slice. */
psr_payload psr_encode_again(const psr_message *message, psr_head *head, void *buffer);

/* ---- decoding ---- */

/* values and residual as for psr_encoder_prepare: replaces the values of a whole unit by what its
 * receivers decode. Fails as that does. */
PSR_MUST_CHECK psr_err psr_encoder_round(psr_encoder *encoder, float *values, float *residual,
                                         size_t count);
/* The same without an encoder, for a compression without a residual; for none, values stay.
 * NOMEM. */
PSR_MUST_CHECK psr_err psr_compression_round(psr_compression compression, float *values,
                                             size_t count);

/* Decodes the count values of a message. PROTOCOL: its payload is in another encoding, does not
 * have count values, or has a value that is not finite (which FP16 and BF16 allow); ret_values is
 * untouched then. */
PSR_MUST_CHECK psr_err psr_decode_slice(const psr_message *message, psr_compression compression,
                                        size_t count, float *ret_values);
/* Turns the message into float32, for psr_decode_floats. Replaces *message; on failure (as above,
 * or NOMEM) it stays as it was. */
PSR_MUST_CHECK psr_err psr_decode_message(psr_message **message, psr_compression compression,
                                          size_t count);
/* What receivers decode from a payload of count values that psr_encode_slice has just written: for
 * a sender that uses the same values. */
void psr_decode_own(psr_compression compression, const psr_payload *payload, size_t count,
                    float *ret_values);

#endif
