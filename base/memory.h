/* How this process's malloc treats large blocks. */
#ifndef PSR_BASE_MEMORY_H
#define PSR_BASE_MEMORY_H

/* From now on freed blocks stay with the process, so that messages of some hundred KiB are carved from pages that it
 * already has. By default glibc maps and unmaps each of them: 26,000 page faults for one exchange of ResNet-50's
 * gradients, half of its time. Called first in main, by programs that exchange. */
void psr_memory_keep_pages(void);

/* Freed pages go back to the system after all: after something large was freed that does not come again. */
void psr_memory_give_back(void);

#endif
