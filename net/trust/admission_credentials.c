/* Whose connection it is, by what it shows: a CURVE key of the roster, a token of the run or of one
 * member, or for a second connection the token of its channel. */
#include "net/trust/admission_private.h"

#include "base/text/secret.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* Compares all of both whatever they are, so that the time says nothing of where they differ. */
static bool same_token(const char *token, const uint8_t *claimed, size_t claimed_bytes)
{
    size_t bytes = strlen(token);
    if (bytes == 0 || claimed_bytes != bytes)
        return false;
    unsigned difference = 0;
    for (size_t i = 0; i < bytes; i++)
        difference |= (unsigned)((uint8_t)token[i] ^ claimed[i]);
    return difference == 0;
}

/* The token says which member it is. If the name given is another member's, HELLO repeats it and is
 * refused there. */
static const char *admit_own_token(const psr_admission *admission, const psr_zap_frame *token,
                                   psr_peer *ret_peer)
{
    const struct psr_member_key *whose = NULL;
    for (size_t i = 0; i < admission->keys->member_count; i++)
        if (same_token(admission->keys->members[i].public_key, token->bytes, token->size))
            whose = &admission->keys->members[i];
    if (whose == NULL)
        return "its token is no member's of this run";
    *ret_peer = whose->peer;
    return NULL;
}

static const char *admit_token(const psr_admission *admission, const psr_zap_request *request,
                               psr_peer *ret_peer)
{
    const psr_zap_frame *name = &request->frames[PSR_ZAP_CREDENTIALS], *token = name + 1;
    if (request->count < PSR_ZAP_CREDENTIALS + 2)
        return "no name and token";
    if (admission->keys->member_count > 0)
        return admit_own_token(admission, token, ret_peer);
    if (!same_token(admission->keys->token, token->bytes, token->size))
        return "the token is not this run's";
    char text[PSR_ADMISSION_NAME_BYTES];
    psr_zap_text(name, text, sizeof text);
    return psr_admission_read_name(text, ret_peer) ? NULL : "its name is not one of a member";
}

static const char *admit_key(const psr_admission *admission, const psr_zap_request *request,
                             psr_peer *ret_peer)
{
    const psr_zap_frame *key = &request->frames[PSR_ZAP_CREDENTIALS];
    char text[PSR_KEY_Z85];
    if (key->size != 32 || zmq_z85_encode(text, key->bytes, 32) == NULL)
        return "no key";
    for (size_t i = 0; i < admission->keys->member_count; i++)
        if (strcmp(admission->keys->members[i].public_key, text) == 0) {
            *ret_peer = admission->keys->members[i].peer;
            return NULL;
        }
    return "its key is not on the roster";
}

/* For the second connection. The name is the channel's number. */
static const char *admit_sealed(psr_admission *admission, const psr_zap_request *request,
                                psr_peer *ret_peer)
{
    const psr_zap_frame *name = &request->frames[PSR_ZAP_CREDENTIALS], *token = name + 1;
    char text[12];
    psr_zap_text(name, text, sizeof text);
    if (request->count < PSR_ZAP_CREDENTIALS + 2 || text[0] == '\0' ||
        text[strspn(text, "0123456789")] != '\0')
        return "it names no channel for sealed messages";
    unsigned long long channel = strtoull(text, NULL, 10);
    pthread_mutex_lock(&admission->expected_lock);
    bool is_one = channel < admission->expected_count &&
                  same_token(admission->expected[channel].token, token->bytes, token->size);
    if (is_one)
        *ret_peer = admission->expected[channel].peer;
    pthread_mutex_unlock(&admission->expected_lock);
    return is_one ? NULL : "its token is no channel's for sealed messages";
}

const char *psr_admission_admit(psr_admission *admission, const psr_zap_request *request,
                                psr_peer *ret_peer)
{
    const psr_zap_frame *mechanism = &request->frames[PSR_ZAP_MECHANISM];
    if (request->count <= PSR_ZAP_MECHANISM ||
        !psr_zap_is(&request->frames[PSR_ZAP_VERSION], "1.0"))
        return "a request that libzmq does not make";
    const bool sealed = psr_zap_is(&request->frames[PSR_ZAP_DOMAIN], PSR_ADMISSION_SEALED_DOMAIN);
    if (psr_zap_is(mechanism, "PLAIN") && sealed)
        return admit_sealed(admission, request, ret_peer);
    if (psr_zap_is(mechanism, "CURVE") && !sealed && admission->keys->curve)
        return admit_key(admission, request, ret_peer);
    if (psr_zap_is(mechanism, "PLAIN") && !sealed && !admission->keys->curve)
        return admit_token(admission, request, ret_peer);
    return "no security mechanism";
}

/* ---- tokens of the second connections ---- */

psr_err psr_admission_expect(psr_admission *admission, uint32_t channel, const char *token,
                             psr_peer admitted)
{
    psr_err err = PSR_OK;
    pthread_mutex_lock(&admission->expected_lock);
    if (channel >= admission->expected_count) {
        size_t count = 2 * (size_t)channel + 16;
        psr_expected *grown = psr_secret_grow(
            admission->expected, admission->expected_count * sizeof *grown, count * sizeof *grown);
        if (grown == NULL) {
            err = psr_fail(PSR_ERR_NOMEM, "no memory for %zu channels", count);
        } else {
            memset(grown + admission->expected_count, 0,
                   (count - admission->expected_count) * sizeof *grown);
            admission->expected = grown;
            admission->expected_count = count;
        }
    }
    if (err == PSR_OK) {
        psr_expected *e = &admission->expected[channel];
        e->peer = admitted;
        snprintf(e->token, sizeof e->token, "%s", token);
    }
    pthread_mutex_unlock(&admission->expected_lock);
    return err;
}

void psr_admission_expect_no_more(psr_admission *admission, uint32_t channel)
{
    pthread_mutex_lock(&admission->expected_lock);
    if (channel < admission->expected_count)
        explicit_bzero(&admission->expected[channel], sizeof *admission->expected);
    pthread_mutex_unlock(&admission->expected_lock);
}
