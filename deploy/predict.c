/* `psring predict`: starts the program psring-predict, which lies beside this one: only that links
 * the machines of training. */
#include "deploy/commands.h"

#include "base/system/child.h"
#include "base/text/printable.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int psr_command_predict(int argc, char **argv)
{
    char path[PATH_MAX];
    (void)argc;
    if (psr_program_path("psring-predict", path, sizeof path) != PSR_OK) {
        psr_print(stderr, "psring predict: %s\n", psr_err_detail());
        return 1;
    }
    execv(path, argv);
    psr_print(stderr, "psring predict: %s: %s\n", path, strerror(errno));
    return 1;
}
