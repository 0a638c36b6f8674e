/* A strategy that is hostile or unusual. Its name selects the behavior. For `hostile`, the option `mode` of each
 * request selects it. table.rs has the expected results. As a worker it behaves in the same way for each request. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define STRIP "\"tool_calls\":{\"policy\":\"strip\",\"request\":true,\"response\":true}"
#define TURN_0 "\"from_turn\":0,\"to_turn\":0"
#define VALID_COMPACTION "{" TURN_0 "," STRIP "}"

static const char *mode, *self;
static char id[64] = "c1", given_path[512], *line;
static size_t line_size;
static int is_worker;

static void fail(const char *operation) {
  perror(operation);
  exit(1);
}

static void write_all(const char *bytes, size_t length) {
  if (fwrite(bytes, 1, length, stdout) != length || fflush(stdout) != 0) exit(1);
}

static void write_result(const char *compactions) {
  printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[%s]}\n", id, compactions);
  fflush(stdout);
}

static void write_summary(const char *text, size_t count) {
  printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[{" TURN_0 ",\"summary\":{\"summary\":\"", id);
  for (size_t n = 0; n < count; n++) fputs(text, stdout);
  fputs("\"}}]}\n", stdout);
  fflush(stdout);
}

static void write_bytes(char byte, size_t count, int fd) {
  char block[1 << 16];
  memset(block, byte, sizeof block);
  while (count > 0) {
    ssize_t written = write(fd, block, count < sizeof block ? count : sizeof block);
    if (written < 0) exit(1);
    count -= (size_t)written;
  }
}

static void sleep_forever(void) {
  for (;;) pause();
}

/* Starts a process that remains. */
static int leave_process(int new_session, int keep_pipes) {
  pid_t child = fork();
  if (child != 0) return child < 0 ? -1 : 0;
  if (new_session && setsid() < 0) perror("setsid");
  if (!keep_pipes) { close(0); close(1); close(2); }
  if (fork() < 0) exit(1);
  sleep_forever();
  return 0;
}

/* Writes a file of one mebibyte. The file may be removed while it is open, or while only a mapping remains. */
static void use_disk(int number, int removed, int mapped) {
  static char block[1 << 20] = {1};
  char name[32];
  snprintf(name, sizeof name, "%d", number);
  int file = open(name, O_RDWR | O_CREAT, 0600);
  if (file < 0 || write(file, block, sizeof block) != sizeof block) fail(name);
  if (mapped && mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED) fail("mmap");
  if (removed) unlink(name);
  if (mapped || !removed) close(file);
}

/* Removes a file, and sends its descriptor to a socket that nothing reads. */
static void send_removed_file(void) {
  int pair[2], file = open("sent", O_RDWR | O_CREAT, 0600);
  char control[CMSG_SPACE(sizeof file)] = {0};
  struct iovec byte = {"x", 1};
  struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof file)};
  memcpy(CMSG_DATA(header), &file, sizeof file);
  if (file < 0 || unlink("sent") < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) fail("socketpair");
  if (sendmsg(pair[0], &message, 0) < 0) fail("sendmsg");
  close(file);
}

/* Keeps much written memory that the limit for data does not count, because it is read-only. */
static void hide_memory(void) {
  for (int n = 0; n < 40; n++) {
    size_t size = 32 << 20;
    char *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) fail("mmap");
    memset(block, 1, size);
    if (mprotect(block, size, PROT_READ) < 0) fail("mprotect");
  }
}

static void *hide_in_thread(void *unused) { hide_memory(); sleep_forever(); return unused; }

/* Hides memory in a thread whose name is no text, while the main thread has ended. */
static void hide_thread(void) {
  pthread_t thread;
  prctl(PR_SET_NAME, "\xff\xfe");
  if (pthread_create(&thread, NULL, hide_in_thread, NULL) != 0) fail("pthread_create");
  syscall(SYS_exit, 0);
}

/* Replaces an executable by another file. */
static void replace_file(const char *path) {
  char next[4096];
  snprintf(next, sizeof next, "%s.new", path);
  int file = open(next, O_WRONLY | O_CREAT | O_TRUNC, 0755);
  if (file < 0) return;
  if (write(file, "#!/bin/false\n", 13) == 13) rename(next, path);
  close(file);
}

static void skip_events(void) {
  while (getline(&line, &line_size, stdin) > 0)
    if (strncmp(line, "{\"type\":\"events_end\"", 20) == 0) return;
}

static int mode_is(const char *name) { return strcmp(mode, name) == 0; }

static void behave(void) {
  if (mode_is("answers")) write_result(VALID_COMPACTION);
  /* Modes that do not end. */
  else if (mode_is("hangs")) sleep_forever();
  else if (mode_is("ignores-sigterm")) { signal(SIGTERM, SIG_IGN); sleep_forever(); }
  else if (mode_is("reads-no-further")) sleep_forever();
  /* Modes that start processes. */
  else if (mode_is("forks-2000")) {
    for (int n = 0; n < 2000; n++) {
      pid_t child = fork();
      if (child == 0) sleep_forever();
      if (child < 0 && n == 0) fail("fork");
      if (child < 0) break;
    }
    write_result(VALID_COMPACTION);
  }
  else if (mode_is("starts-processes-and-hangs")) {
    for (int n = 0; n < 3; n++) {
      pid_t child = fork();
      if (child < 0) fail("fork");
      if (child == 0) { if (fork() < 0) exit(1); sleep_forever(); }
    }
    sleep_forever();
  }
  else if (mode_is("leaves-a-grandchild-on-the-pipes")) { if (leave_process(0, 1) < 0) fail("fork"); write_result(VALID_COMPACTION); }
  else if (mode_is("escapes-with-setsid")) { if (leave_process(1, 0) < 0) fail("fork"); write_result(VALID_COMPACTION); }
  else if (mode_is("escapes-with-setsid-and-the-pipes")) { if (leave_process(1, 1) < 0) fail("fork"); write_result(VALID_COMPACTION); }
  /* Modes that use too many resources. */
  else if (mode_is("takes-all-memory")) {
    for (;;) {
      char *block = malloc(16 << 20);
      if (block == NULL) abort();
      memset(block, 1, 16 << 20);
    }
  }
  else if (mode_is("nests-folders")) {
    for (int n = 0; n < 15000; n++) if (mkdir("d", 0700) < 0 || chdir("d") < 0) fail("nests");
    sleep_forever();
  }
  else if (mode_is("makes-many-files")) {
    for (int n = 0;; n++) {
      char name[32];
      snprintf(name, sizeof name, "%d", n);
      close(open(name, O_WRONLY | O_CREAT, 0600));
    }
  }
  else if (mode_is("fills-its-folder")) for (int n = 0; n < 8; n++) { use_disk(n, 0, 0); if (n == 7) sleep_forever(); }
  else if (mode_is("fills-its-folder-and-answers")) { for (int n = 0; n < 8; n++) use_disk(n, 0, 0); write_result(VALID_COMPACTION); }
  else if (mode_is("holds-what-it-removed")) { for (int n = 0; n < 8; n++) use_disk(n, 1, 0); sleep_forever(); }
  else if (mode_is("maps-what-it-removed")) { for (int n = 0; n < 8; n++) use_disk(n, 1, 1); sleep_forever(); }
  else if (mode_is("hides-memory")) { hide_memory(); sleep_forever(); }
  else if (mode_is("hides-a-thread")) hide_thread();
  else if (mode_is("sends-what-it-removed")) { send_removed_file(); sleep_forever(); }
  else if (mode_is("floods-stdout")) for (;;) write_bytes('y', 1 << 20, 1);
  else if (mode_is("floods-stderr")) { write_bytes('x', 1 << 27, 2); write_result(VALID_COMPACTION); }
  else if (mode_is("floods-stderr-for-ever")) for (;;) { write_bytes('x', 1 << 20, 2); poll(NULL, 0, 5); }
  /* Modes with an unusual order of reading and writing. */
  else if (mode_is("answers-before-the-events")) { write_result(VALID_COMPACTION); skip_events(); }
  else if (mode_is("closes-stdin-early")) { close(0); write_result(VALID_COMPACTION); exit(0); }
  else if (mode_is("drips")) {
    char answer[512];
    int length = snprintf(answer, sizeof answer,
      "{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[" VALID_COMPACTION "]}\n", id);
    for (int n = 0; n < length; n++) write_all(answer + n, 1);
  }
  /* Modes that write invalid or unusual replies. */
  else if (mode_is("writes-nothing")) exit(0);
  else if (mode_is("half-a-json")) { printf("{\"type\":\"result\",\"id\":\"%s\",\"compac", id); fflush(stdout); exit(0); }
  else if (mode_is("half-a-json-and-hangs")) { printf("{\"type\":\"result\",\"id\":\"%s\",\"compac", id); fflush(stdout); sleep_forever(); }
  else if (mode_is("two-results")) {
    printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[" VALID_COMPACTION "]}\n", id);
    write_result(VALID_COMPACTION);
  }
  else if (mode_is("a-result-then-exit-1")) { write_result(VALID_COMPACTION); exit(1); }
  else if (mode_is("a-result-then-a-signal")) { write_result(VALID_COMPACTION); raise(SIGKILL); }
  else if (mode_is("exit-1")) { fputs("last words\n", stderr); exit(1); }
  else if (mode_is("a-log-line-first")) { printf("INFO starting up\n"); write_result(VALID_COMPACTION); }
  else if (mode_is("a-wrong-id")) { strcpy(id, "c999"); write_result(VALID_COMPACTION); }
  else if (mode_is("no-newline-at-the-end")) {
    printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[" VALID_COMPACTION "]}", id);
    fflush(stdout);
    exit(0);
  }
  else if (mode_is("invalid-utf-8")) { printf("{\"type\":\"log\",\"id\":\"%s\",\"level\":\"info\",\"message\":\"\xe9\"}\n", id); write_result(VALID_COMPACTION); }
  else if (mode_is("a-bom")) { printf("\xef\xbb\xbf"); write_result(VALID_COMPACTION); }
  else if (mode_is("nul")) { write_all("\0\n", 2); write_result(VALID_COMPACTION); }
  else if (mode_is("nul-in-a-summary")) write_summary("a\\u0000b", 1);
  else if (mode_is("deep-nesting")) {
    printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[" VALID_COMPACTION "],\"x\":", id);
    for (int n = 0; n < 100000; n++) putchar('[');
    for (int n = 0; n < 100000; n++) putchar(']');
    write_all("}\n", 2);
  }
  else if (mode_is("deep-nesting-unclosed")) { for (int n = 0; n < 100000; n++) putchar('['); write_all("\n", 1); }
  else if (mode_is("a-huge-number")) write_result("{\"from_turn\":0,\"to_turn\":1e400," STRIP "}");
  else if (mode_is("a-number-beyond-64-bits")) write_result("{\"from_turn\":0,\"to_turn\":18446744073709551616," STRIP "}");
  else if (mode_is("duplicate-keys")) write_result("{\"from_turn\":0," TURN_0 "," STRIP "}");
  else if (mode_is("a-timestamp-of-its-own")) write_result("{" TURN_0 "," STRIP ",\"timestamp\":\"2099-01-01 00:00:00.0\"}");
  else if (mode_is("reports-an-error")) {
    printf("{\"type\":\"error\",\"id\":\"%s\",\"code\":\"mine\",\"message\":\"not like this\"}\n", id);
    fflush(stdout);
  }
  /* Modes that propose invalid compactions. */
  else if (mode_is("a-range-inverted")) write_result("{\"from_turn\":1,\"to_turn\":0," STRIP "}");
  else if (mode_is("a-range-out-of-bounds")) write_result("{\"from_turn\":0,\"to_turn\":2," STRIP "}");
  else if (mode_is("the-greatest-range")) write_result("{\"from_turn\":0,\"to_turn\":18446744073709551615," STRIP "}");
  else if (mode_is("beyond-its-kinds")) write_result("{" TURN_0 ",\"reasoning\":\"strip\"}");
  else if (mode_is("an-empty-summary")) write_summary("", 1);
  else if (mode_is("a-summary-of-1-mb")) write_summary("0123456789abcdef", 1 << 16);
  else if (mode_is("a-summary-of-10-mb")) write_summary("0123456789", 1 << 20);
  /* Other modes. */
  else if (mode_is("plays")) {
    int file = open(given_path, O_RDONLY), byte;
    if (file < 0 || dup2(file, 0) < 0) fail(given_path);
    clearerr(stdin);
    while ((byte = getchar()) != EOF) putchar(byte);
    exit(fflush(stdout) == 0 ? 0 : 1);
  }
  else if (mode_is("changes-its-file")) { replace_file(self); replace_file(given_path); write_result(VALID_COMPACTION); }
  else { fprintf(stderr, "no mode `%s`\n", mode); exit(64); }
}

/* Copies the first string member of the header with this key. */
static void copy_member(const char *key, char *target, size_t size) {
  char prefix[32];
  snprintf(prefix, sizeof prefix, "\"%s\":\"", key);
  char *value = strstr(line, prefix);
  if (value == NULL) return;
  value += strlen(prefix);
  snprintf(target, size, "%.*s", (int)strcspn(value, "\""), value);
}

int main(int argc, char **argv) {
  const char *verb = argc > 1 ? argv[argc - 1] : "";
  static char requested_mode[64];
  self = argv[0];
  const char *name = strrchr(self, '/') ? strrchr(self, '/') + 1 : self;
  is_worker = strcmp(verb, "worker") == 0;
  mode = name;
  if (strcmp(verb, "describe") == 0) {
    if (mode_is("hangs-in-describe")) sleep_forever();
    if (mode_is("floods-in-describe")) for (;;) write_bytes('y', 1 << 20, 1);
    printf("{\"type\":\"describe\",\"protocols\":[1],\"name\":\"%s\",\"version\":\"1.0.0\",\"description\":\"means harm\","
      "\"produces\":[\"summary\",\"tool_calls\"%s],\"input\":\"full\",\"features\":[\"worker\"],\"determinism\":\"stochastic\","
      "\"options_schema\":{\"type\":\"object\",\"properties\":{\"mode\":{\"type\":\"string\"},\"path\":{\"type\":\"string\"}}}}\n", name, mode_is("plays") ? ",\"reasoning\"" : "");
    return 0;
  }
  if (mode_is("never-reads")) { write_result(VALID_COMPACTION); return 0; }
  if (mode_is("answers-before-reading")) { write_result(VALID_COMPACTION); while (getchar() != EOF) {} return 0; }
  while (getline(&line, &line_size, stdin) > 0) {
    if (strncmp(line, "{\"type\":\"compact\"", 17) != 0) continue;
    copy_member("id", id, sizeof id);
    copy_member("mode", requested_mode, sizeof requested_mode);
    copy_member("path", given_path, sizeof given_path);
    if (strcmp(name, "hostile") == 0) mode = requested_mode;
    int is_early = mode_is("answers-before-the-events") || mode_is("closes-stdin-early") || mode_is("reads-no-further");
    if (!is_early) skip_events();
    behave();
    if (!is_worker) return 0;
  }
  return 0;
}
