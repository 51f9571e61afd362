package redisstore

import (
	"strconv"
	"time"
)

// mailboxLinger is for how long a mailbox that nothing waits for any more stays open, as the
// next one to wait often comes soon.
const mailboxLinger = 2 * time.Second

// mailbox is one channel that this process alone subscribes to.
type mailbox struct {
	channel string
	open    bool // messages come
	users   int  // names that wait
	stop    func()
	lingers *time.Timer // closes it; nil while it has users
}

// channel is where this process hears that the turn of its place in a lock's line has come.
func (b *inbox) channel(name string) string {
	if b.cluster { // it must be in the slot of the lock
		return leaseKey(b.prefix, name) + ":inbox:" + b.id
	}
	return b.single
}

// receive gives those who wait for a lock its mailbox, if places can stand in line and any claim
// has asked for one. Under mu.
func (b *inbox) receive(w *waiting) {
	if w.mailbox == nil && b.able.Load() && b.wanted.Load() {
		w.mailbox = b.use(w.name)
	}
}

// use returns the mailbox of a lock, which is opened if it is not open. Under mu.
func (b *inbox) use(name string) *mailbox {
	channel := b.channel(name)
	m := b.mailboxes[channel]
	if m == nil {
		m = &mailbox{channel: channel}
		b.mailboxes[channel] = m
		b.open.Add(1)
		m.stop = b.subscriber.Watch(channel, func(message string, err error) {
			b.hear(m, message, err)
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
func (b *inbox) leaveMailbox(m *mailbox) {
	m.users--
	if m.users > 0 {
		return
	}
	m.lingers = time.AfterFunc(mailboxLinger, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if m.users == 0 && b.mailboxes[m.channel] == m {
			delete(b.mailboxes, m.channel)
			b.open.Add(-1)
			m.stop()
		}
	})
}

// hear takes what comes by a mailbox: an error, if it has failed; "" when it has been opened; or a
// message, see tell.lua.
func (b *inbox) hear(m *mailbox, message string, err error) {
	if err != nil || message == "" {
		b.mu.Lock()
		m.open = err == nil
		b.mu.Unlock()
		b.wakeAll(err, func(w *waiting) bool { return w.mailbox == m })
		return
	}
	number, err := strconv.ParseUint(message, 10, 64)
	if err != nil {
		return
	}
	b.mu.Lock()
	p := b.places[number]
	if p == nil { // given up since
		b.mu.Unlock()
		return
	}
	watches := p.of.watches
	p.of.missed = len(watches) == 0
	b.mu.Unlock()
	callAll(watches, nil)
}
