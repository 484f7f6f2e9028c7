#include "data/command/download.h"

#if PSR_CURL

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A server that sends less than this for so long has stopped. */
#define SLOWEST_BYTES_PER_S 1L
#define PATIENCE_S 60L
#define CONNECT_S 30L

typedef struct download {
    const atomic_bool *stop;
    psr_data_bar *bar;
    FILE *file;
    uint64_t before; /* bytes that the file had before this transfer */
    int failure;     /* errno of a write that failed */
} download;

static size_t write_body(char *bytes, size_t one, size_t size, void *context)
{
    download *d = context;
    (void)one; /* is 1 */
    size_t put = fwrite(bytes, 1, size, d->file);
    if (put != size)
        d->failure = errno;
    return put;
}

/* Called at least once a second. Not 0: ends the transfer. */
static int look(void *context, curl_off_t total, curl_off_t done, curl_off_t up_total,
                curl_off_t up_done)
{
    download *d = context;
    (void)up_total;
    (void)up_done;
    psr_data_bar_at(d->bar, d->before + (uint64_t)done,
                    total > 0 ? d->before + (uint64_t)total : 0);
    return atomic_load(d->stop) ? 1 : 0;
}

static void set_options(CURL *curl, const char *url, download *d, char *detail)
{
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    /* never from https to http */
    curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR,
                     strncmp(url, "https:", 6) == 0 ? "https" : "http,https");
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, SLOWEST_BYTES_PER_S);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, PATIENCE_S);
    curl_easy_setopt(curl, CURLOPT_USERAGENT, "psring/" PSR_VERSION);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, write_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, d);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, look);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, d);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
}

/* Begins the file anew: what it has is not the beginning of what the server has. */
static bool begin_anew(download *d)
{
    d->before = 0;
    d->bar->before = 0;
    return fflush(d->file) == 0 && ftruncate(fileno(d->file), 0) == 0 &&
           fseeko(d->file, 0, SEEK_SET) == 0;
}

/* Asks for what the file lacks. A server that does not know ranges sends all of it again; libcurl
 * then writes nothing and says so. */
static CURLcode perform(CURL *curl, download *d)
{
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)d->before);
    CURLcode code = curl_easy_perform(curl);
    if (code != CURLE_RANGE_ERROR || d->before == 0)
        return code;
    if (!begin_anew(d)) {
        d->failure = errno;
        return CURLE_WRITE_ERROR;
    }
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)0);
    return curl_easy_perform(curl);
}

static psr_err transfer(const char *url, const char *path, download *d)
{
    char detail[CURL_ERROR_SIZE] = "";
    CURL *curl = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_easy_init() : NULL;
    if (curl == NULL)
        return psr_fail(PSR_ERR_NOMEM, "no memory for a download");
    set_options(curl, url, d, detail);
    CURLcode code = perform(curl, d);
    curl_easy_cleanup(curl);
    curl_global_cleanup();
    if (code == CURLE_OK)
        return PSR_OK;
    if (d->failure != 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be written: %s", path, strerror(d->failure));
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return psr_fail(PSR_ERR_CANCELLED, "told to stop");
    return psr_fail(PSR_ERR_PEER, "%s: %s", url,
                    detail[0] != '\0' ? detail : curl_easy_strerror(code));
}

/* Opens the file at its end. */
static psr_err open_part(const char *path, download *d)
{
    struct stat status;
    int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return psr_fail(PSR_ERR_IO, "%s: cannot be made: %s", path, strerror(errno));
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && lseek(fd, 0, SEEK_END) >= 0)
        d->file = fdopen(fd, "wb");
    if (d->file == NULL) {
        close(fd);
        return psr_fail(PSR_ERR_IO, "%s: cannot be written", path);
    }
    d->before = (uint64_t)status.st_size;
    return PSR_OK;
}

psr_err psr_download(const char *url, const char *path, const atomic_bool *stop, psr_data_bar *bar,
                     uint64_t *ret_continued)
{
    struct stat status;
    download d = {.stop = stop, .bar = bar};
    PSR_TRY(open_part(path, &d));
    bar->before = d.before;
    psr_err err = transfer(url, path, &d);
    bool flushed = fflush(d.file) == 0 && fsync(fileno(d.file)) == 0;
    if (!flushed && err == PSR_OK)
        err = psr_fail(PSR_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    const bool has_bytes = fstat(fileno(d.file), &status) == 0 && status.st_size > 0;
    (void)fclose(d.file);
    psr_data_bar_end(bar);
    if (err != PSR_OK && (!has_bytes || (err != PSR_ERR_PEER && err != PSR_ERR_CANCELLED)))
        (void)unlink(path);
    if (err == PSR_OK)
        *ret_continued = d.before;
    return err;
}

#else

psr_err psr_download(const char *url, const char *path, const atomic_bool *stop, psr_data_bar *bar,
                     uint64_t *ret_continued)
{
    (void)path;
    (void)stop;
    (void)bar;
    (void)ret_continued;
    return psr_fail(PSR_ERR_UNSUPPORTED,
                    "this psring was built without libcurl; download %s by other means, and give "
                    "the folder that it is in as --from",
                    url);
}

#endif
