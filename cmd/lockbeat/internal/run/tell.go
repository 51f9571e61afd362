//go:build unix

package run

import (
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func (r *running) warn(text string) { out.Warn(r.stderr, text) }

// tell tells what becomes of the lock, if --verbose asks for it: cron mails
// whatever is written.
func (r *running) tell(format string, args ...any) {
	if r.verbose {
		out.Message(r.stderr, fmt.Sprintf(format, args...))
	}
}

// explain tells why the command does not run, or not yet: also a person at a
// terminal, for whom the program would do nothing and not say why.
func (r *running) explain(format string, args ...any) {
	if r.verbose || out.IsTerminal(r.stderr) {
		out.Message(r.stderr, fmt.Sprintf(format, args...))
	}
}

// whoHas is the name, and who was seen with it when the lock was refused.
func (r *running) whoHas(err error) string {
	text := out.Safe(r.name)
	e, ok := errors.AsType[*renewer.Error](err)
	if !ok {
		return text
	}
	if e.Held > 0 {
		text += fmt.Sprintf(", which %d have", e.Held)
	}
	if e.Holder != (store.Holder{}) {
		text += ", last seen with " + out.Safe(e.Holder.String())
	}
	if e.HeldFor > 0 {
		text += ", for " + out.Duration(e.HeldFor) + " by then"
	}
	if e.Err != nil { // such as that another program has written the key
		text += ": " + e.Err.Error()
	}
	return text
}

// tellFreed says that the command has ended, and for how long the lock stays
// held.
func (r *running) tellFreed(kept time.Duration) {
	if kept > 0 {
		r.tell("%s stays held for %s more, as --at-least says", out.Safe(r.name),
			out.Duration(kept))
		return
	}
	r.tell("freed %s", out.Safe(r.name))
}
