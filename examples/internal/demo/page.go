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

// page prints. It may be used concurrently.
type page struct {
	begun time.Time

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

// Print prints a line.
func (p *page) Print(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.out, text) //nolint:errcheck // if no one reads on, the exit status says it
}

// Title prints the heading of what comes next.
func (p *page) Title(format string, args ...any) { p.Print("\n"+format, args...) }

// Event prints what happens now, and on which node.
func (p *page) Event(node, format string, args ...any) {
	p.Print("  %6.2f s  %-8s  %s", time.Since(p.begun).Seconds(), node,
		fmt.Sprintf(format, args...))
}

// Command prints a command as for a shell. One that runs beside others has a mark, such as "[1]".
func (p *page) Command(mark, text string) {
	if mark != "" {
		text = fmt.Sprintf("%-112s %s", text+" &", mark)
	}
	p.Print("  $ %s", strings.ReplaceAll(text, "\n", "\n    "))
}

// Answer prints what came of a command, how long it took, and the rest of it.
func (p *page) Answer(mark, head string, took time.Duration, rest ...string) {
	head = strings.TrimSpace(mark + " " + head)
	p.Print("    %-98s after %s", head, Span(took))
	for _, line := range rest {
		p.Print("    %s", line)
	}
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
