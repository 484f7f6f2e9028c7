/* For the test "hardened": a program that is built without anything that it looks for. */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char text[64];
    strncpy(text, argv[argc - 1], sizeof text - 1);
    text[sizeof text - 1] = '\0';
    return puts(text) < 0;
}
