/* How members are called in the handshake, and in the User-Id of their messages. */
#include "net/trust/admission_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USER_MARK '#' /* "worker 1#17" */

void psr_admission_name(psr_peer peer, char name[PSR_ADMISSION_NAME_BYTES])
{
    if (peer.rank == PSR_RANK_ANY)
        snprintf(name, PSR_ADMISSION_NAME_BYTES, "%s any", psr_role_name(peer.role));
    else
        snprintf(name, PSR_ADMISSION_NAME_BYTES, "%s %" PRIu32, psr_role_name(peer.role),
                 peer.rank);
}

bool psr_admission_read_name(const char *name, psr_peer *ret_peer)
{
    const char *space = strchr(name, ' ');
    if (space == NULL)
        return false;
    psr_peer peer = {.rank = PSR_RANK_ANY};
    for (peer.role = PSR_ROLE_SCHEDULER; peer.role <= PSR_ROLE_WORKER; peer.role++) {
        const char *role = psr_role_name(peer.role);
        if (strlen(role) == (size_t)(space - name) && memcmp(role, name, strlen(role)) == 0)
            break;
    }
    if (peer.role > PSR_ROLE_WORKER)
        return false;
    const char *digits = space + 1;
    if (strcmp(digits, "any") != 0) {
        if (*digits == '\0' || strlen(digits) > 9 || digits[strspn(digits, "0123456789")] != '\0')
            return false;
        peer.rank = (uint32_t)strtoul(digits, NULL, 10);
    }
    *ret_peer = peer;
    return true;
}

void psr_admission_user_write(psr_peer admitted, uint64_t number,
                              char user[PSR_ADMISSION_USER_BYTES])
{
    char name[PSR_ADMISSION_NAME_BYTES];
    psr_admission_name(admitted, name);
    snprintf(user, PSR_ADMISSION_USER_BYTES, "%s%c%" PRIu64, name, USER_MARK, number);
}

bool psr_admission_user_read(const char *user, psr_peer *ret_admitted, uint64_t *ret_number)
{
    char name[PSR_ADMISSION_NAME_BYTES];
    const char *mark = strchr(user, USER_MARK);
    if (mark == NULL || (size_t)(mark - user) >= sizeof name)
        return false;
    snprintf(name, sizeof name, "%.*s", (int)(mark - user), user);
    if (!psr_admission_read_name(name, ret_admitted))
        return false;
    *ret_number = strtoull(mark + 1, NULL, 10);
    return true;
}
