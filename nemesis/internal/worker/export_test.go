package worker

import (
	"io"

	"github.com/lockbeat/lockbeat/renewer"
)

// Tell wraps a store as a worker does.
func Tell(s renewer.Store, flaw Flaw, out io.Writer, cfg renewer.Config) renewer.Store {
	return tellOf(breakStore(s, flaw), &teller{out: out}, new(authority), cfg)
}

// Started counts the goroutines of a stack trace, as a worker does in the end.
func Started(stacks string) int { return started(stacks) }
