/* psring's side of test_optimizers_peer.py.
 *
 * usage: optimizer_peer COUNT UPDATES OPTION=VALUE..
 * Reads COUNT weights and then UPDATES gradients of as many, all float32. Writes after each update
 * its learning rate and the weights. The run has UPDATES steps. */
#include "model/optimizers/optimizer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(psr_err err)
{
    if (err == PSR_OK)
        return;
    fprintf(stderr, "optimizer_peer: %s\n", psr_err_detail());
    exit(1);
}

static void read_floats(float *floats, size_t count)
{
    if (fread(floats, sizeof *floats, count, stdin) == count)
        return;
    fprintf(stderr, "optimizer_peer: too few floats\n");
    exit(1);
}

static void set_options(psr_config *config, char **words)
{
    psr_config_defaults(config);
    for (; *words != NULL; words++) {
        char *equals = strchr(*words, '=');
        if (equals == NULL)
            continue;
        *equals = '\0';
        check(psr_config_set(config, *words, equals + 1));
    }
}

int main(int argc, char **argv)
{
    const uint32_t count = argc > 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    const uint64_t updates = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    psr_config config;
    psr_layout layout = {0};
    psr_optimizer *optimizer = NULL;
    if (count == 0)
        return 2;
    set_options(&config, argv + 3);
    check(psr_layout_add(&layout, "w", 2, (uint32_t[]){count, 1})); /* LAMB scales no vector */
    check(psr_optimizer_new(&config, &layout, &optimizer));
    float *weights = calloc(layout.length, sizeof *weights),
          *gradients = calloc(layout.length, sizeof *gradients);
    if (weights == NULL || gradients == NULL)
        return 1;
    read_floats(weights, count);
    for (uint64_t step = 0; step < updates; step++) {
        const float lr = psr_schedule_lr(&config, step, updates);
        read_floats(gradients, count);
        if (psr_optimizer_whole_tensors(optimizer))
            psr_optimizer_update_tensor(optimizer, weights, gradients, 0, lr, step + 1);
        else
            psr_optimizer_update(optimizer, weights, gradients, 0, layout.length, lr, step + 1);
        fwrite(&lr, sizeof lr, 1, stdout);
        fwrite(weights, sizeof *weights, count, stdout);
    }
    free(weights);
    free(gradients);
    psr_optimizer_free(optimizer);
    psr_layout_done(&layout);
    return fflush(stdout) == 0 ? 0 : 1;
}
