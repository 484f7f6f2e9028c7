/* Statuses and error detail.
 *
 * A fallible function returns psr_err; zero is success. The detail text (what, where, what would
 * be right: one line, no newline) is kept per thread, like dlerror. Foreign codes (errno, zmq,
 * oneDNN) are converted in the one file that calls that library. Any thread. */
#ifndef PSR_BASE_ERR_H
#define PSR_BASE_ERR_H

#define PSR_MUST_CHECK __attribute__((warn_unused_result))
#define PSR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

typedef enum psr_err {
    PSR_OK = 0,
    PSR_ERR_NOMEM,       /* out of memory */
    PSR_ERR_USAGE,       /* a wrong option or argument of the user */
    PSR_ERR_FORMAT,      /* a file's bytes do not have the expected format */
    PSR_ERR_IO,          /* the operating system refused: file, disk, socket */
    PSR_ERR_NOT_FOUND,   /* a file, tensor, host or name is missing */
    PSR_ERR_TIMEOUT,     /* a deadline passed */
    PSR_ERR_PROTOCOL,    /* a member of the roster broke the protocol */
    PSR_ERR_VERSION,     /* another version of the protocol or of a file format */
    PSR_ERR_DENIED,      /* a process that is not on the roster, or has a wrong key or token */
    PSR_ERR_PEER,        /* another process of the run failed or is gone */
    PSR_ERR_CANCELLED,   /* the run was told to end */
    PSR_ERR_NUMERIC,     /* a number is not finite, or differs from another rank's */
    PSR_ERR_COMPUTE,     /* the compute library failed */
    PSR_ERR_UNSUPPORTED, /* valid, but not supported with this build, device or combination */
    PSR_ERR_MISMATCH, /* two ranks of a group made different calls where both must make the same */
    PSR_ERR_BROKEN,   /* it failed before, and the failure was reported then */
    PSR_ERR_BUSY,     /* it has not ended yet */
    PSR_ERR_FULL,     /* no room on a disk, or a quota or limit on files is used up */
    PSR_ERR_LAST = PSR_ERR_FULL,
} psr_err;

/* Records the detail for this thread and returns code, so that `return psr_fail(...)` reads
 * well. */
psr_err psr_fail(psr_err code, const char *format, ...) PSR_PRINTF(2, 3);

/* Puts a prefix and ": " before the detail of this thread; returns code unchanged. */
psr_err psr_fail_context(psr_err code, const char *format, ...) PSR_PRINTF(2, 3);

/* The detail of the last failure on this thread; "" when there was none. Borrowed until the next
 * psr_fail on this thread. */
const char *psr_err_detail(void);

/* Save and restore the detail of this thread: for a failure that is handled on the way to a
 * success, and that no caller should see. */
#define PSR_ERR_DETAIL_BYTES 1024
void psr_err_detail_keep(char ret_kept[PSR_ERR_DETAIL_BYTES]);
void psr_err_detail_restore(const char kept[PSR_ERR_DETAIL_BYTES]);

/* The field's word for a code: "timeout", "format", ... */
const char *psr_err_name(psr_err code);

/* What main() exits with: 0 success; 2 bad input (usage, format, not found, I/O on the user's
 * files, unsupported, mismatch); 3 a member broke the protocol or speaks another version; 130
 * cancelled; else 1. */
int psr_err_exit_status(psr_err code);

/* The code of a failed write or creation of a file: FULL or IO. number: its errno. */
psr_err psr_err_of_write(int number);

/* For functions that hold no resources. With resources, use one forward `goto out`. */
#define PSR_TRY(expr)                                                                              \
    do {                                                                                           \
        psr_err psr_try_err_ = (expr);                                                             \
        if (psr_try_err_ != PSR_OK)                                                                \
            return psr_try_err_;                                                                   \
    } while (0)

#endif
