/* Attempts that a jail must deny, one per argument. `without` simulates a machine without Landlock or seccomp.
 * Exits with 0 if the attempt was allowed, with 1 if it was denied (the error is on stdout), and with 2 if it could
 * not be made. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif

static int report(long result) {
  if (result >= 0) { printf("allowed\n"); return 0; }
  printf("%s\n", strerrorname_np(errno));
  return 1;
}

static int skip(const char *reason) { printf("skipped: %s\n", reason); return 2; }

static int read_byte(const char *path) {
  char byte;
  int file = open(path, O_RDONLY);
  if (file < 0) return report(-1);
  return report(read(file, &byte, 1));
}

static const char *parent_file(const char *name) {
  static char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", getppid(), name);
  return path;
}

static int connect_to(int family, int type, struct sockaddr *address, socklen_t length) {
  int s = socket(family, type, 0);
  if (s < 0) return report(-1);
  return report(connect(s, address, length));
}

static struct sockaddr_in loopback_address(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

static struct sockaddr_un unix_address(const char *path, socklen_t *length) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  *length = offsetof(struct sockaddr_un, sun_path) + strlen(path) + 1;
  /* An abstract name starts with @. */
  if (path[0] == '@') { address.sun_path[0] = 0; *length -= 1; }
  return address;
}

/* A pair of datagram sockets is connected, but can still send to any address. */
static int datagram_from_a_pair(int type, const char *path) {
  int pair[2];
  socklen_t length;
  struct sockaddr_un address = unix_address(path, &length);
  if (socketpair(AF_UNIX, type, 0, pair) < 0) return report(-1);
  return report(sendto(pair[0], "x", 1, 0, (struct sockaddr *)&address, length));
}

static int after_fork(long pid) {
  if (pid == 0) _exit(0);
  if (pid > 0) waitpid(pid, NULL, 0);
  return report(pid);
}

static void *return_at_once(void *unused) { return unused; }

static void *wait_forever(void *unused) { for (;;) pause(); return unused; }

static int start_thread(void) {
  pthread_t thread;
  int error = pthread_create(&thread, NULL, return_at_once, NULL);
  if (error) { errno = error; return report(-1); }
  return report(-pthread_join(thread, NULL));
}

static int attempt(int argc, char **argv) {
  const char *name = argv[1], *argument = argc > 2 ? argv[2] : "";
#define IS(attempt_name) (strcmp(name, attempt_name) == 0)
  /* Files. */
  if (IS("nothing")) return report(0);
  if (IS("read")) return read_byte(argument);
  if (IS("list")) return report(open(argument, O_RDONLY | O_DIRECTORY));
  if (IS("create")) return report(open(argument, O_WRONLY | O_CREAT | O_EXCL, 0600));
  if (IS("write")) return report(open(argument, O_WRONLY));
  if (IS("truncate")) return report(truncate(argument, 1));
  if (IS("unlink")) return report(unlink(argument));
  if (IS("rename")) return report(rename(argument, argv[3]));
  if (IS("link")) return report(link(argument, "linked"));
  if (IS("symlink-and-read")) { if (symlink(argument, "link") < 0) return report(-1); return read_byte("link"); }
  if (IS("mkdir")) return report(mkdir(argument, 0700));
  if (IS("mkfifo")) return report(mkfifo(argument, 0600));
  if (IS("chmod")) return report(chmod(argument, 0644));
  if (IS("chown")) return report(chown(argument, getuid(), getgid()));
  if (IS("utimes")) return report(utimes(argument, NULL));
  if (IS("setxattr")) return report(setxattr(argument, "user.probe", "x", 1, 0));
  /* Missing attributes also prove that the call was allowed. */
#define ALLOWED(result, harmless_error) ((result) >= 0 || errno == (harmless_error) ? 0 : -1)
  if (IS("getxattr")) { char b[64]; return report(ALLOWED(getxattr(argument, "user.probe", b, 64), ENODATA)); }
  if (IS("lgetxattr")) { char b[64]; return report(ALLOWED(lgetxattr(argument, "user.probe", b, 64), ENODATA)); }
  if (IS("fgetxattr")) {
    char b[64];
    int file = open(argument, O_RDONLY);
    if (file < 0) return skip("no file");
    return report(ALLOWED(fgetxattr(file, "user.probe", b, 64), ENODATA));
  }
  if (IS("listxattr")) { char b[64]; return report(listxattr(argument, b, 64)); }
  if (IS("llistxattr")) { char b[64]; return report(llistxattr(argument, b, 64)); }
  if (IS("flistxattr")) {
    char b[64];
    int file = open(argument, O_RDONLY);
    if (file < 0) return skip("no file");
    return report(flistxattr(file, b, 64));
  }
  if (IS("getxattrat")) {
    char b[64];
    struct { uint64_t value; uint32_t size, flags; } args = {(uintptr_t)b, 64, 0};
    return report(ALLOWED(syscall(464, AT_FDCWD, argument, 0, "user.probe", &args, sizeof args), ENODATA));
  }
  if (IS("listxattrat")) { char b[64]; return report(syscall(465, AT_FDCWD, argument, 0, b, 64)); }
  if (IS("lease")) {
    int file = open(argument, O_RDONLY);
    if (file < 0) return skip("no file");
    return report(fcntl(file, F_SETLEASE, F_RDLCK));
  }
  if (IS("watch-folder")) {
    int file = open(argument, O_RDONLY | O_DIRECTORY);
    if (file < 0) return skip("no folder");
    return report(fcntl(file, F_NOTIFY, DN_CREATE));
  }
  if (IS("inotify")) return report(syscall(SYS_inotify_init1, 0));
  if (IS("handle")) {
    struct { struct file_handle handle; char bytes[128]; } h = {.handle.handle_bytes = 128};
    int mount;
    return report(name_to_handle_at(AT_FDCWD, argument, &h.handle, &mount, 0));
  }
  if (IS("use-private-folder")) {
    char bytes[2];
    if (mkdir("a", 0700) < 0) return report(-1);
    int file = open("a/b", O_RDWR | O_CREAT, 0600);
    if (file < 0 || write(file, "xy", 2) != 2 || ftruncate(file, 1) < 0) return report(-1);
    if (pread(file, bytes, 2, 0) != 1 || rename("a/b", "a/c") < 0 || symlink("a/c", "d") < 0) return report(-1);
    if (unlink("d") < 0 || unlink("a/c") < 0) return report(-1);
    return report(rmdir("a"));
  }
  if (IS("allocate") || IS("allocate-beyond-end") || IS("make-a-hole")) {
    int file = open("allocated", O_RDWR | O_CREAT, 0600);
    if (file < 0) return skip("no file");
    int mode = IS("allocate") ? 0 : FALLOC_FL_KEEP_SIZE | (IS("make-a-hole") ? FALLOC_FL_PUNCH_HOLE : 0);
    return report(ALLOWED(fallocate(file, mode, 0, 4096), EOPNOTSUPP));
  }
  if (IS("reserve-by-ioctl")) {
    /* struct space_resv of the kernel. Its first two requests and the last one allocate beyond the end. */
    struct { int16_t type, whence; int64_t start, len; int32_t sysid; uint32_t pid; int32_t pad[4]; } range = {.len = 4096};
    int file = open("allocated", O_RDWR | O_CREAT, 0600);
    if (file < 0) return skip("no file");
    return report(ALLOWED(ioctl(file, _IOW('X', atoi(argument), range), &range), EOPNOTSUPP));
  }
  if (IS("move-in-private-folder")) {
    if (mkdir("a", 0700) < 0 || open("a/b", O_RDWR | O_CREAT, 0600) < 0) return report(-1);
    return report(rename("a/b", "c"));
  }
  /* Other processes. */
  if (IS("read-environment-of-parent")) return read_byte(parent_file("environ"));
  if (IS("read-memory-of-parent")) return report(open(parent_file("mem"), O_RDONLY));
  if (IS("read-arguments-of-parent")) return read_byte(parent_file("cmdline"));
  if (IS("list-processes")) return report(open("/proc", O_RDONLY | O_DIRECTORY));
  if (IS("ptrace")) return report(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL));
  if (IS("ptrace-me")) return report(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
  if (IS("read-memory-by-call")) {
    char byte;
    struct iovec own = {&byte, 1}, other = {(void *)strtoul(argument, NULL, 0), 1};
    return report(process_vm_readv(getppid(), &own, 1, &other, 1, 0));
  }
  if (IS("signal-parent")) return report(kill(getppid(), 0));
  if (IS("signal-thread-of-parent")) return report(syscall(SYS_tgkill, getppid(), getppid(), 0));
  if (IS("signal-by-thread-alone")) return report(syscall(SYS_tkill, getppid(), 0));
  if (IS("signal-all")) return report(kill(-1, 0));
  if (IS("queue-signal-to-parent")) return report(sigqueue(getppid(), 0, (union sigval){0}));
  if (IS("signal-by-descriptor")) {
    int process = syscall(SYS_pidfd_open, getppid(), 0);
    if (process < 0) return report(-1);
    return report(syscall(SYS_pidfd_send_signal, process, 0, NULL, 0));
  }
  if (IS("watch-parent")) return report(syscall(SYS_pidfd_open, getppid(), 0));
  if (IS("signal-by-file")) return report(fcntl(0, F_SETOWN, getppid()));
  if (IS("signal-itself")) return report(kill(getpid(), 0) | kill(0, 0) | raise(SIGCHLD));
  if (IS("limit-parent")) { struct rlimit l; return report(prlimit(getppid(), RLIMIT_NOFILE, NULL, &l)); }
  if (IS("renice-parent")) return report(setpriority(PRIO_PROCESS, getppid(), getpriority(PRIO_PROCESS, getppid())));
  if (IS("pin-parent")) {
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    return report(sched_setaffinity(getppid(), sizeof all, &all));
  }
  if (IS("outlive-host")) return report(prctl(PR_SET_PDEATHSIG, 0));
  /* New processes. */
  if (IS("fork")) return after_fork(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (IS("fork-by-library")) return after_fork(fork());
#ifdef SYS_fork
  if (IS("fork-by-its-own-call")) return after_fork(syscall(SYS_fork));
  if (IS("fork-by-x32")) return after_fork(syscall(0x40000000 | SYS_fork));
#else
  if (IS("fork-by-its-own-call") || IS("fork-by-x32")) return skip("no such call");
#endif
#ifdef __x86_64__
  if (IS("call-of-another-architecture")) {
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
    return report(result);
  }
#endif
  if (IS("clone3")) {
    struct { uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack[6]; } args = {.exit_signal = SIGCHLD};
    return after_fork(syscall(435, &args, sizeof args));
  }
  if (IS("wait-for-children-of-others")) { errno = 0; return report(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? -1 : 0); }
  if (IS("stop-its-group")) {
    int status;
    pid_t child = fork();
    if (child < 0) return skip("no child");
    /* Uses a new group if allowed, else the strategy's group. */
    if (child == 0) { setpgid(0, 0); _exit(kill(0, SIGSTOP) < 0); }
    waitpid(child, &status, WUNTRACED);
    if (WIFSTOPPED(status)) { kill(child, SIGKILL); waitpid(child, &status, 0); return report(0); }
    errno = EPERM;
    return report(-1);
  }
  if (IS("send-descriptor")) {
    int pair[2];
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec byte = {"x", 1};
    struct msghdr message = {.msg_iov = &byte, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) return skip("no pair");
    return report(sendmsg(pair[0], &message, 0));
  }
  if (IS("hide-from-host")) return report(prctl(PR_SET_DUMPABLE, 0));
  if (IS("thread")) return start_thread();
  if (IS("many-threads")) {
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    for (int n = 0; n < atoi(argument); n++) {
      int error = pthread_create(&thread, &small, wait_forever, NULL);
      if (error) { errno = error; return report(-1); }
    }
    return report(0);
  }
  if (IS("setsid-in-a-child")) {
    int status;
    pid_t child = fork();
    if (child < 0) return skip("no child");
    if (child == 0) _exit(setsid() < 0);
    waitpid(child, &status, 0);
    errno = EPERM;
    return report(WEXITSTATUS(status) ? -1 : 0);
  }
  if (IS("exec")) { execl(argument, argument, "allowed", (char *)NULL); return report(-1); }
  if (IS("exec-of-its-own-making")) {
    int in = open(argv[0], O_RDONLY), out = open("copy", O_WRONLY | O_CREAT, 0700);
    char buffer[65536];
    ssize_t n;
    while ((n = read(in, buffer, sizeof buffer)) > 0) if (write(out, buffer, n) != n) return skip("no copy");
    close(out);
    execl("./copy", "copy", "nothing", (char *)NULL);
    return report(-1);
  }
  if (IS("exec-from-memory")) {
    int file = syscall(SYS_memfd_create, "x", 0);
    return report(file);
  }
  if (IS("unshare")) return report(syscall(SYS_unshare, CLONE_NEWUSER));
  if (IS("clone-namespace")) return after_fork(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
  if (IS("setns")) { int file = open("/proc/self/ns/uts", O_RDONLY); return report(syscall(SYS_setns, file, 0)); }
  if (IS("mount")) return report(mount("none", ".", "tmpfs", 0, NULL));
  /* Sockets. */
  if (IS("tcp")) { struct sockaddr_in a = loopback_address(atoi(argument)); return connect_to(AF_INET, SOCK_STREAM, (void *)&a, sizeof a); }
  if (IS("tcp-listen")) {
    struct sockaddr_in a = loopback_address(0);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (void *)&a, sizeof a) < 0) return report(-1);
    return report(listen(s, 1));
  }
  if (IS("listen-unbound")) {
    int s = socket(AF_INET, SOCK_STREAM, atoi(argument));
    if (s < 0) return report(-1);
    return report(listen(s, 1));
  }
  if (IS("listen-on-a-pair")) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0) return skip("no pair");
    return report(ALLOWED(listen(pair[0], 1), EINVAL));
  }
  if (IS("accept")) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0) return report(-1);
    return report(ALLOWED(accept(s, NULL, NULL), EINVAL));
  }
  if (IS("accept4")) {
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0) return report(-1);
    return report(ALLOWED(accept4(s, NULL, NULL, SOCK_CLOEXEC), EINVAL));
  }
  if (IS("udp-bind")) {
    struct sockaddr_in a = loopback_address(0);
    int s = socket(AF_INET, SOCK_DGRAM, 0);
    if (s < 0) return report(-1);
    return report(bind(s, (void *)&a, sizeof a));
  }
  if (IS("tcp6")) return report(socket(AF_INET6, SOCK_STREAM, 0));
  if (IS("udp")) { struct sockaddr_in a = loopback_address(9); return connect_to(AF_INET, SOCK_DGRAM, (void *)&a, sizeof a); }
  if (IS("unix")) { socklen_t n; struct sockaddr_un a = unix_address(argument, &n); return connect_to(AF_UNIX, SOCK_DGRAM, (void *)&a, n); }
  if (IS("netlink")) return report(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
  if (IS("vsock")) return report(socket(40, SOCK_STREAM, 0));
  if (IS("packet")) return report(socket(17, SOCK_RAW, 0));
  if (IS("pair")) { int pair[2]; return report(socketpair(AF_UNIX, SOCK_STREAM, 0, pair)); }
  if (IS("datagram-from-a-pair")) return datagram_from_a_pair(SOCK_DGRAM, argument);
  if (IS("datagram-from-a-raw-pair")) return datagram_from_a_pair(SOCK_RAW, argument);
  if (IS("io_uring")) { char params[256] = {0}; return report(syscall(SYS_io_uring_setup, 1, params)); }
  /* Other kernel interfaces. */
  if (IS("statmount") || IS("listmount")) {
    /* struct mnt_id_req in its first size. Without a mount id the result is useless, but proves the call. */
    struct { uint32_t size, spare; uint64_t mount, parameter; } request = {24, 0, UINT64_MAX, 2};
    char buffer[512];
    return report(syscall(IS("statmount") ? 457 : 458, &request, buffer, IS("statmount") ? sizeof buffer : 8, 0));
  }
  if (IS("keyring")) return report(syscall(SYS_keyctl, 0, -3, 1));
  if (IS("bpf")) { char attributes[64] = {0}; return report(syscall(SYS_bpf, 0, attributes, 64)); }
  if (IS("perf")) { uint32_t attributes[32] = {1, 128, 1}; return report(syscall(SYS_perf_event_open, attributes, 0, -1, -1, 0)); }
  if (IS("userfaultfd")) return report(syscall(SYS_userfaultfd, 1));
  if (IS("kernel-log")) return report(syscall(SYS_syslog, 10, 0, 0));
  if (IS("shared-segment")) return report(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600));
  if (IS("message-queue")) return report(msgget(IPC_PRIVATE, IPC_CREAT | 0600));
  /* Memory. No limit counts the first two kinds. */
  if (IS("shared-memory")) return report(mmap(0, 1 << 20, 3, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
  if (IS("growing-memory")) return report(mmap(0, 1 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, -1, 0) == MAP_FAILED ? -1 : 0);
  if (IS("much-memory")) return report(mmap(0, 600 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
  return skip("no such attempt");
}

/* Makes the system calls of one feature fail as on a machine without it, then executes the remaining arguments. */
static int without(char **argv) {
  const char *feature = argv[0];
  uint32_t first = SYS_landlock_create_ruleset, last = first + 2, prctl_call = UINT32_MAX;
  if (strcmp(feature, "seccomp") == 0) { first = last = SYS_seccomp; prctl_call = SYS_prctl; }
  struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
    BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, prctl_call, 0, 4),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_SECCOMP, 1, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return skip("no filter");
  execv(argv[1], argv + 1);
  return skip("no exec");
}

/* Changes the user, then executes the remaining arguments. */
static int as_user(char **argv) {
  uid_t id = atoi(argv[0]);
  if (setresgid(id, id, id) || setresuid(id, id, id)) return skip("no other user");
  execv(argv[1], argv + 1);
  return skip("no exec");
}

int main(int argc, char **argv) {
  if (argc > 3 && strcmp(argv[1], "without") == 0) return without(argv + 2);
  if (argc > 3 && strcmp(argv[1], "as") == 0) return as_user(argv + 2);
  return argc > 1 ? attempt(argc, argv) : skip("no attempt");
}
