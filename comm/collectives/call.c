#include "comm/collectives/call.h"

#include <inttypes.h>
#include <stdio.h>

const char *psr_kind_name(psr_kind kind)
{
    static const char *const names[PSR_KINDS] = {"all_reduce",
                                                 "reduce",
                                                 "reduce_scatter",
                                                 "all_gather",
                                                 "broadcast",
                                                 "gather",
                                                 "scatter",
                                                 "all_to_all",
                                                 "all_to_all_v",
                                                 "barrier",
                                                 "neighbor_exchange",
                                                 "send",
                                                 "receive",
                                                 "halo_exchange",
                                                 "group_split",
                                                 "table_open",
                                                 "table_close",
                                                 "scan",
                                                 "exscan",
                                                 "probe",
                                                 "table_read",
                                                 "table_write",
                                                 "table_set"};
    return (unsigned)kind < PSR_KINDS ? names[kind] : "?";
}

const char *psr_algorithm_name(psr_algorithm algorithm)
{
    static const char *const names[PSR_ALGORITHMS] = {
        "auto",     "ring",  "direct", "doubling",      "halving",
        "binomial", "chain", "bruck",  "dissemination", "root"};
    return (unsigned)algorithm < PSR_ALGORITHMS ? names[algorithm] : "?";
}

bool psr_kind_folds(psr_kind kind)
{
    return kind == PSR_KIND_ALL_REDUCE || kind == PSR_KIND_REDUCE ||
           kind == PSR_KIND_REDUCE_SCATTER || psr_kind_scans(kind);
}

bool psr_kind_is_message(psr_kind kind)
{
    return kind == PSR_KIND_SEND || kind == PSR_KIND_RECEIVE || kind == PSR_KIND_PROBE;
}

bool psr_kind_scans(psr_kind kind)
{
    return kind == PSR_KIND_SCAN || kind == PSR_KIND_EXSCAN;
}

bool psr_kind_has_blocks(psr_kind kind)
{
    return kind == PSR_KIND_NEIGHBORS || kind == PSR_KIND_HALO;
}

bool psr_kind_gathers_words(psr_kind kind)
{
    return kind == PSR_KIND_GROUP_SPLIT || kind == PSR_KIND_TABLE_OPEN ||
           kind == PSR_KIND_TABLE_CLOSE || kind == PSR_KIND_TABLE_READ ||
           kind == PSR_KIND_TABLE_WRITE || kind == PSR_KIND_TABLE_SET;
}

bool psr_kind_has_root(psr_kind kind)
{
    return kind == PSR_KIND_REDUCE || kind == PSR_KIND_BROADCAST || kind == PSR_KIND_GATHER ||
           kind == PSR_KIND_SCATTER;
}

/* A word of six bytes: kind, algorithm, type, reduction, varying, encoding (0: none). */
enum {
    ALGORITHM_SHIFT = 8,
    TYPE_SHIFT = 16,
    REDUCTION_SHIFT = 24,
    VARYING_SHIFT = 32,
    ENCODING_SHIFT = 40
};

static bool is_encoded(const psr_call *call)
{
    return call->compression.encoding != 0 && !psr_compression_is_none(call->compression);
}

psr_msg_call psr_call_message(const psr_call *call)
{
    /* A send and a receive are one call with two names. */
    uint64_t kind = call->kind == PSR_KIND_RECEIVE ? PSR_KIND_SEND : call->kind;
    const bool encoded = is_encoded(call);
    return (psr_msg_call){
        .word = kind | (uint64_t)call->algorithm << ALGORITHM_SHIFT |
                (uint64_t)call->type << TYPE_SHIFT | (uint64_t)call->reduction << REDUCTION_SHIFT |
                (uint64_t)call->varying << VARYING_SHIFT |
                (encoded ? (uint64_t)call->compression.encoding << ENCODING_SHIFT : 0),
        /* an encoded operation has no root */
        .root = encoded ? call->compression.ratio : call->root,
        .count = call->count};
}

static unsigned part(const psr_msg_call *call, unsigned shift)
{
    return (call->word >> shift) & 0xff;
}

bool psr_call_varies(const psr_msg_call *call)
{
    return part(call, VARYING_SHIFT) != 0;
}

/* ", topk:0.01" */
static void describe_encoding(const psr_msg_call *call, char *text, size_t size)
{
    char name[PSR_COMPRESSION_TEXT_BYTES] = "?";
    psr_compression_print((psr_compression){(psr_encoding)part(call, ENCODING_SHIFT), call->root},
                          name);
    snprintf(text, size, ", %s", name);
}

void psr_call_describe(const psr_msg_call *call, bool receives, char *text, size_t size)
{
    psr_kind kind = (psr_kind)part(call, 0);
    if (kind == PSR_KIND_SEND && receives)
        kind = PSR_KIND_RECEIVE;
    char reduction[32] = "", root[32] = "", count[48],
         encoding[PSR_COMPRESSION_TEXT_BYTES + 2] = "";
    if (psr_kind_folds(kind) && part(call, REDUCTION_SHIFT) >= PSR_REDUCTION_OWN)
        snprintf(reduction, sizeof reduction, ", own fold %u",
                 part(call, REDUCTION_SHIFT) - PSR_REDUCTION_OWN);
    else if (psr_kind_folds(kind))
        snprintf(reduction, sizeof reduction, ", %s",
                 psr_reduction_name((psr_reduction)part(call, REDUCTION_SHIFT)));
    if (psr_kind_has_root(kind))
        snprintf(root, sizeof root, ", root %" PRIu32, call->root);
    if (kind == PSR_KIND_BARRIER || psr_kind_gathers_words(kind)) {
        snprintf(text, size, "%s", psr_kind_name(kind));
        return;
    }
    if (psr_kind_has_blocks(kind) || kind == PSR_KIND_ALL_TO_ALL_V)
        count[0] = '\0'; /* each rank has its own count */
    else if (kind == PSR_KIND_RECEIVE && psr_call_varies(call))
        snprintf(count, sizeof count, "count at most %" PRIu64 ", ", call->count);
    else if (psr_call_varies(call))
        snprintf(count, sizeof count, "counts #%04x, ", (unsigned)(call->count & 0xffff));
    else
        snprintf(count, sizeof count, "count %" PRIu64 ", ", call->count);
    if (part(call, ENCODING_SHIFT) != 0)
        describe_encoding(call, encoding, sizeof encoding);
    snprintf(text, size, "%s(%s%s%s%s, %s%s)", psr_kind_name(kind), count,
             psr_type_name((psr_type)part(call, TYPE_SHIFT)), reduction, root,
             psr_algorithm_name((psr_algorithm)part(call, ALGORITHM_SHIFT)), encoding);
}

psr_type psr_call_type(const psr_msg_call *call)
{
    return (psr_type)part(call, TYPE_SHIFT);
}

bool psr_call_same(const psr_msg_call *a, const psr_msg_call *b)
{
    return a->word == b->word && a->root == b->root && a->count == b->count;
}

bool psr_call_fits(const psr_msg_call *receive, const psr_msg_call *send)
{
    if (!psr_call_varies(receive))
        return psr_call_same(receive, send);
    psr_msg_call exact = *receive;
    exact.word &= ~(UINT64_C(0xff) << VARYING_SHIFT);
    exact.count = send->count;
    return send->count <= receive->count && psr_call_same(&exact, send);
}

bool psr_call_is_barrier(const psr_msg_call *call)
{
    return part(call, 0) == PSR_KIND_BARRIER;
}

/* FNV-1a (Fowler, Noll, Vo): continues a digest with the bytes of a number. */
static uint64_t digest_on(uint64_t digest, uint64_t number)
{
    for (unsigned shift = 0; shift < 64; shift += 8)
        digest = (digest ^ (number >> shift & 0xff)) * 0x100000001b3u;
    return digest;
}

static const uint64_t digest_of_nothing = 0xcbf29ce484222325u;

uint64_t psr_call_digest(const size_t *counts, size_t count)
{
    uint64_t digest = digest_of_nothing;
    for (size_t i = 0; i < count; i++)
        digest = digest_on(digest, counts[i]);
    return digest;
}

uint64_t psr_call_digest_on(uint64_t before, const psr_msg_call *call)
{
    uint64_t digest = digest_on(digest_of_nothing ^ before, call->word);
    return digest_on(digest_on(digest, call->root), call->count);
}
