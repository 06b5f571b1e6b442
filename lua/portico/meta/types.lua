---@meta portico.types
-- Shapes that both facades share: option tables, results and other plain
-- data. Only for editors and the types spec; nothing loads this file. What an
-- option means stands here once; which options an operation knows is checked
-- in C, where a wrong name is refused together with the nearest right one.

-- Seconds. For calls 0 means "what is ready now" and math.huge "no limit";
-- negative numbers and NaN are refused.
---@class portico.CallOptions
---@field timeout number? limit of this call, in seconds

-- Of task.scope().
---@class portico.ScopeOptions
---@field timeout number? seconds from now until everything in it is cancelled
---@field deadline number? the same as a time of task.now()
---@field name string? for people
---@field shield boolean? no cancellation from outside reaches what is in it
---@field grace number? seconds for closing what a cancelled task has open (5)

---@class portico.OpenOptions
---@field portal portico.Portal? sync: use this one, not a new thread
---@field allow_in_tasks boolean? sync: allow calls inside async tasks

-- How long a process may take to end by itself.
---@class portico.KillOptions: portico.CallOptions
---@field grace number? seconds from TERM to KILL

-- Of a sandbox (create), or of one command and all that it starts (exec,
-- output, spawn): then beside those of its sandbox. 1 or more; math.huge is no
-- limit, but for disk, which always has one.
---@class portico.Limits
---@field memory integer? bytes, 4 MiB or more; files in the sandbox count
---@field pids integer? processes and threads
---@field cpus number? 0.5 is half of one
---@field disk integer? bytes; of a sandbox only
---@field open_files integer? descriptors per process

---@class portico.Mount
---@field source string a path of the host
---@field target string a path inside the sandbox
---@field read_only boolean?

---@class portico.CreateOptions: portico.CallOptions
---@field name string? the id that is wished for
---@field image string? what it means is the backend's
---@field env table<string, string|integer|false>? for all commands
---@field cwd string? for commands and relative paths
---@field user string? whose its commands and files are; as that of a command
---@field labels table<string, string>? shown by info() and list()
---@field limits portico.Limits?
---@field network string? "none", "host", or what the backend knows
---@field mounts portico.Mount[]?
---@field strict boolean? fail rather than emulate
---@field detachable boolean? it may be left running: `detach`
---@field ttl number? seconds until it ends, attached or not; with `detachable`
---@field portal portico.Portal? sync: use this one, not a new thread
---@field allow_in_tasks boolean? sync: allow calls inside async tasks
---@field settings table<string, string|number|boolean>? the backend's own

---@class portico.AttachOptions: portico.CallOptions
---@field portal portico.Portal? sync: use this one, not a new thread
---@field allow_in_tasks boolean? sync: allow calls inside async tasks

---@class portico.SandboxOptions: portico.CreateOptions
---@field backend string|portico.Backend|portico.sync.Backend|nil bwrap if nil
---@field backend_settings table<string, string|number|boolean>?

---@class portico.ProcessesOptions: portico.CallOptions
---@field all boolean? those that have ended, too

-- What wait_for waits for: one of output and port.
---@class portico.Condition
---@field output string? a Lua pattern, for what is unread
---@field stream "stdout"|"stderr"|"pty"|nil where to look; each if nil
---@field port integer? a TCP port inside the sandbox

---@class portico.LinesOptions: portico.CallOptions
---@field max_line integer? bytes; 1 MiB; a longer one is a LimitError

-- The terminal of a command: stdin, stdout and stderr at once. Its output is
-- the stream "pty", and `stdout` of the Result, as the terminal gives it ("\r\n"
-- for "\n"); TERM is set (xterm-256color, if `env` gives none).
---@class portico.Terminal
---@field cols integer? columns, 80 unless given
---@field rows integer? lines, 24 unless given
---@field echo boolean? show what is typed, true unless given

-- `timeout` limits the command here, not the call: its whole tree is killed.
---@class portico.SpawnOptions
---@field cwd string? inside the sandbox
---@field env table<string, string|integer|false>? added; false removes
---@field clean_env boolean? start from nothing but `env`
---@field stdin "null"|"pipe"|"closed"|nil null unless given; closed: reads fail
---@field stdout "pipe"|"null"|"closed"|nil pipe unless given; closed: writes fail
---@field stderr "pipe"|"null"|"closed"|"merge"|nil merge: where stdout goes
---@field timeout number? seconds until the command is killed
---@field grace number? seconds from TERM to KILL, 2 unless given
---@field pty boolean|portico.Terminal|nil a terminal for stdin and output
---@field check boolean? raise ExitError on a non-zero exit
---@field max_output integer? bytes kept per stream, 16 MiB unless given
---@field drain number? seconds to read on after the exit, 0.25 unless given
---@field limits portico.Limits? of this command alone
---@field user string? whom it runs as: "user" or "user:group", or numbers

---@class portico.ExecOptions: portico.SpawnOptions
---@field input string|(fun(): string?)|nil bytes, or a function giving chunks
---@field on_output fun(chunk: portico.OutputChunk)? called for each chunk
---@field tee boolean? copy to the host's own stdout and stderr, as fast as they go

---@class portico.FileOptions: portico.CallOptions
---@field follow boolean? false: refuse links

---@class portico.ReadFileOptions: portico.FileOptions
---@field offset integer? first byte, from 0
---@field length integer? bytes at most
---@field max_size integer? more is a LimitError; 64 MiB unless given

---@class portico.AppendFileOptions: portico.FileOptions
---@field mode integer|string|nil permission bits, whatever the umask: "644"
---@field owner string|integer|nil "user", "user:group" or ":group"
---@field parents boolean? make missing directories above
---@field fsync boolean? return once it is on the disk

---@class portico.WriteFileOptions: portico.AppendFileOptions
---@field atomic boolean? false: into the file itself, which keeps its links

---@class portico.OpenFileOptions: portico.FileOptions
---@field mode integer? permission bits of a new file, whatever the umask
---@field parents boolean? make missing directories above

---@class portico.ReadOpenOptions: portico.CallOptions
---@field max_size integer? more, of a line or a rest, is a LimitError; 64 MiB

---@class portico.WatchOptions: portico.FileOptions
---@field recursive boolean? all directories below, new ones too
---@field include string|string[]|nil only what one of these matches is told
---@field exclude string|string[]|nil what one of these matches is not watched

---@class portico.MkdirOptions: portico.FileOptions
---@field mode integer|string|nil permission bits, such as "755"
---@field parents boolean? make missing ones above; existing is fine

---@class portico.RemoveOptions: portico.FileOptions
---@field recursive boolean? a directory with all below it
---@field missing_ok boolean? not there is fine

---@class portico.RenameOptions: portico.FileOptions
---@field overwrite boolean? replace the target

---@class portico.CopyOptions: portico.CallOptions
---@field recursive boolean? a directory with all below it
---@field overwrite boolean? replace a file, merge into a directory
---@field parents boolean? make missing directories above the target
---@field follow boolean? false: a link is copied as a link

---@class portico.WalkOptions: portico.FileOptions
---@field depth integer? levels at most; 1 is the directory itself
---@field on_error "raise"|"skip"|nil raise unless given

---@class portico.GlobOptions: portico.CallOptions
---@field hidden boolean? names that begin with a dot match, too

---@class portico.SymlinkOptions: portico.CallOptions
---@field parents boolean? make missing directories above

---@class portico.TemporaryOptions: portico.CallOptions
---@field directory boolean? a directory, not a file
---@field name string? the last "*" becomes random; "tmp-*" unless given
---@field parent string? the directory to make it in; $TMPDIR unless given

-- A pattern without a slash is matched against each name, one with a slash
-- against the path below the tree; "/" at its end asks for a directory. "*" and
-- "?" match within a name, "**" any directories.
---@class portico.UploadOptions: portico.CallOptions
---@field include string|string[]|nil only what matches, or is below that
---@field exclude string|string[]|nil not what matches, nor what is below that
---@field symlinks "keep"|"inside"|"follow"|"refuse"|nil see the manual
---@field on_error "raise"|"skip"|nil skip: leave out what cannot be copied
---@field parents boolean? make missing directories above the target
---@field only_changed boolean? not what is there: same size, mode and time
---@field checksum boolean? with only_changed: same mode and content
---@field max_entries integer? more is a LimitError
---@field max_bytes integer? more is a LimitError; holes count
---@field on_progress fun(progress: portico.Progress)? called now and then

---@class portico.DownloadOptions: portico.UploadOptions

---@class portico.Progress
---@field path string what is being copied, below the tree
---@field bytes integer so far
---@field files integer so far
---@field total integer? bytes in all

---@class portico.Skipped
---@field path string below the tree
---@field code string such as "EACCES"
---@field message string

---@class portico.Transfer
---@field files integer that were copied, links too
---@field directories integer
---@field bytes integer of files, without their holes
---@field skipped portico.Skipped[] what on_error = "skip" left out

---@class portico.Usage
---@field bytes integer of all regular files
---@field allocated integer bytes that they take on the disk
---@field files integer all that is no directory
---@field directories integer

---@class portico.OutputChunk
---@field stream "stdout"|"stderr"|"pty"
---@field data string

---@class portico.Truncation
---@field offset integer bytes kept before the gap
---@field bytes integer bytes left out

---@class portico.Truncated
---@field stdout portico.Truncation?
---@field stderr portico.Truncation?

---@class portico.ResultFields
---@field ok boolean ended with code 0
---@field code integer? 0 to 255; 128+n after signal n; nil if gone
---@field signal string? "SIGKILL", ...
---@field reason "exited"|"signaled"|"timeout"|"killed"|"oom"|"gone"
---@field limit "memory"|"pids"|nil the limit that was hit while it ran
---@field stdout string
---@field stderr string
---@field stdout_bytes integer all that was written, also what was not kept
---@field stderr_bytes integer
---@field truncated false|portico.Truncated
---@field eof boolean false: somebody still held the output
---@field duration number seconds
---@field pid integer? as seen inside the sandbox
---@field survivors integer[] pids that could not be killed

---@class portico.Info
---@field id string
---@field name string?
---@field state "running"|"detached"|"paused"|"dead"|"unknown"
---@field backend string
---@field image string?
---@field labels table<string, string>
---@field owner string?
---@field created number? seconds since 1970
---@field expires number? seconds since 1970
---@field pid integer?

---@class portico.ProcessEntry
---@field pid integer
---@field argv string[]
---@field started number seconds since 1970
---@field state "running"|"exited"
---@field code integer? once it has exited, as in a Result
---@field signal string? that ended it

-- One task of task.tasks().
---@class portico.TaskEntry
---@field task portico.Task
---@field name string
---@field state "new"|"running"|"ready"|"waiting"
---@field depth integer 0: of run(); else in a scope of the one above it
---@field scope string? the name of that scope
---@field where string? "file:line" of where it waits
---@field spawned string? "file:line" of where it was spawned
---@field waits_for string? "exec", "sleep", "await of task 3" ...
---@field seconds number? how long it has waited

---@class portico.EntryStat
---@field name string
---@field type "file"|"directory"|"symlink"|"other"
---@field size integer bytes
---@field mode integer permission bits
---@field uid integer
---@field gid integer
---@field mtime number seconds since 1970
---@field mtime_ns integer the same in nanoseconds, exact
---@field target string? of a symlink
---@field path string? in a walk only

-- Of a Watch. "rescan": something was missed, look at everything below `path`.
---@class portico.FileEvent
---@field type "create"|"modify"|"remove"|"rename"|"attribute"|"rescan"
---@field path string as the script would name it
---@field from string? of a rename: the path before

---@class portico.Capability
---@field level "native"|"emulated"|"missing"
---@field reason string? why it is not native, or how it is

---@class portico.ProbeResult
---@field capabilities table<string, portico.Capability>
---@field detail string? the tool behind it, or why the backend cannot work

---@class portico.BackendEntry
---@field name string
---@field path string? of the plugin file; nil for built-in ones

---@class portico.LogRecord
---@field level "error"|"warning"|"info"|"debug"
---@field message string
---@field source string?
