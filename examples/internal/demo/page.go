package demo

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// The styles of an event, on a terminal.
const (
	Plain  = ""
	Bold   = "\x1b[1m"
	Cyan   = "\x1b[36m"
	Dim    = "\x1b[2m"
	Green  = "\x1b[32m"
	Red    = "\x1b[31m"
	Yellow = "\x1b[33m"
)

// page prints. It may be used concurrently.
type page struct {
	colour bool
	begun  time.Time

	mu  sync.Mutex
	out io.Writer
}

// parse reads the command line.
func (set *Setting) parse() {
	flag.StringVar(&set.Redis, "redis", "",
		"`host:port` of a Redis server to use in place of the embedded one, or several: a:1,b:1,…")
	flag.BoolVar(&set.Stay, "stay", false,
		"keep all servers running after the story, until Ctrl-C")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "%s takes no arguments, but for its flags: %q\n", set.Program,
			flag.Args())
		os.Exit(2)
	}
}

// colours reports whether out is a terminal whose user wants colours: https://no-color.org.
func colours(out *os.File) bool {
	info, err := out.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == "" &&
		os.Getenv("TERM") != "dumb"
}

// Print prints a line.
func (p *page) Print(format string, args ...any) { p.line(Plain, fmt.Sprintf(format, args...)) }

// Title prints the heading of what comes next.
func (p *page) Title(format string, args ...any) {
	p.line(Plain, "")
	p.line(Bold, fmt.Sprintf(format, args...))
}

// Event prints what happens now, and on which node.
func (p *page) Event(style, node, format string, args ...any) {
	p.line(style, fmt.Sprintf("  %6.2f s  %-8s  ", time.Since(p.begun).Seconds(), node)+
		fmt.Sprintf(format, args...))
}

// Command prints a command as for a shell. One that runs beside others has a mark, such as "[1]".
func (p *page) Command(mark, text string) {
	if mark != "" {
		text = fmt.Sprintf("%-112s %s", text+" &", mark)
	}
	p.line(Cyan, "  $ "+strings.ReplaceAll(text, "\n", "\n    "))
}

// Answer prints what came of a command, how long it took, and the rest of it.
func (p *page) Answer(mark, head string, took time.Duration, rest ...string) {
	head = strings.TrimSpace(mark + " " + head)
	p.Print("    %-98s after %s", head, Span(took))
	for _, line := range rest {
		p.line(Dim, "    "+line)
	}
}

func (p *page) line(style, text string) {
	text = strings.TrimRight(text, " ")
	if p.colour && style != Plain {
		text = style + text + "\x1b[0m"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
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
