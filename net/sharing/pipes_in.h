/* The pipes that a process reads (net/sharing/pipe.h), and its board. One thread at a time, except
 * for psr_pipes_in_sleep and psr_pipes_in_awake, which any thread may call at any time.
 *
 * Who is woken: a writer wakes this process once for each number of a sleep (psr_pipe_must_wake).
 * The wake may be taken by the thread that reads, while another thread sleeps on. So who takes it
 * gives the sleep a new number, and then looks at the pipes. */
#ifndef PSR_NET_SHARING_PIPES_IN_H
#define PSR_NET_SHARING_PIPES_IN_H

#include "net/sharing/pipe.h"
#include "net/sharing/shared_arena.h"
#include "net/trust/bindings.h"

typedef struct psr_pipes_in psr_pipes_in;

/* Errors: those of psr_shared_arena_new. The caller owns *ret_pipes. */
PSR_MUST_CHECK psr_err psr_pipes_in_new(psr_pipes_in **ret_pipes);
/* NULL allowed. */
void psr_pipes_in_free(psr_pipes_in *pipes);

/* The board's memory, for others to map: a psr_board. Borrowed for life. */
const psr_shared_arena *psr_pipes_in_board(const psr_pipes_in *pipes);

/* Reads that ring from now on. It is borrowed until psr_pipes_in_remove. id: the routing id of the
 * writer's channel. NOMEM: there were PSR_PIPES_MAX already. A place is given once. */
PSR_MUST_CHECK psr_err psr_pipes_in_add(psr_pipes_in *pipes, const uint8_t *ring,
                                        const uint8_t id[PSR_ROUTING_ID_BYTES],
                                        uint32_t *ret_place);
void psr_pipes_in_remove(psr_pipes_in *pipes, uint32_t place);

/* A record, and whose pipe it is in. */
typedef struct psr_piped {
    uint32_t place;
    uint8_t id[PSR_ROUTING_ID_BYTES];
    psr_pipe_record record;
} psr_piped;

/* The next record of the pipe whose turn it is. EMPTY: none has one, but for those that are held
 * up. BROKEN: of ret_piped only place and id are set. */
psr_pipe_look_result psr_pipes_in_look(psr_pipes_in *pipes, psr_piped *ret_piped);
/* The same of one writer's pipe, held up or not. EMPTY also if there is no such pipe. */
psr_pipe_look_result psr_pipes_in_look_at(psr_pipes_in *pipes,
                                          const uint8_t id[PSR_ROUTING_ID_BYTES],
                                          psr_piped *ret_piped);
/* The record was read. */
void psr_pipes_in_next(psr_pipes_in *pipes, const psr_piped *piped);
/* A message that comes by the socket must be read before this record, so nobody stays awake for the
 * pipe until psr_pipes_in_go_on, which is for all pipes. */
void psr_pipes_in_hold_up(psr_pipes_in *pipes, uint32_t place);
void psr_pipes_in_go_on(psr_pipes_in *pipes);

/* Whether there are pipes; whether one has a record and is not held up. */
bool psr_pipes_in_are(const psr_pipes_in *pipes);
bool psr_pipes_in_any(const psr_pipes_in *pipes);

/* Says on the board that this process sleeps: from now on a writer wakes it. false: there is a
 * record, so it should not. After either psr_pipes_in_awake must follow. Several threads may
 * sleep. */
bool psr_pipes_in_sleep(psr_pipes_in *pipes);
/* What may have been a wake was taken. If threads still sleep, they are woken again. Look at the
 * pipes after this. */
void psr_pipes_in_woken(psr_pipes_in *pipes);
void psr_pipes_in_awake(psr_pipes_in *pipes);

#endif
