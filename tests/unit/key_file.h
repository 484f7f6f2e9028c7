/* Key files as psring keygen writes them, for tests. */
#ifndef PSR_TESTS_KEY_FILE_H
#define PSR_TESTS_KEY_FILE_H

#include "base/text/secret.h"
#include "net/trust/keys/certificate.h"

/* The secret file of a process, at path. As psr_keys_save_private. */
PSR_MUST_CHECK static inline psr_err save_key_file(const psr_keys *keys, const char *path)
{
    char *text = NULL;
    PSR_TRY(psr_certificate_secret(keys, &text));
    psr_err err = psr_keys_save_private(text, path);
    psr_secret_free(text);
    return err;
}

#endif
