/* `psring bench exchange`: starts psring-bench-exchange, on this machine or on others. */
#ifndef PSR_DEPLOY_BENCH_EXCHANGE_H
#define PSR_DEPLOY_BENCH_EXCHANGE_H

/* argv[0] is "exchange". Returns, if at all, the exit status; prints. */
int psr_bench_exchange(int argc, char **argv);

#endif
