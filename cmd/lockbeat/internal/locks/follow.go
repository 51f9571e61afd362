package locks

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// What has become of a lease that was broken.
const (
	outcomeFree  = "free"
	outcomeTaken = "taken" // another has it
	outcomeHeld  = "held"  // its operation has not returned yet
)

// ordered is what break prints with --json.
type ordered struct {
	Name    string  `json:"name"`
	Limit   bool    `json:"limit"`
	Token   int64   `json:"token"`
	By      string  `json:"by"`
	Why     string  `json:"why"`
	Force   bool    `json:"force"`
	Outcome string  `json:"outcome"` // free, taken or held
	Told    bool    `json:"told"`    // the holder has heard so, or it is free
	After   float64 `json:"after_seconds"`
	// TTL is how long it can stay held at most, if it is held.
	TTL float64 `json:"ttl_seconds,omitempty"`
	// Holder is who has it now, if it is held or taken.
	Holder *holderJSON `json:"holder,omitempty"`
}

const (
	// promptly is how long to look at least: a holder that hears of it, and
	// returns, is as fast.
	promptly = time.Second
	// followPause is between two looks.
	followPause = 100 * time.Millisecond
)

// follow looks what becomes of the lease, and tells.
func (o *order) follow(cmd *cobra.Command, locks renewer.Store) error {
	ctx, begun := cmd.Context(), time.Now()
	if !o.json {
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "%s: the lease %d is broken\n", out.Safe(o.Name),
			o.Fence)
	}
	for said, told := false, false; ; {
		lock, err := o.current(ctx, locks)
		after := time.Since(begun)
		switch slot := o.slotOf(&lock); {
		case err != nil:
			return err
		case slot == nil && len(lock.Slots) > 0 && !o.Limit:
			return o.tell(cmd, outcomeTaken, after, &lock.Slots[0], "its next owner has it: "+
				out.Safe(lock.Slots[0].String()))
		case slot == nil:
			return o.tell(cmd, outcomeFree, after, nil, o.freed(&lock))
		case after >= max(o.wait, promptly):
			return o.unfinished(cmd, slot, after)
		case after >= promptly && (!said || told != slot.Told) && !o.json:
			said, told = true, slot.Told
			_, _ = fmt.Fprintln(cmd.OutOrStdout(), waitsFor(slot))
		}
		if err := pause(ctx, followPause); err != nil {
			return err
		}
	}
}

// freed says that the lease is no more.
func (o *order) freed(lock *store.Lock) string {
	switch {
	case o.Limit:
		return "its slot is free"
	case lock.Turns > 0:
		return "it is kept for the waiter whose turn it is"
	default:
		return "it is free"
	}
}

// waitsFor says what a lease that is broken and held waits for.
func waitsFor(slot *store.Slot) string {
	what := "has not heard so yet: its next heartbeat tells it, unless it is dead or cut off"
	if slot.Told {
		what = "has been told, and has not returned yet"
	}
	return fmt.Sprintf("%s %s; the lock lapses in %s at the latest", out.Safe(slot.String()), what,
		out.Duration(slot.TTL))
}

// unfinished ends break while the lease is held: as was asked for, unless it
// was to wait.
func (o *order) unfinished(cmd *cobra.Command, slot *store.Slot, after time.Duration) error {
	err := o.tell(cmd, outcomeHeld, after, slot, waitsFor(slot))
	if err == nil && o.wait > 0 {
		err = &exit.Error{Status: exit.Held, Err: fmt.Errorf("it is not free after %s; `lockbeat "+
			"show` tells when it is, and --force frees it at once", out.Duration(after))}
	}
	return err
}

// tell prints how it has ended.
func (o *order) tell(
	cmd *cobra.Command, outcome string, after time.Duration, slot *store.Slot, text string,
) error {
	w := cmd.OutOrStdout()
	if !o.json {
		_, err := fmt.Fprintf(w, "after %s: %s\n", out.Duration(after), text)
		return err
	}
	j := ordered{
		Name: o.Name, Limit: o.Limit, Token: o.Fence, By: o.By, Why: o.Why, Force: o.Force,
		Outcome: outcome, Told: outcome != outcomeHeld || slot.Told, After: after.Seconds(),
	}
	if slot != nil {
		holder := jsonOfHolder(slot.Holder)
		j.Holder = &holder
		if outcome == outcomeHeld {
			j.TTL = slot.TTL.Seconds()
		}
	}
	return out.JSON(w, j)
}
