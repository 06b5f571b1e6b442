-- `portico exec`: a command in a sandbox in place of the command itself.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local exec_command = require("spec.support.exec_command")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local BIN = env.quoted(assert(os.getenv("PORTICO_BIN"),
  "PORTICO_BIN is not set: run the tests by ./dev test"))

local sh = exec_command.sh

local function prints(...)
  exec_command.prints(it, ...)
end

describe("portico exec", function()
  prints("has the exit code of the command", "0 7 255 137 143 \n", [[
    for way in "exit 0" "exit 7" "exit 255" 'kill -9 $$' 'kill -TERM $$'; do
      $exec -- sh -c "$way"
      printf '%%s ' $?
    done
    echo
  ]])

  prints("tells failures apart by 125, 126 and 127", [[
portico: nosuch: no such file or directory
hint: the command is looked up inside the sandbox, in its PATH, not in the ]]
    .. [[one of this shell
127
portico: /: it is a directory
126
portico: /no/dir: the working directory cannot be entered: no such file or ]]
    .. [[directory
125
]], [[
    $exec -- nosuch; echo $?
    $exec -- /; echo $?
    $exec --cwd /no/dir -- true; echo $?
  ]])

  prints("has these codes whatever is called alike, and of what PATH finds",
    "126 127 126 126 126 \n125 125 125 \nno hints\n", [[
    echo plain >plain; echo echo >text
    printf '#!/no/such\n' >alone; chmod 755 alone text
    { for way in plain alone text; do
        $exec --backend local --env PATH="$PWD" -- $way; printf '%%s ' $?
      done
      $exec -- "$(head -c 300 /dev/zero | tr '\0' x)"; printf '%%s ' $?
      $exec --backend local --workspace "$PWD" -- ./plain; echo $? ''
      $exec --cwd word -- word; printf '%%s ' $?
      $exec --user word -- word; printf '%%s ' $?
      $exec --cwd word --user word -- word; echo $? ''
    } 2>err
    grep -q hint err || echo no hints
  ]])

  prints("says what is missing wherever descriptors are used up",
    ("125\n"):rep(5), [[
    for n in 9 10 11 12 13; do
      sh -c "ulimit -n $n; exec $exec -- true" 2>err; echo $?
      grep -q "too many open files (this program may have $n: " err || cat err
    done
  ]])

  prints("passes all bytes on, both ways", "same 0\n", [[
    head -c 3000000 /dev/urandom >in
    $exec -- cat <in >out; code=$?
    cmp in out && echo same $code
  ]])

  prints("keeps stdout and stderr apart", "out\nerr\n", [[
    $exec -- sh -c 'echo out; echo err >&2' >1 2>2; cat 1 2
  ]])

  prints("keeps their order where they are one", "a\nb\nc\n0\n", [[
    $exec -- sh -c 'echo a; echo b >&2; echo c' >both 2>&1; code=$?
    cat both; echo $code
  ]])

  prints("appends to a file that is appended to", "1\n2\n3\n", [[
    echo 1 >f
    $exec -- echo 2 >>f
    { $exec -- cat; echo 3; } </dev/null >>f
    cat f
  ]])

  prints("ends like a command whose reader is gone", "y\n141\n", [[
    { $exec -- yes; echo $? >code; } | head -n 1
    cat code
  ]])

  prints("lets go of its writer when it ends", "y\n141\n", [[
    { env --default-signal=PIPE yes; echo $? >code; } | $exec -- head -n 1
    cat code
  ]])

  prints("lets go of its writer when the command has closed stdin",
    "141\n143\n", [[
    $exec -- sh -c 'exec <&-; exec sleep 271.1' <a & tool=$!
    env --default-signal=PIPE timeout 20 yes >a; echo $?
    kill -TERM $tool; wait $tool; echo $?
  ]])

  prints("ends its stdout when the command has closed it", "hi\n0\n143\n", [[
    $exec -- sh -c 'echo hi; exec >&-; exec sleep 271.2' >a 2>err & tool=$!
    timeout 20 cat a; echo $?
    kill -TERM $tool; wait $tool; echo $?
  ]])

  prints("does not wait for the end of stdin", "done\n0\n", [[
    exec 3<>a
    $exec -- echo done <&3; echo $?
  ]])

  prints("lets stderr through while nobody reads stdout", "err\n1000000\n0\n",
    [[
    exec 3<>a 4<>b
    $exec -- sh -c 'head -c 1000000 /dev/zero & echo err >&2; wait' \
      >a 2>b 3<&- 4<&- & tool=$!
    exec 5<a 3<&-
    head -n 1 <&4
    wc -c <&5
    wait $tool; echo $?
  ]])

  prints("delivers all that lies there when the command ends", "60000\n0\n", [[
    exec 3<>a
    $exec -- sh -c 'head -c 60000 /dev/zero; echo ended >&2' >a 2>b 3<&- &
    tool=$!
    exec 5<a 3<&-
    cat b >/dev/null
    wc -c <&5
    wait $tool; echo $?
  ]])

  -- What the command says and returns with these redirections, by itself and
  -- by `portico exec`: the same.
  local function same_as_itself(name, ...)
    local script, cases = {}, { ... }
    for _, case in ipairs(cases) do
      local command, redirections = table.unpack(case)
      script[#script + 1] = ([[
        %s %s; echo $? >f
        portico exec --backend ${exec##* } -- %s %s; echo $? >>f
        tr '\n' ' ' <f; echo
      ]]):format(command, redirections, command, redirections)
    end
    for _, backend in ipairs(backends.real) do
      backends.it(it, backend, ("%s [%s]"):format(name, backend.name),
        function()
          local output = sh(backend, (table.concat(script):gsub("%%", "%%%%")))
          local codes = 0
          for first, second in output:gmatch("(%d+) (%d+) \n") do
            assert.equal(first, second, output)
            codes = codes + 1
          end
          assert.equal(#cases, codes, output)
        end)
    end
  end

  same_as_itself("fails where a closed descriptor is used, and only there",
    { "cat", "<&-" },
    { "echo lost", ">&-" },
    { "cat", "0>/dev/null" },
    { "echo lost", "1</dev/null" },
    { "sh -c 'echo lost >&2 || exit 7'", "2>&-" },
    { "sh -c 'echo lost >&2 || exit 7'", "2</dev/null" },
    { "sh -c 'echo x && exit 7; exit 6'", ">&- 2>/dev/null" },
    { "sh -c 'cat; test $? = 1 && exit 3'", "<&- >&- 2>&-" },
    { "true", "<&- >&- 2>&-" },
    { "cat", "2>&- </dev/null" })

  prints("passes the rest on when others are closed", "in\nout\nerr\n", [[
    echo in | $exec -- cat 2>&-
    $exec -- sh -c 'echo out; cat 2>/dev/null' <&-
    $exec -- sh -c 'echo err >&2; echo lost 2>/dev/null' >&-
  ]])

  prints("loses what goes to a stderr that takes nothing, and nothing else",
    "out\n7\n", [[
    $exec -- sh -c 'yes | head -n 99999 >&2; echo out; exit 7' 2>/dev/full
    echo $?
  ]])

  prints("says when a terminal's output cannot be written", [[
portico: cannot write to stdout: Bad file descriptor
125
portico: cannot write to stdout: No space left on device
125
]], [[
    $exec --pty -- echo lost >&-; echo $?
    $exec --pty -- echo lost >/dev/full; echo $?
  ]])

  prints("says when stdout cannot be written, and ends the command", [[
portico: cannot write to stdout: No space left on device
125
]], [[
    $exec -- sh -c 'trap "" PIPE TERM; echo x; exec sleep 271.3' >/dev/full
    echo $?
  ]])

  prints("refuses a stdin that is a directory",
    "portico: exec: stdin is a directory, which nobody can read\n125\n", [[
    $exec -- cat </; echo $?
  ]])

  prints("ends a command after its time, with 124", [[
so far
portico: sh did not end within 0.3 s and was killed
124
so far
124
]], [[
    for quiet in "" -q; do
      $exec $quiet --timeout 0.3 -- sh -c 'echo so far; sleep 271.4'
      echo $?
    done
  ]])

  prints("is over after a time limit even if nobody reads", "124\n", [[
    exec 3<>a
    $exec -q --timeout 0.3 --grace 0.1 -- yes >a 3<&-; echo $?
  ]])

  prints("does not wait for what the command left behind, and ends it",
    "x\n0\n", [[
    $exec -- sh -c 'setsid sleep 271.5 & echo x'; echo $?
  ]])

  for signal, code in pairs({ INT = 130, TERM = 143, HUP = 129, QUIT = 131 }) do
    prints("ends the command on SIG" .. signal .. ", by TERM",
      ("up\nbye\n%d\n"):format(code), [[
      $exec -- sh -c 'trap "echo bye; exit 3" TERM; setsid sleep 271.6 &
        echo up; wait' >a & tool=$!
      exec 3<a; head -n 1 <&3
      kill -%s $tool; cat <&3; wait $tool; echo $?
    ]], signal)
  end

  prints("ends the command by KILL after the grace", "up\n143\n", [[
    $exec --grace 0.2 -- sh -c 'trap "" TERM; echo up; sleep 271.7' >a & tool=$!
    exec 3<a; head -n 1 <&3
    kill -TERM $tool; wait $tool; echo $?
  ]])

  prints("ends the command at once on a second signal", "up\nbye\n130\n", [[
    $exec --grace 271 -- sh -c 'trap "echo bye" TERM; echo up
      while :; do sleep 271.8 & wait; done' >a & tool=$!
    exec 3<a; head -n 1 <&3
    kill -INT $tool; head -n 1 <&3
    kill -TERM $tool; wait $tool; echo $?
  ]])

  prints("ends on a signal while nobody reads", "143\n", [[
    exec 3<>a
    $exec --grace 0.1 -- sh -c 'echo up >&2; exec yes' >a 2>b 3<&- & tool=$!
    head -n 1 b >/dev/null
    kill -TERM $tool; wait $tool; echo $?
  ]])

  prints("leaves signals alone that are ignored", "up\non\n0\n", [[
    trap "" TERM
    portico exec --backend ${exec##* } -- sh -c 'echo up; read x; echo $x' \
      <b >a & tool=$!
    exec 4>b 3<a
    head -n 1 <&3
    kill -TERM $tool; echo on >&4; cat <&3; wait $tool; echo $?
  ]])

  prints("leaves nothing when it is killed itself", "up\n137\n", [[
    $exec -- sh -c 'setsid sleep 271.9 & echo up; sleep 271.9' >a & tool=$!
    exec 3<a; head -n 1 <&3
    kill -KILL $tool; cat <&3; wait $tool 2>/dev/null; echo $?
  ]])

  it("has nothing running in the end", function()
    for tenth = 1, 9 do
      local argv = { "sleep", "271." .. tenth }
      assert.is_true(env.eventually(10, function()
        return #env.pgrep(argv) == 0
      end), table.concat(argv, " "))
    end
  end)

  local flat = "needs no more memory for more bytes"
  if select(2, env.sh("command -v python3 >/dev/null")) ~= 0 then
    pending(flat .. ": there is no python3 to measure it")
  else
    prints(flat, "268435456\n0 small\n", [[
      head -c 268435456 /dev/zero | python3 -c '
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
sys.stderr.write("%%d %%s\n" %% (code, "small" if kib < 1 << 17 else kib))' \
        $exec -- cat 2>peak | wc -c
      cat peak
    ]])
  end

  it("is as good without -- and with = in options", function()
    local backend = backends["local"]
    assert.equal("-x a=b\n0\n", (sh(backend, [[
      $exec --timeout=60 --env=A=a=b -- sh -c 'echo -x $A'; echo $?
    ]])))
    assert.equal("--timeout\n0\n", (sh(backend, [[
      $exec echo --timeout; echo $?
    ]])))
  end)
end)

describe("the options of portico exec", function()
  prints("set the environment", "1  3\nA=1\n", [[
    B=2 C=3 $exec --env A=1 --env C --env NOT_HERE -- sh -c \
      'echo "$A $B $C$NOT_HERE"'
    $exec --clean-env --env A=1 -- /usr/bin/env
  ]])

  prints("set the working directory", "/usr\n", [[
    $exec --cwd /usr -- pwd
  ]])

  it("set what only the backend knows", function()
    local output = sh(backends["local"], [[
      $exec --setting tmpdir="$dir" -- sh -c 'echo "${PWD%%/p*}"'; echo "$dir"
    ]])
    local first, second = output:match("^(.-)\n(.-)\n$")
    assert.equal(second, first)
  end)

  backends.it(it, backends.bwrap, "mount, read-only unless said", function()
    assert.equal("hello\nno\nhello\nno\nhello\nyes\nchanged\n", (sh(
      backends.bwrap, [[
      chmod 755 .; echo hello >f; mkdir d; chmod 777 d
      for mode in "" :ro :rw; do
        $exec --mount ./f:/data/f --mount=d:/data/d$mode -- sh -c '
          cat /data/f
          (echo changed >/data/d/x) 2>/dev/null && echo yes || echo no'
      done
      cat d/x; rm -f d/x
    ]])))
  end)

  backends.it(it, backends.bwrap, "bound what is used", function()
    local output = sh(backends.bwrap, [[
      $exec --disk 1M -- sh -c 'head -c 4000000 /dev/zero >f' || echo full
      $exec --open-files 32 -- sh -c 'ulimit -n'
    ]])
    assert.truthy(output:find("No space left on device\nfull\n32\n$"), output)
  end)

  prints("copy files in, and out whatever came of it", [[
in
7
out
portico: fifo: left out: it is no file, directory or link
portico: --upload nosuch:x: nosuch: no such file or directory
125
portico: --download missing:x: missing: no such file or directory
125
3
]], [[
    mkdir -p src/deep; echo in >src/deep/f
    $exec --upload src:a/src --download made:x/made -- sh -c '
      cat a/src/deep/f; mkdir made; echo out >made/f; mkfifo made/fifo
      exit 7' 2>words
    echo $?; cat x/made/f words
    $exec --upload nosuch:x -- echo not run; echo $?
    $exec --download missing:x -- true; echo $?
    $exec --download missing:x -- sh -c 'exit 3' 2>/dev/null; echo $?
  ]])

  it("tell on a terminal how far a copy is, and nowhere else", function()
    local backend = backends["local"]
    local script = [[
      head -c 3000000 /dev/zero >f
      $exec --no-pty %s --upload f:f -- wc -c f 2>words
      cat words
      exec 9>&1
      script -qec "$(echo $exec | sed 's/.*portico/portico/') --no-pty %s \
        --upload f:f -- true" /dev/null
    ]]
    local output = sh(backend, script, "", "")
    assert.equal("3000000 f\n\r\27[K", output:match("^(3000000 f\n\r\27%[K)"))
    assert.truthy(output:find("upload [####################] 100% 1 files, "
      .. "2.9 MiB\r\27[K", 1, true))
    assert.equal("3000000 f\n", (sh(backend, script, "-q", "-q")))
  end)

  it("name a directory for `local` that is kept", function()
    assert.equal("kept\n", (sh(backends["local"], [[
      mkdir d
      $exec --workspace d -- sh -c 'echo kept >f'; cat d/f
    ]])))
  end)

  it("that are wrong are named, with the one that was meant", function()
    for words, expected in pairs({
      ["--memroy 3 -- x"] = "unknown option --memroy; did you mean --memory?",
      ["--xyzzy x"] = "unknown option --xyzzy; portico exec --help lists them",
      ["-x y"] = "unknown option -x",
      ["--memory lots x"] = "--memory takes a number such as 500, 64k, 512M or "
        .. "1.5G (got 'lots')",
      ["--memory 0 x"] = "--memory takes a number",
      ["--pids -1 x"] = "--pids takes a whole number, 1 or more, such as 100 "
        .. "(got '-1')",
      ["--pids 1k x"] = "(got '1k')",
      ["--open-files 0 x"] = "--open-files takes a whole number",
      ["--cpus -1 x"] = "--cpus takes a number of processors",
      ["--timeout soon x"] = "--timeout takes seconds",
      ["--timeout 0 x"] = "--timeout must be more than 0",
      ["--timeout"] = "--timeout needs SECONDS behind it",
      ["--quiet=yes x"] = "--quiet takes no value (got 'yes')",
      ["--mount /tmp x"] = "--mount takes SOURCE:TARGET",
      ["--mount /no/such:/x x"] = "--mount: /no/such: No such file",
      ["--mount /usr:/x:wr x"] = "--mount takes SOURCE:TARGET, and :rw behind",
      ["--image ubuntu x"] = "--image: ubuntu: No such file or directory; it "
        .. "takes a directory or a tar of one",
      ["--upload x y"] = "--upload takes SOURCE:TARGET, a path of this machine "
        .. "and the one that it gets in the sandbox (got 'x')",
      ["--download x y"] = "--download takes SOURCE:TARGET, a path in the "
        .. "sandbox and the one that it gets on this machine (got 'x')",
      ["-v /usr:/x ls"] = "unknown option -v; here that is --mount",
      ["--volume=/usr:/x ls"] = "here that is --mount",
      ["-e A=1 ls"] = "unknown option -e; here that is --env",
      ["--rm ls"] = "unknown option --rm; here that is nothing: the sandbox",
      ["--setting x y"] = "--setting takes NAME=VALUE (got 'x')",
      ["--env =1 y"] = "--env takes NAME=VALUE (got '=1')",
      ["--backend null echo x"] = "commands of this backend have no pipes",
      ["--backend bwarp x"] = "did you mean 'bwrap'?",
      ["--backend local --memory 1M x"] = "local cannot do --memory:",
      ["--backend local --image /usr x"] = "local cannot do --image:",
      ["--backend local --mount /usr:/x x"] = "local cannot do --mount:",
      ["--backend local --network none x"] = "cannot do --network none:",
      ["--backend local --user no-user x"] = "--user 'no-user' is not in",
      ["--backend local --cwd '' x"] = "--cwd must not be empty",
      ["--backend '' x"] = "--backend must not be empty",
      ["--backend local --workspace README.md x"] = "--workspace /",
      ["--backend local --image / x"] = "\nhint: no setting changes this: "
        .. "--backend chooses another\n",
      [""] = "a command is missing",
      ["--"] = "a command is missing",
    }) do
      local output, code = env.sh(BIN .. " exec " .. words .. " 2>&1")
      assert.equal(125, code, words)
      assert.truthy(output:find(expected, 1, true), words .. ": " .. output)
      assert.equal("portico: ", output:sub(1, 9))
    end
  end)

  backends.it(it, backends.bwrap, "are what the backend's errors speak of",
    function()
      for words, expected in pairs({
        ["--memory 1k x"] = "--memory is less than 4 MiB",
        ["--disk 1 x"] = "--disk is less than 1 MiB",
        ["--network foo x"] = "bwrap cannot do --network foo; it has 'none'",
        ["--user nosuch x"] = "--user 'nosuch' is not in /etc/passwd",
        ["--mount /usr:rel x"] = "--mount: the target 'rel' is not an",
        ["--image README.md x"] = "--image /",
        ["--setting foo=1 x"] = "unknown setting 'foo'",
        ["--workspace /usr x"] = "this backend has no --workspace\n",
        -- What is called as an option is called is not one.
        ["timeout"] = "timeout: no such file or directory\nhint: the command",
        ["--cwd /no/user x"] = "/no/user: the working directory",
      }) do
        local output = env.sh("exec 2>&1; PATH=/usr/bin:/bin " .. BIN
          .. " exec --env PATH=/nowhere " .. words)
        assert.truthy(output:find("portico: " .. expected, 1, true),
          words .. ": " .. output)
      end
    end)

  it("are all explained by --help, each with an example", function()
    local output, code = env.sh(BIN .. " exec --help 2>&1")
    assert.equal(0, code)
    assert.equal(output, (env.sh(BIN .. " help exec 2>&1")))
    assert.equal(output, (env.sh(BIN .. " exec -h 2>&1")))
    local options = 0
    for at, name in output:gmatch("\n()  %-%-([%w-]+)") do
      local example = output:match("\n +(portico exec [^\n]*)", at)
      assert.truthy(example:find("--" .. name, 1, true)
        or example:find(" -" .. name:sub(1, 1) .. " "), name .. example)
      options = options + 1
    end
    assert.is_true(options >= 23, tostring(options))
    for line in output:gmatch("[^\n]+") do
      assert.is_true(#line <= 80, line)
    end
  end)
end)

describe("the examples of portico exec", function()
  for name, expected in pairs({
    sandboxed_commands = "Linux\napple\nso far\nexit code 124\n"
      .. "you, in /tmp\nno secrets here\n",
    limited_pipeline = "the sum is 500500\nit wanted more disk than it may "
      .. "have\n> working\n> exit code 124\n",
    kept_sandbox = "in\nsorted\napple\nsort me: pear apple fig\n",
  }) do
    backends.it(it, backends.bwrap, name .. " prints what it should",
      function()
        local path = env.quoted(assert(os.getenv("PORTICO_BIN"))
          :match("^(.*)/"))
        assert.same({ expected, 0 }, {
          env.sh(("PATH=%s:$PATH sh examples/%s.sh </dev/null 2>&1")
            :format(path, name)),
        })
      end)
  end

  it("leave nothing behind", nothing_left)
end)
