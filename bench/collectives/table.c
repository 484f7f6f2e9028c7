#include "bench/collectives/table.h"

#include "bench/collectives/values.h"

#include <inttypes.h>
#include <math.h>

typedef struct row {
    const char *operation, *type, *op, *algorithm; /* op: NULL where nothing is folded */
    const char *encoding;                          /* NULL: none */
    size_t bytes, count;
    int root; /* or PSRING_NO_RANK */
    double median_us, least_us, most_us;
    double algbw, busbw; /* 1e9 B/s; NaN: none */
    int64_t wrong;
} row;

static size_t task_bytes(const bench_task *task, int ranks)
{
    return task->unit * task->operation->units(ranks) * bench_type_bytes(task->type);
}

static row row_of(const bench_table *t, const bench_task *task, const bench_figures *f)
{
    const bench_operation *o = task->operation;
    const size_t bytes = task_bytes(task, t->ranks);
    const double factor = o->bus_factor(t->ranks), algbw = (double)bytes / f->median_s / 1e9;
    return (row){.operation = o->name,
                 .type = bytes > 0 ? bench_type_name(task->type) : NULL,
                 .op = o->folds ? bench_op_name(task->op) : NULL,
                 .algorithm = f->algorithm,
                 .encoding = task->encoding,
                 .bytes = bytes,
                 .count = o->count_is_of_rank ? task->unit : bytes / bench_type_bytes(task->type),
                 .root = o->has_root ? task->root : PSRING_NO_RANK,
                 .median_us = f->median_s * 1e6,
                 .least_us = f->least_s * 1e6,
                 .most_us = f->most_s * 1e6,
                 .algbw = bytes > 0 ? algbw : NAN,
                 .busbw = bytes > 0 && factor > 0 ? algbw * factor : NAN,
                 .wrong = f->wrong};
}

static const char *memory_name(const bench_table *table)
{
    return table->shared ? "shared" : "private";
}

void bench_table_begin(bench_table *table, uint32_t warmup, uint32_t iterations)
{
    if (table->format == BENCH_JSON)
        fprintf(table->file,
                "{\"ranks\": %d, \"hosts\": %d, \"memory\": \"%s\", \"warmup\": %" PRIu32
                ", \"iterations\": %" PRIu32 ", \"rows\": [",
                table->ranks, table->hosts, memory_name(table), warmup, iterations);
    else if (table->format == BENCH_CSV)
        fprintf(table->file, "operation,ranks,size_bytes,count,type,op,root,algorithm,encoding,"
                             "time_us,min_us,max_us,algbw_gb_s,busbw_gb_s,wrong,memory\n");
    else
        fprintf(table->file,
                "# ranks: %d, hosts: %d, memory: %s; each time is the slowest rank's, of %" PRIu32
                " calls after %" PRIu32 "; GB is 1e9 bytes\n"
                "%-18s %11s %10s %-8s %-7s %4s %-13s %11s %11s %11s %8s %8s %6s\n"
                "%-18s %11s %10s %-8s %-7s %4s %-13s %11s %11s %11s %8s %8s %6s\n",
                table->ranks, table->hosts, memory_name(table), iterations, warmup + 1,
                "# operation", "size", "count", "type", "op", "root", "algorithm", "median", "min",
                "max", "algbw", "busbw", "wrong", "#", "(B)", "", "", "", "", "", "(us)", "(us)",
                "(us)", "(GB/s)", "(GB/s)", "");
    fflush(table->file);
}

static void print_text(FILE *file, const row *r)
{
    char root[16] = "-", algbw[32] = "-", busbw[32] = "-", algorithm[32];
    snprintf(algorithm, sizeof algorithm, "%s%s%s", r->algorithm, r->encoding != NULL ? "/" : "",
             r->encoding != NULL ? r->encoding : "");
    if (r->root != PSRING_NO_RANK)
        snprintf(root, sizeof root, "%d", r->root);
    if (!isnan(r->algbw))
        snprintf(algbw, sizeof algbw, "%.4g", r->algbw);
    if (!isnan(r->busbw))
        snprintf(busbw, sizeof busbw, "%.4g", r->busbw);
    fprintf(file,
            "%-18s %11zu %10zu %-8s %-7s %4s %-13s %11.1f %11.1f %11.1f %8s %8s %6" PRId64 "\n",
            r->operation, r->bytes, r->count, r->type != NULL ? r->type : "-",
            r->op != NULL ? r->op : "-", root, algorithm, r->median_us, r->least_us, r->most_us,
            algbw, busbw, r->wrong);
}

static void print_csv(FILE *file, const row *r, int ranks, const char *memory)
{
    fprintf(file, "%s,%d,%zu,%zu,%s,%s,", r->operation, ranks, r->bytes, r->count,
            r->type != NULL ? r->type : "", r->op != NULL ? r->op : "");
    if (r->root != PSRING_NO_RANK)
        fprintf(file, "%d", r->root);
    fprintf(file, ",%s,%s,%.3f,%.3f,%.3f,", r->algorithm, r->encoding != NULL ? r->encoding : "",
            r->median_us, r->least_us, r->most_us);
    if (!isnan(r->algbw))
        fprintf(file, "%.6g", r->algbw);
    fputc(',', file);
    if (!isnan(r->busbw))
        fprintf(file, "%.6g", r->busbw);
    fprintf(file, ",%" PRId64 ",%s\n", r->wrong, memory);
}

static void print_json_text(FILE *file, const char *name, const char *text)
{
    if (text != NULL)
        fprintf(file, ", \"%s\": \"%s\"", name, text);
    else
        fprintf(file, ", \"%s\": null", name);
}

static void print_json_real(FILE *file, const char *name, double real)
{
    if (isnan(real))
        fprintf(file, ", \"%s\": null", name);
    else
        fprintf(file, ", \"%s\": %.6g", name, real);
}

static void print_json(FILE *file, const row *r, bool first)
{
    fprintf(file, "%s\n{\"operation\": \"%s\", \"size_bytes\": %zu, \"count\": %zu",
            first ? "" : ",", r->operation, r->bytes, r->count);
    print_json_text(file, "type", r->type);
    print_json_text(file, "op", r->op);
    print_json_real(file, "root", r->root == PSRING_NO_RANK ? NAN : r->root);
    print_json_text(file, "algorithm", r->algorithm);
    print_json_text(file, "encoding", r->encoding);
    print_json_real(file, "time_us", r->median_us);
    print_json_real(file, "min_us", r->least_us);
    print_json_real(file, "max_us", r->most_us);
    print_json_real(file, "algbw_gb_s", r->algbw);
    print_json_real(file, "busbw_gb_s", r->busbw);
    fprintf(file, ", \"wrong\": %" PRId64 "}", r->wrong);
}

void bench_table_add(bench_table *table, const bench_task *task, const bench_figures *figures)
{
    const row r = row_of(table, task, figures);
    if (table->format == BENCH_JSON)
        print_json(table->file, &r, table->rows == 0);
    else if (table->format == BENCH_CSV)
        print_csv(table->file, &r, table->ranks, memory_name(table));
    else
        print_text(table->file, &r);
    table->rows++;
    fflush(table->file); /* a long run shows how far it is */
}

bool bench_table_end(bench_table *table, const psring_counts *counts)
{
    if (table->format == BENCH_JSON)
        fprintf(table->file,
                "\n], \"bytes_sent\": %" PRIu64 ", \"bytes_lent\": %" PRIu64
                ", \"bytes_sealed\": %" PRIu64 "}\n",
                counts->bytes_sent, counts->bytes_lent, counts->bytes_sealed);
    else if (table->format == BENCH_TEXT)
        fprintf(table->file,
                "# of %.1f MB that rank 0 sent %.1f MB went through shared memory, and %.1f MB "
                "sealed\n",
                (double)counts->bytes_sent / 1e6, (double)counts->bytes_lent / 1e6,
                (double)counts->bytes_sealed / 1e6);
    return fflush(table->file) == 0 && !ferror(table->file);
}
