/* Sends UDP datagrams as fast as they go, many a system call, and prints how many seconds that took.
   blast ADDRESS PORT COUNT SIZE_BYTES */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define AT_ONCE 64

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	long count = atol(argv[3]), size = atol(argv[4]), sent = 0;
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
	inet_pton(AF_INET, argv[1], &to.sin_addr);
	int out = socket(AF_INET, SOCK_DGRAM, 0);
	char *payload = calloc(1, size);
	struct iovec part = {payload, size};
	struct mmsghdr messages[AT_ONCE];
	memset(messages, 0, sizeof messages);
	for (int i = 0; i < AT_ONCE; i++)
		messages[i].msg_hdr = (struct msghdr){.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &part, .msg_iovlen = 1};
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	while (sent < count) {
		int done = sendmmsg(out, messages, count - sent < AT_ONCE ? count - sent : AT_ONCE, 0);
		if (done < 0) {
			perror("sendmmsg");
			return 1;
		}
		sent += done;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.6f\n", end.tv_sec - begin.tv_sec + (end.tv_nsec - begin.tv_nsec) / 1e9);
	return 0;
}
