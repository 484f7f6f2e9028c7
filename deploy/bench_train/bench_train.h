/* `psring bench train`: which architecture for a network, with how many shards, and why. */
#ifndef PSR_DEPLOY_BENCH_TRAIN_BENCH_TRAIN_H
#define PSR_DEPLOY_BENCH_TRAIN_BENCH_TRAIN_H

/* argv[0] is "psring bench train". places: the words of the command line that say where processes
 * go, for psring train; argc and argv are without them. Prints; returns the exit status. */
int psr_bench_train(int argc, char **argv, const char *const *places);

#endif
