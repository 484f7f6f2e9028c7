/* `psring predict`: starts the program psring-predict, which lies beside this one: only that links
 * the machines of training. A lab's file is read here, and handed on as options. */
#include "deploy/commands.h"

#include "base/system/child.h"
#include "base/system/cpus.h"
#include "base/text/printable.h"
#include "deploy/lab/predicted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAB_OPTION "--lab"

/* Takes --lab FILE or --lab=FILE out of the words; the last one counts. NULL: there is none. */
static const char *take_lab(int *argc, char **argv)
{
    const size_t length = sizeof LAB_OPTION - 1;
    const char *file = NULL;
    int kept = 1;
    for (int i = 1; i < *argc; i++) {
        if (strcmp(argv[i], LAB_OPTION) == 0 && i + 1 < *argc)
            file = argv[++i];
        else if (strncmp(argv[i], LAB_OPTION "=", length + 1) == 0)
            file = argv[i] + length + 1;
        else
            argv[kept++] = argv[i];
    }
    argv[kept] = NULL;
    *argc = kept;
    return file;
}

/* What is asked of the program alone: no file need be there. */
static bool asks_for_help(int argc, char **argv)
{
    static const char *const words[] = {"--help", "-?", "--usage", "--version", "-V", "--describe"};
    for (int i = 1; i < argc; i++)
        for (size_t k = 0; k < sizeof words / sizeof *words; k++)
            if (strcmp(argv[i], words[k]) == 0)
                return true;
    return false;
}

/* The lab's options come first, so that those of the command line win. */
static psr_err run_with_lab(const char *file, int argc, char **argv)
{
    psr_lab lab;
    PSR_TRY(psr_lab_read(file, &lab));
    const psr_cpus allowed = psr_cpus_allowed();
    psr_lab_predicted *told = calloc(1, sizeof *told);
    char **words = calloc((size_t)argc + PSR_LAB_PREDICTED_WORDS + 1, sizeof *words);
    psr_err err =
        told != NULL && words != NULL ? PSR_OK : psr_fail(PSR_ERR_NOMEM, "no memory for words");
    if (err == PSR_OK)
        err = psr_lab_predict(&lab, psr_cpus_count(&allowed), told);
    if (err == PSR_OK) {
        words[0] = argv[0];
        memcpy(words + 1, told->words, told->count * sizeof *words);
        memcpy(words + 1 + told->count, argv + 1, (size_t)argc * sizeof *words); /* with the NULL */
        err = psr_program_become("psring-predict", words);
    }
    free(told);
    free(words);
    return err;
}

int psr_command_predict(int argc, char **argv)
{
    const char *file = take_lab(&argc, argv);
    const psr_err err = file != NULL && !asks_for_help(argc, argv)
                            ? run_with_lab(file, argc, argv)
                            : psr_program_become("psring-predict", argv);
    psr_print(stderr, "psring predict: %s\n", psr_err_detail());
    return psr_err_exit_status(err);
}
