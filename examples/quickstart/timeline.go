package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// The colours of a terminal, and none.
const (
	plain  = ""
	dim    = "\x1b[2m"
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	reset  = "\x1b[0m"
)

// timeline prints what happens, a line an event: when, on which node,
// about whose lock, and what. It may be used concurrently.
type timeline struct {
	colour bool
	begun  time.Time

	mu  sync.Mutex
	out io.Writer
}

func newTimeline(out io.Writer, colour bool) *timeline {
	return &timeline{out: out, colour: colour, begun: time.Now()}
}

// colours tells whether out is a terminal of somebody who wants colours: https://no-color.org.
func colours(out *os.File) bool {
	info, err := out.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" &&
		os.Getenv("TERM") != "dumb"
}

// say prints an event. node and user may be "".
func (t *timeline) say(style, node, user, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := fmt.Sprintf("%6.2f s", time.Since(t.begun).Seconds())
	t.line(style, fmt.Sprintf("%s  %-6s  %-4s  %s", at, node, user, fmt.Sprintf(format, args...)))
}

// print prints lines that are no events.
func (t *timeline) print(style, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line(style, fmt.Sprintf(format, args...))
}

func (t *timeline) line(style, text string) {
	text = strings.TrimRight(text, " ")
	if t.colour && style != plain {
		text = style + text + reset
	}
	fmt.Fprintln(t.out, text) //nolint:errcheck // if nobody reads on, the exit status tells
}

// took is how long the story has lasted.
func (t *timeline) took() time.Duration { return time.Since(t.begun) }

// ms shows a duration as people read it.
func ms(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
