/* The wire format of shared memory (docs/wire.md). A reference stands in a message in place of its
 * payload. Records are exchanged by two processes of a host over a Unix socket beside the messages;
 * the one that passes memory carries its descriptor. Bytes that come in may be hostile. No state
 * but the caller's; one thread for each stream. */
#ifndef PSR_NET_SHARING_SHARE_WIRE_H
#define PSR_NET_SHARING_SHARE_WIRE_H

#include "net/trust/bindings.h"

/* ---- in a message: frame 2 in place of a payload ---- */

#define PSR_REFERENCE_BYTES 24
/* Smaller payloads are sent as messages: a copy costs less than a return. A reference is smaller
 * than this, so it is never taken for a payload. */
#define PSR_REFERENCE_LEAST ((size_t)4096)

typedef struct psr_reference {
    uint32_t arena;  /* numbered by the sender */
    uint64_t offset; /* of the payload's first byte in the arena */
    uint64_t token;  /* the payload is returned under it */
} psr_reference;

/* Whether the payload of a message with that head may be given by reference. True for plain values:
 * float32, or of any type in VALUES, whose receiver reads each value once. False for payloads that
 * contain counts or offsets, because their owner could change those between the receiver's check
 * and its use. */
bool psr_reference_may(const psr_head *head);
/* The alignment that such a payload needs, in bytes. */
size_t psr_reference_alignment(const psr_head *head);

void psr_reference_encode(const psr_reference *reference, uint8_t bytes[PSR_REFERENCE_BYTES]);
/* false: the bytes are no reference. */
bool psr_reference_decode(const void *bytes, size_t size, psr_reference *ret_reference);

/* ---- on the Unix socket ---- */

#define PSR_SHARED_ARENAS_MAX 16 /* of one process at a time, towards one other */

typedef enum psr_record_kind {
    /* from the lender to the borrower */
    /* the first record: the routing id of the lender's channel, which names it ("PSR1") */
    PSR_RECORD_HELLO = 0x50535231,
    PSR_RECORD_ARENA, /* an arena and its bytes, with its descriptor */
    /* from the borrower to the lender */
    PSR_RECORD_TAKEN,    /* the arena is mapped: it may be referred to */
    PSR_RECORD_REFUSED,  /* the arena is not mapped; value is the errno */
    PSR_RECORD_RETURNED, /* the loan under the token in value ends */
    /* from the lender to the borrower: nothing of the arena is lent any more. The borrower unmaps
     * it, and the lender may give its number to another arena */
    PSR_RECORD_WITHDRAWN,
    /* from the lender to the borrower: memory of a pipe (net/sharing/pipe.h) and its bytes, with
     * its descriptor */
    PSR_RECORD_PIPE,
    /* the answer: the borrower's board and its bytes, with its descriptor; in place of an arena the
     * pipe's place there. Without a descriptor and with 0 bytes: it reads no pipe */
    PSR_RECORD_BOARD,
    PSR_RECORD_WAKE, /* from the lender to the borrower, which sleeps: its pipe has something */
    /* between a member and its scheduler (net/sharing/lives.h), where HELLO comes first, both ways:
     * the sender ends in order */
    PSR_RECORD_BYE,
} psr_record_kind;

/* In the host's byte order, since both are on one host. */
typedef struct psr_record {
    uint32_t kind, arena;
    uint64_t value;
    uint8_t id[PSR_ROUTING_ID_BYTES];
} psr_record;

/* A stream of records, each with one descriptor at most. */
typedef struct psr_record_stream {
    int fd;     /* owned; -1: closed */
    int passed; /* owned: it came with the record that is not complete yet; -1: none */
    size_t have;
    uint8_t bytes[sizeof(psr_record)];
} psr_record_stream;

typedef enum psr_record_read_result {
    PSR_RECORD_COMPLETE,
    PSR_RECORD_NONE_YET,
    PSR_RECORD_CLOSED, /* by the other side */
    PSR_RECORD_BROKEN, /* more descriptors than one with a record */
} psr_record_read_result;

psr_record_stream psr_record_stream_of(int fd);
/* Reads without waiting. *ret_passed: a descriptor, which the caller owns, or -1. */
psr_record_read_result psr_record_read(psr_record_stream *stream, psr_record *ret_record,
                                       int *ret_passed);
/* Closes the stream; does nothing if it is closed. */
void psr_record_stream_close(psr_record_stream *stream);

typedef enum psr_record_write_result {
    PSR_RECORD_WRITTEN,
    PSR_RECORD_FULL, /* nothing was written: the other side does not read */
    PSR_RECORD_GONE,
} psr_record_write_result;

/* Writes all of them or none, without waiting; at most PSR_RECORDS_AT_ONCE. pass: a descriptor that
 * is sent with them, or -1. */
#define PSR_RECORDS_AT_ONCE 32
psr_record_write_result psr_record_write(int fd, const psr_record *records, size_t count, int pass);

/* ---- sockets ---- */

#define PSR_SHARE_PATH_BYTES 108 /* sun_path */

/* The Unix socket at which the process with the endpoint "ipc:///DIRECTORY/NAME" takes descriptors:
 * "/DIRECTORY/NAME.fd". false: it is no such endpoint, or the path is too long for a socket. */
bool psr_share_path(const char *endpoint, char ret_path[PSR_SHARE_PATH_BYTES]);
/* Whether both paths name sockets in one directory. The texts are compared: another spelling of the
 * same directory does not count. */
bool psr_share_path_is_beside(const char *path, const char *other);
/* The user of the process at the other end of a Unix socket, according to the kernel. false: not
 * known. */
bool psr_share_user(int fd, unsigned *ret_user);

#endif
