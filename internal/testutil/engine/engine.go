// Package engine is for tests that ask a store, or wrap one, as a keeper does.
package engine

import (
	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Whole is what redisstore and memory offer beside locks.
type Whole interface {
	store.Inspector
	store.Recorder
	contract.Proposer
	contract.Replacer
}

// In returns the engine in a store of redisstore or memory.
func In(s renewer.Store) Whole { return s.Engine().(Whole) } //nolint:forcetypeassert // they are

// Of returns a store of any engine, such as one that changes what another
// answers.
func Of(s store.Store) renewer.Store { return face{s} }

type face struct{ store.Store }

func (f face) Engine() store.Store { return f.Store }
