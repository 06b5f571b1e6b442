-- Portico for ordinary code: the sync facade.
--
-- The same members as `portico`, with the same results and errors; they block
-- the calling thread where those suspend a task. Nothing is done here a second
-- way: each function hands the operation of the async core through a portal, a
-- thread with an event loop that the sandbox owns from create to close (a
-- Backend owns one, too). So N open sandboxes are N threads; for many at once
-- take the async facade, or pass one portal to several (`portico.portal`).
--
-- Callbacks run on the calling thread, while it waits. A signal that raises
-- in Lua (Ctrl-C) ends the wait. In a task of the async facade a call raises
-- UsageError (PCO_ESYNC), unless the sandbox was made with `allow_in_tasks`.
--
-- Times are seconds, as integers or floats. Strings are bytes. Failures are
-- raised as errors of `portico.errors`.

local native = require("portico.core")
local errors = require("portico.errors")

local core = native.sync

---@class portico.sync
---@field version string "MAJOR.MINOR.PATCH"
---@field _VERSION string "portico MAJOR.MINOR.PATCH"
---@field errors portico.errors
local portico = {}

portico.version = native.version
portico._VERSION = "portico " .. native.version
portico.errors = errors

-- A plugin that makes sandboxes. `closed` turns true with close().
---@class portico.sync.Backend
---@field name string
---@field settings table<string, string|number|boolean>
---@field closed boolean
local Backend = core.class("Backend")
local backend_metatable = core.metatable("Backend")
portico.Backend = Backend

-- One sandbox: where commands run and files lie.
---@class portico.sync.Sandbox
---@field id string
---@field backend portico.sync.Backend
---@field fs portico.sync.FileSystem
---@field closed boolean
local Sandbox = core.class("Sandbox")
local sandbox_metatable = core.metatable("Sandbox")
portico.Sandbox = Sandbox

-- The files of a sandbox. Paths are as a program inside sees them; relative
-- ones start at the sandbox's `cwd`.
---@class portico.sync.FileSystem
---@field sandbox portico.sync.Sandbox
local FileSystem = core.class("FileSystem")
local file_system_metatable = core.metatable("FileSystem")
portico.FileSystem = FileSystem

-- A command that was started by spawn(). Dropping the object leaves the
-- command running; close() and `<close>` end it and all that it started.
---@class portico.sync.Process
---@field pid integer as seen inside the sandbox
---@field argv string[]
---@field sandbox portico.sync.Sandbox
---@field closed boolean
local Process = core.class("Process")
local process_metatable = core.metatable("Process")
portico.Process = Process

-- How a command ended, with its output. A plain table of data.
---@class portico.sync.Result: portico.ResultFields
local Result = core.class("Result")
local result_metatable = core.metatable("Result")
portico.Result = Result

-- A file that is open, after Lua's own `io`. Whoever drops it has it closed;
-- close() and `<close>` do it at once. One call at a time.
---@class portico.sync.File
---@field path string as it was opened
---@field sandbox portico.sync.Sandbox
---@field closed boolean
local File = core.class("File")
local file_metatable = core.metatable("File")
portico.File = File

-- What happens to files below a path, one event after the other.
---@class portico.sync.Watch
---@field path string as it was given
---@field sandbox portico.sync.Sandbox
---@field closed boolean
local Watch = core.class("Watch")
local watch_metatable = core.metatable("Watch")
portico.Watch = Watch

-- What `chunks` and `lines` return: call it for the next value, nil at the
-- end. In a generic `for`, leaving the loop closes it.
---@class portico.sync.Iterator
---@overload fun(): any, any
local Iterator = core.class("Iterator")
local iterator_metatable = core.metatable("Iterator")
portico.Iterator = Iterator

---Lists the backends that could be opened, by name, from the plugin
---directories and the built-in ones. Opens none of them.
---@return portico.BackendEntry[] entries
function portico.backends()
  return core.backends()
end

---Opens a backend: a built-in one or `portico-NAME.so` from the plugin
---directories, by its exact name; trusted scripts may give the path of a
---`.so`. Raises NotFoundError for an unknown name, PluginError with the reason
---when a plugin is refused.
---@param name string
---@param settings table<string, string|number|boolean>? the backend's own
---@param options portico.OpenOptions?
---@return portico.sync.Backend backend
function portico.open(name, settings, options)
  return core.open(name, settings, options)
end

---Creates a sandbox: opens `options.backend` (`"bwrap"`, which isolates, unless
---given) with `options.backend_settings` and passes the rest to `create`. A
---backend opened so closes with the sandbox; an open Backend may be given
---instead, and stays open. Raises what `open` and `Backend:create` raise;
---nothing stays behind then, and no other backend is taken instead.
---@param options portico.SandboxOptions?
---@return portico.sync.Sandbox sandbox
function portico.sandbox(options)
  return core.sandbox(options)
end

---Calls fn(...) and returns what it returned, so that a script written for
---the async facade runs unchanged. An error of fn is raised on, the same
---object.
---@generic T
---@param fn fun(...): T
---@param ... any arguments of fn
---@return T ... the results of fn
function portico.run(fn, ...)
  return core.run(fn, ...)
end

---Waits on the calling thread for a number of seconds. Ctrl-C ends it.
---@param seconds number
function portico.sleep(seconds)
  return core.sleep(seconds)
end

---Quotes words for a POSIX shell and joins them with blanks, for commands
---that are given as a string: `"ls " .. portico.quote(name)`.
---@param ... string|integer
---@return string quoted
function portico.quote(...)
  return core.quote(...)
end

---Sets the function that gets Portico's log records, or nil for none. Records
---are queued, bounded, and handed over on the thread of the Lua state at its
---next wait.
---@param fn fun(record: portico.LogRecord)?
function portico.set_logger(fn)
  return core.set_logger(fn)
end

---Finds out what works on this machine, and why the rest does not.
---@param options portico.CallOptions?
---@return portico.ProbeResult probe
function Backend:probe(options)
  return core.backend_probe(self, options)
end

---Creates a sandbox. Raises UnsupportedError for options that this backend
---never has, UnavailableError (which says what to do) for those that do not
---work here now. Nothing stays behind when it fails.
---@param options portico.CreateOptions?
---@return portico.sync.Sandbox sandbox
function Backend:create(options)
  return core.backend_create(self, options)
end

---Lists the sandboxes of this backend that exist, with those of other programs
---of this user that can be detached. `state` is "running" while somebody, the
---`owner`, is attached, else "detached".
---@param options portico.CallOptions?
---@return portico.Info[] sandboxes
function Backend:list(options)
  return core.backend_list(self, options)
end

---Takes over a sandbox that was detached, here or by another program of this
---user: its commands and files are as they were left. Raises NotFoundError for
---an id that there is not, SystemError EBUSY (`retryable`) while somebody else
---is attached. Whatever fails, and however this program ends, the sandbox
---stays: only close(), destroy() and its `ttl` end it.
---@param id string
---@param options portico.AttachOptions?
---@return portico.sync.Sandbox sandbox
function Backend:attach(id, options)
  return core.backend_attach(self, id, options)
end

---Destroys a sandbox by its id, one of another program of this user, too.
---Returns whether this call did it: false when it was gone already, which is no
---error.
---@param id string
---@param options portico.CallOptions?
---@return boolean destroyed
function Backend:destroy(id, options)
  return core.backend_destroy(self, id, options)
end

---Removes what is left of detachable sandboxes that were killed, so that nobody
---could tidy up. What lives is not touched. Returns their ids.
---@param options portico.CallOptions?
---@return string[] ids
function Backend:reap(options)
  return core.backend_reap(self, options)
end

---Closes the backend, its sandboxes and its portal. Returns whether this call
---did it.
---@param options portico.CallOptions?
---@return boolean closed
function Backend:close(options)
  return core.backend_close(self, options)
end

---Describes the backend: name and state, no settings.
---@return string
function backend_metatable:__tostring()
  return core.tostring(self)
end

---Closes the backend at the end of a `<close>` variable's scope.
---@param err any the error in flight, or nil
function backend_metatable:__close(err)
  return core.close_scope(self, err)
end

---Runs a command to its end and returns its Result with the output; a
---non-zero exit is a result, not an error, unless `check` is on. A sequence of
---strings is an argv, a string is run by `/bin/sh -c`. Raises SpawnError when
---it cannot be started, TimeoutError (PCO_ETIMEDOUT, with `result`) when it
---was killed after `timeout` seconds, ConnectionError (with `result`) when the
---sandbox died. `on_output` and an `input` function run on the calling
---thread, and may call the facade.
---@param command string|(string|integer)[]
---@param options portico.ExecOptions?
---@return portico.sync.Result result
function Sandbox:exec(command, options)
  return core.sandbox_exec(self, command, options)
end

---Starts a command and returns its Process at once. Output that nobody reads
---holds the command back. Raises SpawnError when it cannot be started.
---@param command string|(string|integer)[]
---@param options portico.SpawnOptions?
---@return portico.sync.Process process
function Sandbox:spawn(command, options)
  return core.sandbox_spawn(self, command, options)
end

---Runs a command and returns its stdout without the last newline. `check` is
---on unless it is false: a non-zero exit raises ExitError, with `result`.
---@param command string|(string|integer)[]
---@param options portico.ExecOptions?
---@return string stdout
function Sandbox:output(command, options)
  return core.sandbox_output(self, command, options)
end

---Lists the commands that run in the sandbox; with `all` also those of spawn
---that have ended, as far as their exit status is kept.
---@param options portico.ProcessesOptions?
---@return portico.ProcessEntry[] processes
function Sandbox:processes(options)
  return core.sandbox_processes(self, options)
end

---Gets hold of a command of spawn by its pid, to wait for it or to end it. The
---exit status of the last 256 that ended is kept when their objects are gone,
---without their output. Raises NotFoundError when there is none.
---@param pid integer as seen inside the sandbox
---@param options portico.CallOptions?
---@return portico.sync.Process process
function Sandbox:process(pid, options)
  return core.sandbox_process(self, pid, options)
end

---Copies a file or a directory of this machine into the sandbox. A directory
---whose target is there goes into it, name by name. What arrives is in place
---at once and whole: an upload that fails or is cancelled leaves nothing.
---Permissions, times, links, empty directories and holes are kept; owners, hard
---links and extended attributes are not.
---@param source string a path of the host
---@param target string a path inside: the name that it gets, parents must exist
---@param options portico.UploadOptions?
---@return portico.Transfer transfer
function Sandbox:upload(source, target, options)
  return core.sandbox_upload(self, source, target, options)
end

---Copies a file or a directory out of the sandbox, as upload does the other
---way. Whatever the sandbox sends, nothing is made, changed or followed but the
---target; set-id bits are dropped, the umask holds, and a link that leads out
---of the tree is an error unless `symlinks` is "keep".
---@param source string a path inside
---@param target string a path of the host: the name that it gets
---@param options portico.DownloadOptions?
---@return portico.Transfer transfer
function Sandbox:download(source, target, options)
  return core.sandbox_download(self, source, target, options)
end

---Tells what is known about the sandbox: state, labels, times.
---@param options portico.CallOptions?
---@return portico.Info info
function Sandbox:info(options)
  return core.sandbox_info(self, options)
end

---Leaves the sandbox running, for `attach`, and returns its id. What runs in it
---goes on, and the newest 64 KiB of each output that nobody read are kept. From
---here on it survives any end of its programs. This object is closed, and calls
---that wait meanwhile raise ClosedError; the agent undoes file work that was
---under way. Only for one that was created with `detachable`, or attached to;
---else UnsupportedError. When it fails nothing has changed.
---@param options portico.CallOptions?
---@return string id
function Sandbox:detach(options)
  return core.sandbox_detach(self, options)
end

---Closes the sandbox: ends all that runs in it and removes it. Calls that
---wait meanwhile raise ClosedError. The portal's thread is gone when this
---returns. Returns whether this call did it.
---@param options portico.CallOptions?
---@return boolean closed
function Sandbox:close(options)
  return core.sandbox_close(self, options)
end

---Describes the sandbox: backend, id, state.
---@return string
function sandbox_metatable:__tostring()
  return core.tostring(self)
end

---Closes the sandbox at the end of a `<close>` variable's scope.
---@param err any the error in flight, or nil
function sandbox_metatable:__close(err)
  return core.close_scope(self, err)
end

---Reads the next chunk of output, whichever stream has one; nil at the end of
---both. Raises TimeoutError (PCO_ECALLTIMEOUT) when nothing came in time: no
---byte is lost, and the next read goes on. Raises UsageError (PCO_EBUSY) when
---somebody else reads.
---@param options portico.CallOptions?
---@return portico.OutputChunk? chunk
function Process:read(options)
  return core.process_read(self, options)
end

---Returns an iterator over the chunks of output, as they come. `timeout`
---limits each step. After `break` the rest can still be read.
---@param options portico.CallOptions?
---@return portico.sync.Iterator iterator
---@return nil
---@return nil
---@return portico.sync.Iterator closer
function Process:chunks(options)
  return core.process_chunks(self, options)
end

---Returns an iterator over the lines of output, without their newlines:
---`for line, stream in process:lines() do`. The streams are kept apart; a last
---line without a newline counts. `timeout` limits each step. A line of more
---than `max_line` bytes raises LimitError; chunks() still gives it.
---@param options portico.LinesOptions?
---@return portico.sync.Iterator iterator
---@return nil
---@return nil
---@return portico.sync.Iterator closer
function Process:lines(options)
  return core.process_lines(self, options)
end

---Writes to the command's stdin (`stdin = "pipe"`) or types on its terminal
---(`pty`), and returns when all of it was taken. Raises SystemError (EPIPE)
---when nobody reads any more. A command that writes while nobody reads its
---output stops reading at some point: write and read in turns, or give `input`
---to exec. After a timeout `written` of the error says how many bytes were
---taken.
---@param data string
---@param options portico.CallOptions?
function Process:write(data, options)
  return core.process_write(self, data, options)
end

---Closes the command's stdin: it sees the end of its input. On a terminal it
---types Ctrl-D, on a line that is not empty twice; there one can write on.
---@param options portico.CallOptions?
function Process:close_stdin(options)
  return core.process_close_stdin(self, options)
end

---Waits for the end and returns the Result; many may wait, and again, and all
---get the same. Output that nobody has claimed is collected into it. `timeout`
---limits this call only (TimeoutError, PCO_ECALLTIMEOUT): the command runs on.
---@param options portico.CallOptions?
---@return portico.sync.Result result
function Process:wait(options)
  return core.process_wait(self, options)
end

---Waits until the unread output matches a Lua pattern (`{output = "ready"}`),
---and returns what string.match gives; or until a TCP port is listened on
---inside (`{port = 8080}`), and returns the port. Takes nothing: the output can
---still be read. `^` is where the unread output begins. Raises ExitError, with
---`result`, when the command ends before; LimitError when 1 MiB lies unread
---and does not match. A match of more than 16 KiB that comes in many pieces may
---be found only when the output has ended, or that much lies unread.
---@param condition portico.Condition
---@param options portico.CallOptions?
---@return any ...
function Process:wait_for(condition, options)
  return core.process_wait_for(self, condition, options)
end

---Returns the Result if the command has ended, or nil. Never waits.
---@return portico.sync.Result? result
function Process:poll()
  return core.process_poll(self)
end

---Sends a signal to the first process of the command: "TERM", "SIGTERM" or
---15. Returns false when it has ended already.
---@param name string|integer
---@param options portico.CallOptions?
---@return boolean sent
function Process:signal(name, options)
  return core.process_signal(self, name, options)
end

---Changes the size of the command's terminal (`pty`); the kernel tells its
---programs by SIGWINCH. Returns false when the command has ended already.
---@param cols integer 1 to 65535
---@param rows integer 1 to 65535
---@param options portico.CallOptions?
---@return boolean resized
function Process:resize(cols, rows, options)
  return core.process_resize(self, cols, rows, options)
end

---Kills the command and all that it started, and returns the Result. With
---`grace` it gets TERM and so many seconds before KILL.
---@param options portico.KillOptions?
---@return portico.sync.Result result
function Process:kill(options)
  return core.process_kill(self, options)
end

---Ends the command (TERM, `grace` seconds, KILL) with all that it started, and
---lets go of it; a terminal is hung up (SIGHUP) first. Returns whether this
---call did it. Works outside a task, too.
---@param options portico.KillOptions?
---@return boolean closed
function Process:close(options)
  return core.process_close(self, options)
end

---Describes the process: pid, command, state.
---@return string
function process_metatable:__tostring()
  return core.tostring(self)
end

---Closes the process at the end of a `<close>` variable's scope.
---@param err any the error in flight, or nil
function process_metatable:__close(err)
  return core.close_scope(self, err)
end

---Reads a file. Raises NotFoundError, PermissionError, and LimitError when
---there are more than `max_size` bytes (64 MiB unless given).
---@param path string
---@param options portico.ReadFileOptions?
---@return string data
function FileSystem:read(path, options)
  return core.fs_read(self, path, options)
end

---Writes a file as a whole: whoever reads it sees the old or the new content,
---never a part, unless `atomic` is off. Mode and owner of an existing file are
---kept, as far as the commands' user may.
---@param path string
---@param data string
---@param options portico.WriteFileOptions?
function FileSystem:write(path, data, options)
  return core.fs_write(self, path, data, options)
end

---Appends to a file, which is made if it is not there.
---@param path string
---@param data string
---@param options portico.AppendFileOptions?
function FileSystem:append(path, data, options)
  return core.fs_append(self, path, data, options)
end

---Tells type, size, mode and times of a file. Raises NotFoundError.
---@param path string
---@param options portico.FileOptions?
---@return portico.EntryStat stat
function FileSystem:stat(path, options)
  return core.fs_stat(self, path, options)
end

---Says whether there is a file, directory or other entry of this name.
---@param path string
---@param options portico.FileOptions?
---@return boolean exists
function FileSystem:exists(path, options)
  return core.fs_exists(self, path, options)
end

---Lists a directory, in byte order of the names. Raises NotFoundError.
---@param path string
---@param options portico.FileOptions?
---@return portico.EntryStat[] entries
function FileSystem:list(path, options)
  return core.fs_list(self, path, options)
end

---Walks through a directory and all below it, down to `depth` levels: an
---iterator of entries with their `path`, each directory in byte order and
---before what it holds. Links are told of, and not entered. A directory that
---may not be read raises PermissionError, after which the walk can go on, or is
---passed over with `on_error = "skip"`. `timeout` limits each step.
---@param path string
---@param options portico.WalkOptions?
---@return portico.sync.Iterator iterator
---@return nil
---@return nil
---@return portico.sync.Iterator closer
function FileSystem:walk(path, options)
  return core.fs_walk(self, path, options)
end

---Returns the paths that match a pattern, in byte order: "*", "?", "[a-z]",
---"[!a-z]", "**" for any directories between, and a backslash before what is
---meant as it is. Names that begin with a dot match only a component that does,
---too, unless `hidden` is on. "**" does not enter links. What may not be read
---counts as empty.
---@param pattern string
---@param options portico.GlobOptions?
---@return string[] paths
function FileSystem:glob(pattern, options)
  return core.fs_glob(self, pattern, options)
end

---Makes a directory. Raises AlreadyExistsError unless `parents` is on, which
---also makes the missing ones above it.
---@param path string
---@param options portico.MkdirOptions?
function FileSystem:mkdir(path, options)
  return core.fs_mkdir(self, path, options)
end

---Removes a file or an empty directory, with `recursive` all below it. Raises
---NotFoundError unless `missing_ok` is on.
---@param path string
---@param options portico.RemoveOptions?
function FileSystem:remove(path, options)
  return core.fs_remove(self, path, options)
end

---Renames a file or directory. Raises AlreadyExistsError when the target
---exists, unless `overwrite` is on.
---@param source string
---@param target string
---@param options portico.RenameOptions?
function FileSystem:rename(source, target, options)
  return core.fs_rename(self, source, target, options)
end

---Copies a file, a link, or with `recursive` a directory with all below it:
---modes, times and links are kept, holes stay holes. Nothing is seen of the
---copy before it is whole, and nothing is left of one that fails. Raises
---AlreadyExistsError when the target exists, unless `overwrite` is on: then a
---file is replaced, and a directory goes into one that is there, entry by
---entry.
---@param source string
---@param target string
---@param options portico.CopyOptions?
function FileSystem:copy(source, target, options)
  return core.fs_copy(self, source, target, options)
end

---Changes the permission bits of a file or directory.
---@param path string
---@param mode integer|string octal digits such as "644", or 0 to 4095
---@param options portico.FileOptions?
function FileSystem:chmod(path, mode, options)
  return core.fs_chmod(self, path, mode, options)
end

---Changes whom a file belongs to; nil leaves user or group as it is. Names are
---those of the sandbox's /etc/passwd and /etc/group. Raises PermissionError
---where the commands' user may not.
---@param path string
---@param user string|integer|nil
---@param group string|integer|nil
---@param options portico.FileOptions?
function FileSystem:chown(path, user, group, options)
  return core.fs_chown(self, path, user, group, options)
end

---Makes a symbolic link at `path`, with `target` as its text, as it is. Raises
---AlreadyExistsError.
---@param target string
---@param path string
---@param options portico.SymlinkOptions?
function FileSystem:symlink(target, path, options)
  return core.fs_symlink(self, target, path, options)
end

---Returns the text of a symbolic link. Raises InvalidArgumentError for what is
---none.
---@param path string
---@param options portico.CallOptions?
---@return string target
function FileSystem:readlink(path, options)
  return core.fs_readlink(self, path, options)
end

---Makes a new, empty file that only its owner may use, or with `directory` a
---directory, and returns its path.
---@param options portico.TemporaryOptions?
---@return string path
function FileSystem:mktemp(options)
  return core.fs_mktemp(self, options)
end

---Adds up what a file, or a directory with all below it, holds, on the file
---system that it begins on. A file with several names counts at each.
---@param path string
---@param options portico.FileOptions?
---@return portico.Usage usage
function FileSystem:usage(path, options)
  return core.fs_usage(self, path, options)
end

---Opens a file: "r" reads, "w" empties it or makes it, "a" writes at its end;
---"r+", "w+" and "a+" read and write, "wx" makes one that was not there.
---`mode` of the options is that of a new file. FIFOs and sockets are refused.
---@param path string
---@param mode string? "r" unless given
---@param options portico.OpenFileOptions?
---@return portico.sync.File file
function FileSystem:open(path, mode, options)
  return core.fs_open(self, path, mode, options)
end

---Watches a file or directory, with `recursive` all directories below it, for
---what happens from now on. Links below `path` are not followed. A pattern of
---`include` and `exclude` without a slash is matched against each name, one
---with a slash against the path below `path`. An excluded directory is not
---watched at all. Raises LimitError when the system has no more watches.
---@param path string
---@param options portico.WatchOptions?
---@return portico.sync.Watch watch
function FileSystem:watch(path, options)
  return core.fs_watch(self, path, options)
end

---Describes the file system: whose it is.
---@return string
function file_system_metatable:__tostring()
  return core.tostring(self)
end

---Reads a line ("l", or "L" with its end), all the rest ("a"), or so many
---bytes; nil at the end of the file, but "" for "a". A line, or a rest, of more
---than `max_size` bytes (64 MiB unless given) is a LimitError, and stays to be
---read.
---@param format string|integer|nil "l" unless given
---@param options portico.ReadOpenOptions?
---@return string? data
function File:read(format, options)
  return core.file_read(self, format, options)
end

---Iterates over what read(format) gives, until the end of the file: lines, or
---with a count chunks. Leaving the loop leaves the file open.
---@param format string|integer|nil "l" unless given
---@return portico.sync.Iterator iterator
---@return nil
---@return nil
---@return portico.sync.Iterator closer
function File:lines(format)
  return core.file_lines(self, format)
end

---Writes strings and numbers, one behind the other, and returns the file.
---Nothing is kept back here. What failed half-way has `written` in its error,
---and has not moved the place where the file is read or written next.
---@param ... string|number
---@return portico.sync.File file
function File:write(...)
  return core.file_write(self, ...)
end

---Moves to so many bytes from the beginning ("set"), from here ("cur") or from
---the end ("end"), and returns that place, from the beginning.
---@param whence string? "cur" unless given
---@param offset integer? 0 unless given
---@return integer position
function File:seek(whence, offset)
  return core.file_seek(self, whence, offset)
end

---Cuts the file, or fills it up with zeros, to that size.
---@param size integer
---@param options portico.CallOptions?
function File:truncate(size, options)
  return core.file_truncate(self, size, options)
end

---Returns once what was written is on the disk.
---@param options portico.CallOptions?
function File:sync(options)
  return core.file_sync(self, options)
end

---Tells type, size, mode and times of the file that is open, whatever its name
---leads to by now.
---@param options portico.CallOptions?
---@return portico.EntryStat stat
function File:stat(options)
  return core.file_stat(self, options)
end

---Closes the file. Returns whether this call did it. Works outside a task, too.
---@param options portico.CallOptions?
---@return boolean closed
function File:close(options)
  return core.file_close(self, options)
end

---Describes the file: path, sandbox, state.
---@return string
function file_metatable:__tostring()
  return core.tostring(self)
end

---Closes the file at the end of a `<close>` variable's scope.
---@param err any the error in flight, or nil
function file_metatable:__close(err)
  return core.close_scope(self, err)
end

---Returns the next event; waits for one. What happened while nobody asked is
---kept, and when it was too much, one event "rescan" stands for all of it.
---When what is watched is gone, "remove" of it is the last event, and nil comes
---then.
---Raises LimitError when the system had no watch for a new directory.
---@param options portico.CallOptions?
---@return portico.FileEvent? event
function Watch:next(options)
  return core.watch_next(self, options)
end

---Iterates over the events, until what is watched is gone; else leave the loop,
---or close the watch. `timeout` limits each step.
---@param options portico.CallOptions?
---@return portico.sync.Iterator iterator
---@return nil
---@return nil
---@return portico.sync.Iterator closer
function Watch:events(options)
  return core.watch_events(self, options)
end

---Ends the watch. Returns whether this call did it. Works outside a task, too.
---@return boolean closed
function Watch:close()
  return core.watch_close(self)
end

---Describes the watch: path, sandbox, state.
---@return string
function watch_metatable:__tostring()
  return core.tostring(self)
end

---Closes the watch at the end of a `<close>` variable's scope.
---@param err any the error in flight, or nil
function watch_metatable:__close(err)
  return core.close_scope(self, err)
end

---Returns the Result itself, or raises ExitError (with `result`) when the
---command did not end with 0.
---@return portico.sync.Result result
function Result:check()
  return core.result_check(self)
end

---Describes the result: how the command ended, and how much it wrote.
---@return string
function result_metatable:__tostring()
  return core.tostring(self)
end

---Ends the iteration; the process goes on, and the rest of its output can
---still be read. Returns whether this call did it. Never waits.
---@return boolean closed
function Iterator:close()
  return core.iterator_close(self)
end

---Returns the next value, or nil at the end. The parameters are what a
---generic `for` passes, and are not used.
---@param ... any
---@return any value
---@return any extra the stream, for lines
function iterator_metatable:__call(...) -- luacheck: no unused args
  return core.iterator_next(self)
end

---Describes the iterator: what of, and its state.
---@return string
function iterator_metatable:__tostring()
  return core.tostring(self)
end

---Closes the iterator when a loop is left.
---@param err any the error in flight, or nil
function iterator_metatable:__close(err)
  return core.close_scope(self, err)
end

return portico
