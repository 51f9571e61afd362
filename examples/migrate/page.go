package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// page prints, and collects what was claimed. One goroutine at a time.
type page struct {
	out    io.Writer
	broken []string
	rows   []string
}

func (p *page) print(format string, args ...any) {
	//nolint:errcheck // if nobody reads on, the exit status tells
	fmt.Fprintln(p.out, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// claim adds a row to the table at the end.
func (p *page) claim(what, value string, held bool) {
	mark := "ok"
	if !held {
		mark = "BROKEN"
		p.broken = append(p.broken, what+": "+value)
	}
	p.rows = append(p.rows, fmt.Sprintf("  %-62s %-34s %s", what, value, mark))
}

// verdict prints the table and tells whether everything held.
func (p *page) verdict() bool {
	p.print("")
	for _, row := range p.rows {
		p.print("%s", row)
	}
	p.print("")
	if len(p.broken) > 0 {
		p.print("It did not hold: %s.", strings.Join(p.broken, "; "))
		return false
	}
	p.print("All of it held, and the moves changed one line each.")
	return true
}

// ms shows a duration as people read it.
func ms(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
