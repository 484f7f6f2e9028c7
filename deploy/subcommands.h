/* The subcommands of a front door, `psring COMMAND` and `psring bench WHAT`: listed in its help, in
 * its manual page and in bash's completion. One thread. */
#ifndef PSR_DEPLOY_SUBCOMMANDS_H
#define PSR_DEPLOY_SUBCOMMANDS_H

#include <stddef.h>
#include <stdio.h>

typedef struct psr_subcommand {
    const char *name, *help;
    /* argv[0]: the name, or what the front door makes of it; returns the exit status */
    int (*run)(int argc, char **argv);
} psr_subcommand;

typedef struct psr_subcommands {
    const psr_subcommand *rows;
    size_t count;
    const char *pages; /* the beginning of the name of each one's manual page */
} psr_subcommands;

/* NULL: there is none of that name. */
const psr_subcommand *psr_subcommands_find(const psr_subcommands *list, const char *name);

/* Refuses a name that is not one, in a line to stderr: "PROGRAM: 'trian' is not KIND (train?);
 * there are ..". Returns the exit status. */
int psr_subcommands_refuse(const psr_subcommands *list, const char *program, const char *kind,
                           const char *name);

/* A line for each: its name and its help. */
void psr_subcommands_help(const psr_subcommands *list, FILE *to);

/* A section of that title, with an item for each (base/config/manual.h). */
void psr_subcommands_manual(const psr_subcommands *list, const char *title, FILE *to);

/* The last section of a manual page: others, names of pages with blanks between, and the page of
 * each. */
void psr_subcommands_see_also(const psr_subcommands *list, const char *others, FILE *to);

/* The rows of bash's tables for program, its options given with blanks between
 * (deploy/manual/psring.bash). */
void psr_subcommands_completion(const psr_subcommands *list, const char *program,
                                const char *options, FILE *to);

/* A front door below psring: `psring bench WHAT`, `psring data WHAT`. */
typedef struct psr_front_door {
    const psr_subcommands *list;
    const char *program;               /* "psring bench" */
    const char *title;                 /* of the manual page: what it does */
    const char *heading, *man_heading; /* over the list, in the help and in the manual page */
    const char *kind;                  /* what a WHAT is: "a measurement" */
    const char *about;                 /* a paragraph */
    const char *rest;                  /* "the options": of what `WHAT --help` tells */
    const char *example;               /* lines */
    const char *others;                /* pages to see, with blanks between */
    void (*complete)(FILE *to);        /* more of bash's tables; NULL: none */
} psr_front_door;

/* Does what the words say: the help, or for those who build psring the manual page and the
 * completion, or the subcommand that is named. The exit status. */
int psr_front_door_run(const psr_front_door *door, int argc, char **argv);

#endif
