/* A trainer of three ranks that one process plays (--mode local), on a small network and generated
 * data. */
#ifndef PSR_TESTS_LOCAL_TRAINER_H
#define PSR_TESTS_LOCAL_TRAINER_H

#include "tests/unit/expect.h"

#include "worker/exchange/exchange_private.h"
#include "worker/trainer.h"

extern psr_config config;
extern psr_network *net;
extern psr_session *session;
extern psr_exchange *exchange;
extern psr_trainer trainer;

/* Fills config. */
void configure_trainer(uint32_t test_count);
/* Steps, and transport and member if the test needs them: the options'. The session goes without a
 * thread. */
void open_trainer(psr_session_options options);
/* After what is lent to the transport has come back. */
void close_trainer(void);

#endif
