#include "base/text/command_text.h"

#include "base/text/printable.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char harmless[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "-_=+./:,@%^";

typedef struct writer {
    char *text;
    size_t used;
    bool full;
} writer;

static void put(writer *w, const char *piece, size_t size)
{
    w->full = w->full || w->used + size + sizeof " ..." > PSR_COMMAND_MAX;
    if (w->full)
        return;
    memcpy(w->text + w->used, piece, size);
    w->used += size;
}

static void put_word(writer *w, const char *word)
{
    const size_t length = strlen(word);
    if (length > 0 && strspn(word, harmless) == length) {
        put(w, word, length);
        return;
    }
    put(w, "'", 1);
    for (const char *at = word; *at != '\0'; at++)
        put(w, *at == '\'' ? "'\\''" : at, *at == '\'' ? 4 : 1);
    put(w, "'", 1);
}

void psr_command_text(int argc, const char *const *argv, char text[static PSR_COMMAND_MAX])
{
    writer w = {.text = text};
    for (int i = 0; i < argc; i++) {
        put(&w, " ", i > 0);
        if (i == 0)
            put(&w, argv[0], strlen(argv[0]));
        else
            put_word(&w, argv[i]);
    }
    memcpy(text + w.used, w.full ? " ..." : "", w.full ? sizeof " ..." : 1);
    psr_printable_line(text, strlen(text));
}
