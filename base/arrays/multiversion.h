/* PSR_MULTIVERSION before a function: the compiler makes a version for each vector width, and the
 * loader picks the widest that the processor has. For loops over elements whose result does not
 * depend on the width: every element by itself, or sums in lanes that the code itself fixes.
 * (-ffp-contract=off holds in all versions.)
 *
 * Each version begins at a cache line, so that where its loop lies in the lines does not depend on
 * the code that the linker puts before it. Finding whether all values are finite took twice the
 * time on a Zen 1 where the function began half a line later. (clang refuses the two attributes
 * together, so its versions begin anywhere.)
 *
 * The pick is made by an ifunc when the program is loaded, before a sanitizer's run time is up, so
 * sanitized builds take the plain version. */
#ifndef PSR_BASE_ARRAYS_MULTIVERSION_H
#define PSR_BASE_ARRAYS_MULTIVERSION_H

#include <features.h> /* __GLIBC__, whichever header came first */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PSR_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define PSR_SANITIZED 1
#endif
#endif

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(PSR_SANITIZED) && defined(__has_attribute)
#if __has_attribute(target_clones) && defined(__clang__)
#define PSR_MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default")))
#elif __has_attribute(target_clones)
#define PSR_MULTIVERSION __attribute__((target_clones("avx512f", "avx2", "default"), aligned(64)))
#endif
#endif
#ifndef PSR_MULTIVERSION
#define PSR_MULTIVERSION
#endif

#endif
