/* Prints what can differ between two runs of a program, a line each: NAME VALUE. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define THREADS 6

static sigjmp_buf refused;
static volatile sig_atomic_t alarmed;
static int gate, order[THREADS], arrived;

static void refuse(int sig) { siglongjmp(refused, sig); }
static void on_alarm(int sig) { (void)sig; alarmed = 1; }

/* FNV-1a */
static uint64_t digest(const void *data, size_t size, uint64_t sum)
{
	for (size_t i = 0; i < size; i++)
		sum = (sum ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
	return sum;
}
#define START 0xcbf29ce484222325

static uint64_t tsc(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static uint64_t tscp(uint32_t *aux)
{
	uint32_t low, high;
	__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(*aux));
	return (uint64_t)high << 32 | low;
}

static uint64_t tsc_with_prefixes(void)
{
	uint32_t low, high;
	__asm__ volatile(".byte 0x66, 0x48, 0x0f, 0x31" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec now = {0};
	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void file(const char *path)
{
	static char content[1 << 20];
	FILE *stream = fopen(path, "r");
	size_t size = stream ? fread(content, 1, sizeof(content), stream) : 0;

	if (!stream) {
		printf("%s missing\n", path);
		return;
	}
	fclose(stream);
	printf("%s %zu:%016lx\n", path, size, digest(content, size, START));
}

static void directory(const char *path)
{
	DIR *stream = opendir(path);
	uint64_t sum = START;

	for (struct dirent *entry; stream && (entry = readdir(stream));) {
		sum = digest(entry->d_name, strlen(entry->d_name), sum);
		sum = digest(&entry->d_ino, sizeof(entry->d_ino), sum);
	}
	if (stream)
		closedir(stream);
	printf("directory:%s %016lx\n", path, sum);
}

static void status(const char *path)
{
	struct stat of;
	struct statfs on;

	if (stat(path, &of))
		return;
	printf("inode:%s %lu\ndevice:%s %lx\n", path, of.st_ino, path, of.st_dev);
	printf("changed:%s %ld.%09ld %ld.%09ld\n", path, of.st_mtim.tv_sec, of.st_mtim.tv_nsec, of.st_ctim.tv_sec,
	       of.st_ctim.tv_nsec);
	printf("accessed:%s %ld.%09ld\n", path, of.st_atim.tv_sec, of.st_atim.tv_nsec);
	if (!statfs(path, &on))
		printf("free:%s %lu %lu %x%x\n", path, on.f_bfree, on.f_ffree, on.f_fsid.__val[0], on.f_fsid.__val[1]);
}

static void *waiter(void *number)
{
	syscall(SYS_futex, &gate, FUTEX_WAIT, 0, NULL, NULL, 0);
	order[__atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST)] = (int)(intptr_t)number;
	return NULL;
}

static void threads(void)
{
	pthread_t started[THREADS];

	for (int i = 0; i < THREADS; i++)
		pthread_create(&started[i], NULL, waiter, (void *)(intptr_t)i);
	usleep(1000);
	gate = 1;
	syscall(SYS_futex, &gate, FUTEX_WAKE, THREADS, NULL, NULL, 0);
	printf("futex_order");
	for (int i = 0; i < THREADS; i++)
		pthread_join(started[i], NULL);
	for (int i = 0; i < THREADS; i++)
		printf(" %d", order[i]);
	printf("\n");
}

static void alarm_after_reads(void)
{
	struct itimerval at = {.it_value.tv_usec = 2000};
	unsigned long reads = 0;

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &at, NULL);
	while (!alarmed) {
		tsc();
		reads++;
	}
	printf("reads_until_alarm %lu\n", reads);
}

static __attribute__((noinline)) uint64_t left_on_the_stack(void)
{
	char block[16384];
	__asm__ volatile("" : : "r"(block) : "memory");
	return digest(block, sizeof(block), START);
}

int main(int count, char **arguments, char **environment)
{
	uint64_t before, after, random[4], word;
	volatile uint64_t sum = START;
	uint32_t a = 0, b = 0, c = 0, d = 0, aux = 0;
	unsigned char drawn;
	struct utsname names;
	struct sysinfo info;
	struct rusage usage;
	struct tms consumed;
	struct timespec resolution;
	cpu_set_t cpus;
	unsigned cpu = 0, node = 0;

	(void)count;
	printf("stack_left %016lx\n", left_on_the_stack());

	before = tsc();
	after = tsc();
	printf("rdtsc %lu\nrdtsc_step %lu\n", before, after - before);
	printf("rdtscp %lu\n", tscp(&aux));
	printf("rdtscp_cpu %u\n", aux);
	printf("rdtsc_prefixed %lu\n", tsc_with_prefixes());
	before = tsc();
	usleep(100000);
	after = tsc();
	printf("rdtsc_of_100_ms %lu\n", after - before);
	printf("rdtsc_behind_clock %ld\n", (long)(tsc() - nanoseconds(CLOCK_MONOTONIC)));

	__get_cpuid(1, &a, &b, &c, &d);
	if (c >> 30 & 1) {
		__asm__ volatile("rdrand %0; setc %1" : "=r"(word), "=qm"(drawn));
		printf("rdrand %d:%016lx\n", drawn, word);
	}
	printf("cpuid_processor %02x\n", b >> 24);
	printf("cpuid_features %x %x %x %x\n", a, b & 0xffffff, c, d);
	if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
		if (b >> 18 & 1) {
			__asm__ volatile("rdseed %0; setc %1" : "=r"(word), "=qm"(drawn));
			printf("rdseed %d:%016lx\n", drawn, word);
		}
		if (c >> 22 & 1) {
			__asm__ volatile("rdpid %0" : "=r"(word));
			printf("rdpid %lx\n", word);
		}
		printf("cpuid_more_features %x %x %x\n", b, c, d);
	}
	if (__get_cpuid_count(11, 0, &a, &b, &c, &d))
		printf("cpuid_x2apic %x\n", d);
	if (__get_cpuid_count(13, 0, &a, &b, &c, &d))
		printf("xsave_bytes %u %u\n", b, c);

	signal(SIGSEGV, refuse);
	signal(SIGILL, refuse);
	if (!sigsetjmp(refused, 1)) {
		__asm__ volatile("rdpmc" : "=a"(a), "=d"(d) : "c"(0));
		printf("rdpmc %x\n", a);
	} else
		printf("rdpmc refused\n");
	if (!sigsetjmp(refused, 1)) {
		long (*vsyscall_time)(long *) = (void *)0xffffffffff600400;
		printf("vsyscall %ld\n", vsyscall_time(NULL));
	} else
		printf("vsyscall refused\n");
	if (!sigsetjmp(refused, 1)) {
		word = 0;
		__asm__ volatile("lsl %1, %0" : "+r"(word) : "r"((uint64_t)0x7b));
		printf("lsl_cpu %lx\n", word);
	} else
		printf("lsl_cpu refused\n");
	signal(SIGSEGV, SIG_DFL);
	signal(SIGILL, SIG_DFL);

	for (unsigned long key = 3; key < 52; key++)
		if (key != AT_RANDOM && getauxval(key))
			printf("auxiliary:%lu %lx\n", key, key == AT_PLATFORM ? digest((char *)getauxval(key), 6, START) : getauxval(key));
	memcpy(random, (void *)getauxval(AT_RANDOM), 16);
	printf("at_random %016lx%016lx\n", random[0], random[1]);
	printf("address_stack %p\naddress_heap %p\naddress_program %p\naddress_libc %p\naddress_mmap %p\n", (void *)&count,
	       sbrk(0), (void *)main, (void *)printf, mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	for (char **variable = environment; *variable; variable++)
		sum = digest(*variable, strlen(*variable), sum);
	printf("environment %016lx\nname %s\n", sum, arguments[0]);
	printf("pid %d %d %d %d %d\n", getpid(), getppid(), gettid(), getsid(0), getpgrp());

	getrandom(random, sizeof(random), 0);
	printf("getrandom %016lx\n", random[0]);
	getentropy(random, sizeof(random));
	printf("getentropy %016lx\n", random[1]);

	for (clockid_t clock = 0; clock < 12; clock++) {
		if (!clock_getres(clock, &resolution))
			printf("clock:%d %lu %ld\n", clock, nanoseconds(clock), resolution.tv_nsec);
	}
	printf("time %ld\n", time(NULL));
	printf("times %ld", (long)times(&consumed));
	printf(" %ld %ld\n", consumed.tms_utime, consumed.tms_stime);
	getrusage(RUSAGE_SELF, &usage);
	printf("usage %ld.%06ld %ld.%06ld\n", usage.ru_utime.tv_sec, usage.ru_utime.tv_usec, usage.ru_stime.tv_sec,
	       usage.ru_stime.tv_usec);
	printf("usage_memory %ld\nusage_faults %ld %ld\nusage_switches %ld %ld\n", usage.ru_maxrss, usage.ru_minflt,
	       usage.ru_majflt, usage.ru_nvcsw, usage.ru_nivcsw);
	getcpu(&cpu, &node);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	printf("cpu %u %u of %d, %ld online, affinity %016lx\n", cpu, node, CPU_COUNT(&cpus), sysconf(_SC_NPROCESSORS_ONLN),
	       digest(&cpus, sizeof(cpus), START));
	printf("cache %ld %ld %ld\n", sysconf(_SC_LEVEL1_DCACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE));
	printf("timer_slack %d\n", prctl(PR_GET_TIMERSLACK));
	printf("signal_stack %ld\n", sysconf(_SC_MINSIGSTKSZ));
	uname(&names);
	printf("uname %s %s %s %s %s\nhostid %lx\n", names.sysname, names.nodename, names.release, names.version, names.machine,
	       gethostid());
	sysinfo(&info);
	printf("sysinfo_up %ld\nsysinfo_load %lu\nsysinfo_free %lu %lu\nsysinfo_processes %u\n", info.uptime, info.loads[0],
	       info.totalram, info.freeram, info.procs);
	struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE, .size = sizeof(event)};
	printf("perf_event %ld\n", syscall(SYS_perf_event_open, &event, 0, -1, -1, 0));
	printf("key %ld\n", syscall(SYS_keyctl, 0, -3, 1));

	void *block = malloc(200000);
	printf("heap_left %016lx\n", digest(block, 200000, START));
	free(block);
	threads();
	alarm_after_reads();

	const char *files[] = {"cpuinfo", "meminfo", "loadavg", "stat", "uptime", "version", "cmdline", "interrupts", "softirqs",
		"mounts", "filesystems", "devices", "misc", "modules", "partitions", "vmstat", "zoneinfo", "slabinfo",
		"buddyinfo", "iomem", "ioports", "locks", "schedstat", "timer_list", "kallsyms", "key-users", "exitcode",
		"self/maps", "self/stat", "self/status", "self/statm", "self/mountinfo", "self/limits", "self/environ",
		"self/auxv", "self/sched", "self/io", "self/cgroup", "net/dev", "net/snmp", "net/netstat", "net/sockstat",
		"sys/kernel/random/boot_id", "sys/kernel/random/uuid", "sys/kernel/random/entropy_avail",
		"sys/kernel/hostname", "sys/kernel/ns_last_pid", "sys/fs/file-nr", "sys/fs/inode-nr"};
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char path[64];
		snprintf(path, sizeof(path), "/proc/%s", files[i]);
		file(path);
	}
	file("/etc/machine-id");
	file("/etc/hostname");
	file("/sys/kernel/uevent_seqnum");
	file("/sys/devices/system/clocksource/clocksource0/current_clocksource");
	directory("/proc/self/fd");
	directory("/sys/class");
	directory("/dev");
	directory("/tmp");
	directory("/usr/lib");
	directory(".");
	status("/usr/bin/env");
	status("/tmp");
	status(".");
	status(arguments[0]);
	printf("rtc %d\n", open("/dev/rtc0", O_RDONLY));
	return 0;
}
