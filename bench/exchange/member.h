/* A process of bench_exchange: a worker with the real engine, or a shard, and a real transport. */
#ifndef PSR_BENCH_EXCHANGE_MEMBER_H
#define PSR_BENCH_EXCHANGE_MEMBER_H

#include "bench/exchange/plan.h"

/* link: to the parent, which gives it the others' places and begins each round. A shard is ended by
 * the parent. */
_Noreturn void bench_member_main(const bench_run *b, uint32_t index, int link);

#endif
