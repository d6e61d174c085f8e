/*
 * System calls that wait, and what may happen meanwhile. After each, the caller's registers must be unchanged,
 * except for the result.
 *
 * interrupted   a signal ends the call
 * restarted     a signal is handled, and the call continues
 * threads       two threads of one address space wait in turns
 * spawned       another thread starts a program
 * traced        another process reads the registers
 * stepped       another process stops it before and after the call, and changes the result
 * mapped        the call writes to pages that nobody has touched, and to pages shared with a child
 * killed        SIGKILL ends the process
 * once          a process asks another many times, while timers interrupt both: no call is made twice
 *
 * Prints a line for each: "as before", or what went wrong.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 200
#define MANY_ROUNDS 50000
/* Until a process that is to wait in a call does, also on the clock of a busy machine */
#define SOON_US 500000
#define WORDS 7
#define VECTORS 16
#define PATTERN 0x1122334455667788UL

struct image {
	unsigned long words[WORDS]; /* rbx r8 r9 r12 r13 r14 r15 */
	unsigned char vectors[VECTORS][16];
};

static const char *wrong;

static void expect(int is_so, const char *what)
{
	if (!is_so && !wrong)
		wrong = what;
}

/* A system call with these registers, and what is in them afterwards */
long call_with(struct image *registers, long number, long a, long b, long c);
__asm__(
	"call_with:\n"
	"push %rbx; push %r12; push %r13; push %r14; push %r15; push %rbp\n"
	"mov %rdi, %rbp; mov %rsi, %rax; mov %rdx, %rdi; mov %rcx, %rsi; mov %r8, %rdx\n"
	"mov 0(%rbp), %rbx; mov 8(%rbp), %r8; mov 16(%rbp), %r9\n"
	"mov 24(%rbp), %r12; mov 32(%rbp), %r13; mov 40(%rbp), %r14; mov 48(%rbp), %r15\n"
	".set n, 0\n"
	".irp x,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"movups 56+16*n(%rbp), %xmm\\x\n"
	".set n, n+1\n"
	".endr\n"
	"syscall\n"
	"mov %rbx, 0(%rbp); mov %r8, 8(%rbp); mov %r9, 16(%rbp)\n"
	"mov %r12, 24(%rbp); mov %r13, 32(%rbp); mov %r14, 40(%rbp); mov %r15, 48(%rbp)\n"
	".set n, 0\n"
	".irp x,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
	"movups %xmm\\x, 56+16*n(%rbp)\n"
	".set n, n+1\n"
	".endr\n"
	"pop %rbp; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx\n"
	"ret\n");

/* Read a byte or more. Returns the system call's result. */
static long patient_read(int fd, void *to, size_t size, unsigned long pattern)
{
	struct image before, registers;
	long result;

	for (int i = 0; i < WORDS; i++)
		registers.words[i] = pattern + i;
	for (int i = 0; i < VECTORS; i++)
		memset(registers.vectors[i], (int)pattern + i, 16);
	before = registers;
	result = call_with(&registers, SYS_read, fd, (long)to, size);
	expect(!memcmp(&before, &registers, sizeof(before)), "registers changed in a call");
	return result;
}

static int pair[2], other[2];
static volatile sig_atomic_t handled;

/* Changes many registers */
static void handle(int number)
{
	volatile double mixed = number;

	for (int i = 0; i < 100; i++)
		mixed = mixed * 1.5 + 1;
	handled++;
	if (handled == 2)
		expect(write(pair[1], "x", 1) == 1, "nothing written by a signal handler");
}

static void signal_soon(int flags, int times)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = flags };
	struct itimerval when = { .it_value.tv_usec = SOON_US, .it_interval.tv_usec = times > 1 ? SOON_US : 0 };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &when, NULL);
}

static void interrupted(void)
{
	char byte;

	signal_soon(0, 1);
	expect(patient_read(pair[0], &byte, 1, PATTERN) == -EINTR, "the call was not interrupted");
	expect(handled == 1, "the signal was not handled once");
}

static void restarted(void)
{
	char byte = 0;

	signal_soon(SA_RESTART, 2);
	expect(patient_read(pair[0], &byte, 1, PATTERN) == 1 && byte == 'x', "the call did not go on");
}

static void *answer(void *unused)
{
	char byte;

	for (int i = 0; i < ROUNDS; i++) {
		expect(patient_read(pair[0], &byte, 1, PATTERN * 3) == 1, "no question came");
		expect(write(other[1], &byte, 1) == 1, "no answer was sent");
	}
	return unused;
}

static void threads(void)
{
	pthread_t thread;
	char byte, sent;

	pthread_create(&thread, NULL, answer, NULL);
	for (int i = 0; i < ROUNDS; i++) {
		sent = (char)i;
		expect(write(pair[1], &sent, 1) == 1, "no question was sent");
		expect(patient_read(other[0], &byte, 1, PATTERN) == 1 && byte == sent, "no answer came");
	}
	pthread_join(thread, NULL);
}

static void *spawn(void *unused)
{
	char *const command[] = { "sh", "-c", "exit 7", NULL };
	int status;
	pid_t pid;

	expect(!posix_spawnp(&pid, "sh", NULL, NULL, command, NULL), "no program started");
	waitpid(pid, &status, 0);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 7, "a program ended otherwise");
	expect(write(pair[1], "x", 1) == 1, "nothing written by a thread");
	return unused;
}

static void spawned(void)
{
	pthread_t thread;
	char byte;

	pthread_create(&thread, NULL, spawn, NULL);
	expect(patient_read(pair[0], &byte, 1, PATTERN) == 1, "nothing came");
	pthread_join(thread, NULL);
}

static unsigned long register_of(pid_t pid, size_t offset)
{
	return ptrace(PTRACE_PEEKUSER, pid, offset, 0);
}

#define REGISTER(name) offsetof(struct user_regs_struct, name)

/* A child that waits in a call, and ends with the result of it or with 255 */
static pid_t waiting_child(int asks_to_be_traced)
{
	pid_t pid = fork();
	char byte;

	if (pid)
		return pid;
	if (asks_to_be_traced) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
	}
	long result = patient_read(pair[0], &byte, 1, PATTERN);
	_exit(wrong ? 255 : (int)result);
}

static void traced(void)
{
	pid_t pid = waiting_child(0);
	int status;

	usleep(SOON_US);
	expect(!ptrace(PTRACE_SEIZE, pid, 0, 0) && !ptrace(PTRACE_INTERRUPT, pid, 0, 0), "the process cannot be traced");
	waitpid(pid, &status, 0);
	expect(register_of(pid, REGISTER(rbx)) == PATTERN, "a traced process has another rbx");
	expect(register_of(pid, REGISTER(r15)) == PATTERN + 6, "a traced process has another r15");
	expect(!ptrace(PTRACE_DETACH, pid, 0, 0), "the process cannot be let go");
	expect(write(pair[1], "x", 1) == 1, "nothing written");
	waitpid(pid, &status, 0);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 1, "a traced process did not go on");
}

static void stepped(void)
{
	pid_t pid = waiting_child(1);
	int status, stops = 0;

	waitpid(pid, &status, 0);
	expect(write(pair[1], "x", 1) == 1, "nothing written");
	while (!ptrace(PTRACE_SYSCALL, pid, 0, 0) && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		if (register_of(pid, REGISTER(orig_rax)) != SYS_read)
			continue;
		stops++;
		expect(register_of(pid, REGISTER(rbx)) == PATTERN, "a traced process has another rbx");
		if (stops == 2)
			ptrace(PTRACE_POKEUSER, pid, REGISTER(rax), 99);
	}
	expect(stops == 2, "it did not stop before and after the call");
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 99, "the changed result did not arrive");
}

static void mapped(void)
{
	enum { SIZE = 64 << 10 };
	char *pages = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static char sent[SIZE];
	int status, count = 0;
	pid_t pid;

	for (int round = 0; round < 2; round++) {
		memset(sent, 'a' + round, SIZE);
		pid = fork();
		if (!pid) {
			/* what it shares with its parent must not change */
			char byte, is = pages[SIZE - 1];
			patient_read(other[0], &byte, 1, PATTERN);
			_exit(wrong || pages[SIZE - 1] != is || pages[0] != pages[SIZE - 1]);
		}
		for (count = 0; count < SIZE;) {
			expect(write(pair[1], sent + count, 4096) == 4096, "nothing written");
			count += (int)patient_read(pair[0], pages + count, 4096, PATTERN);
		}
		expect(!memcmp(pages, sent, SIZE), "the caller does not see what a call has read");
		expect(write(other[1], "x", 1) == 1, "nothing written");
		waitpid(pid, &status, 0);
		expect(WIFEXITED(status) && !WEXITSTATUS(status), "a child sees what its parent has read");
	}
}

static void killed(void)
{
	pid_t pid = waiting_child(0);
	int status;

	usleep(SOON_US);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "SIGKILL did not end it");
}

static void once(void)
{
	pid_t pid = fork();
	int number;

	if (!pid)
		while (read(pair[0], &number, sizeof(number)) == sizeof(number))
			if (write(other[1], &number, sizeof(number)) != sizeof(number))
				_exit(1);
	for (int i = 0; i < MANY_ROUNDS && !wrong; i++) {
		expect(write(pair[1], &i, sizeof(i)) == sizeof(i), "no question was sent");
		expect(read(other[0], &number, sizeof(number)) == sizeof(number), "no answer came");
		expect(number == i, "a question was sent, or an answer came, twice");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Each way in a process of its own */
static void show(const char *name, void (*run)(void))
{
	int status;
	pid_t pid;

	printf("%s: ", name);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (pipe(pair) || pipe(other))
			_exit(1);
		run();
		puts(wrong ? wrong : "as before");
		fflush(stdout);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		printf("ended with %#x\n", status);
}

int main(void)
{
	show("interrupted", interrupted);
	show("restarted", restarted);
	show("threads", threads);
	show("spawned", spawned);
	show("traced", traced);
	show("stepped", stepped);
	show("mapped", mapped);
	show("killed", killed);
	show("once", once);
	return 0;
}
