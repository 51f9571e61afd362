package renewer_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer"
)

// hearer is an Observer whose methods are one function, which returns the
// context of those that return one.
type hearer struct {
	hear  func(ctx context.Context, method string) context.Context
	trace string // what Claim returns
}

func (o hearer) AcquireStart(ctx context.Context, _ renewer.AcquireStart) context.Context {
	return o.hear(ctx, "AcquireStart")
}

func (o hearer) AcquireEnd(ctx context.Context, _ renewer.AcquireEnd) context.Context {
	return o.hear(ctx, "AcquireEnd")
}

func (o hearer) RenewStart(ctx context.Context, _ renewer.RenewStart) context.Context {
	return o.hear(ctx, "RenewStart")
}

func (o hearer) CleanUp(ctx context.Context) context.Context { return o.hear(ctx, "CleanUp") }

func (o hearer) Claim(ctx context.Context) string                   { o.hear(ctx, "Claim"); return o.trace }
func (o hearer) Renewed(ctx context.Context, _ renewer.Renewed)     { o.hear(ctx, "Renewed") }
func (o hearer) Missed(ctx context.Context, _ renewer.Missed)       { o.hear(ctx, "Missed") }
func (o hearer) Lost(ctx context.Context, _ renewer.Lost)           { o.hear(ctx, "Lost") }
func (o hearer) Released(ctx context.Context, _ renewer.Released)   { o.hear(ctx, "Released") }
func (o hearer) Unlocked(ctx context.Context, _ renewer.Unlocked)   { o.hear(ctx, "Unlocked") }
func (o hearer) StillRuns(ctx context.Context, _ renewer.StillRuns) { o.hear(ctx, "StillRuns") }
func (o hearer) Ran(ctx context.Context, _ renewer.Run)             { o.hear(ctx, "Ran") }
func (o hearer) Started(*renewer.Keeper)                            { o.hear(context.Background(), "Started") }

func (o hearer) TasksInLine(renewer.TasksInLine) { o.hear(context.Background(), "TasksInLine") }

func (o hearer) Fault(renewer.Fault) { o.hear(context.Background(), "Fault") }

type witnessKey struct{}

// witness writes down what it hears, in a list that it shares with others, and
// adds its name to those who have seen a context.
func witness(name, trace string, heard *[]string) renewer.Observer {
	return hearer{trace: trace, hear: func(ctx context.Context, method string) context.Context {
		before, _ := ctx.Value(witnessKey{}).(string)
		*heard = append(*heard, name+" "+method+" after "+before)
		return context.WithValue(ctx, witnessKey{}, before+name)
	}}
}

// Each observer hears each event once, in order, with the context that the one
// before returned. A method that Observer gets later is called here too.
func TestObservers(t *testing.T) {
	t.Parallel()
	var heard []string
	both := renewer.Observers(nil, witness("a", "", &heard), witness("b", "of b", &heard),
		witness("c", "of c", &heard))
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
