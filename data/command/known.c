#include "data/command/known.h"

#include <string.h>

static const psr_known_set sets[] = {
    {.name = "mnist",
     .base = "https://ossci-datasets.s3.amazonaws.com/mnist/",
     .origin = "PyTorch's copy; the authors' page no longer gives the files",
     .files = {{"train-images-idx3-ubyte.gz",
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
               {"train-labels-idx1-ubyte.gz",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
               {"t10k-images-idx3-ubyte.gz",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
               {"t10k-labels-idx1-ubyte.gz",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}},
     .content = "86c56f377e526296b0dc0f5e4a7857fc-30e25e056618b2461c381e8f700ba981"},
    {.name = "fashion-mnist",
     .base = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
     .origin = "the authors' repository",
     .files = {{"train-images-idx3-ubyte.gz",
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
               {"train-labels-idx1-ubyte.gz",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
               {"t10k-images-idx3-ubyte.gz",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
               {"t10k-labels-idx1-ubyte.gz",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}},
     .content = "a3d983fdd7122e9d207e5a9942fefd5c-28a52398b4b1e25a153a8b3e6ccf2811"},
    {.name = "cifar10",
     .base = "https://www.cs.toronto.edu/~kriz/",
     .origin = "the author's page",
     .files = {{"cifar-10-binary.tar.gz",
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}},
     .folder = "cifar-10-batches-bin",
     .content = "c8f87fbd5def679620f07ada62097105-3a9352fb33fa5c9d538d78bc6bfb5dc5"},
    {.name = "cifar100",
     .base = "https://www.cs.toronto.edu/~kriz/",
     .origin = "the author's page",
     .files = {{"cifar-100-binary.tar.gz",
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"}},
     .folder = "cifar-100-binary",
     .content = ""},
};

enum { SETS = sizeof sets / sizeof sets[0] };

const psr_known_set *psr_known_set_at(size_t i)
{
    return i < SETS ? &sets[i] : NULL;
}

const psr_known_set *psr_known_set_find(const char *name)
{
    for (size_t i = 0; i < SETS; i++)
        if (strcmp(sets[i].name, name) == 0)
            return &sets[i];
    return NULL;
}
