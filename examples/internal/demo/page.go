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
