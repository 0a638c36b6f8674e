/* A strategy that means harm, or is merely odd. How it behaves is its own name or, for `hostile`, the option
 * `mode` of each request; what has to come of it stands in table.rs. As a worker it behaves so for each request. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <sys/mman.h>

#define STRIP "\"tool_calls\":{\"policy\":\"strip\",\"request\":true,\"response\":true}"
#define TURN_0 "\"from_turn\":0,\"to_turn\":0"
#define GOOD "{" TURN_0 "," STRIP "}"

static const char *mode, *self;
static char id[64] = "c1", given[512], *line;
static size_t line_size;
static int is_worker;

static void dies(const char *what) {
  perror(what);
  exit(1);
}

static void says(const char *bytes, size_t length) {
  if (fwrite(bytes, 1, length, stdout) != length || fflush(stdout) != 0) exit(1);
}

static void result(const char *compactions) {
  printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[%s]}\n", id, compactions);
  fflush(stdout);
}

static void summary(const char *text, size_t repeated) {
  printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[{" TURN_0 ",\"summary\":{\"summary\":\"", id);
  for (size_t n = 0; n < repeated; n++) fputs(text, stdout);
  fputs("\"}}]}\n", stdout);
  fflush(stdout);
}

static void bytes_of(char byte, size_t count, int fd) {
  char block[1 << 16];
  memset(block, byte, sizeof block);
  while (count > 0) {
    ssize_t written = write(fd, block, count < sizeof block ? count : sizeof block);
    if (written < 0) exit(1);
    count -= (size_t)written;
  }
}

static void sleeps(void) {
  for (;;) pause();
}

/* Starts a process that stays. */
static int leaves(int in_a_session_of_its_own, int on_the_pipes) {
  pid_t child = fork();
  if (child != 0) return child < 0 ? -1 : 0;
  if (in_a_session_of_its_own && setsid() < 0) perror("setsid");
  if (!on_the_pipes) { close(0); close(1); close(2); }
  if (fork() < 0) exit(1);
  sleeps();
  return 0;
}

/* A file of a mebibyte, which may be removed while it is open, or while it is mapped alone. */
static void takes_disk(int number, int removed, int mapped) {
  static char block[1 << 20] = {1};
  char name[32];
  snprintf(name, sizeof name, "%d", number);
  int file = open(name, O_RDWR | O_CREAT, 0600);
  if (file < 0 || write(file, block, sizeof block) != sizeof block) dies(name);
  if (mapped && mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED) dies("mmap");
  if (removed) unlink(name);
  if (mapped || !removed) close(file);
}

/* Makes another file of its own name. */
static void changes(const char *path) {
  char beside[4096];
  snprintf(beside, sizeof beside, "%s.new", path);
  int file = open(beside, O_WRONLY | O_CREAT | O_TRUNC, 0755);
  if (file < 0) return;
  if (write(file, "#!/bin/false\n", 13) == 13) rename(beside, path);
  close(file);
}

static void to_the_end_of_events(void) {
  while (getline(&line, &line_size, stdin) > 0)
    if (strncmp(line, "{\"type\":\"events_end\"", 20) == 0) return;
}

static int is(const char *name) { return strcmp(mode, name) == 0; }

static void behaves(void) {
  if (is("answers")) result(GOOD);
  /* That do not end. */
  else if (is("hangs")) sleeps();
  else if (is("ignores-sigterm")) { signal(SIGTERM, SIG_IGN); sleeps(); }
  else if (is("reads-no-further")) sleeps();
  /* That start others. */
  else if (is("forks-2000")) {
    for (int n = 0; n < 2000; n++) {
      pid_t child = fork();
      if (child == 0) sleeps();
      if (child < 0 && n == 0) dies("fork");
      if (child < 0) break;
    }
    result(GOOD);
  }
  else if (is("starts-a-family-and-hangs")) {
    for (int n = 0; n < 3; n++) {
      pid_t child = fork();
      if (child < 0) dies("fork");
      if (child == 0) { if (fork() < 0) exit(1); sleeps(); }
    }
    sleeps();
  }
  else if (is("leaves-a-grandchild-on-the-pipes")) { if (leaves(0, 1) < 0) dies("fork"); result(GOOD); }
  else if (is("escapes-with-setsid")) { if (leaves(1, 0) < 0) dies("fork"); result(GOOD); }
  else if (is("escapes-with-setsid-and-the-pipes")) { if (leaves(1, 1) < 0) dies("fork"); result(GOOD); }
  /* That take more than there is. */
  else if (is("takes-all-memory")) {
    for (;;) {
      char *block = malloc(16 << 20);
      if (block == NULL) abort();
      memset(block, 1, 16 << 20);
    }
  }
  else if (is("nests-folders")) {
    for (int n = 0; n < 15000; n++) if (mkdir("d", 0700) < 0 || chdir("d") < 0) dies("nests");
    sleeps();
  }
  else if (is("makes-many-files")) {
    for (int n = 0;; n++) {
      char name[32];
      snprintf(name, sizeof name, "%d", n);
      close(open(name, O_WRONLY | O_CREAT, 0600));
    }
  }
  else if (is("fills-its-folder")) for (int n = 0; n < 8; n++) { takes_disk(n, 0, 0); if (n == 7) sleeps(); }
  else if (is("fills-its-folder-and-answers")) { for (int n = 0; n < 8; n++) takes_disk(n, 0, 0); result(GOOD); }
  else if (is("holds-what-it-removed")) { for (int n = 0; n < 8; n++) takes_disk(n, 1, 0); sleeps(); }
  else if (is("maps-what-it-removed")) { for (int n = 0; n < 8; n++) takes_disk(n, 1, 1); sleeps(); }
  else if (is("floods-stdout")) for (;;) bytes_of('y', 1 << 20, 1);
  else if (is("floods-stderr")) { bytes_of('x', 1 << 30, 2); result(GOOD); }
  else if (is("floods-stderr-for-ever")) for (;;) bytes_of('x', 1 << 20, 2);
  /* That do things in another order. */
  else if (is("answers-before-the-events")) { result(GOOD); to_the_end_of_events(); }
  else if (is("closes-stdin-early")) { close(0); result(GOOD); exit(0); }
  else if (is("drips")) {
    char answer[512];
    int length = snprintf(answer, sizeof answer,
      "{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[" GOOD "]}\n", id);
    for (int n = 0; n < length; n++) says(answer + n, 1);
  }
  /* That write what is no reply. */
  else if (is("writes-nothing")) exit(0);
  else if (is("half-a-json")) { printf("{\"type\":\"result\",\"id\":\"%s\",\"compac", id); fflush(stdout); exit(0); }
  else if (is("half-a-json-and-hangs")) { printf("{\"type\":\"result\",\"id\":\"%s\",\"compac", id); fflush(stdout); sleeps(); }
  else if (is("two-results")) {
    printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[" GOOD "]}\n", id);
    result(GOOD);
  }
  else if (is("a-result-then-exit-1")) { result(GOOD); exit(1); }
  else if (is("a-result-then-a-signal")) { result(GOOD); raise(SIGKILL); }
  else if (is("exit-1")) { fputs("last words\n", stderr); exit(1); }
  else if (is("a-log-line-first")) { printf("INFO starting up\n"); result(GOOD); }
  else if (is("a-wrong-id")) { strcpy(id, "c999"); result(GOOD); }
  else if (is("no-newline-at-the-end")) {
    printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[" GOOD "]}", id);
    fflush(stdout);
    exit(0);
  }
  else if (is("invalid-utf-8")) { printf("{\"type\":\"log\",\"id\":\"%s\",\"level\":\"info\",\"message\":\"\xe9\"}\n", id); result(GOOD); }
  else if (is("a-bom")) { printf("\xef\xbb\xbf"); result(GOOD); }
  else if (is("nul")) { says("\0\n", 2); result(GOOD); }
  else if (is("nul-in-a-summary")) summary("a\\u0000b", 1);
  else if (is("deep-nesting")) {
    printf("{\"type\":\"result\",\"id\":\"%s\",\"compactions\":[" GOOD "],\"x\":", id);
    for (int n = 0; n < 100000; n++) putchar('[');
    for (int n = 0; n < 100000; n++) putchar(']');
    says("}\n", 2);
  }
  else if (is("deep-nesting-unclosed")) { for (int n = 0; n < 100000; n++) putchar('['); says("\n", 1); }
  else if (is("a-huge-number")) result("{\"from_turn\":0,\"to_turn\":1e400," STRIP "}");
  else if (is("a-number-beyond-64-bits")) result("{\"from_turn\":0,\"to_turn\":18446744073709551616," STRIP "}");
  else if (is("duplicate-keys")) result("{\"from_turn\":0," TURN_0 "," STRIP "}");
  else if (is("a-timestamp-of-its-own")) result("{" TURN_0 "," STRIP ",\"timestamp\":\"2099-01-01 00:00:00.0\"}");
  else if (is("reports-an-error")) {
    printf("{\"type\":\"error\",\"id\":\"%s\",\"code\":\"mine\",\"message\":\"not like this\"}\n", id);
    fflush(stdout);
  }
  /* That propose what cannot be. */
  else if (is("a-range-inverted")) result("{\"from_turn\":1,\"to_turn\":0," STRIP "}");
  else if (is("a-range-out-of-bounds")) result("{\"from_turn\":0,\"to_turn\":2," STRIP "}");
  else if (is("the-greatest-range")) result("{\"from_turn\":0,\"to_turn\":18446744073709551615," STRIP "}");
  else if (is("beyond-its-kinds")) result("{" TURN_0 ",\"reasoning\":\"strip\"}");
  else if (is("an-empty-summary")) summary("", 1);
  else if (is("a-summary-of-1-mb")) summary("0123456789abcdef", 1 << 16);
  else if (is("a-summary-of-10-mb")) summary("0123456789", 1 << 20);
  else if (is("plays")) {
    int file = open(given, O_RDONLY), byte;
    if (file < 0 || dup2(file, 0) < 0) dies(given);
    clearerr(stdin);
    while ((byte = getchar()) != EOF) putchar(byte);
    exit(fflush(stdout) == 0 ? 0 : 1);
  }
  else if (is("changes-its-file")) { changes(self); changes(given); result(GOOD); }
  else { fprintf(stderr, "no mode `%s`\n", mode); exit(64); }
}

/* A string of the header, by the first key of that name. */
static void text(const char *key, char *into, size_t size) {
  char start[32];
  snprintf(start, sizeof start, "\"%s\":\"", key);
  char *value = strstr(line, start);
  if (value == NULL) return;
  value += strlen(start);
  snprintf(into, size, "%.*s", (int)strcspn(value, "\""), value);
}

int main(int argc, char **argv) {
  const char *verb = argc > 1 ? argv[argc - 1] : "";
  static char asked[64];
  self = argv[0];
  const char *name = strrchr(self, '/') ? strrchr(self, '/') + 1 : self;
  is_worker = strcmp(verb, "worker") == 0;
  mode = name;
  if (strcmp(verb, "describe") == 0) {
    if (is("hangs-in-describe")) sleeps();
    if (is("floods-in-describe")) for (;;) bytes_of('y', 1 << 20, 1);
    printf("{\"type\":\"describe\",\"protocols\":[1],\"name\":\"%s\",\"version\":\"1.0.0\",\"description\":\"means harm\","
      "\"produces\":[\"summary\",\"tool_calls\"%s],\"input\":\"full\",\"features\":[\"worker\"],\"determinism\":\"stochastic\","
      "\"options_schema\":{\"type\":\"object\",\"properties\":{\"mode\":{\"type\":\"string\"},\"path\":{\"type\":\"string\"}}}}\n", name, is("plays") ? ",\"reasoning\"" : "");
    return 0;
  }
  if (is("never-reads")) { result(GOOD); return 0; }
  if (is("answers-before-reading")) { result(GOOD); while (getchar() != EOF) {} return 0; }
  while (getline(&line, &line_size, stdin) > 0) {
    if (strncmp(line, "{\"type\":\"compact\"", 17) != 0) continue;
    text("id", id, sizeof id);
    text("mode", asked, sizeof asked);
    text("path", given, sizeof given);
    if (strcmp(name, "hostile") == 0) mode = asked;
    int is_early = is("answers-before-the-events") || is("closes-stdin-early") || is("reads-no-further");
    if (!is_early) to_the_end_of_events();
    behaves();
    if (!is_worker) return 0;
  }
  return 0;
}
