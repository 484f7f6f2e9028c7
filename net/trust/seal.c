#include "net/trust/seal.h"

#include "net/big_endian.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#define NONCE_BYTES 12
#define TOKEN_SECRET_BYTES ((PSR_SEAL_TOKEN_BYTES - 1) / 2)
#define CHANNEL_BYTES_MAX 64

struct psr_seal_library {
    OSSL_LIB_CTX *context;
    EVP_KDF *kdf;
    EVP_CIPHER *aes, *chacha;
};

struct psr_seal {
    EVP_CIPHER_CTX *cipher;
    bool seals;
    uint64_t next;
};

static psr_err failed(const char *what)
{
    return psr_fail(PSR_ERR_UNSUPPORTED, "libcrypto: %s failed", what);
}

/* ---- ciphers ---- */

static bool has_aes(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
#elif defined(__aarch64__)
    unsigned long features = getauxval(AT_HWCAP);
    return (features & HWCAP_AES) != 0 && (features & HWCAP_PMULL) != 0;
#else
    return false;
#endif
}

unsigned psr_seal_ciphers(void)
{
    return PSR_CIPHER_CHACHA20_POLY1305 | (has_aes() ? PSR_CIPHER_AES_256_GCM : 0u);
}

bool psr_seal_choose(unsigned ours, unsigned theirs, psr_cipher *ret_cipher)
{
    unsigned both = ours & theirs;
    if ((both & (PSR_CIPHER_AES_256_GCM | PSR_CIPHER_CHACHA20_POLY1305)) == 0)
        return false;
    *ret_cipher =
        both & PSR_CIPHER_AES_256_GCM ? PSR_CIPHER_AES_256_GCM : PSR_CIPHER_CHACHA20_POLY1305;
    return true;
}

psr_err psr_seal_library_new(psr_seal_library **ret_library)
{
    psr_seal_library *library = calloc(1, sizeof *library);
    if (library == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for sealing");
    /* a context of its own reads no configuration, and is not the program's */
    library->context = OSSL_LIB_CTX_new();
    if (library->context != NULL) {
        library->kdf = EVP_KDF_fetch(library->context, OSSL_KDF_NAME_HKDF, NULL);
        library->aes = EVP_CIPHER_fetch(library->context, "AES-256-GCM", NULL);
        library->chacha = EVP_CIPHER_fetch(library->context, "ChaCha20-Poly1305", NULL);
    }
    if (library->kdf == NULL || library->aes == NULL || library->chacha == NULL) {
        psr_seal_library_free(library);
        return psr_fail(PSR_ERR_UNSUPPORTED,
                        "libcrypto lacks HKDF, AES-256-GCM or ChaCha20-Poly1305");
    }
    *ret_library = library;
    return PSR_OK;
}

void psr_seal_library_free(psr_seal_library *library)
{
    if (library == NULL)
        return;
    EVP_CIPHER_free(library->chacha);
    EVP_CIPHER_free(library->aes);
    EVP_KDF_free(library->kdf);
    OSSL_LIB_CTX_free(library->context);
    free(library);
}

/* ---- agreement ---- */

psr_err psr_seal_part(uint8_t ret_part[PSR_SEAL_PART_BYTES])
{
    if (getrandom(ret_part, PSR_SEAL_PART_BYTES, 0) != PSR_SEAL_PART_BYTES)
        return psr_fail(PSR_ERR_IO, "no random bytes: %s", strerror(errno));
    return PSR_OK;
}

void psr_seal_wipe(void *secret, size_t bytes)
{
    OPENSSL_cleanse(secret, bytes);
}

static bool derive(EVP_KDF_CTX *kdf, uint8_t *parts, size_t part_bytes, uint8_t *info,
                   size_t info_bytes, uint8_t *ret_bytes, size_t count)
{
    char digest[] = "SHA256";
    const OSSL_PARAM parameters[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, parts, part_bytes),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, info_bytes),
        OSSL_PARAM_construct_end()};
    return EVP_KDF_derive(kdf, ret_bytes, count, parameters) == 1;
}

static void write_token(const uint8_t secret[TOKEN_SECRET_BYTES], char token[PSR_SEAL_TOKEN_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < TOKEN_SECRET_BYTES; i++) {
        token[2 * i] = digits[secret[i] >> 4];
        token[2 * i + 1] = digits[secret[i] & 15];
    }
    token[PSR_SEAL_TOKEN_BYTES - 1] = '\0';
}

psr_err psr_seal_agree(psr_seal_library *library, const uint8_t offered[PSR_SEAL_PART_BYTES],
                       const uint8_t answered[PSR_SEAL_PART_BYTES], psr_cipher cipher,
                       const void *channel, size_t channel_bytes, psr_seal_secret *ret_secret)
{
    static const char label[] = "psring sealed 1";
    uint8_t parts[2 * PSR_SEAL_PART_BYTES], made[PSR_SEAL_KEY_BYTES + TOKEN_SECRET_BYTES];
    uint8_t info[sizeof label + 1 + CHANNEL_BYTES_MAX];
    assert(channel_bytes <= CHANNEL_BYTES_MAX);
    memcpy(parts, offered, PSR_SEAL_PART_BYTES);
    memcpy(parts + PSR_SEAL_PART_BYTES, answered, PSR_SEAL_PART_BYTES);
    memcpy(info, label, sizeof label);
    info[sizeof label] = (uint8_t)cipher;
    memcpy(info + sizeof label + 1, channel, channel_bytes);
    EVP_KDF_CTX *kdf = EVP_KDF_CTX_new(library->kdf);
    bool ok = kdf != NULL && derive(kdf, parts, sizeof parts, info,
                                    sizeof label + 1 + channel_bytes, made, sizeof made);
    EVP_KDF_CTX_free(kdf);
    if (ok) {
        memcpy(ret_secret->key, made, PSR_SEAL_KEY_BYTES);
        write_token(made + PSR_SEAL_KEY_BYTES, ret_secret->token);
    }
    psr_seal_wipe(parts, sizeof parts);
    psr_seal_wipe(made, sizeof made);
    return ok ? PSR_OK : failed("HKDF");
}

/* ---- sealing and opening ---- */

psr_err psr_seal_new(psr_seal_library *library, psr_cipher cipher,
                     const uint8_t key[PSR_SEAL_KEY_BYTES], bool seals, psr_seal **ret_seal)
{
    psr_seal *seal = calloc(1, sizeof *seal);
    if (seal == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for sealing");
    seal->seals = seals;
    seal->cipher = EVP_CIPHER_CTX_new();
    const EVP_CIPHER *which = cipher == PSR_CIPHER_AES_256_GCM ? library->aes : library->chacha;
    if (seal->cipher == NULL || EVP_CIPHER_get_iv_length(which) != NONCE_BYTES ||
        EVP_CIPHER_get_key_length(which) != PSR_SEAL_KEY_BYTES ||
        EVP_CipherInit_ex2(seal->cipher, which, key, NULL, seals, NULL) != 1) {
        psr_seal_free(seal);
        return failed("setting a key");
    }
    *ret_seal = seal;
    return PSR_OK;
}

void psr_seal_free(psr_seal *seal)
{
    if (seal == NULL)
        return;
    EVP_CIPHER_CTX_free(seal->cipher); /* wipes its key */
    free(seal);
}

uint64_t psr_seal_next(const psr_seal *seal)
{
    return seal->next;
}

static bool begin(psr_seal *seal, uint64_t number, const void *context, size_t context_bytes)
{
    uint8_t nonce[NONCE_BYTES] = {0};
    int bytes;
    psr_put_be(nonce + NONCE_BYTES - 8, number, 8);
    return EVP_CipherInit_ex2(seal->cipher, NULL, NULL, nonce, seal->seals, NULL) == 1 &&
           EVP_CipherUpdate(seal->cipher, NULL, &bytes, context, (int)context_bytes) == 1;
}

psr_err psr_seal_seal(psr_seal *seal, const void *context, size_t context_bytes,
                      const psr_seal_run *runs, size_t run_count, uint8_t *out)
{
    assert(seal->seals && context_bytes <= INT_MAX);
    if (seal->next == UINT64_MAX)
        return psr_fail(PSR_ERR_PROTOCOL, "a connection has used all of its numbers");
    bool ok = begin(seal, seal->next++, context, context_bytes);
    int bytes;
    for (size_t i = 0; ok && i < run_count; i++)
        if (runs[i].count > 0) {
            assert(runs[i].count <= INT_MAX);
            ok =
                EVP_CipherUpdate(seal->cipher, out, &bytes, runs[i].bytes, (int)runs[i].count) == 1;
            out += runs[i].count; /* both are stream ciphers: nothing is kept back */
        }
    ok = ok && EVP_CipherFinal_ex(seal->cipher, out, &bytes) == 1 &&
         EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_AEAD_GET_TAG, PSR_SEAL_TAG_BYTES, out) == 1;
    return ok ? PSR_OK : failed("sealing");
}

bool psr_seal_open(psr_seal *seal, uint64_t number, const void *context, size_t context_bytes,
                   uint8_t *bytes, size_t count)
{
    assert(!seal->seals && context_bytes <= INT_MAX);
    if (count < PSR_SEAL_TAG_BYTES || count > INT_MAX)
        return false;
    size_t values = count - PSR_SEAL_TAG_BYTES;
    int written;
    return begin(seal, number, context, context_bytes) &&
           EVP_CIPHER_CTX_ctrl(seal->cipher, EVP_CTRL_AEAD_SET_TAG, PSR_SEAL_TAG_BYTES,
                               bytes + values) == 1 &&
           (values == 0 ||
            EVP_CipherUpdate(seal->cipher, bytes, &written, bytes, (int)values) == 1) &&
           EVP_CipherFinal_ex(seal->cipher, bytes + values, &written) == 1;
}
