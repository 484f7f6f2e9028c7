/* How this process's malloc treats large blocks, and what becomes of their pages. Any thread. */
#ifndef PSR_BASE_SYSTEM_MEMORY_H
#define PSR_BASE_SYSTEM_MEMORY_H

#include <stddef.h>

/* From now on freed blocks stay with the process, so that buffers of some hundred KiB come from
 * pages that it already has. By default glibc maps and unmaps each of them: one exchange of
 * ResNet-50's gradients then takes 26,000 page faults, half of its time. Called first in main, by
 * programs that exchange. */
void psr_memory_keep_pages(void);

/* Gives freed pages back to the system now. For use after something large was freed that is not
 * needed again. */
void psr_memory_give_back(void);

/* Gives the whole pages of a part of a block of malloc's back to the system now. What they held is
 * lost; they may be written again, and the block is freed as ever. */
void psr_memory_drop(void *at, size_t bytes);

#endif
