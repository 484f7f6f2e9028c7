#include "base/text/text.h"

#include <stdarg.h>
#include <stdio.h>

void psr_text_add(psr_text_end *end, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(end->at, end->room, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= end->room)
        length = (int)end->room - 1;
    end->at += length;
    end->room -= (size_t)length;
}
