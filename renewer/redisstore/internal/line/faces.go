package line

import (
	"slices"
	"time"
)

const (
	// mostShown is how many places of this process others are shown something
	// of.
	mostShown = 100
	// showEvery is how often that is told anew at least, while places stand in
	// line.
	showEvery = 20 * time.Second
)

// Shown is a place that has stood in line for LongWait, and who waits there.
type Shown struct {
	Number uint64
	Who    string
}

// faces is what others are shown of this process. Nothing is told of those who
// wait for a short time, nor while none waits. Guarded by Line.mu.
type faces struct {
	places []uint64 // of those that stand in line, in the order in which they came
	timer  *time.Timer
	told   time.Time
	mute   bool // it was refused, and is not tried again
}

// face has a place that stands in line shown, once it has for LongWait. One for
// which there is no room is tried again when it asks next. Under mu.
func (l *Line) face(number uint64, p *place) {
	f := &l.faces
	if l.Show == nil || f.mute || p.faced || len(f.places) == mostShown {
		return
	}
	p.faced = true
	f.places = append(f.places, number)
	if f.timer == nil && !l.closed {
		f.timer = time.AfterFunc(l.LongWait, l.show)
	}
}

// show tells of the places that have stood in line for long, if that is not
// known yet, or was told long ago.
func (l *Line) show() {
	shown := l.toShow()
	refused := shown != nil && !l.Show(shown)
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.faces
	f.mute = f.mute || refused
	if len(f.places) == 0 || f.mute || l.closed {
		f.timer = nil
		return
	}
	f.timer = time.AfterFunc(l.LongWait, l.show)
}

// toShow is what is to be told now; nil for nothing.
func (l *Line) toShow() (shown []Shown) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.faces
	f.places = slices.DeleteFunc(f.places, func(number uint64) bool {
		return l.places[number] == nil
	})
	due := time.Since(f.told) >= showEvery
	for _, number := range f.places {
		p := l.places[number]
		if time.Since(p.came) >= l.LongWait {
			due = due || !p.shown
			p.shown = true
			shown = append(shown, Shown{number, p.who})
		}
	}
	if !due || l.closed {
		return nil
	}
	f.told = time.Now()
	return shown
}
