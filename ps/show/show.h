/* psring-scheduler show, psring show's own: which layers are in which bucket, and who holds which
 * of its slices, as a table and a picture. It makes the plan as a run's scheduler does (ps/parts.h)
 * and asks it. No state. */
#ifndef PSR_PS_SHOW_H
#define PSR_PS_SHOW_H

/* argv: show CHANNELS HEIGHT WIDTH CLASSES HOSTS FILE CONFIG: the data's shape; on how many hosts
 * the workers are; the SVG to write, or ""; the run's options as psr_config_to_json writes them.
 * Prints; returns the exit status. */
int psr_show_main(int argc, char **argv);

#endif
