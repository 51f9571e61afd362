package locks

import (
	"context"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// leastEvery keeps top from asking without a pause, in which a large store
// would be read all the time.
const leastEvery = 100 * time.Millisecond

// watching are the flags of top.
type watching struct{ every time.Duration }

const topHelp = `Watch the locks and limits that most wait for, the oldest of
them first. q or Ctrl-C ends it. Where the output is no terminal, it prints a
table each time.`

func top() *cobra.Command {
	var t watching
	cmd := &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Watch the locks that most wait for",
		Long:  topHelp,
		Args:  atMostOne,
		RunE:  t.run,
	}
	cmd.Flags().DurationVar(&t.every, "every", time.Second, "how often, 100ms at least")
	return cmd
}

func (t *watching) run(cmd *cobra.Command, args []string) error {
	if t.every < leastEvery {
		return exit.Usagef("--every: %v is too often; take %v or more", t.every, leastEvery)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	locks, end, err := open(ctx)
	if err != nil {
		return failed(err)
	}
	defer end()
	w := cmd.OutOrStdout()
	view := topView{store: locks, want: pattern(args), w: w}
	if !out.IsTerminal(w) {
		return t.loop(ctx, view.printPlain)
	}
	ctx, restore := out.Take(ctx, cmd.InOrStdin(), w)
	defer restore()
	return t.loop(ctx, view.paint)
}

// loop shows the locks until ctx ends, which is no error. The time that it
// takes to read them comes on top of the pause.
func (t *watching) loop(ctx context.Context, each func(context.Context) error) error {
	for ctx.Err() == nil {
		if err := each(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		_ = pause(ctx, t.every)
	}
	return nil
}

// topView is what top shows.
type topView struct {
	store renewer.Store
	want  inspect.Filter
	w     io.Writer
}

func (v *topView) read(ctx context.Context) ([]store.Lock, error) {
	all, err := read(ctx, v.store, v.want)
	return sortBy(all, orders["waiters"]), err
}

// head is the first line.
func head(all []store.Lock, after string, columns int) string {
	return glance(time.Now().Format(time.TimeOnly)+"  ", sum(all), after, columns) + "\n"
}

// printPlain prints a table below those before, and ends with the first error.
func (v *topView) printPlain(ctx context.Context) error {
	all, err := v.read(ctx)
	if err != nil {
		return err
	}
	if err := write(v.w, head(all, "", 0)); err != nil {
		return err
	}
	if err := table(all).Write(v.w, out.Columns(v.w)); err != nil {
		return err
	}
	return write(v.w, "\n")
}

// paint paints over what was there. An error is shown in place of the table,
// since the store may be back a moment later.
func (v *topView) paint(ctx context.Context) error {
	all, err := v.read(ctx)
	columns, height := out.Size(v.w)
	var text strings.Builder
	text.WriteString(head(all, "  (q ends)", columns))
	if err != nil {
		text.WriteString(out.Wrap(out.Line(err.Error()), columns) + "\n")
	}
	if room := height - 2 - strings.Count(text.String(), "\n"); len(all) > room && room > 0 {
		all = all[:room]
	}
	if err := table(all).Write(&text, columns); err != nil {
		return err
	}
	return out.Paint(v.w, text.String())
}
