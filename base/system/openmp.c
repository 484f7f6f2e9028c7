#include "base/system/openmp.h"

#include <limits.h>
#include <unistd.h>

#define TEXT_OF(number) #number
#define SPINS_OF(number) "GOMP_SPINCOUNT=" TEXT_OF(number)

bool psr_openmp_set(psr_environment *environment)
{
    if (psr_environment_has(environment, "GOMP_SPINCOUNT") ||
        psr_environment_has(environment, "OMP_WAIT_POLICY"))
        return false;
    psr_environment_set(environment, SPINS_OF(PSR_OPENMP_SPINS));
    return true;
}

/* By the program's own path: executed by the link's path, tools would name it "exe". */
static void begin_again(char *const *words, char *const *environment)
{
    char path[PATH_MAX];
    const ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0)
        return;
    path[size] = '\0';
    (void)execve(path, words, environment);
}

void psr_openmp_begin(char *const *words)
{
    psr_environment environment;
    if (psr_environment_begin(1, &environment) != PSR_OK)
        return;
    if (psr_openmp_set(&environment))
        begin_again(words, environment.items);
    psr_environment_done(&environment);
}
