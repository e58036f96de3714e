// A chat client, called as `client PORT NAME`: says hello, waits until its own line has come back, and leaves.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    struct sockaddr_in server = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    server.sin_port = htons(atoi(argv[1]));
    int chat = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(chat, (struct sockaddr *)&server, sizeof server) != 0)
        return 1;
    char mine[64], heard[1024] = "";
    int length = snprintf(mine, sizeof mine, "%s: hello\n", argv[2]);
    write(chat, mine, length);
    size_t have = 0;
    ssize_t got;
    while ((got = read(chat, heard + have, sizeof heard - 1 - have)) > 0) {
        have += got;
        heard[have] = '\0';
        if (strstr(heard, mine) != NULL)
            shutdown(chat, SHUT_WR); // good-bye; the server hangs up
    }
    fputs(heard, stdout);
    return strstr(heard, mine) == NULL;
}
