#include "data/command/digest.h"

#include "base/system/file.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)1 << 20)

static psr_err update_all(EVP_MD_CTX *hash, int fd, const char *path, uint64_t bytes,
                          const atomic_bool *stop, uint8_t *piece)
{
    for (uint64_t at = 0; at < bytes;) {
        size_t size = bytes - at < PIECE_BYTES ? (size_t)(bytes - at) : PIECE_BYTES;
        if (stop != NULL && atomic_load(stop))
            return psr_fail(PSR_ERR_CANCELLED, "told to stop");
        PSR_TRY(psr_file_read_at(fd, path, piece, size, at));
        if (EVP_DigestUpdate(hash, piece, size) != 1)
            return psr_fail(PSR_ERR_NOMEM, "%s: no memory for its checksum", path);
        at += size;
    }
    return PSR_OK;
}

psr_err psr_sha256_of_file(const char *path, const atomic_bool *stop,
                           char ret_digits[PSR_SHA256_BYTES])
{
    int fd = -1;
    uint64_t bytes = 0;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    PSR_TRY(psr_file_open(path, &fd, &bytes));
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    uint8_t *piece = malloc(PIECE_BYTES);
    psr_err err = PSR_OK;
    if (hash == NULL || piece == NULL || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1)
        err = psr_fail(PSR_ERR_NOMEM, "%s: no memory for its checksum", path);
    if (err == PSR_OK)
        err = update_all(hash, fd, path, bytes, stop, piece);
    if (err == PSR_OK && EVP_DigestFinal_ex(hash, digest, &length) != 1)
        err = psr_fail(PSR_ERR_NOMEM, "%s: no memory for its checksum", path);
    for (unsigned i = 0; err == PSR_OK && i < length; i++)
        snprintf(ret_digits + 2 * (size_t)i, 3, "%02x", digest[i]);
    EVP_MD_CTX_free(hash);
    free(piece);
    close(fd);
    return err;
}
