-- `portico exec` with a terminal: the one that it stands on, or one of its own.

local env = require("spec.support.env")
local exec_command = require("spec.support.exec_command")
local leaks = require("spec.support.leaks")

local nothing_left = leaks.frame()

local function prints(...)
  exec_command.prints(it, ...)
end

-- An outer terminal of 24 lines and 80 columns: terminal.py PATTERN ACTION ...
-- -- COMMAND types TEXT ("type=TEXT"), resizes ("size=ROWS,COLS") or sends a
-- signal ("kill=NUMBER") once PATTERN was shown behind the last one. Prints
-- what was shown, the exit code, and whether the modes are as they were. Where
-- nothing is shown for long it hangs up.
local TERMINAL = [[
import fcntl, os, pty, select, signal, struct, sys, termios
at = sys.argv.index("--")
steps = list(zip(sys.argv[1:at:2], sys.argv[2:at:2]))
start, go = os.pipe()
pid, fd = pty.fork()
if pid == 0:
    os.read(start, 1)
    os.execvp(sys.argv[at + 1], sys.argv[at + 1:])
def resize(rows, cols):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
resize(24, 80)
before = termios.tcgetattr(fd)
os.write(go, b"x")
shown, seen = b"", 0
while select.select([fd], [], [], 240)[0]:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    shown += data
    while steps and steps[0][0].encode() in shown[seen:]:
        pattern, action = steps.pop(0)
        seen = shown.index(pattern.encode(), seen) + len(pattern)
        kind, value = action.split("=", 1)
        if kind == "type":
            os.write(fd, value.encode())
        elif kind == "size":
            resize(*map(int, value.split(",")))
        else:
            os.kill(pid, int(value))
else:
    os.kill(pid, signal.SIGKILL)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
same = termios.tcgetattr(fd) == before
print(shown.decode().replace("\r\n", "\n") + "<%d, %s>" % (code,
    "as before" if same else "changed"))
]]

describe("portico exec on a terminal", function()
  if select(2, env.sh("command -v python3 >/dev/null")) ~= 0 then
    pending("is not tested: there is no python3 to make a terminal with")
    return
  end

  -- As prints(), of a command line for terminal.py.
  local function shows(name, expected, words)
    prints(name, expected, "cat >terminal.py <<'END'\n"
      .. TERMINAL:gsub("%%", "%%%%") .. "END\npython3 terminal.py " .. words)
  end

  shows("gives the command one, of its size and kind", [[
24 80 dumb terminal
<3, as before>
]], [=[-- env TERM=dumb $exec -- sh -c '
    test -t 0 -a -t 1 -a -t 2 && kind=terminal
    echo $(stty size) $TERM $kind; exit 3']=])

  shows("tells the command of its new size", [[
24 80
30 100
<0, as before>
]], [=["24 80" size=30,100 -- $exec -- sh -c '
      trap "stty size; exit 0" WINCH; stty size
      while :; do sleep 271.91 & wait; done']=])

  shows("passes what is typed on, and its end", [[
up
word
word
<0, as before>
]], [=[up type="$(printf 'word\n\004')" -- $exec -- sh -c 'echo up; cat']=])

  shows("passes Ctrl-C to the command", "up\n^Cmine\n<9, as before>\n",
    [=[up type="$(printf '\003')" -- $exec -- sh -c '
      trap "echo mine; exit 9" INT; echo up; sleep 271.92 & wait']=])

  -- SIGINT ends this program, too: shells leave their loop only then.
  for signal, code in pairs({ [1] = 129, [2] = -2, [3] = 131, [15] = 143 }) do
    shows("ends the command on signal " .. signal .. ", and is put back",
      ("up\n<%d, as before>\n"):format(code),
      ("up kill=%d -- $exec -- sh -c 'echo up; exec sleep 271.93'")
        :format(signal))
  end

  shows("is put back when the program crashes", "up\n<-6, as before>\n",
    "up kill=6 -- $exec -- sh -c 'echo up; exec sleep 271.94'")

  shows("is put back when the command crashes", "up\n<139, as before>\n",
    "-- $exec -- sh -c 'echo up; kill -SEGV $$'")

  shows("is put back after a time limit",
    "portico: sleep did not end within 0.2 s and was killed\n"
    .. "<124, as before>\n", "-- $exec --timeout 0.2 -- sleep 271.95")

  shows("is none with --no-pty, and Ctrl-C ends the command",
    "up none\n^C<-2, as before>\n",
    [=["up none" type="$(printf '\003')" -- $exec --no-pty -- sh -c '
      test -t 0 -o -t 1 || echo up none; exec sleep 271.96']=])

  it("leaves nothing running", function()
    for hundredth = 91, 96 do
      local argv = { "sleep", "271." .. hundredth }
      assert.is_true(env.eventually(10, function()
        return #env.pgrep(argv) == 0
      end), table.concat(argv, " "))
    end
  end)
end)

describe("portico exec --pty without a terminal here", function()
  prints("gives one all the same, and the end of stdin",
    "x\r\ngot x\r\n24 80\r\n", [[
    echo x | $exec --pty -- sh -c 'read x; echo got $x; cat; stty size'
  ]])

  prints("ends when nobody reads", "y\r\n141\n", [[
    { $exec --pty -- yes; echo $? >code; } | head -n 1
    cat code
  ]])

  it("leaves nothing behind", nothing_left)
end)
