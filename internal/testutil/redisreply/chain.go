package redisreply

import (
	"fmt"
	"strings"
)

// Chain is the text of an error and of all errors below it: what a log may show
// of a reply.
func Chain(err error) string {
	var b strings.Builder
	write(&b, err)
	return b.String()
}

func write(b *strings.Builder, err error) {
	if err == nil {
		return
	}
	fmt.Fprintf(b, "%v %+v %#v\n", err, err, err)
	switch e := err.(type) { //nolint:errorlint // each step of the chain on its own
	case interface{ Unwrap() error }:
		write(b, e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, below := range e.Unwrap() {
			write(b, below)
		}
	}
}
