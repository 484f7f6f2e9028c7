/* Of a build whose sanitizer leaves no place for watch.c. */
#include "tests/emulator/cuda/watch.h"

void psr_watch_forget(void)
{
}
