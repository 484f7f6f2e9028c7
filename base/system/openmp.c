#include "base/system/openmp.h"

#include <limits.h>
#include <unistd.h>

#define TEXT_OF(number) #number
#define SPINS_OF(number) "GOMP_SPINCOUNT=" TEXT_OF(number)

void psr_openmp_set(psr_environment *environment)
{
    if (!psr_environment_has(environment, "GOMP_SPINCOUNT") &&
        !psr_environment_has(environment, "OMP_WAIT_POLICY"))
        psr_environment_set(environment, SPINS_OF(PSR_OPENMP_SPINS));
}

/* By its path: by that of the link, tools would call it "exe". */
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
    const size_t count = environment.count;
    psr_openmp_set(&environment);
    if (environment.count > count)
        begin_again(words, environment.items);
    psr_environment_done(&environment);
}
