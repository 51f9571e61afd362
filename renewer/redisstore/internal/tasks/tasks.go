// Package tasks keeps the lines in which tasks wait for a lock or a limit on
// the server while no process does. parked.lua says what such a line is.
//
// It owns those lines, and touches no lease and no line of places: which of the
// tasks is next is said by arrive.lua and next.lua, and to run it is the matter
// of who asked.
package tasks

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	slotSuffix  = ":slot"
	wokenSuffix = ":woken"

	// taskLineTTL is how long a line of tasks lives when none of them comes.
	taskLineTTL = contract.MostTaskDelay + 5*time.Minute
	// mostLooks bounds how often a line is looked at for one event, a thousand
	// tasks each time. The next event goes on from there.
	mostLooks = 8
)

// Lines are those of tasks of a deployment. Its methods may be called
// concurrently.
type Lines struct{ asker *script.Asker }

// New has the lines where an asker asks.
func New(asker *script.Asker) *Lines { return &Lines{asker} }

// Arrive implements [contract.Line].
func (s *Lines) Arrive(ctx context.Context, a contract.Arrival) (contract.Arrived, error) {
	mode := "ask"
	if a.Look {
		mode = "place"
	} else if a.Wait {
		mode = "wait"
	}
	ttl, err := store.Millis(a.SlotTTL)
	if err != nil {
		return contract.Arrived{}, err
	}
	reply, err := s.askLine(ctx, refusal.OpArrive, script.Arrive, a.Name, a.Task.Home,
		taskText(a.Task), mode, schema.Decimal(ttl),
		schema.Decimal(taskLineTTL.Milliseconds()), taskText(a.For), limitText(a.Name, a.Limit),
		schema.Decimal(a.Since))
	if err != nil {
		return contract.Arrived{}, err
	}
	arrived, ok := readArrived(reply)
	if !ok {
		return contract.Arrived{}, refusal.Unreadable(refusal.OpArrive)
	}
	arrived.Wait = arrived.Wait && a.Wait
	return arrived, nil
}

// limitText is how many may have a limit; "" of a lock.
func limitText(name contract.Name, limit int) string {
	if !name.Limit {
		return ""
	}
	return strconv.Itoa(limit)
}

// readArrived reads the reply of arrive.lua.
func readArrived(reply rueidis.RedisMessage) (a contract.Arrived, ok bool) {
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 2 && len(parts) != 5 {
		return a, false
	}
	n, err0 := parts[0].ToInt64()
	place, err1 := parts[1].ToInt64()
	if a.Since = place; err0 != nil || err1 != nil || n < 0 != (len(parts) == 2) {
		return a, false
	} else if n < 0 {
		a.Ask, a.Wait = true, n == -1
		return a, n >= -2
	}
	value, err0 := parts[2].ToString()
	now, err1 := parts[3].ToInt64()
	held, err2 := parts[4].ToInt64()
	if err0 != nil || err1 != nil || err2 != nil {
		return a, false
	}
	holder, since := schema.DecodeValue(value)
	a.Ahead, a.Holder, a.HeldFor, a.Held = int(n), holder, schema.Elapsed(since, now), int(held)
	return a, true
}

// Next implements [contract.Line].
func (s *Lines) Next(
	ctx context.Context, name contract.Name, limit int, what contract.TaskEvent, task contract.Task,
) (next contract.NextTask, err error) {
	for range mostLooks {
		var more bool
		next, more, err = s.lookForNext(ctx, name, limit, what, task)
		if err != nil || !more {
			break
		}
		what, task = contract.TasksOver, contract.Task{Home: task.Home}
	}
	return next, err
}

// lookForNext is Next for as many tasks as one call of the script looks at. It
// reports whether there are more.
func (s *Lines) lookForNext(
	ctx context.Context, name contract.Name, limit int, what contract.TaskEvent, task contract.Task,
) (next contract.NextTask, more bool, err error) {
	reply, err := s.askLine(ctx, refusal.OpNext, script.Next, name, task.Home,
		taskText(task), what.String(), schema.Decimal(taskLineTTL.Milliseconds()),
		limitText(name, limit))
	if err != nil {
		return next, false, err
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) < 1 || len(parts) > 3 {
		return next, false, refusal.Unreadable(refusal.OpNext)
	}
	n, err := parts[0].ToInt64()
	if err != nil || n < 0 {
		return next, false, refusal.Unreadable(refusal.OpNext)
	}
	next.Parked = int(n)
	for i, tasks := range []*[]contract.Task{&next.Tasks, &next.Late}[:len(parts)-1] {
		texts, err := parts[i+1].AsStrSlice()
		if err != nil {
			return next, false, refusal.Unreadable(refusal.OpNext)
		}
		for _, text := range texts {
			if one, ok := readTask(text, task.Home); ok {
				*tasks = append(*tasks, one)
			}
		}
	}
	return next, len(parts) == 1, nil
}

// readTask is the opposite of taskText. ok is false for no task.
func readTask(text, home string) (t contract.Task, ok bool) {
	queue, id, ok := strings.Cut(text, "\n")
	if !ok || id == "" {
		return t, false
	}
	return contract.Task{Home: home, Queue: queue, ID: id}, true
}

// taskText is what a task is called on the server, "" for none. A queue whose
// name has a line feed is none of asynq's.
func taskText(t contract.Task) string {
	if t.ID == "" {
		return ""
	}
	return t.Queue + "\n" + t.ID
}

// askLine calls a script of the line of tasks of a home once.
func (s *Lines) askLine(
	ctx context.Context, op string, do script.Script, name contract.Name, home string,
	args ...string,
) (reply rueidis.RedisMessage, err error) {
	key := schema.LeaseKey(s.asker.Prefix, name)
	if home != "" {
		home = ":" + home
	}
	keys := []string{
		key, key + schema.TasksSuffix + home, key + slotSuffix + home, key + wokenSuffix + home,
		key + schema.HomesSuffix,
	}
	return s.asker.Ask(ctx, op, script.Call{Script: do, Name: name.Text, Keys: keys, Args: args})
}
