package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// perRank is how much later a task in line may come back by itself for each
	// one before it, of as many as may run at once. It does at any time until
	// then: so some come soon wherever the others stand that have not come, when
	// a line was lost, or each process that knew of it.
	perRank = 100 * time.Millisecond
	// mostTries bounds how often a task asks for a lock that the line believes
	// to be free.
	mostTries = 3
	// slotSlack is for how much longer than it waits a task that waits in its
	// slot keeps others from doing so, when its process has died.
	slotSlack = time.Second
	// mostDoublings bounds how often the time is doubled for which a task waits
	// in its slot.
	mostDoublings = 3
	// mostTask bounds a task's queue and ID, in bytes: lines don't read longer
	// ones.
	mostTask = 4000
)

// homeText is what may be a [contract.Task.Home].
var homeText = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// visit is one delivery of a task that wants a lock, or several, and what is
// known of its place. It is for one goroutine. Its steps are stand, then
// granted and over, or refused, after which it may stand again.
type visit struct {
	line  *line // nil: it has none
	wants []*want
	of    Delivery
	// backAs is the ID of the copy that goes back in its place; "" if it goes
	// back itself.
	backAs string
	stays  bool          // it can't go back: it waits beside the line
	task   contract.Task // who has the place, or would have it: the copy once that was announced
	since  int64         // when it got its first place; 0 if it is not known to have one

	inSlot bool           // it waits in its worker's slot if its turn has come
	ran    time.Time      // when it got the lock; zero: it did not, or has no line
	saying sync.WaitGroup // what is being said of it
	beside bool           // it is as one without a line from now on
	parked *want
}

// want is a lock, or a limit, that a task wants.
type want struct {
	names.Want

	met   bool // it refused the task
	turn  bool // the task's turn has come, by the line
	tries int  // of the task, when that was so
}

// place is that of a task that goes back to its queue.
type place struct {
	// Err is why: it is renewer.ErrBusy.
	Err error
	// BackIn is after how long it is to come back by itself.
	BackIn time.Duration
}

// visit begins that of a task that wants all of some locks and limits, in the
// order in which it is refused by them. A nil line is one that no task has.
func (l *line) visit(wants []names.Want, of Delivery, backAs string, stays bool) *visit {
	v := &visit{
		line: l, of: of, backAs: backAs, stays: stays,
		task: contract.Task{Queue: of.Queue, ID: of.ID},
	}
	if of.ID == "" || strings.Contains(of.Queue, "\n") ||
		len(of.Queue)+len(of.ID) > mostTask {
		v.line = nil // no queue has it, or no line can
	}
	for _, one := range wants {
		if one.Limit != nil && v.line != nil {
			one.Limit = v.line.guarded(one.Limit)
		}
		v.wants = append(v.wants, &want{Want: one})
	}
	return v
}

// guarded is a user's function that says how many may have a limit, as
// goroutines of the line call it: where it panics, which would end the process,
// the limit is closed to those in line.
func (l *line) guarded(limit func() int) func() int {
	return func() (n int) {
		defer func() {
			if p := recover(); p != nil {
				l.tell(fmt.Errorf("the function of a lockmw.LimitFunc has panicked: %v", p))
				n = 0
			}
		}()
		return limit()
	}
}

// stands reports whether the task goes by a line.
func (v *visit) stands() bool { return v.line != nil && !v.beside && !v.stays }

// stand asks where the task stands. It returns a place if the task goes back to
// its queue. Otherwise it is to ask for the lock, and to wait for it in its
// worker's slot for as long as is returned. A newcomer does not look at the
// line if no tasks have met for its lock lately. ctx has the deadline by which
// the task waits no longer; moment is for how long tasks wait in their slots as
// a rule.
func (v *visit) stand(ctx context.Context, moment time.Duration) (wait time.Duration, to *place) {
	if v.line == nil {
		return 0, nil
	}
	home := v.line.findHome(ctx, v.task)
	if home == nil {
		v.line = nil
		return 0, nil
	}
	v.task.Home = *home
	if !v.stands() {
		return 0, nil
	}
	lines := slices.DeleteFunc(slices.Clone(v.wants), func(w *want) bool {
		return !w.met && !v.line.isContended(w.Want)
	})
	if len(lines) == 0 {
		return 0, nil
	}
	deadline, _ := ctx.Deadline()
	left := max(time.Until(deadline), 0)
	wait = min(v.line.patience(lines, min(moment, left)), left)
	to, err := v.standIn(ctx, lines, wait)
	switch {
	case err != nil:
		v.beside = true // its server has not answered: it does without
		return 0, nil
	case to != nil:
		return 0, to
	case !v.inSlot:
		return 0, nil
	}
	return wait, nil
}

// standIn asks in one line after the other, and stays in the first in which it
// is not its turn.
func (v *visit) standIn(
	ctx context.Context, lines []*want, wait time.Duration,
) (*place, error) {
	if err := v.findPlace(ctx, lines); err != nil {
		return nil, err
	}
	v.inSlot = wait > 0
	for _, w := range lines {
		arrived, err := v.arrive(ctx, w, wait, false)
		switch {
		case err != nil:
			return nil, err
		case !arrived.Ask:
			return v.park(w, arrived.Ahead, wait == 0, refusal(w, arrived)), nil
		}
		w.turn, v.inSlot = true, v.inSlot && arrived.Wait
	}
	return nil, nil //nolint:nilnil // its turn has come
}

// findPlace looks in which of several lines the task stands, the last one
// first: those who stand in that have had their turn in the others before. The
// first one says so in any case.
func (v *visit) findPlace(ctx context.Context, lines []*want) error {
	if v.since != 0 {
		return nil
	}
	for _, w := range slices.Backward(lines[1:]) {
		arrived, err := v.arrive(ctx, w, 0, true)
		if err != nil {
			return err
		}
		if arrived.Since != 0 {
			v.since, v.parked = arrived.Since, w
			return nil
		}
	}
	return nil
}

func (v *visit) arrive(
	ctx context.Context, w *want, wait time.Duration, look bool,
) (contract.Arrived, error) {
	ctx, cancel := v.line.limited(ctx)
	defer cancel()
	var original contract.Task
	if v.backAs != "" {
		original, v.task.ID = v.task, v.backAs
		original.ID = v.of.ID
	}
	arrived, err := v.line.store.Arrive(ctx, contract.Arrival{
		Name: nameOf(w.Want), Limit: limitOf(w.Want), Task: v.task, For: original,
		Wait: wait > 0, SlotTTL: wait + slotSlack, Since: v.since, Look: look,
	})
	if arrived.Since != 0 {
		v.since = arrived.Since
	}
	return arrived, err
}

// refusal is the error for a task that goes back before it has asked.
func refusal(w *want, arrived contract.Arrived) error {
	e := &renewer.Error{
		Op: "acquire", Name: w.Name, Kind: renewer.ErrBusy,
		Holder: arrived.Holder, HeldFor: arrived.HeldFor,
		Err: fmt.Errorf("%d before it in line", arrived.Ahead),
	}
	if w.Limit != nil {
		e.Limit, e.Held = limitOf(w.Want), arrived.Held
	}
	return e
}

// refused is for a task that did not get the lock, with err: if it was busy,
// another caller has it. It returns a place if the task goes back to its queue;
// otherwise it reports whether the task is to stand once more.
func (v *visit) refused(err error, busy bool) (again bool, to *place) {
	if !v.stands() {
		return false, nil
	}
	w := v.refuser(err)
	if !busy || w == nil {
		for _, one := range v.wants {
			if one.turn {
				v.say(one, contract.TaskLeft)
			}
		}
		v.beside = true
		return false, nil
	}
	waited := v.inSlot && w.turn
	w.met = true
	w.tries++
	if waited || w.tries > mostTries {
		v.say(w, contract.TaskLeft)
		return false, v.park(w, 0, true, err)
	}
	v.line.met(w.Want)
	return true, nil
}

// refuser is which one refused the task; nil if none of them is known to.
func (v *visit) refuser(err error) *want {
	if len(v.wants) == 1 {
		return v.wants[0]
	}
	refused, ok := errors.AsType[*renewer.Error](err)
	for _, w := range v.wants {
		if ok && w.Name == refused.Name && (w.Limit != nil) == (refused.Limit > 0) {
			return w
		}
	}
	return nil
}

// granted is for a task that has got the lock: the next one is woken, so that
// it is there when the lock is free. One that has not asked the line says so,
// too: it may have been woken there by a process that has ended since, and no
// tasks have met for the lock in this one.
func (v *visit) granted() {
	if v.line == nil {
		return
	}
	v.ran = time.Now()
	for _, w := range v.wants {
		v.line.served(w.Want)
		v.say(w, contract.TaskGranted)
	}
}

// over is for a task that has tried, and has released the lock if it had it. Of
// one that it had for less than firstLook it says nothing: the task that was
// woken at its grant waits for that by now, or will be looked for. Of a limit
// more may come than were woken. It returns when those are, as its process may
// be about to end; but it waits for no server that hangs.
func (v *visit) over() {
	if v.ran.IsZero() {
		return
	}
	short := time.Since(v.ran) < firstLook
	for _, w := range v.wants {
		if (w.Limit != nil || !short) && (w.turn || v.line.isContended(w.Want)) {
			v.say(w, contract.TasksOver)
		}
	}
	said := make(chan struct{})
	go func() {
		v.saying.Wait()
		close(said)
	}()
	select {
	case <-said:
	case <-time.After(firstLook):
	}
}

// copied is for a task with a place that goes back as a copy: it is there now,
// or, if not ok, could not be made. It may have been looked for before.
func (v *visit) copied(ok bool) {
	if ok {
		v.say(v.parked, contract.TaskLeft)
	} else {
		v.say(v.parked, contract.TaskGone)
	}
}

// say says what became of the task, without waiting for that.
func (v *visit) say(w *want, what contract.TaskEvent) {
	task := v.task
	v.saying.Go(func() { v.line.wakeNext(w.Want, what, task) })
}

// park is for a task with a place in one's line behind n others, and in no
// other line. If it is the first, and no task waits in a slot, the process
// waits for the lock in its place.
func (v *visit) park(w *want, n int, alone bool, err error) *place {
	for _, other := range v.wants {
		if other != w && (other.turn || other == v.parked) {
			// At once, or it would be taken for one that does not come when it
			// is called there.
			v.line.wakeNext(other.Want, contract.TaskMoved, v.task)
		}
	}
	v.parked = w
	v.line.lookLater(w.Want)
	if n == 0 && alone {
		v.line.waitForFirst(w.Want, v.of.Kind)
	}
	later := rand.N(time.Duration(n)*perRank/time.Duration(max(limitOf(w.Want), 1)) + 1)
	return &place{
		Err: err, BackIn: min(v.line.keeper.Config().TTL+later, contract.MostTaskDelay),
	}
}

// patience is for how long a task waits in its slot, where moment is the rule.
// Where other callers always wait for the lock, a task that is woken at its
// release finds it taken: it has to stay until its turn has come. So each task
// that left in vain has the next one stay for twice as long. No task waits in
// its slot while the process waits for the lock itself (waitForFirst): with
// many such locks all workers would wait.
func (l *line) patience(lines []*want, moment time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	vain := 0
	for _, w := range lines {
		c := l.contended[w.ID()]
		if c != nil && c.asking {
			return 0
		} else if c != nil {
			vain = max(vain, c.vain)
		}
	}
	return moment << min(vain, mostDoublings)
}

// served notes that a task has got its lock.
func (l *line) served(lock names.Want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.contended[lock.ID()]; c != nil {
		c.vain = 0
	}
}

// findHome returns what lines call their queue. It asks the queue until it has
// answered once. It is nil if that is another one than the task's, or does not
// answer in time, or refuses: the task is as one without a line then.
func (l *line) findHome(ctx context.Context, running contract.Task) *string {
	if home := l.home.Load(); home != nil {
		return home
	}
	asked := l.askHome(ctx, running)
	limited, cancel := context.WithDeadline(ctx, asked.until)
	defer cancel()
	select {
	case <-asked.over:
	case <-limited.Done():
	}
	return l.home.Load()
}

// askHome asks the queue for its home, once at a time: where it hangs, tasks
// wait for it once, and no goroutines gather.
func (l *line) askHome(ctx context.Context, running contract.Task) *asking {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asking != nil {
		return l.asking
	}
	asked := &asking{
		over: make(chan struct{}), until: time.Now().Add(l.keeper.Config().RequestTimeout),
	}
	l.asking = asked
	go func() {
		defer close(asked.over)
		// An answer that comes late is good for the tasks after this one.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.keeper.Config().TTL)
		defer cancel()
		home, err := l.queue.home(ctx, running)
		if err == nil && !homeText.MatchString(home) {
			err = fmt.Errorf("%w: the Home of the queue of jobs is %.80q: let it return 1 to 64 "+
				"letters and digits", renewer.ErrConfig, home)
		}
		if err != nil {
			l.tell(err)
		} else {
			l.home.Store(&home)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asking = nil
	}()
	return asked
}
