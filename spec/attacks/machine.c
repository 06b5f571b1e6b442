/* SPDX-License-Identifier: MIT */
/*
 * Files of the kernel by which the machine is steered or read, and devices.
 */
#include "attack.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Opens what must not be opened; what is not there is as good. */
static void must_not_open(const char *path, int flags) {
  int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC);
  int error = errno;
  if (fd >= 0)
    close(fd);
  errno =
      error == ENOENT || error == EROFS || error == ENOTDIR ? EACCES : error;
  judge2(path, fd, EACCES, EPERM, 0);
}

static void by_writing(void) {
  static const char *const files[] = {"/proc/sysrq-trigger",
                                      "/proc/sys/fs/binfmt_misc/register",
                                      "/proc/sys/fs/mqueue/queues_max",
                                      "/proc/sys/fs/suid_dumpable",
                                      "/proc/sys/kernel/core_pattern",
                                      "/proc/sys/kernel/hostname",
                                      "/proc/sys/kernel/modprobe",
                                      "/proc/sys/kernel/sem",
                                      "/proc/sys/kernel/shmmax",
                                      "/proc/sys/net/ipv4/ip_forward",
                                      "/proc/sys/user/max_user_namespaces",
                                      "/proc/sys/vm/drop_caches",
                                      "/proc/sys/vm/overcommit_memory",
                                      "/proc/irq/default_smp_affinity",
                                      "/proc/mtrr",
                                      "/sys/kernel/uevent_helper",
                                      "/sys/power/state",
                                      "/sys/fs/cgroup/cgroup.procs"};
  for (size_t i = 0; i < COUNT(files); i++)
    must_not_open(files[i], O_WRONLY);
  /* Anybody may open it where it is not read-only. */
  int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
  long rc = fd < 0 ? fd : write(fd, "9", 1);
  judge2("ns_last_pid", rc, EROFS, EPERM, 0);
}

static void by_reading(void) {
  static const char *const files[] = {
      "/dev/kmsg",         "/dev/kvm",
      "/dev/mem",          "/dev/port",
      "/dev/fuse",         "/dev/loop0",
      "/dev/sda",          "/dev/vda",
      "/dev/vsock",        "/dev/net/tun",
      "/proc/kcore",       "/proc/kmsg",
      "/proc/kpagecount",  "/sys/kernel/security",
      "/sys/kernel/debug", "/proc/1/root/etc/shadow"};
  for (size_t i = 0; i < COUNT(files); i++)
    must_not_open(files[i], O_RDONLY);
}

/* The device nodes that anybody may have: null, zero, full, random, urandom,
 * tty, ptmx. */
static bool is_harmless(dev_t device) {
  return device == makedev(1, 3) || device == makedev(1, 5) ||
         device == makedev(1, 7) || device == makedev(1, 8) ||
         device == makedev(1, 9) || device == makedev(5, 0) ||
         device == makedev(5, 2);
}

static void by_device(void) {
  DIR *dir = opendir("/dev");
  struct stat st;
  if (!dir)
    give_up("/dev");
  for (struct dirent *e; (e = readdir(dir));)
    if (fstatat(dirfd(dir), e->d_name, &st, 0) == 0 &&
        (S_ISBLK(st.st_mode) ||
         (S_ISCHR(st.st_mode) && !is_harmless(st.st_rdev))))
      went_through(e->d_name);
  closedir(dir);
  judge("mknod", mknod("/tmp/memory", S_IFCHR | 0666, makedev(1, 1)), EPERM, 0);
  judge("mknod", mknod("/tmp/disk", S_IFBLK | 0666, makedev(254, 0)), EPERM, 0);
}

/* What the above sees where it may: the control. */
static void by_own(void) {
  const char *path = "/tmp/own";
  close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  must_not_open(path, O_WRONLY);
  unlink(path);
}

int main(int argc, char **argv) {
  static const way ways[] = {{"write", by_writing},
                             {"read", by_reading},
                             {"device", by_device},
                             {"own", by_own}};
  return take_way(ways, COUNT(ways), argc > 1 ? argv[1] : NULL);
}
