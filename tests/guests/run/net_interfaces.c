// What getifaddrs, if_nameindex and the ioctls say of the loopback interface: natively there are others too, of which nothing is printed.
#include "guest.h"
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static void show(const struct ifaddrs *entry) {
    char address[64] = "none", mask[64] = "none";
    int family = entry->ifa_addr ? entry->ifa_addr->sa_family : 0;
    if (family == AF_INET) {
        inet_ntop(family, &((struct sockaddr_in *)entry->ifa_addr)->sin_addr, address, sizeof address);
        inet_ntop(family, &((struct sockaddr_in *)entry->ifa_netmask)->sin_addr, mask, sizeof mask);
    }
    // A machine may have no IPv6; and ours has one address more.
    if (family != AF_INET6 && strcmp(address, "127.0.1.1") != 0)
        printf("family %d, %s/%s, flags %x, statistics %d\n", family, address, mask, entry->ifa_flags,
               entry->ifa_data != NULL);
}

static void by_ioctl(int fd) {
    struct ifreq request = {.ifr_name = "lo"};
    CHECK(ioctl(fd, SIOCGIFFLAGS, &request) == 0);
    printf("flags %x\n", (unsigned)request.ifr_flags & 0xffff);
    CHECK(ioctl(fd, SIOCGIFADDR, &request) == 0);
    printf("address %s\n", inet_ntoa(((struct sockaddr_in *)&request.ifr_addr)->sin_addr));
    CHECK(ioctl(fd, SIOCGIFNETMASK, &request) == 0);
    printf("mask %s\n", inet_ntoa(((struct sockaddr_in *)&request.ifr_netmask)->sin_addr));
    CHECK(ioctl(fd, SIOCGIFMTU, &request) == 0);
    printf("mtu %d\n", request.ifr_mtu);
    CHECK(ioctl(fd, SIOCGIFHWADDR, &request) == 0);
    printf("hardware %d\n", request.ifr_hwaddr.sa_family);
    struct ifreq none = {.ifr_name = "none0"};
    CHECK(ioctl(fd, SIOCGIFFLAGS, &none) == -1 && errno == ENODEV);
    struct ifreq room[8];
    struct ifconf list = {.ifc_len = sizeof room, .ifc_req = room};
    CHECK(ioctl(fd, SIOCGIFCONF, &list) == 0 && list.ifc_len >= (int)sizeof *room);
    printf("first %s\n", room[0].ifr_name);
}

int main(void) {
    struct ifaddrs *all;
    CHECK(getifaddrs(&all) == 0);
    for (struct ifaddrs *entry = all; entry; entry = entry->ifa_next)
        if (strcmp(entry->ifa_name, "lo") == 0)
            show(entry);
    freeifaddrs(all);
    struct if_nameindex *names = if_nameindex();
    CHECK(names && names[0].if_index == 1);
    printf("first %s\n", names[0].if_name);
    if_freenameindex(names);
    char name[IF_NAMESIZE];
    CHECK(if_nametoindex("lo") == 1 && if_indextoname(1, name) && strcmp(name, "lo") == 0);
    CHECK(if_nametoindex("none0") == 0 && errno == ENODEV);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    by_ioctl(fd);
    struct addrinfo hints = {.ai_flags = AI_ADDRCONFIG, .ai_socktype = SOCK_STREAM}, *found;
    CHECK(getaddrinfo("127.0.0.1", "80", &hints, &found) == 0);
    // Two netlink sockets have two numbers, and nothing to say unasked.
    int one = socket(AF_NETLINK, SOCK_RAW, 0), two = socket(AF_NETLINK, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    struct sockaddr own = {.sa_family = AF_NETLINK}, other = own;
    socklen_t size = sizeof own;
    CHECK(bind(one, &own, 12) == 0 && bind(two, &other, 12) == 0);
    CHECK(getsockname(one, &own, &size) == 0 && size == 12 && getsockname(two, &other, &size) == 0);
    CHECK(memcmp(&own, &other, 12) != 0);
    struct pollfd look = {two, POLLIN | POLLOUT, 0};
    CHECK(poll(&look, 1, 0) == 1 && look.revents == POLLOUT);
    CHECK(recv(two, name, sizeof name, 0) == -1 && errno == EAGAIN);
    puts("done");
    return 0;
}
