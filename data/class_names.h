/* The names of a data set's classes, where they are known: those of its source (folders of
 * pictures, packs), else what the directory says (classes.txt, or the lists that come with CIFAR:
 * one name a line), else what is known of samples with this content (MNIST, Fashion-MNIST,
 * CIFAR-10, whatever their directory is called). No state; any thread. */
#ifndef PSR_DATA_CLASS_NAMES_H
#define PSR_DATA_CLASS_NAMES_H

#include "base/content.h"
#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

/* spec: as psr_dataset_open's. given: [classes], the source's; NULL: it has none. Each name is
 * ended by a newline. "": they are not known, or are not as many as classes, or do not fit into
 * size. */
void psr_class_names(const char *spec, const char *const *given, const psr_content *content,
                     uint32_t classes, char *names, size_t size);

#endif
