"""A file system that gets stuck, by /dev/fuse alone, for specs.

    python3 stuck_fs.py DIRECTORY

Mounts it on DIRECTORY and says "mounted"; unmounts and ends when its input
does. It holds the files "good", "stuck", whose content never comes, and "dead",
which is never found nor said to be missing. Exit code 77: it cannot be mounted
here; the reason is on the last line of the output.
"""

import ctypes
import errno
import os
import select
import stat
import struct
import sys

CONTENT = b"good\n"
ROOT, GOOD, STUCK = 1, 2, 3
NAMES = {b"good": GOOD, b"stuck": STUCK}
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS = 1, 2, 3, 14, 15, 17
RELEASE, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 18, 25, 26, 27, 28, 29
INTERRUPT, BATCH_FORGET = 36, 42
UNANSWERED = (FORGET, INTERRUPT, BATCH_FORGET)


def attributes(node):
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o644
    size = 0 if node == ROOT else len(CONTENT)
    return struct.pack("=QQQQQQIIIIIIIIII", node, size, 1, 0, 0, 0, 0, 0, 0,
                       mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)


def directory(offset):
    listing = b""
    for i, (name, node) in enumerate(sorted(NAMES.items()), 1):
        if i > offset:
            entry = struct.pack("=QQII", node, i, len(name), 8) + name
            listing += entry.ljust(-len(entry) % 8 + len(entry), b"\0")
    return listing


def answer(opcode, node, body):
    """The answer's body; a negative errno; or None: it never comes."""
    if opcode == INIT:
        return struct.pack("=IIIIHHIIHHI28x", 7, 31, 65536, 0, 8, 8, 65536, 1,
                           16, 0, 0)
    if opcode == LOOKUP:
        name = body.rstrip(b"\0")
        if name == b"dead":
            return None
        if name not in NAMES:
            return -errno.ENOENT
        return (struct.pack("=QQQQII", NAMES[name], 0, 0, 0, 0, 0)
                + attributes(NAMES[name]))
    if opcode == GETATTR:
        return struct.pack("=QII", 0, 0, 0) + attributes(node)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("=QII", 0, 0, 0)
    if opcode == READDIR:
        return directory(struct.unpack_from("=QQ", body)[1])
    if opcode == READ:
        return None if node == STUCK else CONTENT
    if opcode in (FLUSH, RELEASE, RELEASEDIR):
        return b""
    return -errno.ENOSYS


def serve(fuse):
    while True:
        ready = select.select([fuse, 0], [], [])[0]
        if 0 in ready:
            return
        try:
            request = os.read(fuse, 1 << 20)
        except OSError as e:
            if e.errno in (errno.ENOENT, errno.EINTR):
                continue  # it was interrupted meanwhile
            return
        opcode, unique, node = struct.unpack_from("=IQQ", request, 4)
        if opcode in UNANSWERED:
            continue
        body = answer(opcode, node, request[40:])
        if body is None:
            continue
        error = body if isinstance(body, int) else 0
        body = b"" if error else body
        try:
            os.write(fuse, struct.pack("=IiQ", 16 + len(body), error, unique)
                     + body)
        except OSError:
            pass  # nobody waits for it any more


def main():
    libc = ctypes.CDLL(None, use_errno=True)
    path = os.fsencode(sys.argv[1])
    try:
        fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as e:
        print("/dev/fuse:", e.strerror)
        sys.exit(77)
    options = (f"fd={fuse},rootmode=40000,user_id={os.getuid()},"
               f"group_id={os.getgid()},allow_other")
    if libc.mount(b"stuck", path, b"fuse.stuck", 6, options.encode()) != 0:
        print("mounting:", os.strerror(ctypes.get_errno()))
        sys.exit(77)
    print("mounted", flush=True)
    serve(fuse)
    os.close(fuse)  # who waits for it gets an error
    libc.umount2(path, 2)


main()
