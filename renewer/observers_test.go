package renewer_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer"
)

// witness writes down what it hears, in a list that it shares with others, and
// into the context.
type witness struct {
	renewer.NopObserver
	name  string
	trace string
	heard *[]string
}

type witnessKey struct{}

// seen adds a witness to those who have seen a context.
func (w witness) seen(ctx context.Context, what string) context.Context {
	before, _ := ctx.Value(witnessKey{}).(string)
	*w.heard = append(*w.heard, w.name+" "+what+" after "+before)
	return context.WithValue(ctx, witnessKey{}, before+w.name)
}

func (w witness) AcquireStart(ctx context.Context, _ renewer.AcquireStart) context.Context {
	return w.seen(ctx, "AcquireStart")
}

func (w witness) AcquireEnd(ctx context.Context, _ renewer.AcquireEnd) context.Context {
	return w.seen(ctx, "AcquireEnd")
}

func (w witness) RenewStart(ctx context.Context, _ renewer.RenewStart) context.Context {
	return w.seen(ctx, "RenewStart")
}

func (w witness) CleanUp(ctx context.Context) context.Context { return w.seen(ctx, "CleanUp") }

func (w witness) Claim(ctx context.Context) string {
	w.seen(ctx, "Claim")
	return w.trace
}

func (w witness) Renewed(ctx context.Context, _ renewer.Renewed)   { w.seen(ctx, "Renewed") }
func (w witness) Missed(ctx context.Context, _ renewer.Missed)     { w.seen(ctx, "Missed") }
func (w witness) Lost(ctx context.Context, _ renewer.Lost)         { w.seen(ctx, "Lost") }
func (w witness) Released(ctx context.Context, _ renewer.Released) { w.seen(ctx, "Released") }
func (w witness) Unlocked(ctx context.Context, _ renewer.Unlocked) { w.seen(ctx, "Unlocked") }
func (w witness) Started(*renewer.Keeper)                          { w.seen(context.Background(), "Started") }

func (w witness) TasksInLine(renewer.TasksInLine)                    { w.seen(context.Background(), "TasksInLine") }
func (w witness) StillRuns(ctx context.Context, _ renewer.StillRuns) { w.seen(ctx, "StillRuns") }
func (w witness) Ran(ctx context.Context, _ renewer.Run)             { w.seen(ctx, "Ran") }
func (w witness) Fault(renewer.Fault)                                { w.seen(context.Background(), "Fault") }

// Each observer hears each event once, in order, with the context that the one
// before returned. A method that Observer gets later is called here too.
func TestObservers(t *testing.T) {
	t.Parallel()
	var heard []string
	both := renewer.Observers(nil, witness{name: "a", heard: &heard},
		witness{name: "b", trace: "of b", heard: &heard},
		witness{name: "c", trace: "of c", heard: &heard})
	methods := reflect.TypeFor[renewer.Observer]()
	for method := range methods.Methods() {
		heard = nil
		var args []reflect.Value
		for n := range method.Type.NumIn() {
			args = append(args, reflect.Zero(method.Type.In(n)))
			if method.Type.In(n) == reflect.TypeFor[context.Context]() {
				args[n] = reflect.ValueOf(t.Context())
			}
		}
		out := reflect.ValueOf(both).MethodByName(method.Name).Call(args)
		if len(out) == 1 && method.Name != "Claim" {
			assert.Equal(t, []string{
				"a " + method.Name + " after ", "b " + method.Name + " after a",
				"c " + method.Name + " after ab",
			}, heard)
			assert.Equal(t, "abc", out[0].Interface().(context.Context).Value(witnessKey{}))
			continue
		}
		assert.Equal(t, []string{
			"a " + method.Name + " after ", "b " + method.Name + " after ",
			"c " + method.Name + " after ",
		}, heard)
		if method.Name == "Claim" {
			assert.Equal(t, "of b", out[0].String())
		}
	}
}
