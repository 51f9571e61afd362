package renewer

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
	"github.com/lockbeat/lockbeat/renewer/internal/desk"
	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/internal/timing"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// question is one that a call puts to the store: it is opened, asked within its
// time, and its answer is judged. What the answer says is noted in the call; of
// the lease it sets nothing but the token.
type question struct {
	c      *call
	sent   instant
	until  instant // the store's time for the answer
	cut    bool    // it is the caller's patience, not the store's time, that runs out
	late   bool    // its time was over before the answer
	queued bool    // it was asked from a place
}

// open begins a question, unless the call is over.
func (c *call) open(ctx context.Context) (q question, err error) {
	c.freed = false
	if ctx.Err() != nil {
		return q, c.cancelled(ctx)
	}
	q.c, q.sent = c, c.k.clock.AtMost()
	if q.sent >= c.until {
		return q, c.refuse()
	}
	if c.request.Limit != nil {
		if c.limit = c.request.Limit(); c.limit <= 0 {
			return q, c.noLimit()
		}
	}
	if c.k.outages.Troubled() {
		if err := c.away(); err != nil {
			c.seen = unavailable(err)
			return q, c.refuse()
		}
	}
	q.until = q.sent.Add(c.k.cfg.RequestTimeout)
	q.cut = q.patience() < q.until
	return q, nil
}

// patience is until when the caller waits for an answer. The front of a limit
// asks for those behind it, too, and so waits a little longer than its own
// time: if it left before the answer, what the store has granted to the others
// would be lost; and so again with the next front, whose time may end at the
// same moment.
func (q *question) patience() instant {
	c := q.c
	if c.until == never || c.request.Limit == nil || !c.standsInLine() {
		return c.until
	}
	return c.until.Add(c.k.cfg.RequestTimeout / 4)
}

// begin returns the context of the request, which ends with the question's time
// and with ctx, and the place to ask from. end must follow.
//
// Where nothing but [Config.RequestTimeout] can end it, it shares the limit of
// other requests. Otherwise the end loop keeps the time, and the context
// becomes the operation's if the answer is yes, so that an acquire makes only
// one.
func (q *question) begin(ctx context.Context) (request context.Context, place uint64) {
	k, l := q.c.k, q.c.l
	// What is asked of a store that may be away ends when that is known.
	shared := ctx.Done() == nil && q.until < q.patience() && !k.outages.Troubled()
	if !shared && l.op.Made() == nil {
		q.makeContext(ctx)
	}
	place = q.place()
	if shared {
		return k.requests.Limited(ctx), place
	}
	b := k.lock()
	halted := b.phase >= phaseFree
	if !halted {
		l.belief.AskUntil(min(q.until, q.patience()))
		b.attendBy(l, q.sent)
	}
	b.Unlock()
	op := l.op.Made()
	if halted { // no loop keeps the time any more
		op.Cancel(ErrShutdown)
	}
	return op.Ctx, place
}

// place is the number of the place from which the call asks, and notes how many
// wait behind it. Of a lock the claim is the place's, and so is its owner.
func (q *question) place() uint64 {
	c := q.c
	own := c.place
	if own.Number == 0 {
		own.Owner, own.Asks = c.l.belief.Owner, c.request.givesWay() || c.l.belief.IsManual()
	}
	place, left, inLine := c.k.desk.Place(c.l.key(), own, q.sent, c.standsInLine())
	c.k.giveUpPlace(c.l, &left)
	c.callers = inLine
	if c.request.Limit != nil {
		c.callers = max(c.callers-1, 0) // the first of them has the place then
	}
	if place.Number != 0 {
		c.place, q.queued = place, true
		if c.request.Limit == nil && c.l.belief.Owner != place.Owner { // it has not asked yet
			c.l.belief.Owner = place.Owner
		}
	}
	return place.Number
}

// standsInLine reports whether the call waits at the front of its line.
func (c *call) standsInLine() bool { return !c.request.Try && !c.aside }

// isFresh reports whether what was granted to the first claim from the caller's
// place is as good, by when that was sent, as a lease whose heartbeat is due.
// Otherwise the store is asked again, by the same owner.
func (q *question) isFresh() bool {
	k := q.c.k
	return k.clock.Now().Sub(q.c.place.Sent) <= k.cfg.Heartbeat
}

// told is for an answer to the first claim from the caller's place. One that is
// fresh uses that up.
func (q *question) told() {
	c := q.c
	q.sent = c.place.Sent
	c.l.belief.From(c.place.Number)
	if q.isFresh() {
		c.unsettled = max(c.unsettled, c.k.desk.Told(c.l.key(), c.l))
		c.place = desk.Place{}
	}
}

// makeContext makes the operation's context, in the room for it when it is the
// first.
func (q *question) makeContext(ctx context.Context) {
	c := q.c
	room := c.room
	c.room = nil // another request may still have it
	if room == nil {
		room = new(lease.Context)
	}
	c.l.op.Ask(ctx, room)
}

// claim is what the store is asked for, from a place.
func (q *question) claim(ctx context.Context, place uint64) store.Claim {
	c, k, l := q.c, q.c.k, q.c.l
	c.attempts++
	// an earlier question that is granted after all has told the former trace
	if k.observer != nil && c.unsettled == 0 {
		l.setTrace(k.observer.Claim(ctx))
	}
	var newness store.Newness
	if c.request.givesWay() {
		newness = c.newness()
	}
	return store.Claim{
		Name: l.name, Owner: l.belief.Owner.String(), TTL: l.belief.TTL(&k.rules), Place: place,
		Holder: k.holder(l), Limit: c.limit, Newness: newness, Callers: c.callers,
		Manual: l.belief.IsManual(),
	}
}

// end notes whether the time was over before the answer.
func (q *question) end(request context.Context) {
	l := q.c.l
	if l.op.Made() == nil {
		q.late = request.Err() != nil
		return
	}
	b := q.c.k.lock()
	q.late = l.belief.Slot == timing.Nowhere
	b.leases.Remove(l)
	b.Unlock()
	if q.late {
		l.op.Drop()
	}
}

// judge notes the answer. It returns when the request was sent if the claim is
// granted, an error if the call is over, and neither if the call is to wait and
// ask again.
func (q *question) judge(ctx context.Context, g store.Grant) (sent instant, err error) {
	c := q.c
	q.book(ctx, &g)
	if c.newest != nil && (g.Status == store.StatusHeld || g.Status == store.StatusUnknown) {
		c.newest.heard(c.k) // or may have
	}
	switch g.Status {
	case store.StatusHeld:
		if ctx.Err() != nil { // the caller left while the question was under way
			c.unsettled = max(c.unsettled, q.sent) // that of the first claim, if it is late
			return 0, c.cancelled(ctx)
		}
		c.l.belief.Fence, c.reserved = g.Fence, g.Reserved
		return q.sent, nil
	case store.StatusTaken, store.StatusQueued:
		q.taken(&g)
		if g.Broken { // nothing runs under it: the call never heard that it has it
			c.renounce(ctx, q.sent)
		}
	case store.StatusReplaced:
		return 0, c.fail(ErrBusy, ErrReplaced)
	default:
		if err := q.unknown(ctx, &g); err != nil {
			return 0, err
		}
	}
	if errors.Is(g.Err, ErrConfig) {
		return 0, c.fail(ErrConfig, g.Err)
	}
	if c.request.Try || errors.Is(g.Err, ErrRejected) {
		return 0, c.refuse()
	}
	return 0, nil
}

// book notes whether the store answers at all, and makes an answer none that
// grants what would be over already.
func (q *question) book(ctx context.Context, g *store.Grant) {
	k, l := q.c.k, q.c.l
	if asking.IsAnswer(g.Status, g.Err) {
		if !g.Late { // which says nothing of the store of now
			k.outages.Answered(k.outages.ShardOf(l.name))
		}
	} else if ctx.Err() == nil {
		k.outages.Failed(k.outages.ShardOf(l.name), l.name, q.sent, g.Err)
	}
	if g.Status != store.StatusHeld {
		return
	}
	now, ttl := k.clock.AtMost(), l.belief.TTL(&k.rules)
	if k.rules.TooOld(q.sent, now, ttl) {
		// Ours, but too old to be believed in. Asked again by the same owner,
		// the store extends it.
		*g = store.Grant{Err: fmt.Errorf("the store took %v to answer, too long for a TTL of %v",
			now.Sub(q.sent), ttl)}
	}
}

// taken notes that the lock is another owner's.
func (q *question) taken(g *store.Grant) {
	c := q.c
	// Another owner's: nothing of ours is there. An earlier question that was
	// lost on its way may still take effect, though, once the other has gone.
	if q.sent >= c.unsettled.Add(c.k.store.Settle()) {
		c.unsettled = 0
	}
	// A holder that has had the name for less time than has passed since the
	// last refusal took it when it was free. So may one of whom it is not known
	// for how long, or that has it only now.
	c.freed = g.HeldFor == 0 || c.refused != 0 && g.HeldFor < q.sent.Sub(c.refused)
	c.refused = q.sent
	c.contended = true
	c.behind = holderOf(g, q.sent)
	c.see(c.behind, g.Status == store.StatusQueued || c.unsettled != 0)
	if g.Held > c.limit && c.limit > 0 {
		q.disagree(g.Held)
	}
}

// unknown notes that there was no answer, and returns an error if the caller
// has left.
func (q *question) unknown(ctx context.Context, g *store.Grant) error {
	c := q.c
	unsent := errors.Is(g.Err, store.ErrNotSent)
	if !unsent {
		c.unsettled = q.sent
	}
	if ctx.Err() != nil {
		return c.cancelled(ctx)
	}
	if q.late && (errors.Is(g.Err, context.Canceled) ||
		errors.Is(g.Err, context.DeadlineExceeded)) {
		g.Err = q.noAnswer(g.Err)
	}
	if !q.cut || !c.seen.Known || errors.Is(g.Err, ErrRejected) {
		c.see(unavailable(g.Err), q.queued && !unsent)
	}
	return nil
}

// noAnswer is the error for a question that was not answered in time, with what
// the store says, such as whom it waited for. Where no question was, it is the
// limit that may be too short; one cut short by the caller's own patience says
// nothing of that.
func (q *question) noAnswer(err error) error {
	c := q.c
	if q.cut {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	c.late++
	if c.late < c.attempts {
		return fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	return fmt.Errorf("%w: none of the questions so far (%d) was answered %s: %w",
		errNoAnswer, c.attempts, c.k.cfg.farAway(), err)
}

// farAway ends a sentence on questions that were not answered.
func (c Config) farAway() string {
	return fmt.Sprintf("within Config.RequestTimeout (%v); if the store is only far away, choose "+
		"a longer Config.TTL (%v)", c.RequestTimeout, c.TTL)
}

var singleClaims asking.Single[store.Claim]

// contend asks the store until the lock is ours, from the head of its queue:
// one contender a process and name. Between two questions it waits for
// whichever comes first of a wake-up, the end of the TTL that the store told,
// and a slow poll.
func (c *call) contend(ctx context.Context) (sent instant, err error) {
	if c.aside {
		if sent, err = c.ask(ctx); sent != 0 || err != nil {
			return sent, err
		}
		if err := c.queueUp(ctx); err != nil || c.given {
			return 0, err
		}
	}
	asked := c.request.Limit != nil && c.takeOver()
	if asked && c.request.Try {
		return 0, c.refuse()
	}
	for failures, woken := 0, false; ; asked = false {
		if !asked {
			sent, err := c.ask(ctx)
			if sent == 0 && (woken || c.freed) {
				c.k.desk.WasFalse(c.l.key(), c.freed, c.k.clock.AtMost())
			}
			if err == nil && sent == 0 && c.newest != nil {
				err = c.newest.check(ctx, c)
			}
			if err != nil || sent != 0 {
				return sent, err
			}
		}
		woken, err = c.await(ctx, c.pause(&failures))
		if err != nil {
			return 0, err
		}
	}
}

// queueUp returns when a call that has found no slot free is at the front of
// its queue. As long as slots are free, callers ask side by side. A question
// that was not answered may have got it a slot: that is given back, as it would
// keep those before it in the queue waiting.
func (c *call) queueUp(ctx context.Context) error {
	if c.unsettled != 0 {
		c.renounce(ctx, c.unsettled)
	}
	c.aside = false
	var err error
	c.given, err = c.wait(ctx)
	return err
}

// renounce gives back what a question that was sent at an instant, or before,
// has got the call, or may yet get it. It goes on under another owner token:
// the question may still have this one.
func (c *call) renounce(ctx context.Context, sent instant) {
	k, old := c.k, c.l
	c.l, c.room = k.newLease(ctx, old.name, old.label)
	c.l.belief.AskAgain(&old.belief, lease.NewOwner())
	old.op.Drop()
	k.desk.Swap(old.key(), old, c.l)
	hold := old.keyOf(&old.belief.Owner)
	if c.unsettled = 0; c.request.Limit == nil { // the place has the claim of that owner
		hold.Place, c.place = c.place.Number, desk.Place{}
	}
	k.cleaner.Disown(old.orphan(hold), sent)
}

// ask puts the claim to the store once. It returns when the request was sent if
// it was granted, an error if the call is over, and neither if the caller
// should wait and ask again.
func (c *call) ask(ctx context.Context) (sent instant, err error) {
	q, err := c.open(ctx)
	if err != nil {
		return 0, err
	}
	request, place := q.begin(ctx)
	claims := singleClaims.Take(q.claim(ctx, place))
	all := claims[:]
	if c.request.Limit != nil && c.standsInLine() {
		all = q.claimOthers(all)
	}
	grants := c.k.store.Acquire(request, all)
	own := asking.GrantOf(grants, 0, len(all))
	if own.Late && !q.isFresh() {
		grants = c.k.store.Acquire(request, all)
		own = asking.GrantOf(grants, 0, len(all))
	}
	if own.Late {
		q.told()
	}
	singleClaims.Put(claims)
	q.end(request)
	if len(c.others) > 0 {
		q.give(grants, &own)
	}
	return q.judge(ctx, own)
}

// noLimit is the error for a limit of 0 or less.
func (c *call) noLimit() error {
	if fault := checkLimit(c.limit); fault != nil {
		return c.fail(ErrConfig, fault)
	}
	return c.fail(ErrBusy, ErrLimitClosed)
}

// disagree tells of a limit that more hold than this caller would admit, once
// for each name.
func (q *question) disagree(held int) {
	c := q.c
	if c.k.desk.FirstTime(c.l.key()) {
		c.k.fault("limit", c.l.name, fmt.Errorf("%d hold it, and this process admits %d: others "+
			"have a higher limit, or it was lowered a moment ago", held, c.limit))
	}
}
