/* A command line as one line of text that a shell reads back. No state; any thread. */
#ifndef PSR_BASE_TEXT_COMMAND_TEXT_H
#define PSR_BASE_TEXT_COMMAND_TEXT_H

#define PSR_COMMAND_MAX 8192

/* The first word is the command itself, as it is: "psring train". Words after it that a shell would
 * split or change stand between single quotes. Control characters become '?', and what does not
 * fit "...". */
void psr_command_text(int argc, const char *const *argv, char text[static PSR_COMMAND_MAX]);

#endif
