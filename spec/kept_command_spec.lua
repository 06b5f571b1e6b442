-- `portico create`, `list`, `rm`, `cp`, `ls`, `cat` and `exec --in`: sandboxes
-- that outlive the commands which use them.

local backends = require("spec.support.backends")
local env = require("spec.support.env")
local exec_command = require("spec.support.exec_command")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local BIN = env.quoted(assert(os.getenv("PORTICO_BIN"),
  "PORTICO_BIN is not set: run the tests by ./dev test"))

-- Before every script: sandboxes of its own, of which none is left in the end;
-- $box is one, but where a script makes its own.
local PRELUDE = [[
  mkdir -m 700 run; export XDG_RUNTIME_DIR="$dir/run"
  new() { portico create --backend %s "$@"; }
  trap 'portico list -q | while read -r id; do portico rm "$id"; done' EXIT
]]

local function prints(name, expected, script)
  for _, backend in ipairs(backends.real) do
    backends.it(it, backend, name .. " [" .. backend.name .. "]", function()
      local text = (PRELUDE .. script):gsub("%%s", backend.name)
      local wanted = expected:gsub("%%s", backend.name)
      assert.equal(wanted, (exec_command.sh(backend, "%s", text)))
    end)
  end
end

describe("a sandbox that is kept", function()
  prints("has an id, is listed, and ends", [[
box
box
detached
0

portico: there is no sandbox 'box' (in bwrap, local); portico list shows ]]
    .. [[those that there are
1
]], [[
    new --name box --label a=b
    portico list -q
    portico list | awk '$1 == "box" { print $3 }'
    portico rm box; echo $?
    portico list -q; echo
    portico rm box; echo $?
  ]])

  prints("ends if nobody can have read its id", [[
portico: cannot write the id to stdout, so the sandbox was ended: No space ]]
    .. [[left on device
1
portico: cannot write the id to stdout, so the sandbox was ended: Bad file ]]
    .. [[descriptor
1
portico: cannot write the id to stdout, so the sandbox was ended: Broken pipe
1
none
]], [[
    new >/dev/full; echo $?
    new >&-; echo $?
    mkfifo gone; exec 9<>gone 8>gone 9>&-; new >&8; echo $?
    [ -z "$(portico list -q)" ] && echo none
  ]])

  prints("has a name of its own, or gets one", "1\n0\n", [[
    new --name box >/dev/null
    new --name box 2>&1 >/dev/null | grep -c "exists already, detached"
    id=$(new); portico rm "$id"; echo $?
  ]])

  prints("ends when its time is over", "box\nended\n", [[
    new --name box --ttl 0.5s
    while [ -n "$(portico list -q)" ]; do sleep 0.1; done
    echo ended
  ]])

  prints("is found by --backend, too", "hi\n1\n", [[
    new --name box >/dev/null
    echo hi >f; portico cp f box:
    portico cat --backend "$(portico list | awk '$1 == "box" {print $2}')" box:f
    portico cat --backend null box:f 2>/dev/null; echo $?
  ]])
end)

describe("portico cp", function()
  prints("copies files both ways, under the name that is wanted", [[
same
in other
0
same same same
]], [[
    new --name box >/dev/null
    head -c 3000000 /dev/urandom >f
    portico cp f box:; portico cp box:f g; cmp f g && echo same
    portico cp f box:other; portico cp f box:in/
    portico ls box: | grep -v "^f$" | sort | paste -sd' '
    mkdir here; portico cp box:other here; portico cp box:in/f here/; echo $?
    for i in here/other here/f; do cmp $i f && printf 'same '; done
    portico cp f box:in; portico cp box:in/f h; cmp f h && echo same
  ]])

  prints("copies trees both ways", [[
d
d/a b
d/empty
d/link
d/x
755 target
d/a b
d/empty
d/link
d/x
]], [[
    new --name box >/dev/null
    mkdir -p d/empty; echo 1 >"d/a b"; echo 2 >d/x; chmod 755 d/x
    ln -s target d/link
    portico cp d box:e; portico cp box:e out; mv d was; mv out d
    find d | sort
    echo $(stat -c %a d/x) $(readlink d/link)
    rm -r d; mkdir d
    portico cp box:e d
    find d | tail -n +2 | sort
  ]])

  prints("copies all that there is, and by names that are none", [[
a,d,d/b
a,d,d/b
a,d,d/b,e,e/a,e/d,e/d/b
a,d,d/b
]], [[
    new --name box >/dev/null
    mkdir -p w/d out; echo 1 >w/a; echo 2 >w/d/b
    tree() { (cd "$1" && find . -mindepth 1 | cut -c3- | sort | paste -sd,); }
    cd w; portico cp . box:; cd ..; portico cp box: all; tree all
    portico cp box: out/; tree out
    cd w/d; portico cp .. box:e; cd ../..; portico cp box: more; tree more
    portico cp box:d/.. back/; rm -r back/e; tree back
  ]])

  prints("says what it cannot do", [[
portico: cp: neither a nor b is in a sandbox: ID:PATH
2
portico: cp: both box:a and box:b are in sandboxes; one has to be of this ]]
    .. [[machine
2
portico: cp: cp takes two words: SOURCE ID:TARGET or ID:SOURCE TARGET
2
portico: nosuch: no such file or directory
1
portico: nosuch: no such file or directory
1
portico: there is no sandbox 'none' (in bwrap, local); portico list shows ]]
    .. [[those that there are
1
portico: cp: unknown option --quite; did you mean --quiet?
2
]], [[
    new --name box >/dev/null
    portico cp a b; echo $?
    portico cp box:a box:b; echo $?
    portico cp box:a; echo $?
    portico cp nosuch box:; echo $?
    portico cp box:nosuch .; echo $?
    portico cp dir none:; echo $?
    portico cp --quite a box:; echo $?
  ]])

  prints("shows no progress in a pipe, a bar on a terminal", "\nbar\ngone\n", [[
    new --name box >/dev/null
    head -c 3000000 /dev/zero >f
    portico cp f box: 2>words; cat words; echo
    script -qec 'portico cp f box:g' /dev/null >shown
    grep -q '\[####################\] 100% 1 files' shown && echo bar
    tail -c 4 shown | grep -q "$(printf '\033\\[K')" && echo gone
  ]])
end)

describe("portico ls and cat", function()
  prints("show names as they are, and bytes", [[
a
b c
-rw-r----- 3 b c
lrwxrwxrwx 2 link -> ..
same
0
portico: nosuch: no such file or directory
1
portico: cat: 'b' is not a path in a sandbox, which is written ID:PATH; ]]
    .. [[portico cat --help
2
portico: cat: 'box:' names no file, which is written ID:PATH; portico ls ]]
    .. [[box: shows those that there are
2
portico: d: it is a directory; portico ls shows what is in it
1
]], [[
    new --name box >/dev/null
    mkdir d; touch d/a; printf 123 >"d/b c"; chmod 640 "d/b c"
    portico cp d box:d; portico ls box:d; ln -s .. d/link
    portico cp d box:e
    portico ls -l box:e | tail -n 2 | sed 's/  */ /g' | cut -d' ' -f1,3,6-
    head -c 3000000 /dev/urandom >f; portico cp f box:
    portico cat box:f | cmp - f && echo same; echo $?
    portico cat box:nosuch; echo $?
    portico cat b; echo $?
    portico cat box:; echo $?
    portico cat box:d; echo $?
  ]])

  prints("tell what is wrong with the directory of sandboxes", [[
portico: the directory /, where sandboxes that may outlive their program are ]]
    .. [[kept: other users may enter it (chmod 700); --setting state=DIR ]]
    .. [[(with --backend) names another
1
]], [[
    mkdir -m 755 open
    bad() { portico list --backend %s --setting "state=$dir/open"; }
    bad 2>&1 | sed "s:$dir/open:/:"; bad 2>/dev/null; echo $?
  ]])

  if env.is_root() then
    prints("take another user's directory for an empty one, and say so", [[
0
portico: warning: %s: the directory /: it belongs to another user
1
]], [[
      mkdir -m 700 run/portico; chown 65534 run/portico
      portico list --backend %s 2>said >listed; echo $?
      sed 's:directory /.*kept:directory /:; s/;.*//' said; wc -l <listed
      rmdir run/portico
    ]])
  else
    it("take another user's directory for an empty one", function()
      pending("only root can give a directory away")
    end)
  end

  prints("end like others whose reader is gone", "0\n141\nbox\n", [[
    new --name box >/dev/null
    head -c 3000000 /dev/zero >f; portico cp f box:
    { env --default-signal=PIPE portico cat box:f; echo $? >code; } \
      | head -c 1 >/dev/null
    echo $?; cat code
    portico list -q
  ]])
end)

describe("portico exec --in", function()
  prints("runs in it, and leaves it as it is", [[
3
one
out
err
127
ok
]], [[
    new --name box >/dev/null
    in="portico exec --in box --"
    $in sh -c 'echo one >kept; exit 3'; echo $?
    $in cat kept
    $in sh -c 'echo out; echo err >&2' >1 2>2; cat 1 2
    $in nosuch 2>/dev/null; echo $?
    seq 200000 >n; $in cat <n >m && cmp n m && echo ok
  ]])

  prints("ends what it started, and nothing else", [[
124
143
daemon
0
]], [[
    new --name box >/dev/null
    in="portico exec --in box"
    $in -- sh -c 'sleep 711 </dev/null >/dev/null 2>&1 &'
    $in --quiet --timeout 0.5 -- sleep 60; echo $?
    $in -- sh -c 'echo up; exec sleep 60' >a & tool=$!
    read -r _ <a; kill -TERM $tool; wait $tool; echo $?
    $in -- sh -c 'for i in /proc/[0-9]*; do tr "\0" " " <$i/cmdline; done' \
      2>/dev/null | grep -q 'sleep 711' && echo daemon
    portico rm box; echo $?
  ]])

  prints("is no end of it, however it ends", "9\nbox\n0\n", [[
    new --name box >/dev/null
    portico exec --in box -- sh -c 'echo 9; exec sleep 60' >a & tool=$!
    read -r word <a; echo $word; kill -KILL $tool; wait $tool 2>/dev/null
    portico list -q
    while ! portico exec --in box -- true 2>why; do grep -q attached why; done
    echo $?
  ]])

  prints("is one at a time", "1\n", [[
    new --name box >/dev/null
    portico exec --in box -- sh -c 'echo up; cat' <b >a & tool=$!
    exec 5>b; read -r _ <a
    portico ls box: 2>&1 | grep -c "attached to process $tool"
    exec 5>&-; wait $tool
  ]])

  prints("waits for others that are quick", "1 2 3 4 5 6\n", [[
    new --name box >/dev/null
    for i in 1 2 3 4 5 6; do
      portico exec --in box -- sh -c "sleep 0.1; echo $i" >o$i 2>&1 </dev/null &
    done
    wait
    cat o? | paste -sd' '
  ]])

  prints("takes a sandbox as it is", [[
portico: exec: --in takes a sandbox as it is; --memory belongs to portico create
125
portico: exec: --in takes a sandbox as it is; --mount belongs to portico create
125
125
]], [[
    new --name box >/dev/null
    portico exec --in box --memory 1G -- true; echo $?
    portico exec --in box --mount .:/m -- true; echo $?
    portico exec --in none -- true 2>/dev/null; echo $?
  ]])
end)

describe("the help", function()
  it("of each command names all its options", function()
    for _, command in ipairs({ "create", "list", "rm", "cp", "ls", "cat" }) do
      local output, code = env.sh(BIN .. " " .. command .. " --help 2>&1")
      assert.equal(0, code)
      assert.equal(output, (env.sh(BIN .. " help " .. command .. " 2>&1")))
      assert.equal(1, output:find("usage: portico " .. command, 1, true))
      for line in output:gmatch("[^\n]+") do
        assert.is_true(#line <= 80, line)
      end
    end
    assert.truthy(env.sh(BIN .. " help create"):find("--ttl", 1, true))
    assert.falsy(env.sh(BIN .. " help exec"):find("--ttl", 1, true))
  end)

  it("is of commands only", function()
    local output, code = env.sh(BIN .. " help nothing 2>&1")
    assert.equal(2, code)
    assert.truthy(output:find("there is no help for: nothing", 1, true))
  end)
end)

describe("sandboxes that were kept", function()
  it("are gone", nothing_left)
end)
