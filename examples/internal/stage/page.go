package stage

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// The colours of a terminal, and none.
const (
	plain = ""
	bold  = "\x1b[1m"
	cyan  = "\x1b[36m"
	dim   = "\x1b[2m"
	green = "\x1b[32m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

// width is where a line ends that has something at its end.
const width = 120

// page prints. One goroutine at a time.
type page struct {
	out    io.Writer
	colour bool
}

// colours tells whether out is a terminal of somebody who wants colours: https://no-color.org.
func colours(out *os.File) bool {
	info, err := out.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" &&
		os.Getenv("TERM") != "dumb"
}

// Print prints a line.
func (p *page) Print(format string, args ...any) { p.line(plain, fmt.Sprintf(format, args...)) }

// Title prints the heading of what comes next.
func (p *page) Title(format string, args ...any) {
	p.line(plain, "")
	p.line(bold, fmt.Sprintf(format, args...))
}

// Command prints a command as for a shell, which may have several lines.
// Those that go on while others run have a mark, such as "[1]", others "".
func (p *page) Command(mark, text string) {
	if mark == "" {
		p.line(cyan, "  $ "+strings.ReplaceAll(text, "\n", "\n    "))
		return
	}
	p.line(cyan, fmt.Sprintf("  $ %-*s %s", width-4-len(mark)-1, text+" &", mark))
}

// Answer prints what came of a command, how long it took, and the rest of it.
func (p *page) Answer(mark, head string, took time.Duration, rest ...string) {
	if mark != "" {
		head = mark + " " + head
	}
	after := "after " + Span(took)
	p.line(plain, fmt.Sprintf("    %-*s %s", width-4-len(after)-1, head, after))
	for _, line := range rest {
		p.line(dim, "    "+line)
	}
}

func (p *page) line(style, text string) {
	text = strings.TrimRight(text, " ")
	if p.colour && style != plain && text != "" {
		text = style + text + reset
	}
	fmt.Fprintln(p.out, text) //nolint:errcheck // if nobody reads on, the exit status tells
}

// Span shows a duration as people read it.
func Span(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	default:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
}
