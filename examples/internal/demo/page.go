package demo

import (
	"fmt"
	"io"
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
func Span(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }
