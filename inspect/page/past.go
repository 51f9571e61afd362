package page

import (
	linked "container/list"
	"time"
)

const (
	// pastFor is how long it is kept who had a name.
	pastFor = time.Hour
	// mostFormer is how many are kept of each name, and mostLosses of all that
	// were lost.
	mostFormer = 50
	mostLosses = 100
	// mostPast bounds what is kept of all names, in bytes: those that have
	// ended first go first.
	mostPast = 8 << 20
	// entryBytes is what an entry takes with the texts of its holder, and
	// nameBytes a name without the text of it.
	entryBytes, nameBytes = 640, 512
)

// entry is a lease that has ended, or was broken. Times are Unix milliseconds
// by the clock of this process.
type entry struct {
	subject
	who

	hash, trace string
	fence       int64
	since, at   int64
	how         string // "" if it was freed, or its key deleted: nobody can tell these apart
}

func (e *entry) bytes() int { return entryBytes + len(e.how) }

// past is who had which name.
type past struct {
	names map[subject]*linked.Element
	order linked.List // of *former, the one that had an end last behind
	bytes int
}

// former are those who had one name, the last one behind.
type former struct {
	subject

	hash  string
	all   []entry
	bytes int
}

func (p *past) add(e *entry) {
	element := p.names[e.subject]
	if element == nil {
		if p.names == nil {
			p.names = make(map[subject]*linked.Element)
		}
		f := &former{subject: e.subject, hash: e.hash, bytes: nameBytes + 2*len(e.name)}
		p.bytes += f.bytes
		element = p.order.PushBack(f)
		p.names[e.subject] = element
	}
	f := element.Value.(*former) //nolint:forcetypeassert // there is nothing else in it
	for i := range f.all {
		if f.all[i].fence == e.fence { // two readings at once have seen it go
			return
		}
	}
	if len(f.all) == mostFormer {
		p.drop(f, 1)
	}
	e.name, e.hash = f.name, f.hash // so that all share them
	f.all = append(f.all, *e)
	f.bytes += e.bytes()
	p.bytes += e.bytes()
	p.order.MoveToBack(element)
	for p.bytes > mostPast {
		p.remove(p.order.Front())
	}
}

// drop forgets the first n of those who had a name.
func (p *past) drop(f *former, n int) {
	for i := range f.all[:n] {
		f.bytes -= f.all[i].bytes()
		p.bytes -= f.all[i].bytes()
	}
	f.all = append(f.all[:0], f.all[n:]...)
}

func (p *past) remove(element *linked.Element) {
	f := p.order.Remove(element).(*former) //nolint:forcetypeassert // there is nothing else in it
	p.bytes -= f.bytes
	delete(p.names, f.subject)
}

// forget forgets names of which all has ended long ago.
func (p *past) forget(now time.Time) {
	for e := p.order.Front(); e != nil; e = p.order.Front() {
		f := e.Value.(*former) //nolint:forcetypeassert // there is nothing else in it
		if !isOver(f.all[len(f.all)-1].at, now) {
			return
		}
		p.remove(e)
	}
}

// of returns who had a name, the last one first.
func (p *past) of(s subject, now time.Time) (all []entry) {
	element := p.names[s]
	if element == nil {
		return nil
	}
	f := element.Value.(*former) //nolint:forcetypeassert // there is nothing else in it
	for i := len(f.all) - 1; i >= 0 && !isOver(f.all[i].at, now); i-- {
		all = append(all, f.all[i])
	}
	return all
}

func isOver(at int64, now time.Time) bool { return at < now.Add(-pastFor).UnixMilli() }

// losses are the last leases that were lost, or broken, and how many there were
// in each of the last 60 minutes.
type losses struct {
	all     []entry // the last one behind: mostLosses count
	version int     // of all
	minutes [60]struct {
		number       int64 // which minute this is
		lost, broken int
	}
}

func (l *losses) add(e *entry, broken bool) {
	if len(l.all) == 2*mostLosses {
		l.all = append(l.all[:0], l.all[mostLosses:]...)
	}
	l.all = append(l.all, *e)
	l.version++
	number := e.at / time.Minute.Milliseconds()
	m := &l.minutes[number%int64(len(l.minutes))]
	if m.number != number {
		m.number, m.lost, m.broken = number, 0, 0
	}
	m.lost++
	if broken {
		m.broken++
	}
}

// texts are those that count, the last one first.
func (l *losses) texts() []lossText {
	all := make([]lossText, 0, mostLosses)
	for i := len(l.all) - 1; i >= 0 && len(all) < mostLosses; i-- {
		all = append(all, l.all[i].loss())
	}
	return all
}

// count is how many leases were lost in the last hour, and how many of them
// were broken.
func (l *losses) count(now time.Time) (lost, broken int) {
	last := now.UnixMilli() / time.Minute.Milliseconds()
	for _, m := range &l.minutes {
		if m.number > last-int64(len(l.minutes)) {
			lost += m.lost
			broken += m.broken
		}
	}
	return lost, broken
}
