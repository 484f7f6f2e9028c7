/* For tests of what ends the process with one line: it runs in a child. */
#ifndef PSR_TESTS_EMULATOR_CUDA_FAULTS_H
#define PSR_TESTS_EMULATOR_CUDA_FAULTS_H

/* Calls it in a child, and fails the test unless that ends by abort, having said text. */
void expect_fault(void (*call)(void), const char *text);

#endif
