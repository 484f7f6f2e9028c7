/* `psring hosts`, of deploy/install: the names of the hosts of a hostfile or of a list, one in each
 * line. */
#include "deploy/commands.h"

#include "base/text/printable.h"
#include "deploy/launch/hosts/hostfile.h"

#include <stdio.h>
#include <string.h>

int psr_command_hosts(int argc, char **argv)
{
    psr_hosts hosts = {0};
    psr_err err;
    if (argc == 3 && strcmp(argv[1], "--hostfile") == 0)
        err = psr_hostfile_read(argv[2], &hosts);
    else if (argc == 3 && strcmp(argv[1], "-H") == 0)
        err = psr_hosts_from_list(argv[2], &hosts);
    else
        err = psr_fail(PSR_ERR_USAGE, "give --hostfile FILE or -H HOST,HOST");
    if (err != PSR_OK)
        psr_print(stderr, "psring hosts: %s\n", psr_err_detail());
    for (size_t i = 0; i < hosts.count; i++)
        psr_print(stdout, "%s\n", hosts.items[i].name);
    psr_hosts_done(&hosts);
    return psr_err_exit_status(err);
}
