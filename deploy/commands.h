/* The subcommands of the front door. Each takes its own arguments (argv[0] is "psring NAME"),
 * prints, and returns the exit status. */
#ifndef PSR_DEPLOY_COMMANDS_H
#define PSR_DEPLOY_COMMANDS_H

int psr_command_train(int argc, char **argv);
int psr_command_run(int argc, char **argv);
int psr_command_bench(int argc, char **argv);
int psr_command_doctor(int argc, char **argv);
int psr_command_report(int argc, char **argv);
int psr_command_lab(int argc, char **argv);
int psr_command_diff(int argc, char **argv);
int psr_command_watch(int argc, char **argv);
int psr_command_inspect(int argc, char **argv);
int psr_command_export(int argc, char **argv);
int psr_command_eval(int argc, char **argv);
int psr_command_classify(int argc, char **argv);
int psr_command_show(int argc, char **argv);
int psr_command_plot(int argc, char **argv);
int psr_command_predict(int argc, char **argv);
int psr_command_mode(int argc, char **argv);
int psr_command_data(int argc, char **argv);
int psr_command_keygen(int argc, char **argv);
int psr_command_hosts(int argc, char **argv);

#endif
