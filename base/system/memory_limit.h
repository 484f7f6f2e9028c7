/* The memory that a control group leaves to this process. No state; any thread. */
#ifndef PSR_BASE_SYSTEM_MEMORY_LIMIT_H
#define PSR_BASE_SYSTEM_MEMORY_LIMIT_H

#include <stdint.h>

/* The smallest limit among this process's control group and those that it is in, in bytes.
 * UINT64_MAX: there is none, or the system does not say. Of version 2 (memory.max) and version 1
 * (memory.limit_in_bytes). What is swapped out does not count. groups: "/proc/self/cgroup"; mount:
 * "/sys/fs/cgroup". */
uint64_t psr_memory_limit(const char *groups, const char *mount);

/* Bytes that processes of this control group can still take: what the system calls available, or
 * what the group and those that it is in leave, if that is less. Pages of files that a group has
 * cached count as free, since the kernel drops them when memory is wanted. meminfo:
 * "/proc/meminfo"; groups, mount: as above. UINT64_MAX: the system does not say. */
uint64_t psr_memory_available(const char *meminfo, const char *groups, const char *mount);

#endif
