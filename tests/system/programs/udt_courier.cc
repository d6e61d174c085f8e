// Carries a file over UDT: `receive ADDRESS PORT FILE` and `send ADDRESS PORT FILE`.
#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <udt/udt.h>

int main(int count, char **arguments)
{
	if (count != 5)
		return 2;
	bool receives = !std::strcmp(arguments[1], "receive");
	sockaddr_in address{};
	address.sin_family = AF_INET;
	address.sin_port = htons(std::atoi(arguments[3]));
	inet_pton(AF_INET, arguments[2], &address.sin_addr);
	auto *name = reinterpret_cast<sockaddr *>(&address);

	UDT::startup();
	UDTSOCKET sock = UDT::socket(AF_INET, SOCK_STREAM, 0);
	int64_t size = 0, offset = 0;
	if (receives) {
		std::fstream file(arguments[4], std::ios::out | std::ios::binary);
		sockaddr_in from{};
		int length = sizeof(from);
		if (UDT::bind(sock, name, sizeof(address)) == UDT::ERROR || UDT::listen(sock, 1) == UDT::ERROR)
			return 1;
		UDTSOCKET peer = UDT::accept(sock, reinterpret_cast<sockaddr *>(&from), &length);
		if (UDT::recv(peer, reinterpret_cast<char *>(&size), sizeof(size), 0) != sizeof(size) ||
		    UDT::recvfile(peer, file, offset, size) != size)
			return 1;
		UDT::close(peer);
	} else {
		std::fstream file(arguments[4], std::ios::in | std::ios::binary | std::ios::ate);
		size = file.tellg();
		if (UDT::connect(sock, name, sizeof(address)) == UDT::ERROR ||
		    UDT::send(sock, reinterpret_cast<char *>(&size), sizeof(size), 0) != sizeof(size) ||
		    UDT::sendfile(sock, file, offset, size) != size)
			return 1;
	}
	UDT::close(sock);
	UDT::cleanup();
	return 0;
}
