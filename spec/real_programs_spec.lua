-- Real programs do real work in a sandbox of `bwrap`, with the profile that
-- every script gets. One that is not on this machine is a skip with its reason.
-- If one fails, it is run again where it may be traced, and the failure names
-- the system calls that the sandbox refused to it.
--
-- All programs are named by their paths in /usr: what the PATH of the machine
-- finds first may lie outside of what a sandbox sees.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local leaks = require("spec.support.leaks")
local sync = require("portico.sync")

local nothing_left = leaks.frame()

-- name, what must be there, files of the workspace, the command, and what it
-- prints at its end.
local PROGRAMS = {
  {
    name = "bash", needs = { "/bin/bash" },
    files = {
      ["script.bash"] = [=[
        set -euo pipefail
        declare -A seen=([a]=1 [b]=2)
        words=(one two three)
        # Substitutions of processes are files in /dev/fd.
        diff <(printf '%s\n' "${words[@]}") <(printf 'one\ntwo\nthree\n')
        coproc CAT { cat; }
        echo through the coprocess >&"${CAT[1]}"
        read -r line <&"${CAT[0]}"
        [ "$line" = "through the coprocess" ]
        # Background jobs, waited for in any order, and a trap.
        for i in 1 2 3 4; do (sleep 0.0$i; exit $i) & jobs[i]=$!; done
        sum=0
        for i in 4 3 2 1; do wait "${jobs[i]}" || sum=$((sum + $?)); done
        trap 'caught=yes' USR1
        kill -USR1 $$
        head -c 100000 /dev/urandom | sort -R | wc -c >/dev/null
        [[ $(cat <<<"here") == here && -w /tmp && -n ${EPOCHREALTIME} ]]
        echo "bash: ${#seen[@]} $sum $caught"
      ]=],
    },
    command = { "/bin/bash", "script.bash" }, output = "bash: 2 10 yes\n",
  },
  {
    name = "python3: threads, subprocesses, files",
    needs = { "/usr/bin/python3" },
    files = {
      ["threads.py"] = [[
import concurrent.futures, os, queue, select, shutil, signal, sqlite3
import socket, subprocess, sys, tempfile, threading, mmap

results = queue.Queue()
threads = [threading.Thread(target=results.put, args=(i,)) for i in range(50)]
[t.start() for t in threads]
[t.join() for t in threads]
assert sorted(results.queue) == list(range(50))
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    assert sum(pool.map(lambda n: n * n, range(100))) == 328350
run = subprocess.run([sys.executable, "-c", "print(input())"], input="echo",
                     capture_output=True, text=True, check=True)
assert run.stdout == "echo\n"
with tempfile.TemporaryDirectory() as d:
    path = os.path.join(d, "file")
    with open(path, "wb") as f:
        f.write(b"x" * 100000)
        os.fsync(f.fileno())
    with open(path, "r+b") as f, mmap.mmap(f.fileno(), 0) as m:
        m[0:1] = b"y"
    shutil.copy2(path, path + "2")
    assert open(path + "2", "rb").read(2) == b"yx"
a, b = socket.socketpair()
poll = select.epoll()
poll.register(b, select.EPOLLIN)
a.send(b"ping")
assert poll.poll(5)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
signal.setitimer(signal.ITIMER_REAL, 0.05)
assert signal.sigwait([signal.SIGALRM]) == signal.SIGALRM
db = sqlite3.connect("py.db")
db.execute("pragma journal_mode = wal")
db.execute("create table t (x)")
db.executemany("insert into t values (?)", [(i,) for i in range(1000)])
db.commit()
print("threads:", db.execute("select sum(x) from t").fetchone()[0])
]],
    },
    command = { "/usr/bin/python3", "threads.py" },
    output = "threads: 499500\n",
  },
  {
    name = "python3: multiprocessing", needs = { "/usr/bin/python3" },
    files = {
      ["processes.py"] = [[
import multiprocessing as mp
from multiprocessing import shared_memory

def square(n):
    return n * n

def count(lock, value, queue):
    for _ in range(100):
        with lock:
            value.value += 1
    queue.put(mp.current_process().pid)

if __name__ == "__main__":
    for method in "fork", "spawn", "forkserver":
        context = mp.get_context(method)
        with context.Pool(4) as pool:
            assert sum(pool.map(square, range(100))) == 328350
        lock, value = context.Lock(), context.Value("i", 0, lock=False)
        queue = context.Queue()
        workers = [context.Process(target=count, args=(lock, value, queue))
                   for _ in range(4)]
        [w.start() for w in workers]
        assert len({queue.get(timeout=20) for w in workers}) == 4
        [w.join() for w in workers]
        assert value.value == 400, value.value
    memory = shared_memory.SharedMemory(create=True, size=1 << 20)
    memory.buf[0] = 7
    again = shared_memory.SharedMemory(memory.name)
    assert again.buf[0] == 7
    again.close()
    memory.close()
    memory.unlink()
    with mp.Manager() as manager:
        assert manager.dict(a=1)["a"] == 1
    print("multiprocessing: ok")
]],
    },
    command = { "/usr/bin/python3", "processes.py" },
    output = "multiprocessing: ok\n",
  },
  {
    name = "python3: asyncio", needs = { "/usr/bin/python3" },
    files = {
      ["tasks.py"] = [[
import asyncio, socket

async def serve(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()

async def ask(connect, *where):
    reader, writer = await connect(*where)
    writer.write(b"hello\n")
    line = await reader.readline()
    writer.close()
    return line

async def main():
    # The network is a loopback of its own.
    tcp = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = tcp.sockets[0].getsockname()[1]
    unix = await asyncio.start_unix_server(serve, "socket")
    lines = await asyncio.gather(
        *(ask(asyncio.open_connection, "127.0.0.1", port) for _ in range(20)),
        *(ask(asyncio.open_unix_connection, "socket") for _ in range(20)))
    assert lines == [b"HELLO\n"] * 40
    assert socket.getaddrinfo("localhost", 80)
    process = await asyncio.create_subprocess_exec(
        "/bin/cat", stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate(b"x" * 1000000)
    assert len(output) == 1000000 and process.returncode == 0
    try:
        await asyncio.wait_for(asyncio.sleep(10), 0.05)
    except asyncio.TimeoutError:
        print("asyncio: ok")

asyncio.run(main())
]],
    },
    command = { "/usr/bin/python3", "tasks.py" }, output = "asyncio: ok\n",
  },
  {
    name = "node", needs = { "/usr/bin/node" },
    files = {
      ["main.js"] = [[
const { Worker, isMainThread, parentPort } = require("worker_threads");
if (!isMainThread) {
  parentPort.postMessage(6 * 7);
} else {
  const fs = require("fs"), zlib = require("zlib"), net = require("net");
  const { execFileSync, fork } = require("child_process");
  const once = require("events").once;
  (async () => {
    const [answer] = await once(new Worker(__filename), "message");
    await fs.promises.writeFile("out", "x".repeat(100000));
    const size = (await fs.promises.stat("out")).size;
    const packed = await require("util").promisify(zlib.gzip)("y".repeat(1e6));
    const child = execFileSync("/bin/echo", ["child"]).toString().trim();
    const server = net.createServer((s) => s.end("pong")).listen(0,
      "127.0.0.1");
    await once(server, "listening");
    const client = net.connect(server.address().port, "127.0.0.1");
    const [data] = await once(client, "data");
    server.close();
    const hash = require("crypto").createHash("sha256").update("x")
      .digest("hex").slice(0, 8);
    console.log("node:", answer, size, packed.length < 5000, child,
      data.toString(), hash);
  })();
}
]],
    },
    command = { "/usr/bin/node", "main.js" },
    output = "node: 42 100000 true child pong 2d711642\n",
  },
  {
    name = "gcc and make", needs = { "/usr/bin/gcc", "/usr/bin/make" },
    files = {
      ["main.c"] = [[
#include <pthread.h>
#include <stdio.h>
int square(int n);
static void *run(void *p) { *(int *)p = square(*(int *)p); return NULL; }
int main(void) {
  pthread_t t[8];
  int n[8], sum = 0;
  for (int i = 0; i < 8; i++) {
    n[i] = i;
    if (pthread_create(&t[i], NULL, run, &n[i])) return 1;
  }
  for (int i = 0; i < 8; i++) { pthread_join(t[i], NULL); sum += n[i]; }
  printf("gcc: %d\n", sum);
  return 0;
}
]],
      ["square.c"] = "int square(int n) { return n * n; }\n",
      ["Makefile"] = "main: main.o square.o\n"
        .. "\t$(CC) -pthread -o $@ $^\n"
        .. "%.o: %.c\n\t$(CC) -O2 -pipe -pthread -c -o $@ $<\n",
    },
    command = "/usr/bin/make -s -j4 CC=/usr/bin/gcc && ./main",
    output = "gcc: 140\n",
  },
  {
    name = "git", needs = { "/usr/bin/git" },
    command = [[
      set -e
      git=/usr/bin/git
      $git config --global user.name Somebody
      $git config --global user.email somebody@example.org
      $git init -q -b main repository
      cd repository
      seq 1000 >file
      mkdir -p a/b && ln -s ../file a/link
      $git add . && $git commit -q -m first
      $git checkout -q -b other && seq 2000 >file && $git commit -q -a -m second
      $git checkout -q main && echo more >new && $git add new
      $git commit -q -m third && $git merge -q -m merged other
      $git gc -q && $git fsck --no-progress
      cd .. && $git clone -q --no-local repository copy
      cd copy && [ "$(wc -l <file)" = 2000 ] && [ -z "$($git status -s)" ]
      echo "git: $($git log --oneline | wc -l)"
    ]],
    output = "git: 4\n",
  },
  {
    name = "tar", needs = { "/bin/tar", "/bin/gzip" },
    command = [[
      set -e
      umask 022
      mkdir -p tree/deep/er && seq 10000 >tree/deep/file
      ln -s deep/file tree/link && ln tree/deep/file tree/hard
      chmod 640 tree/deep/file && mkfifo tree/fifo
      /bin/tar -czf tree.tar.gz tree
      mkdir out && /bin/tar -C out -xzpf tree.tar.gz
      cmp tree/deep/file out/tree/link
      [ "$(stat -c %a:%h out/tree/hard)" = 640:2 ] && [ -p out/tree/fifo ]
      /bin/tar -cf - -C out tree | /bin/tar -tf - | wc -l | sed 's/^ */tar: /'
    ]],
    output = "tar: 7\n",
  },
  {
    name = "coreutils: modes and copies", needs = { "/usr/bin/install" },
    command = [[
      set -e
      umask 022
      cp -a /usr/bin/install ./program && cp -p program again
      install -D -m 755 program bin/program && install -d -m 1777 drop
      install -m 640 /dev/null bin/data
      mkdir -m 700 private && mknod pipe p && chmod +t private
      # What comes from the system may be set-id; copies are not.
      cp --preserve=mode,timestamps /usr/bin/passwd . 2>/dev/null || true
      [ ! -u passwd ]
      cp -a bin copies && mv copies moved && touch -r moved bin
      chmod -R u=rwX,go=rX bin && truncate -s 10 bin/data
      # A refused bit is said so.
      ! chmod u+s again 2>why && grep -q 'not permitted' why
      echo "modes: $(stat -c %a bin/program moved/data private drop | xargs)"
    ]],
    output = "modes: 755 640 1700 1777\n",
  },
  {
    name = "sqlite3", needs = { "/usr/bin/sqlite3" },
    command = [[
      set -e
      db() { /usr/bin/sqlite3 -cmd '.timeout 10000' base.db "$1"; }
      db 'pragma journal_mode = wal; create table t (x integer);' >/dev/null
      for i in 1 2 3 4; do
        db "with recursive c(n) as (select 1 union all select n + 1 from c
          where n < 1000) insert into t select n from c;" &
      done
      wait
      db 'create index i on t (x); pragma integrity_check; vacuum;'
      echo "sqlite3: $(db 'select count(*), sum(x) from t')"
    ]],
    output = "ok\nsqlite3: 4000|2002000\n",
  },
  {
    name = "a JVM", needs = { "/usr/bin/java" },
    files = {
      ["Main.java"] = [[
import java.nio.file.*;
import java.util.concurrent.*;
import java.util.stream.*;

public class Main {
  public static void main(String[] args) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(8);
    int sum = 0;
    for (Future<Integer> f : pool.invokeAll(IntStream.range(0, 100)
        .mapToObj(i -> (Callable<Integer>) () -> i * i)
        .collect(Collectors.toList())))
      sum += f.get();
    pool.shutdown();
    Files.writeString(Path.of("out"), "written");
    Process p = new ProcessBuilder("/bin/cat", "out").start();
    String text = new String(p.getInputStream().readAllBytes());
    System.gc();
    System.out.println("java: " + sum + " " + text + " " + p.waitFor());
  }
}
]],
    },
    -- The compiler is part of it: a single file is compiled before it is run.
    command = { "/usr/bin/java", "Main.java" },
    output = "java: 328350 written 0\n",
  },
}

local function write_files(sb, files)
  for name, text in pairs(files or {}) do
    sb.fs:write(name, text)
  end
end

local function run(sb, command)
  return sb:exec(command, { timeout = 60, stderr = "merge" })
end

-- Runs a command again in a sandbox that differs only in that it may be
-- traced. Returns a text with what the sandbox refused to it: each call once.
local function refused(files, command)
  local plugin = assert(os.getenv("PORTICO_TEST_PLUGINS")) .. "/portico-weak.so"
  if not env.exists("/usr/bin/strace") then
    return "what was refused is not known: there is no /usr/bin/strace"
  end
  local sb <close> = sync.sandbox({
    backend = plugin, settings = { weaken = "ptrace" },
  })
  write_files(sb, files)
  if type(command) == "string" then
    command = { "/bin/sh", "-c", command }
  end
  run(sb, table.move(command, 1, #command, 8, {
    "/usr/bin/strace", "-f", "-qq", "-e", "status=failed", "-o", "/tmp/trace",
  }))
  local found, seen = {}, {}
  for line in sb.fs:read("/tmp/trace"):gmatch("[^\n]+") do
    local name, code = line:match("^%d+%s+([%w_]+)%(.*= %-1 (E%u+)")
    if (code == "ENOSYS" or code == "EPERM" or code == "EACCES")
      and not seen[name .. code]
    then
      seen[name .. code] = true
      found[#found + 1] = line
    end
  end
  return #found > 0 and "refused to it:\n  " .. table.concat(found, "\n  ")
    or "nothing was refused to it"
end

-- The first thing that a program needs and this machine does not have.
local function missing(needs)
  for _, path in ipairs(needs) do
    if not env.exists(path) then
      return path
    end
  end
end

describe("in the default profile", function()
  for _, program in ipairs(PROGRAMS) do
    local absent = missing(program.needs)
    if absent then
      pending(("%s works: there is no %s on this machine"):format(program.name,
        absent))
    else
      backends.it(it, backends.bwrap, program.name .. " works", function()
        local sb <close> = sync.sandbox({ backend = "bwrap" })
        write_files(sb, program.files)
        local r = run(sb, program.command)
        if r.code ~= 0 or r.stdout ~= program.output then
          error(("%s, and printed:\n%s\n%s"):format(tostring(r), r.stdout,
            refused(program.files, program.command)), 0)
        end
      end)
    end
  end

  local absent = missing({ "/usr/bin/strace", "/usr/bin/unshare" })
  if absent then
    pending("what was refused is named: there is no " .. absent
      .. " on this machine")
  else
    backends.it(it, backends.bwrap, "what was refused is named", function()
      local text = refused(nil, "/usr/bin/unshare -U true; nice -n -5 true")
      assert.truthy(text:find("unshare%(CLONE_NEWUSER%)%s+= %-1 E"), text)
    end)
  end

  it("leaves nothing behind", nothing_left)
end)
