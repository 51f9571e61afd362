package line

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// mailboxLinger is for how long a mailbox that nothing waits for any more stays
// open, as the next one to wait often comes soon.
const mailboxLinger = 2 * time.Second

// mailbox is one channel that this process alone subscribes to.
type mailbox struct {
	channel string
	open    bool // messages come
	users   int  // names that wait
	stop    func()
	lingers *time.Timer // closes it; nil while it has users
}

// channel is where this process hears that the turn of its place in a lock's
// line has come.
func (l *Line) channel(name contract.Name) string {
	if l.Cluster { // it must be in the slot of the lock
		return l.Key(name) + ":inbox:" + l.id
	}
	return l.single
}

// receive gives those who wait for a lock its mailbox, if places can stand in
// line and any claim has asked for one. Under mu.
func (l *Line) receive(w *waiting) {
	if w.mailbox == nil && l.able.Load() && l.wanted.Load() {
		w.mailbox = l.use(w.name)
	}
}

// use returns the mailbox of a lock, which is opened if it is not open. Under
// mu.
func (l *Line) use(name contract.Name) *mailbox {
	channel := l.channel(name)
	m := l.mailboxes[channel]
	if m == nil {
		m = &mailbox{channel: channel}
		l.mailboxes[channel] = m
		l.open.Add(1)
		m.stop = l.Subscriber.Watch(channel, func(message string, err error) {
			l.hear(m, message, err)
		})
	}
	m.users++
	if m.lingers != nil {
		m.lingers.Stop()
		m.lingers = nil
	}
	return m
}

// leaveMailbox is the opposite of use. Under mu.
func (l *Line) leaveMailbox(m *mailbox) {
	m.users--
	if m.users > 0 {
		return
	}
	m.lingers = time.AfterFunc(mailboxLinger, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if m.users == 0 && l.mailboxes[m.channel] == m {
			delete(l.mailboxes, m.channel)
			l.open.Add(-1)
			m.stop()
		}
	})
}

// hear takes what comes by a mailbox: an error, if it has failed; "" when it
// has been opened; or a message, see tell.lua.
func (l *Line) hear(m *mailbox, message string, err error) {
	if err != nil || message == "" {
		l.mu.Lock()
		m.open = err == nil
		l.mu.Unlock()
		l.wakeAll(err, func(w *waiting) bool { return w.mailbox == m })
		return
	}
	number, word, given, ok := readMessage(message)
	if !ok {
		return
	}
	l.mu.Lock()
	p := l.places[number]
	if p == nil || word != "" && !strings.HasPrefix(p.first.Owner, word) {
		l.mu.Unlock() // given up since, or forged
		return
	}
	if word != "" {
		p.given = given
	}
	p.tell(true)
	watches := p.of.watches
	l.mu.Unlock()
	callAll(watches, nil)
}

// readMessage reads the number of the place that is to ask, or whose first
// claim has been granted then: that, and the word by which it is told from a
// forgery, "" without a grant. See tell.lua.
func readMessage(message string) (number uint64, word string, given store.Grant, ok bool) {
	parts := strings.Split(message, " ")
	number, err := strconv.ParseUint(parts[0], 10, 64)
	if err != nil || len(parts) == 1 {
		return number, "", given, err == nil
	}
	if len(parts) != 4 || len(parts[1]) != 8 {
		return 0, "", given, false
	}
	fence := schema.Exact(parts[2])
	reserved := schema.Exact(parts[3]) - fence
	if fence == 0 || reserved < 0 || reserved > store.MaxReserved {
		return 0, "", given, false
	}
	given = store.Grant{Status: store.StatusHeld, Fence: fence, Reserved: int(reserved), Late: true}
	return number, parts[1], given, true
}

// turnSlack is how much later than the end of a grant, or a turn, the server is
// asked to look.
const turnSlack = 5 * time.Millisecond

// Gave notes that a release of this store has granted a lease on, or kept a
// slot, for so long. If a check of an earlier one is due it is put off: that
// one must be over, as the lease has been released again.
func (l *Line) Gave(name contract.Name, turn time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if timer := l.given[name]; timer != nil {
		timer.Reset(turn + turnSlack)
		return
	}
	l.given[name] = time.AfterFunc(turn+turnSlack, func() {
		l.mu.Lock()
		delete(l.given, name)
		closed := l.closed
		l.mu.Unlock()
		if !closed {
			l.Check(name)
		}
	})
}

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
