package lockmw_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// svg draws a lane for the holder, one for the store and one for the waiter, over an axis of
// seconds.
func (l lostLock) svg() string {
	p := &picture{}
	p.WriteString(pictureHead)
	end := l.granted + 1500*time.Millisecond

	p.bar(laneA, 0, l.told, green, "works under the lock")
	p.bar(laneA, l.told, l.returned, amber, "stops")
	p.mark(0, green, "heartbeat confirmed")
	for _, sent := range l.missed {
		p.mark(sent, red, "no answer")
	}
	p.bar(laneStore, 0, renewer.DefaultTTL, blue,
		"the key is A's: TTL 15 s from the last heartbeat")
	p.bar(laneStore, l.granted, end, purple, "B's")
	p.bar(laneB, l.asked, l.granted, grey, "waits in line")
	p.bar(laneB, l.granted, end, green, "works")

	p.instant(l.told, 278, fmt.Sprintf("%.1f s: the context of A's function ends,",
		l.told.Seconds()), "cause renewer.ErrLost")
	p.instant(l.granted, 318, fmt.Sprintf("%.1f s: B has the lock, with a higher fencing token",
		l.granted.Seconds()))
	for second := range 17 {
		at := time.Duration(second) * time.Second
		p.line(at, axis, axis+4)
		if second%5 == 0 {
			p.text(x(at), axis+18, "middle", fmt.Sprintf("%d s", second))
		}
	}
	p.WriteString("</svg>\n")
	return p.String()
}

const (
	laneA, laneStore, laneB, axis = 76, 132, 188, 230 // heights, in pixels

	green, amber, red, blue, purple, grey = "#2e9e5b", "#e0a030", "#c0392b", "#3b6fb6", "#7a4fa3",
		"#8a9097"

	pictureHead = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 336" ` +
		`font-family="sans-serif" font-size="13" fill="#222">
<title>A process that is cut off from Redis is told that its lock is lost before another gets it
</title>
<rect width="900" height="336" fill="#fff"/>
<text x="20" y="28" font-size="16" font-weight="bold">Process A holds a lock, and its link to ` +
		`Redis is cut</text>
<text x="20" y="93">process A</text>
<text x="20" y="149">Redis</text>
<text x="20" y="205">process B</text>
`
)

// picture is an SVG in the making.
type picture struct{ strings.Builder }

func (p *picture) add(format string, args ...any) {
	_, _ = fmt.Fprintf(&p.Builder, format+"\n", args...)
}

// x is where an instant is, in pixels.
func x(at time.Duration) int { return 110 + int(at*45/time.Second) }

func (p *picture) bar(lane int, from, to time.Duration, colour, says string) {
	p.add("<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"26\" rx=\"3\" fill=\"%s\"/>",
		x(from), lane, x(to)-x(from), colour)
	if says != "" {
		p.add("<text x=\"%d\" y=\"%d\" fill=\"#fff\">%s</text>", x(from)+5, lane+18, says)
	}
}

// mark is a heartbeat of process A.
func (p *picture) mark(sent time.Duration, colour, says string) {
	p.add("<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/>", x(sent), laneA-10, colour)
	p.add("<text x=\"%d\" y=\"%d\" fill=\"%s\">%s</text>", x(sent)+9, laneA-6, colour, says)
}

// instant is a line over all lanes, and what it means, below them.
func (p *picture) instant(at time.Duration, y int, says ...string) {
	p.line(at, laneA-16, axis+4)
	p.line(at, axis+24, y-13)
	for i, line := range says {
		p.text(x(at), y+16*i, "end", line)
	}
}

func (p *picture) line(at time.Duration, from, to int) {
	p.add("<line x1=\"%d\" y1=\"%d\" x2=\"%[1]d\" y2=\"%[3]d\" stroke=\"#222\"/>",
		x(at), from, to)
}

func (p *picture) text(x, y int, anchor, says string) {
	p.add("<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>", x, y, anchor, says)
}
