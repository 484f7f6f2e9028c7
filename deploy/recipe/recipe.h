/* Recipes: text files with the options of a whole training run, which anybody can write.
 *
 *     # ResNet-20 on CIFAR-10, 91.25%      the first line: what it is
 *     --model resnet20                     an option a line, as on a command line
 *     --lr=0.1
 *     --nesterov                           a flag; --no-nesterov
 *
 * Lines that begin with # and empty lines are comments. An option stands once. Options that name a
 * run's place (--out, --resume), that protect it or that stop it are the command line's alone.
 * Installed recipes are NAME.recipe in psring's data folder. One thread. */
#ifndef PSR_DEPLOY_RECIPE_RECIPE_H
#define PSR_DEPLOY_RECIPE_RECIPE_H

#include "base/config/config.h"

#include <stdio.h>

typedef struct psr_recipe {
    char path[PSR_PATH_MAX + 64];
    psr_config config; /* the defaults with the recipe's options; workers is 0 if it gives none */
    /* The names of the options that it sets, in its order; static storage. */
    const char *names[128];
    size_t count;
} psr_recipe;

/* recipe: the path of a file, which has a slash in it, or the name of an installed recipe. USAGE:
 * no such recipe (the message lists those there are), or what is wrong in which line; IO. */
PSR_MUST_CHECK psr_err psr_recipe_read(const char *recipe, psr_recipe *ret_recipe);

/* Prints the recipe's options, a line each, and which of them config has otherwise. */
void psr_recipe_print(const psr_recipe *recipe, const psr_config *config, FILE *stream);

/* Prints the names of the installed recipes and what each is. NOT_FOUND: the folder. */
PSR_MUST_CHECK psr_err psr_recipe_list(FILE *stream);

#endif
