package run

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/renewer"
)

// defaultTTL is for how long a machine that dies keeps the lock.
const defaultTTL = 30 * time.Second

// leastReserve is what a busy machine may need to find and to kill some hundred
// processes.
const leastReserve = 500 * time.Millisecond

// leastTTL is where grace, reserve, and two heartbeats still fit.
const leastTTL = 4 * leastReserve

// metricsSuffix is what node_exporter reads. While a file is written it has
// another.
const metricsSuffix = ".prom"

// options are the flags.
type options struct {
	name   string
	wait   time.Duration // negative: for as long as it takes
	skip   bool
	atMost int // 0: a lock

	// atLeast is for how long the lock is held from when the command begins,
	// also if that ends earlier.
	atLeast time.Duration
	grace   time.Duration
	ttl     time.Duration
	verbose bool
	metrics string // the file; "" for none

	keepPassword bool
}

const help = `Takes a lock, runs a command while it is held, and frees it when no process of the
command is left. The command is executed without a shell; its input and output are
untouched, and signals are passed on to its process group. It finds the lock's name in
LOCKBEAT_NAME and the fencing token in LOCKBEAT_FENCE. Its LOCKBEAT_URL has no user and no
password: if it uses locks itself, such as by a lockbeat run inside, let the password be
in a file (see lockbeat help environment), or give --keep-password.

If the lock can't be kept, the command gets SIGTERM, and SIGKILL after --grace: all of
its processes are dead before another can have the lock, also if this process is killed
or stopped. What the command leaves running when it ends is ended in the same way.

In each node's crontab, --skip needs --at-least: nodes do not begin a tick at the same
instant, and without it one that begins later finds the lock free again, and runs the job
once more. The lock is held for so long from when the command began, also if that ends
earlier or fails; this process ends with the command. Take more than the nodes' clocks may
differ by, and less than the time between two ticks. A command that could not be started
frees the lock at once.
%s
The exit status is the command's, or 128 and the number of the signal that ended it, or

   0  another has the lock, with --skip
  64  an argument makes no sense
  69  Redis does not answer
  70  the guard beside the command was killed, and so the command was
  71  the system refuses a process
  75  another has the lock, and --wait has run out
  76  the lock was lost, and the command was ended for it
  77  Redis refuses, such as for missing rights
  78  a variable or the configuration file is wrong
 126  the command can't be executed
 127  the command was not found
`

// New returns the command.
func New() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "run --name NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command under a lock",
		Long:  fmt.Sprintf(help, limits),
		Example: `  lockbeat run --name backup -- pg_dump -f /backup/db.sql db
  lockbeat run --name report --skip --at-least 30s -- report   # in each node's crontab
  lockbeat run --name import --at-most 3 --wait 10m -- ./import.sh`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return exit.Usagef("name the command to run behind --")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			flags := cmd.Flags()
			if err := o.complete(flags.Changed); err != nil {
				return err
			}
			return run(cmd.Context(), o, args, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // what comes behind the command is its own
	flags.StringVar(&o.name, "name", "", "the lock's `name`")
	flags.DurationVar(&o.wait, "wait", 0,
		"how long to wait for the lock; 0: not at all (default as long as it takes)")
	flags.BoolVar(&o.skip, "skip", false, "do nothing if another has the lock, and exit with 0")
	flags.IntVar(&o.atMost, "at-most", 0, "let `N` run at once, in place of one")
	flags.DurationVar(&o.atLeast, "at-least", 0,
		"hold the lock for so `long`, also if the command ends earlier")
	flags.DurationVar(&o.grace, "grace", 0,
		"between SIGTERM and SIGKILL, at most a quarter of --ttl (default a fifth of it)")
	flags.DurationVar(&o.ttl, "ttl", defaultTTL,
		"how long a machine that dies keeps the lock; Redis may be away for about half of it")
	flags.BoolVarP(&o.verbose, "verbose", "v", false,
		"tell on standard error what becomes of the lock, and who has it")
	flags.BoolVar(&o.keepPassword, "keep-password", false,
		"leave the password in the command's LOCKBEAT_URL")
	flags.StringVar(&o.metrics, "metrics", "",
		"keep a `FILE` that ends in .prom, for node_exporter's textfile collector")
	return cmd
}

// complete sets the defaults and refuses what makes no sense.
func (o *options) complete(given func(flag string) bool) error {
	if !given("wait") {
		o.wait = -1
	} else if o.wait < 0 {
		return exit.Usagef("--wait is %v; leave it out to wait for as long as it takes", o.wait)
	}
	if !given("grace") {
		o.grace = o.ttl / 5
	}
	switch {
	case o.name == "":
		return exit.Usagef("--name is missing: the name of the lock")
	case o.skip && o.wait >= 0:
		return exit.Usagef("--skip and --wait exclude each other")
	case given("at-most") && o.atMost < 1:
		return exit.Usagef("--at-most is %d; take at least 1", o.atMost)
	case given("at-least") && o.atLeast < time.Millisecond:
		return exit.Usagef("--at-least is %v; take a time such as 30s", o.atLeast)
	case given("metrics") && (!strings.HasSuffix(o.metrics, metricsSuffix) ||
		filepath.Base(o.metrics) == metricsSuffix):
		return exit.Usagef("--metrics is %q; take a name that ends in %s, such as report%s: "+
			"node_exporter reads no others", o.metrics, metricsSuffix, metricsSuffix)
	case o.ttl < leastTTL:
		return exit.Usagef("--ttl is %v; take at least %v, so that a busy machine can end the "+
			"command in time", o.ttl, leastTTL)
	case o.grace < 0 || o.grace > o.ttl/4:
		return exit.Usagef("--grace is %v; take at most a quarter of --ttl (%v): the command is "+
			"killed before another can have the lock", o.grace, o.ttl)
	}
	return renewer.CheckName(o.name)
}

// reserve is between SIGKILL and the end of the lease: for processes to die in,
// and for the wrapper to do what a guard has not done.
func (o *options) reserve() time.Duration { return max(o.ttl/10, leastReserve) }

// margin is how long before the end of the lease the command is asked to end.
func (o *options) margin() time.Duration { return o.grace + o.reserve() }
